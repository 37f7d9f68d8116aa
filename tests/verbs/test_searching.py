from __future__ import annotations

import io
import itertools
import json
import sys
import time
from pathlib import Path

import pytest

import telerank as tr
from documents import in_process
from small_set import write_beir
from small_vectors import Letters
from telerank.corpus.readers.plain import open_topics
from telerank.errors import CollectionError, ExpressionError, FormatError, IndexFault, ModelError
from telerank.trec import read_run
from telerank.verbs.tune import TuneSetting

DOCS = {f"d{n}": f"q{n} q{n % 3} x{n % 4} x{n % 2}" for n in range(12)}
QUERIES = [tr.Query(f"q{n}", f"q{n} x{n % 4}") for n in range(6)]


@pytest.fixture
def index(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tr.index(DOCS, "idx", workers=1)


@pytest.fixture
def judged(index):
    """A BEIR folder ``set`` of the same documents."""
    docs = ({"_id": docno, "title": "", "text": text} for docno, text in DOCS.items())
    qrels = [(query.qid, f"d{number}", 1) for number, query in enumerate(QUERIES)]
    return write_beir(Path("set"), docs, {query.qid: query.text for query in QUERIES}, {"test": qrels})


def test_a_search_is_a_run_that_is_computed_when_it_is_read(index):
    run = tr.search(index, [*QUERIES, tr.Query("none", "zebra")], "bm25(k1=0.9) % 5 + dfi % 5", k=3)
    expected = (index.bm25(0.9) % 5 + index.dfi() % 5) % 3
    assert list(run) == [expected.search(query) for query in QUERIES] + [
        tr.Ranking(tr.Query("none", "zebra"))
    ]
    assert (run.queries, run.unanswered) == (7, ["none"])
    assert run.remarks == ["1 of 7 queries found nothing: none"]
    run.save("a.run")
    assert [len(ranking) for ranking in read_run("a.run")] == [3] * 6
    record = json.loads(Path("a.run.json").read_text(encoding="utf-8"))
    assert record["pipeline"] == repr(expected)
    assert record["sources"]["index"]["analyzer"] == str(index.analyzer)
    run.save("a.jsonl", as_json=True)
    assert len(Path("a.jsonl").read_text(encoding="utf-8").splitlines()) == 7


def test_threads_answer_every_first_stage_of_a_pipeline(index):
    model = "minmax(bm25) + 0.5 * (bm25 % 5 >> dfi)"
    assert list(tr.search(index, QUERIES, model, threads=3)) == list(tr.search(index, QUERIES, model))


def test_a_qid_that_comes_twice_is_refused_in_memory_and_in_a_file(index):
    with pytest.raises(CollectionError, match="queries in memory: query q1 comes twice"):
        tr.search(index, [*QUERIES, QUERIES[1]])
    Path("LISA.QUE").write_text("1\nLAKE #\n1\nDEEP #\n")
    Path("LISA0.001").write_text("Document 1\nLAKE\n********\n")
    with pytest.raises(CollectionError, match="query 1 comes twice"):
        tr.search(index, tr.collection(".", format="lisa"))


def test_queries_are_those_of_a_split_or_of_a_file(index, judged):
    from_split = list(tr.search("idx", judged, split="test"))
    lines = "".join(f"{query.qid}\t{query.text}\n" for query in QUERIES)
    Path("some.tsv").write_text(lines, encoding="utf-8")
    assert list(tr.search(index, open_topics("some.tsv"))) == from_split
    with pytest.raises(CollectionError, match="no split 'dev'"):
        tr.search(index, judged, split="dev")


def test_tuning_tries_pipelines_and_prints_itself(index, judged):
    result = tr.tune(
        index,
        judged,
        settings=["bm25", "bm25(k1=1.2, b=0.75)", "rrf(bm25, dfi)"],
        analyzers=["standard", "none"],
        measures="RR@5",
        folds=3,
    )
    pipelines = ["bm25(k1=1.2, b=0.75)", "rrf(bm25(k1=1.2, b=0.75), dfi(independence=standardized), k=60)"]
    assert {setting.pipeline for setting in result.settings} == set(pipelines)
    assert len(result.settings) == 4
    assert result.best == TuneSetting(pipelines[0], "standard")
    assert "RR@5 on held-out queries (3 folds): " in str(result)
    record = result.record()
    assert record["tuned"] == {"pipeline": pipelines[0], "analyzer": "standard", "dev": result.best_dev}
    result.save("tuned.md")
    assert "| setting" in Path("tuned.md").read_text(encoding="utf-8")
    with pytest.raises(ExpressionError, match="unknown name 'bm26'"):
        tr.tune(index, judged, settings=["bm26"])
    with pytest.raises(CollectionError, match="set: 9 folds of 6 judged queries: too few queries"):
        tr.tune(index, judged, "dfi", folds=9)


def test_documents_are_encoded_once(index, judged):
    from small_models import small_encoder

    model = str(small_encoder(Path("small-bert").resolve()))
    first = tr.encode(index, model=model)
    assert str(first).startswith(
        f"encoded 12 documents of idx into {index.vectors_folder(model)}: 32 x float16"
    )
    assert str(tr.encode("idx", model=model)).startswith("12 documents of idx are in ")
    assert index.vectors == {"small-bert": first.vectors.folder}
    assert index.info()["vectors"] == {"small-bert": f"12 x 32 float16 by {model}"}
    in_folder = tr.encode(judged, "v", model=model)
    of_vectors = tr.search("v", judged)
    assert len(list(of_vectors)) == len(QUERIES)
    assert of_vectors.remarks == []
    assert tr.encode(judged, "v", model=model).seconds is None
    tr.encode(judged, "rounded", model=model, precision="bfloat16")
    again = tr.encode(judged, "rounded", model=model)
    assert f"are in rounded already: 32 x float16 by {model} in bfloat16" in str(again)
    assert list(tr.search("v", QUERIES, k=2)) == list(tr.search(index, QUERIES, "dense(small-bert)", k=2))
    assert in_folder.record()["rows"] == 12
    with pytest.raises(CollectionError, match="give a folder for the vectors"):
        tr.encode(judged, model=model)


def test_settings_of_a_training_may_be_a_mapping():
    with pytest.raises(FormatError, match="the settings: "):
        tr.train("bi-encoder", {"data": {"collection": "x"}, "modle": {}})
    with pytest.raises(ModelError, match="seeds and sizes are for re-rankers"):
        tr.train("bi-encoder", {"data": {"collection": "x"}}, seeds=[1, 2])


def test_pipelines_are_saved_listed_shown_and_removed_by_commands(index):
    def said(*words: str) -> str:
        return in_process(["telerank", "pipeline", words[0], "idx", *words[1:]])

    assert said("ls") == "idx has no saved pipelines\n"
    assert said("save", "best", "bm25 % 5 >> dfi % 2").startswith("saved best: bm25(k1=1.2, b=0.75) % 5 >> ")
    assert said("show", "best") == f"{index.bm25() % 5 >> index.dfi() % 2!r}\n"
    assert said("ls", "--json") == json.dumps(index.pipelines) + "\n"
    assert "q1" in in_process(
        ["telerank", "search", "idx", "--model", "best", "--query", "q1 x1", "--explain"]
    )
    assert "best: bm25" in in_process(["telerank", "index", "info", "idx"])
    assert said("rm", "best") == "removed best\n"
    assert said("show", "best").startswith("telerank: ")


def test_judged_documents_that_the_index_lacks_are_counted_and_named(index, judged):
    with (judged / "qrels/test.tsv").open("a", encoding="utf-8") as file:
        file.writelines(f"q{n % 6}\tgone{n}\t1\n" for n in range(4))
    line = f"4 of 10 documents judged in set are not in {index.folder}: gone0, gone1, gone2 …"
    run = tr.search(index, judged)
    run.save("some.run")
    assert run.remarks == [line]
    assert json.loads(Path("some.run.json").read_text(encoding="utf-8"))["remarks"] == [line]
    assert tr.tune(index, judged, settings=["bm25", "dfi"], folds=2).remarks == [line]
    assert line in in_process(["telerank", "search", "idx", "set", "-o", "some.run"])


def test_judged_files_of_which_the_index_has_passages_are_counted(judged):
    passages = {f"{docno}#{number}": text for docno, text in DOCS.items() for number in (1, 2)}
    index = tr.index(passages, "passages", workers=1)
    line = (
        "6 of 6 documents judged in set are files, each counted once, at its best passage: "
        "d0 for passages such as d0#1"
    )
    run = tr.search(index, judged)
    run.save("some.run")
    assert run.remarks == [line]
    assert tr.tune(index, judged, settings=["bm25", "dfi"], folds=2).remarks == [line]


def test_judgments_that_cannot_be_read_do_not_keep_a_search_from_its_queries(index):
    folder = Path("topics")
    folder.mkdir()
    (folder / "topics.test.tsv").write_text("q1\tq1 x1\n", encoding="utf-8")
    (folder / "qrels.test.txt").write_text("q1 0 d1\n", encoding="utf-8")
    run = tr.search(index, folder, split="test")
    assert [ranking.query.qid for ranking in run] == ["q1"]
    (remark,) = run.remarks
    assert remark.startswith("the judgments of topics cannot be read: ")


def test_an_index_of_the_same_documents_and_analyzer_is_kept(index):
    manifest = Path("idx/manifest.json").read_bytes()
    assert tr.index(DOCS, "idx") == index
    assert tr.index((tr.Doc(docno, text) for docno, text in DOCS.items()), "idx") == index
    assert Path("idx/manifest.json").read_bytes() == manifest
    with pytest.raises(IndexFault, match="idx: holds an index of other documents already: overwrite it"):
        tr.index({**DOCS, "d0": "another text"}, "idx")
    with pytest.raises(IndexFault, match="idx: holds an index of other documents already"):
        tr.index({**DOCS, "d12": "one more"}, "idx")
    with pytest.raises(IndexFault, match="built with the analyzer nfkc"):
        tr.index(DOCS, "idx", analyzer="english")
    assert Path("idx/manifest.json").read_bytes() == manifest


def test_the_command_keeps_an_index_too(index, judged):
    assert in_process(["telerank", "index", "set", "idx"]) == "12 documents of set are in idx already\n"
    assert "indexed 12 documents of set" in in_process(["telerank", "index", "set", "idx", "--overwrite"])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("progress", "shown"), [(None, True), (False, False)])
def test_encoding_shows_a_bar_on_a_terminal_unless_it_is_refused(index, monkeypatch, progress, shown):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    clock = itertools.count(0.0, 10.0)  # a bar appears after two seconds
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    index.encode(Letters(), progress=progress)
    assert ("encoding" in terminal.getvalue()) == shown


def test_a_re_ranker_that_is_nowhere_is_refused_before_anything_is_ranked(index):
    with pytest.raises(ModelError, match="nowhere/of/anybody: no such folder"):
        tr.rerank("nowhere/of/anybody", index)
    with pytest.raises(ModelError, match="nowhere/of/anybody: no such folder"):
        tr.pipeline("bm25 >> rerank('nowhere/of/anybody')", index)
