"""Models that read named fields of documents: dense stages, re-rankers, segments, readers of answers."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("transformers")

import telerank as tr
from small_models import small_encoder
from small_readers import small_reader
from small_rerankers import small_reranker
from telerank.cli.main import app
from telerank.corpus.read_fields import as_field_names, read_fields
from telerank.dense.encode import Encoding, encode_documents
from telerank.errors import ArgumentError, DocumentError, IndexFault
from telerank.models.readers import save_reader
from telerank.models.rerankers.reranker import save_reranker
from telerank.pipelines.functions import answer_pipeline, pipeline
from telerank.types import Doc, Query, Ranking

RECORDS = [
    {"docno": "a", "title": "q1 d1", "text": "d2 d3 q2", "topics": ["d4 q1", "d5"], "place": "x1", "year": 3},
    {"docno": "b", "title": "d6", "text": "q1 d7 d8", "topics": ["q2 d1"], "place": "q1 x2", "year": 4},
    {"docno": "c", "title": "x3 q2", "text": "q1 x4", "year": 5},
]
OTHERS = [
    {"docno": "a", "title": "q1 d1", "text": "d4 q1\nd5"},
    {"docno": "b", "title": "d6", "text": "q2 d1"},
    {"docno": "c", "title": "x3 q2", "text": ""},
]
QUERY = Query("1", "q1 q2")
RANKING = Ranking.ranked(QUERY, ("a", "b", "c"), (3.0, 2.0, 1.0))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("read-fields")
    tr.index(RECORDS, folder / "idx", analyzer="standard", workers=1, progress=False)
    save_reader(small_reader(folder), folder / "reader")
    save_reranker(small_reranker(folder), folder / "mono")
    small_encoder(folder / "encoder")
    return folder


@pytest.fixture(scope="module")
def index(place):
    return tr.open(place / "idx")


def test_fields_of_a_document():
    doc = Doc("a", "text", "title", columns={"topics": ("one", "two"), "place": "here"})
    assert read_fields(doc, ()) is doc
    assert read_fields(doc, ("title", "topics", "place")).full_text == "title one\ntwo here"
    assert read_fields(doc, ("topics", "title")).text == "one\ntwo title"
    assert read_fields(doc, ("place",)).title == ""
    assert as_field_names("title, text") == as_field_names(["title", "text"]) == as_field_names(None) == ()
    assert as_field_names("text,title") == ("text", "title")
    for wrong in ("title,title", "", "title,,text", ["a,b"]):
        with pytest.raises(ArgumentError):
            as_field_names(wrong)


def test_a_reranker_reads_the_fields_that_are_named(place, index):
    model = str(place / "mono")
    others = {record["docno"]: Doc(**record) for record in OTHERS}
    by_fields = tr.rerank(model, index, fields=["title", "topics"])
    [ranked], [expected] = by_fields([RANKING]), tr.rerank(model, others)([RANKING])
    assert ranked == expected
    assert ranked != next(iter(tr.rerank(model, index)([RANKING])))
    assert by_fields.text == f"rerank({model}, fields='title,topics')"
    assert pipeline(by_fields.text, index) == by_fields
    assert tr.rerank(model, index, fields="title,text") == tr.rerank(model, index)
    [source] = by_fields.sources.values()
    assert source["fields"] == ["title", "topics"]
    explained = by_fields.explain(QUERY, "a")
    assert "which reads title, topics" in explained.what
    assert explained.value == pytest.approx(dict(ranked)["a"], abs=1e-5)


def test_segments_are_those_of_the_fields(place, index):
    model = str(place / "mono")
    others = {record["docno"]: Doc(**record) for record in OTHERS}
    by_fields = pipeline(f"maxp(rerank('{model}', fields='title,topics'), 2)", index)
    from telerank.segments.stage import maxp

    [ranked], [expected] = by_fields([RANKING]), maxp(tr.rerank(model, others), 2)([RANKING])
    assert ranked == expected
    assert pipeline(by_fields.text, index) == by_fields
    assert "title, topics" in by_fields.explain(QUERY, "a").what


def test_a_reader_reads_one_field(place, index):
    reader = str(place / "reader")
    stage = index.bm25() % 3 >> tr.read(reader, index, field="topics") % 5
    assert stage.text.endswith("field=topics) % 5")
    assert answer_pipeline(stage.text, index) == stage
    answers = stage.answer("q1")
    assert len(answers)
    for answer in answers:
        text = index.docs[answer.docno].field("topics")
        assert (answer.field, answer.text) == ("topics", text[answer.start : answer.end])
        assert stage.explain("q1", answer).value == pytest.approx(answer.score)
        from telerank.verbs.answer import in_sentence

        sentence = in_sentence(index, answer)
        assert sentence.before + sentence.text + sentence.after in text
    assert stage.sources["read(" + reader + ")"]["field"] == "topics"


def test_vectors_are_those_of_the_fields_and_follow(place, tmp_path):
    from telerank.dense.encoder import TorchEncoder

    model = str(place / "encoder")
    changing = tr.index(RECORDS[:2], tmp_path / "idx", analyzer="standard", workers=1, progress=False)
    changing.encode(model, name="topics", fields="title,topics", progress=False)
    changing.add(RECORDS[2:], workers=1, progress=False)
    docnos, vectors = changing.arrays("topics")
    encoder = TorchEncoder(model)
    texts = {record["docno"]: f"{record['title']} {record['text']}".strip() for record in OTHERS}
    whole = encode_documents([Doc(docno, texts[docno]) for docno in docnos], tmp_path / "others", encoder)
    assert np.array_equal(vectors, whole.arrays()[1])
    dense = changing.dense("topics", models={"topics": model})
    assert "(title, topics)" in str(dense.explain(QUERY, "a").what)
    assert "of title, topics" in changing.info()["vectors"]["topics"]
    with pytest.raises(IndexFault, match="title, topics, not of title, text"):
        changing.encode(model, name="topics", progress=False)


def test_fields_that_are_not_there_are_refused(place, index, tmp_path):
    from telerank.dense.encoder import TorchEncoder

    model, reader = str(place / "mono"), str(place / "reader")
    for refused in (
        lambda: tr.rerank(model, index, fields="titles"),
        lambda: tr.rerank(model, index, fields="title,year"),
        lambda: tr.read(reader, index, field="topic"),
        lambda: index.encode(str(place / "encoder"), name="other", fields="topic", progress=False),
        lambda: tr.encode(place / "idx", model=str(place / "encoder"), fields="topic", progress=False),
    ):
        with pytest.raises(ArgumentError, match="fields: "):
            refused()
    with pytest.raises(DocumentError, match="no document has elsewhere"):
        encode_documents(
            [Doc("a", "x")],
            tmp_path / "vectors",
            TorchEncoder(str(place / "encoder")),
            encoding=Encoding(fields=("elsewhere",)),
        )
    assert not (tmp_path / "vectors").exists()


def test_the_commands_take_fields(place, index, tmp_path):
    (tmp_path / "queries.tsv").write_text("1\tq1 q2\n", encoding="utf-8")
    run, out, idx = tmp_path / "first.run", tmp_path / "second.run", str(place / "idx")
    tr.search(index, [QUERY], index.bm25()).save(run)
    queries = ["--queries", str(tmp_path / "queries.tsv"), "--fields", "title,topics", "-o", str(out)]
    arguments = ["rerank", str(run), "--model", str(place / "mono"), "-i", idx, *queries]
    assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0
    record = json.loads((tmp_path / "second.run.json").read_text(encoding="utf-8"))
    assert record["fields"] == ["title", "topics"]
    reader = ["--reader", str(place / "reader"), "--field", "topics"]
    asked = ["answer", idx, "--query", "q1", *reader, "--always", "--json"]
    assert '"field": "topics"' in CliRunner().invoke(app, asked, catch_exceptions=False).output
