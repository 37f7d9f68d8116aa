"""Questions with candidates of their own: what a search of all of them misses, and ranking each one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import telerank as tr
from documents import in_process
from telerank.errors import CollectionError
from telerank.fusion import within
from telerank.trec import read_run
from telerank.types import Ranking

SENTENCES = ("red apples are sweet", "pears are green", "apples fall far")
QUESTIONS = {"q1": "red apples", "q2": "red apples sweet", "q3": "green pears"}


@pytest.fixture
def data(tmp_path, monkeypatch):
    """The folder ``qa``: each question has the same three sentences, and the first answers it."""
    monkeypatch.chdir(tmp_path)
    rows = [(qid, text, sentence) for qid, text in QUESTIONS.items() for sentence in SENTENCES]
    for split in ("dev", "test"):
        folder = Path("qa", split)
        folder.mkdir(parents=True)
        columns = {
            "id.txt": [f"{split}-{qid}" for qid, _, _ in rows],
            "a.toks": [text for _, text, _ in rows],
            "b.toks": [sentence for _, _, sentence in rows],
            "sim.txt": [str(int(sentence == SENTENCES[0])) for _, _, sentence in rows],
        }
        for name, lines in columns.items():
            (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tr.collection("qa")


@pytest.fixture
def index(data):
    return tr.index(data, "idx", workers=1)


NOTICE = "qa: a document is judged for its own question alone, and copies of its text count as not relevant"


def test_indexing_and_searching_all_candidates_says_that_copies_are_unjudged(data):
    assert NOTICE in in_process(["telerank", "index", "qa", "idx", "--workers", "1"])
    said = in_process(["telerank", "search", "idx", "qa", "--split", "test", "-o", "all.run"])
    assert (
        f"{NOTICE}: rank each question's own, pool(candidates), such as by within(pool(candidates), bm25)"
        in said
    )
    assert NOTICE in " ".join(json.loads(Path("all.run.json").read_text(encoding="utf-8"))["remarks"])


def test_a_search_of_the_lists_ranks_each_questions_own_candidates(data, index):
    text = "within(pool(candidates), bm25) % 2"
    said = in_process(
        ["telerank", "search", "idx", "qa", "--split", "test", "--model", text, "-o", "own.run"]
    )
    assert NOTICE not in said
    rankings = {ranking.query.qid: ranking.docnos for ranking in read_run("own.run")}
    assert rankings == {
        "test-q1": ("test-1", "test-3"),
        "test-q2": ("test-4", "test-6"),
        "test-q3": ("test-8", "test-9"),
    }
    record = json.loads(Path("own.run.json").read_text(encoding="utf-8"))
    assert record["pipeline"].startswith("within(pool(candidates), bm25(")
    assert record["sources"]["pool(candidates)"] == {"collection": "qa", "split": "test"}
    measured = tr.evaluate(tr.judge(["own.run"], data, split="test"), "RR").evaluations["own"].mean["RR"]
    everything = tr.search(index, data, split="test")
    of_all = (
        tr.evaluate(tr.judge({"all": everything}, data, split="test"), "RR").evaluations["all"].mean["RR"]
    )
    assert measured > of_all


def test_the_lists_begin_a_pipeline_in_python(data, index):
    lists = data.pool("candidates", "test")
    query = next(data.split_queries("test"))
    assert lists.search(query) == Ranking.ranked(query, ("test-1", "test-2", "test-3"), [3, 2, 1])
    assert not len(lists.search("another question"))
    ranked = within(lists, index.bm25())
    assert ranked.search(query).docnos == ("test-1", "test-3", "test-2")
    assert ranked.explain(query, "test-1") == index.bm25().explain(query, "test-1")
    assert ranked.explain(query, "test-2").value == 0
    text = "within(pool(candidates) % 2, bm25(k1=1.2, b=0.75))"
    stage = tr.pipeline(text, index, pool=lambda name: data.pool(name, "test"))
    assert repr(stage) == text
    assert stage == within(lists % 2, index.bm25())
    both = data.pool("candidates", "dev+test")
    assert [len(ranking) for ranking in both.run(data.split_queries("dev+test"))] == [3] * 6


def test_pipelines_over_the_lists_are_tuned(data, index):
    settings = [f"within(pool(candidates), bm25(k1={k1}))" for k1 in (0.5, 1.5)]
    by_folds = tr.tune(index, data, settings=settings, split="test", measures="RR", folds=3)
    assert by_folds.held_out > 0.7
    assert tr.tune(index, data, settings=settings, split="dev", test="test", measures="RR").held_out > 0.7


def test_lists_that_are_not_there_are_named(data, index):
    has = "it has: dev/candidates, test/candidates"
    with pytest.raises(CollectionError, match=f"qa has no candidate lists test/top1000; {has}"):
        tr.search(index, data, "pool(top1000)", split="test")
    with pytest.raises(
        CollectionError, match=r"pool\(candidates\) needs the collection that has these lists"
    ):
        tr.pipeline("pool(candidates) >> bm25", index)
    with pytest.raises(
        CollectionError, match=r"pool\(candidates\) needs the collection that has these lists"
    ):
        tr.search(index, list(data.split_queries("test")), "pool(candidates)")


def test_the_lists_are_reranked_without_an_index(data):
    pytest.importorskip("transformers")
    from small_rerankers import small_reranker
    from telerank.models.rerankers.reranker import save_reranker

    save_reranker(small_reranker(Path()), Path("mono"))
    words = ["-c", "qa", "--split", "test", "--model", "mono", "-k", "2", "-o", "own.run"]
    in_process(["telerank", "rerank", "pool(candidates)", *words])
    rankings = list(read_run("own.run"))
    assert [len(ranking) for ranking in rankings] == [2, 2, 2]
    assert {docno for ranking in rankings for docno in ranking.docnos} <= {f"test-{n}" for n in range(1, 10)}
    said = in_process(["telerank", "rerank", "pool(top9)", *words])
    assert "qa has no candidate lists test/top9" in said
