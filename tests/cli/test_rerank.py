"""``telerank rerank``."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

import telerank as tr
from commands import ok, refusal
from small_gpu import on_gpu
from small_rerankers import small_reranker
from small_set import write_beir
from telerank.corpus.readers.plain import open_topics
from telerank.models.rerankers.reranker import save_reranker
from telerank.reranking import scorer
from telerank.reranking.scorer import Scorer
from telerank.trec import read_run
from telerank.verbs.rerank import rerank_run

RUN = "q0 Q0 a 1 3 t\nq0 Q0 b 2 2 t\nq0 Q0 c 3 1 t\nq1 Q0 b 1 2 t\nq1 Q0 a 2 1 t\n"
DOCS = {"a": "d1 d2 d3", "b": "d4 d5", "c": "d6 " * 60}
QUERIES = {"q0": "q1 d4", "q1": "q2 d1", "q2": "q3", "q3": "q4 d6"}
RERANK = "rerank first.run --model ./mono"
FROM_SET = f"{RERANK} -c set --split test"
INT8 = "--precision int8 --backend openvino --dev dev.run --dev-split dev -o out.run"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    save_reranker(small_reranker(tmp_path), tmp_path / "mono")
    docs = ({"_id": docno, "title": "", "text": text} for docno, text in DOCS.items())
    qrels = {"test": [("q0", "b", 1), ("q1", "a", 1)], "dev": [("q2", "b", 1), ("q3", "a", 1)]}
    write_beir(tmp_path / "set", docs, QUERIES, qrels)
    Path("first.run").write_text(RUN)
    Path("dev.run").write_text(RUN.replace("q1 ", "q3 ").replace("q0 ", "q2 "))


def record() -> dict:
    return json.loads(Path("out.run.json").read_text())


def test_a_run_is_written_with_the_scores_of_the_model():
    ok(f"{FROM_SET} --depth 2 -k 1 -o out.run")
    rankings = list(read_run("out.run"))
    assert [len(ranking) for ranking in rankings] == [1, 1]
    expected = Scorer("./mono").score([(QUERIES["q0"], DOCS[docno]) for docno in "ab"])
    assert rankings[0].scores[0] == pytest.approx(expected.max(), abs=1e-5)
    counts = [record()[name] for name in ("pairs", "cut pairs", "depth", "backend")]
    assert counts == [4, 0, 2, "torch"]


def test_what_is_cut_is_said_and_json_is_printed_or_written():
    printed = ok(f"{FROM_SET} --json")
    assert [json.loads(line)["qid"] for line in printed.stdout.splitlines()] == ["q0", "q1"]
    last = printed.stderr.splitlines()[-1]
    assert last == "1 pair longer than 48 tokens: cut there, 17 tokens were not read"
    ok(f"{FROM_SET} --json -o out.run")
    assert Path("out.run").read_text() == printed.stdout
    assert record()["pairs"] == 5


@pytest.mark.parametrize("device", ["nonsense", "cuda:77"])
def test_a_device_that_is_not_there_is_named(device):
    said = refusal(f"{FROM_SET} -o out.run --device {device}")
    assert said.startswith("telerank: ")
    assert f"device '{device}': " in said


def test_the_record_names_the_precision_that_auto_chose(monkeypatch):
    ok(f"{FROM_SET} -o out.run")
    assert record()["precision"] == "float32"
    on_gpu(monkeypatch, scorer)
    assert "by ./mono in torch bfloat16" in ok(f"{FROM_SET} -o out.run").stderr
    assert record()["precision"] == "bfloat16"


def test_what_int8_loses_is_said():
    pytest.importorskip("nncf")
    said = ok(f"{FROM_SET} {INT8}").stderr
    assert "int8: nDCG@10" in said
    assert "1 dev queries that it was not calibrated on" in said
    assert set(record()["loss"]["nDCG@10"]) == {"int8", "float32"}


@pytest.mark.parametrize("run", ["first.run", "-"])
def test_int8_is_not_calibrated_on_what_is_scored(run):
    text = f"{RUN}q3 Q0 a 1 3 t\n"
    Path("first.run").write_text(text)
    Path("some.tsv").write_text("".join(f"{qid}\t{text}\n" for qid, text in QUERIES.items()))
    said = refusal(f"rerank {run} --model ./mono -c set --queries some.tsv {INT8}", stdin=text.encode())
    assert said == f"telerank: {run}: query q3 is in --dev, too: int8 needs other queries there"
    assert not Path("out.run").exists()


@pytest.mark.parametrize("run", ["first.run", "-", "pipe"])
@pytest.mark.parametrize("documents", ["", "-i idx"])
def test_a_run_comes_from_a_file_or_a_pipe(run, documents):
    os.mkfifo("pipe")
    if run == "pipe":
        Thread(target=Path("pipe").write_text, args=(RUN,), daemon=True).start()
    ok("index set idx")
    command = f"rerank {run} --model ./mono -c set --split test {documents} -o out.run"
    ok(command, stdin=RUN.encode())
    rankings = list(read_run("out.run"))
    assert [len(ranking) for ranking in rankings] == [3, 2]
    for ranking in rankings:
        texts = [(QUERIES[ranking.query.qid], DOCS[docno]) for docno in ranking.docnos]
        assert ranking.scores == pytest.approx(Scorer("./mono").score(texts), abs=1e-5)


def test_with_an_index_the_first_answer_comes_before_the_end_of_a_piped_run():
    tr.index("set", "idx", workers=1)
    names = [f"q{n}" for n in range(40_000)]
    Path("many.tsv").write_text("".join(f"{qid}\tq1\n" for qid in names))
    os.mkfifo("pipe")
    written = []

    def write():
        with suppress(BrokenPipeError), Path("pipe").open("w") as pipe:
            for qid in names:
                pipe.write(f"{qid} Q0 a 1 1 t\n")
                written.append(qid)

    Thread(target=write, daemon=True).start()
    run = rerank_run("pipe", "./mono", tr.open("idx"), open_topics("many.tsv"))
    assert next(iter(run)).query.qid == "q0"
    assert len(written) < len(names) / 2


def test_lengths_are_those_of_the_options():
    ok(f"{FROM_SET} --max-length 12 --max-query 1 -o out.run")
    first = next(read_run("out.run"))
    expected = Scorer("./mono", max_query=1, max_length=12)
    scores = expected.score([("q1 d4", DOCS[docno]) for docno in first.docnos])
    assert first.scores == pytest.approx(scores, abs=1e-5)
    assert [record()[name] for name in ("max_query", "max_length", "cut pairs")] == [1, 12, 5]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "the queries' texts are missing: give --queries or --collection"),
        ("--queries set/queries.jsonl", "the documents' texts are missing: give --index or --collection"),
        ("-c set --split test --precision int8 --backend openvino", "int8 goes with --dev"),
        ("-c set --split test --backend tpu", "no back end is called 'tpu'"),
        ("-c set --split test --max-length 67", "pairs of 67 tokens, but the model has 66 positions"),
        ("--queries some.tsv -c set", "first.run: query q1 is none of the 1 query of some.tsv"),
    ],
)
def test_what_is_missing_is_said(words, message):
    Path("some.tsv").write_text("q0\tq1 d4\n")
    assert message in refusal(f"{RERANK} {words}")


def test_what_has_no_text_is_refused_before_anything_is_scored():
    """The model cannot be read."""
    Path("some.tsv").write_text("q0\tq1 d4\n")
    ok("index set idx")
    Path("mono/config.json").write_text("{}")
    asking = "--model ./mono --queries some.tsv -i idx"
    said = refusal(f"rerank first.run {asking}")
    assert said == "telerank: first.run: query q1 is none of the 1 query of some.tsv"
    said = refusal(f"rerank - {asking}", stdin=RUN.replace("q0", "q9").encode())
    assert said == "telerank: -: query q9 is none of the 1 query of some.tsv"
    Path("first.run").write_text(f"{RUN}q1 Q0 nope 3 0 t\nq1 Q0 none 4 0 t\n")
    said = refusal(f"{FROM_SET} -o out.run")
    assert said == "telerank: first.run: 'none' (and 1 more) is none of the documents of set"
    assert not Path("out.run").exists()
