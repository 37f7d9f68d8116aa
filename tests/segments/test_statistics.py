"""Lengths of documents and segments, and what lies beyond a limit."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import telerank as tr
from small_models import small_encoder
from small_rerankers import small_reranker
from small_set import write_beir
from telerank.cli.main import app
from telerank.corpus.answers import write_answers
from telerank.errors import CollectionError, ModelError
from telerank.models.rerankers.reranker import save_reranker
from telerank.types import Answer

TEXTS = {"d0": "x1 x2 x3 x4. " * 5, "d1": "x1 x2.", "d2": "d5 x2 x3. " * 4, "d3": ""}


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """Four documents, of 25, 3, 16 and 0 tokens; of q0's answers in d0 the first has its tokens 5 to 7."""
    folder = tmp_path_factory.mktemp("segments")
    docs = [{"_id": docno, "title": "x6 x7", "text": text.strip()} for docno, text in TEXTS.items()]
    qrels = [("q0", "d0", 1), ("q1", "d0", 1), ("q2", "d2", 1), ("q2", "d1", 0)]
    write_beir(folder / "c", docs, dict.fromkeys(("q0", "q1", "q2"), "q1"), {"all": qrels})
    (folder / "c" / "answers").mkdir()
    answers = [
        Answer("q0", "d0", "x2 x3 x4", 42),
        Answer("q0", "d0", "x1 x2", 13),
        Answer("q2", "d2", "x2 x3", 33),
    ]
    write_answers(folder / "c" / "answers" / "all.jsonl", answers)
    small_encoder(folder / "encoder")
    save_reranker(small_reranker(folder, max_query=4, max_length=32), folder / "mono")
    return folder


def test_lengths_are_those_of_the_models_tokens_and_segments(place):
    report = tr.segment_lengths(place / "c", place / "mono", 7)
    assert dict(report.documents.counts) == {0: 1, 3: 1, 16: 1, 25: 1}
    assert dict(report.counts.counts) == {1: 2, 3: 1, 4: 1}  # 7 7 2, and 7 7 7 4
    assert dict(report.segments.counts) == {0: 1, 2: 1, 3: 1, 4: 1, 7: 5}
    sentences = tr.segment_lengths(place / "c", place / "mono", 7, sentences=True)
    assert dict(sentences.segments.counts) == {0: 1, 3: 1, 4: 4, 5: 5}
    assert tr.segment_lengths(place / "c", place / "mono", 7, stride=2).counts.quantile(1) == 10


def test_shares_beyond_limits_are_of_documents_relevant_ones_and_known_text(place):
    report = tr.segment_lengths(place / "c", place / "mono", 7, limits=(15, 6, 16))
    rows = {own.limit: (own.documents, own.relevant, own.known) for own in report.beyond()}
    assert rows["6 tokens"] == (0.5, 1.0, 1.0)  # the first answer in d0 ends with its 7th token
    assert rows["15 tokens"] == (0.5, 1.0, 0.0)  # that in d2 with its 15th
    assert rows["16 tokens"] == (0.25, pytest.approx(2 / 3), 0.0)
    assert rows["the first segment"] == (0.5, 1.0, 0.5)
    assert rows["the first 4 segments"] == (0.0, 0.0, 0.0)
    # the answer in d2 has tokens 13 and 14 of 16, of which segments begin at 0, 7 and 14
    assert report.record()["across_segments"] == 1
    assert "50.0 % of the known relevant text stands across segments." in str(report)


def test_without_answers_and_qrels_there_is_nothing_beyond(place):
    (place / "texts.csv").write_text("docno,text\na,x1 x2\nb,x3\n")
    report = tr.segment_lengths(place / "texts.csv", place / "mono")
    assert {(own.relevant, own.known) for own in report.beyond()} == {(None, None)}
    assert "–" in str(report)


def test_an_encoder_has_lengths_of_its_own_and_a_wrong_segment_is_one_line(place):
    assert tr.segment_lengths(place / "c", place / "encoder").room > 0
    with pytest.raises(ModelError, match="segments of 700 tokens: the model reads"):
        tr.segment_lengths(place / "c", place / "mono", 700)
    with pytest.raises(ModelError, match="no segments are called 'pages'"):
        tr.segment_lengths(place / "c", place / "mono", "pages")
    with pytest.raises(ModelError, match="leaves out text"):
        tr.segment_lengths(place / "c", place / "mono", 7, stride=8)


def test_an_answer_that_is_not_at_its_offset_is_refused(place, tmp_path):
    copy = tmp_path / "c"
    copy.mkdir()
    for name in ("corpus.jsonl", "queries.jsonl", "qrels", "answers"):
        (copy / name).symlink_to(place / "c" / name)
    (copy / "answers").unlink()
    (copy / "answers").mkdir()
    write_answers(copy / "answers" / "all.jsonl", [Answer("q0", "d0", "x9", 3)])
    with pytest.raises(CollectionError, match="does not have the answer of query q0"):
        tr.segment_lengths(copy, place / "mono")


def test_the_command_prints_saves_and_plots(place, tmp_path):
    arguments = ["data", "segments", str(place / "c"), "--model", str(place / "mono")]
    shown = CliRunner().invoke(app, [*arguments, "--plots", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    for text in ("797  3,259", "594  1,561", "known relevant text (2)", "relevant documents (3)"):
        assert text in shown.stdout
    assert (tmp_path / "segments.png").stat().st_size > 1000
    record = json.loads(
        CliRunner().invoke(app, [*arguments, "--json", "--limit", "15", "--window", "7"]).stdout
    )
    assert record["beyond"][0] == {"limit": "15 tokens", "documents": 0.5, "relevant": 1.0, "known": 0.0}
    assert record["paper"]["Robust04 (BeST)"] == {"median": 594, "90 %": 1561}
    CliRunner().invoke(app, [*arguments, "--output", str(tmp_path / "a.md")])
    assert "| the first segment |" in (tmp_path / "a.md").read_text()
