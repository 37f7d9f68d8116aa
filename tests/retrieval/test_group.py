"""Hits of one file are grouped, however deep the next file stands."""

from __future__ import annotations

import re

import pytest

import telerank as tr
from commands import refusal
from telerank.errors import ArgumentError
from telerank.testing import check_stage
from telerank.types import Query, whole_docno


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Passages of three files: 90 of the first about the press, 3 of the second, 2 of the third."""
    texts = {f"long.pdf#{n}": "press " * (1 + n % 7) for n in range(90)}
    texts |= {f"short.md#{n}": "a press for olives and for other fruit" for n in range(3)}
    texts |= {"last.md#1": "the press was in a house of a town by a river", "last.md#2": "olives"}
    return tr.index(texts, tmp_path_factory.mktemp("group") / "idx", progress=False)


def test_a_file_stands_once_with_its_best_passage_and_deeper_files_are_found(index):
    flat, grouped = index.bm25(), index.bm25() >> tr.group("file")
    everything = flat.search("press")
    best = {whole_docno(docno): docno for docno in reversed(everything.docnos)}
    assert set(grouped.search("press").docnos) == set(best.values())
    for k in (1, 2, 3, 10):
        found = (grouped % k).search("press")
        assert found == grouped.search("press").cut(k)
        assert [best[whole_docno(docno)] for docno in found.docnos] == list(found.docnos)
        assert dict(found).items() <= dict(everything).items()


def test_grouping_obeys_the_laws_behind_stages_and_alone(index):
    queries = [Query("1", "press"), Query("2", "olives"), Query("3", "river")]
    for text in ("bm25 >> group(file) % 2", "bm25 + lmd >> group % 3"):
        stage = tr.pipeline(text, index)
        check_stage(stage, queries)
        assert tr.pipeline(repr(stage), index) == stage
    alone = tr.group() % 2
    with pytest.raises(
        ArgumentError, match=r"group\(file\) % 2 needs a first stage: index.bm25\(\) % 100 >> "
    ):
        alone.search("x")
    given = index.bm25().search("press")
    assert next(alone([given])) == (index.bm25() >> alone).search("press")
    before, after = index.bm25() >> tr.group() % 2 >> tr.scorer(len_of), tr.group() % 2 >> tr.scorer(len_of)
    assert index.bm25() >> after == before
    assert tr.pipeline("(bm25 >> group % 2) >> bm25", index) == tr.pipeline(
        "bm25 >> group % 2 >> bm25", index
    )


def test_a_depth_bounds_what_is_grouped_and_reads_back(index):
    stage = tr.pipeline("bm25 >> group(file, depth=91) % 9", index)
    check_stage(stage, [Query("1", "press"), Query("2", "olives")])
    assert tr.pipeline(repr(stage), index) == stage
    among = index.bm25().search("press").docnos[:91]
    assert {whole_docno(docno) for docno in stage.search("press").docnos} == set(map(whole_docno, among))
    first, last = stage.split()
    assert next(last([first.search("press")])) == stage.search("press")
    with pytest.raises(ValueError, match="at least 1"):
        tr.group("file", depth=0)


def test_further_passages_are_counted_and_an_explanation_says_what_stands_for_the_file(index):
    stage = index.bm25() >> tr.group() % 1
    ranking, groups = stage.search_groups(Query("1", "press"))
    passages = groups.passages
    assert (groups.total, groups.documents, groups.remark) == (1, 94, "")
    best = ranking.docnos[0]
    assert {file: len(docnos) for file, docnos in passages.items()} == {
        "long.pdf": 90,
        "short.md": 3,
        "last.md": 1,
    }
    assert passages[whole_docno(best)][0] == best
    what = {
        best: f"the best of 90 passages of {whole_docno(best)} in the ranking",
        passages["long.pdf"][
            9
        ]: f"{passages['long.pdf'][0]} stands for the file long.pdf: its score is higher",
        "last.md#1": "the only passage of last.md in the ranking",
    }
    flat = index.bm25()
    for docno, text in what.items():
        why = stage.explain("press", docno)
        assert (why.what, why.value) == (text, flat.explain("press", docno).value)


def test_documents_that_are_no_passages_are_files_of_their_own(tmp_path):
    index = tr.index({"a": "press", "b": "press", "c#d": "press"}, tmp_path / "idx", progress=False)
    assert len((index.bm25() >> tr.group()).search("press")) == 3


def len_of(query: str, text: str) -> float:
    return len(query) + len(text)


def test_a_group_without_a_stage_before_it_is_refused_in_one_line(index):
    line = r"nothing stands before group\(file\) % 2: bm25 >> group\(file\) % 2"
    with pytest.raises(ArgumentError, match=line):
        (tr.group("file") % 2).search_groups(Query("q", "eau"))
    assert re.search(line, refusal(f"search {index.folder} --query eau -k 2 --model 'group(file)'"))


def test_what_was_not_grouped_is_said(tmp_path):
    texts = {f"{n % 3}.md#{n}": "press" for n in range(1500)} | {"rare.md#1": "press of Gutenberg"}
    index = tr.index(texts, tmp_path / "idx", progress=False)
    enough, more = (index.bm25() >> tr.group() % k for k in (2, 4))
    query = Query("1", "press")
    assert (enough.search_groups(query)[1].documents, enough.search_groups(query)[1].total) == (1000, 2)
    ranking, groups = more.search_groups(query)  # the rare file is behind the first thousand
    assert (len(ranking), groups.documents, groups.total) == (4, 1501, 4)
    _, groups = (index.bm25() >> tr.group(depth=700)).search_groups(query)
    assert groups.total is None
    assert groups.remark == "the first 700 documents are grouped; those behind them are not counted"
