from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from memory_sets import qa_set

from telerank.corpus.derived.questions import normalise
from telerank.corpus.derived.ranking_set import RankingSetSettings, make_ranking_set, write_ranking_set
from telerank.corpus.formats import open_collection
from telerank.errors import CollectionError
from telerank.stage import Stage
from telerank.types import Doc, Explanation, Query, Ranking

PARTS = ("train", "dev", "test")


@dataclass(frozen=True, eq=False)
class Overlap(Stage):
    """Ranks documents by the number of words that they have in common with the query."""

    docs: tuple[Doc, ...]
    k: int = 1000

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        for ranking in stream:
            asked = set(normalise(ranking.query.text).split())
            scores = {doc.docno: len(asked & set(normalise(doc.text).split())) for doc in self.docs}
            found = {docno: score for docno, score in scores.items() if score}
            yield Ranking.ranked(ranking.query, tuple(found), tuple(found.values())).cut(self.k)

    def limit(self, k: int) -> Stage:
        return Overlap(self.docs, k)

    def explanation(self, query: Query, docno: str) -> Explanation:  # noqa: ARG002
        raise KeyError(docno)


@contextmanager
def overlap(docs: Iterable[Doc]) -> Iterator[Stage]:
    yield Overlap(tuple(docs))


def towns(name: str = "towns", count: int = 30):
    """Each paragraph has three questions, and its answer stands in one other paragraph as well."""
    texts = {f"d{n}": f"the town {name}{n} lies by river r{n // 2}" for n in range(count)}
    asked = [
        (f"{what} {name}{n}", f"d{n}", f"r{n // 2}")
        for n in range(count)
        for what in ("by which river is", "river of", "what flows through")
    ]
    return qa_set(name, texts, {"all": asked}, licence="none")


def pairs(folder: Path, part: str) -> tuple[dict[str, set[str]], dict[str, list[str]]]:
    opened = open_collection(folder)
    positives: dict[str, set[str]] = {}
    for qrel in opened.split_qrels(part):
        positives.setdefault(qrel.qid, set()).add(qrel.docno)
    return positives, {
        ranking.query.qid: list(ranking.docnos) for ranking in opened.pools[f"{part}/negatives"]()
    }


@pytest.mark.parametrize("strategy", ["bm25", "random", "gold"])
@pytest.mark.parametrize("split_by", ["question", "paragraph"])
def test_no_document_is_positive_and_negative_none_holds_the_answer_and_none_is_in_two_parts(
    tmp_path, strategy, split_by
):
    made = make_ranking_set([towns()], RankingSetSettings(strategy, 4, split_by), first_stage=overlap)
    write_ranking_set(tmp_path / "set", made)
    opened = open_collection(tmp_path / "set")
    texts = {doc.docno: doc.text for doc in opened.docs()}
    seen, used = 0, {}
    for part in PARTS:
        positives, negatives = pairs(tmp_path / "set", part)
        used[part] = set().union(*positives.values(), *negatives.values())
        answers = {answer.qid: answer.text for answer in opened.answers[part]()}
        for qid, docnos in negatives.items():
            seen += len(docnos)
            assert len(docnos) <= 4
            assert not positives[qid] & set(docnos)
            assert not any(answers[qid] in texts[docno].split() for docno in docnos)
    assert seen > 200
    if split_by == "paragraph":
        assert sum(map(len, used.values())) == len(set().union(*used.values()))
        assert [made.leaks[part].in_train for part in ("dev", "test")] == [0, 0]


def test_split_by_question_the_leak_of_paragraphs_is_written_down(tmp_path):
    write_ranking_set(tmp_path / "set", make_ranking_set([towns(count=100)], RankingSetSettings("random")))
    leak = json.loads((tmp_path / "set" / "ranking-set.json").read_text())["leak"]["test"]
    train, test = (set().union(*pairs(tmp_path / "set", part)[0].values()) for part in ("train", "test"))
    assert leak == {"documents": len(test), "in_train": len(test & train)}
    assert leak["in_train"] > 0.9 * leak["documents"]


def test_a_first_stages_negatives_are_its_best_in_its_order():
    made = make_ranking_set([towns()], RankingSetSettings("bm25", 3), first_stage=overlap)
    stage = Overlap(tuple(made.merged.docs.values()))
    for part, questions in made.split.parts.items():
        for one, ranking in zip(questions, made.negatives[part], strict=True):
            river = one.answers[0].text
            passed = [
                docno
                for docno in stage.search(one.query).docnos
                if docno not in one.positives and river not in made.merged.docs[docno].text.split()
            ]
            assert list(ranking.docnos) == passed[:3]
    assert made.refused["positive"] >= 80
    assert made.refused["holds the answer"] > 0


def test_the_folder_reads_back_as_a_collection(tmp_path):
    one, two = towns("one"), towns("two")
    write_ranking_set(tmp_path / "set", make_ranking_set([one, two], RankingSetSettings("random", seed=4)))
    opened = open_collection(tmp_path / "set")
    assert opened.unread == ()
    assert opened.format == "ranking-set"
    assert sorted(opened.splits) == sorted(PARTS)
    assert [doc.docno for doc in opened.docs()] == [
        f"{name}-d{n}" for name in ("one", "two") for n in range(30)
    ]
    queries = {part: list(opened.split_queries(part)) for part in PARTS}
    assert {part: len(ones) for part, ones in queries.items()} == {"train": 144, "dev": 18, "test": 18}
    texts = {doc.docno: doc.text for doc in opened.docs()}
    for part in PARTS:
        assert [ranking.query for ranking in opened.pools[f"{part}/negatives"]()] == queries[part]
        for answer in opened.answers[part]():
            assert texts[answer.docno][answer.start : answer.end] == answer.text


def test_the_manifest_says_how_the_set_was_made(tmp_path):
    write_ranking_set(tmp_path / "set", make_ranking_set([towns()], RankingSetSettings("random", 5, seed=2)))
    record = json.loads((tmp_path / "set" / "ranking-set.json").read_text())
    recipe = {"negatives": "random", "depth": 5, "split_by": "question", "seed": 2}
    assert record["recipe"] == {**recipe, "model": "", "titles": True}
    assert record["sources"] == [{"name": "towns", "format": "memory", "licence": "none", "notes": {}}]
    assert record["merged"]["kept"] == 90
    test = {"questions": 9, "positives": 9, "negatives": 45, "short_of_negatives": 0}
    assert record["parts"]["test"] == test
    assert "telerank" in record["versions"]


def test_without_titles_a_document_is_its_text_alone(tmp_path):
    titled = replace(towns(), docs=lambda: (replace(doc, title="r3") for doc in towns().docs()))
    for titles in (True, False):
        made = make_ranking_set([titled], RankingSetSettings("random", 4, titles=titles))
        write_ranking_set(tmp_path / str(titles), made)
        texts = {doc.full_text for doc in open_collection(tmp_path / str(titles)).docs()}
        assert texts == {f"{'r3 ' * titles}{doc.text}" for doc in towns().docs()}


PROGRAM = """
import sys; sys.path.insert(0, sys.argv[1])
from test_ranking_set import *
for strategy, split_by, seed in (("bm25", "paragraph", 0), ("random", "question", 0), ("gold", "paragraph", 0), ("random", "question", 1)):
    made = make_ranking_set([towns()], RankingSetSettings(strategy, 4, split_by, seed), first_stage=overlap)
    write_ranking_set(f"{sys.argv[2]}/{strategy}-{seed}", made)
"""


def test_the_same_recipe_gives_the_same_bytes_in_every_process_and_another_seed_another_set(tmp_path):
    contents = []
    for hash_seed in ("1", "2"):
        folder = tmp_path / hash_seed
        folder.mkdir()
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(Path(__file__).parent), str(folder)],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            check=True,
        )
        files = [file for file in folder.rglob("*") if file.is_file()]
        contents.append({str(file.relative_to(folder)): file.read_bytes() for file in files})
    assert contents[0] == contents[1]
    assert len(contents[0]) == 4 * 12
    assert contents[0]["random-0/qrels/test.tsv"] != contents[0]["random-1/qrels/test.tsv"]


def test_what_stands_there_is_not_overwritten_unless_it_is_a_ranking_set_and_it_is_to_be(tmp_path):
    made = make_ranking_set([towns()], RankingSetSettings("random"))
    write_ranking_set(tmp_path / "set", made)
    with pytest.raises(CollectionError, match="already exists"):
        write_ranking_set(tmp_path / "set", made)
    write_ranking_set(tmp_path / "set", made, overwrite=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(CollectionError, match="not a ranking set"):
        write_ranking_set(tmp_path / "mine", made, overwrite=True)
    half = qa_set("half", {"d": "half a \ud800 character"}, {"all": [("q", "d", "half")]})
    with pytest.raises(UnicodeEncodeError):
        write_ranking_set(tmp_path / "new", make_ranking_set([half], RankingSetSettings("random")))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "set"]


def test_a_recipe_that_cannot_be_followed_is_refused():
    for change in ({"negatives": "hard"}, {"split_by": "title"}, {"depth": 0}):
        with pytest.raises(ValueError, match="must be"):
            RankingSetSettings(**change)
    with pytest.raises(ValueError, match="need a first stage"):
        make_ranking_set([towns()], RankingSetSettings("bm25"))
    bare = qa_set("one", {"d": "x"}, {"all": [("q", "", "")]})
    with pytest.raises(CollectionError, match="no question of these sets has a relevant document"):
        make_ranking_set([bare], RankingSetSettings("random"))


@pytest.mark.data
def test_the_french_sets_make_a_ranking_set_of_the_reports_proportions(data, tmp_path):
    sets = [open_collection(data / name) for name in ("piaf", "fquad")]
    made = make_ranking_set(sets, RankingSetSettings("random", 10))
    assert made.merged.tally.questions == 10_757
    assert made.merged.tally.duplicate_questions == 10
    assert len(made.merged.docs) == 2_286
    counts = made.counts()
    assert [counts[part]["questions"] for part in PARTS] == [8597, 1075, 1075]
    assert sum(one["short_of_negatives"] for one in counts.values()) == 0
    leak = made.leaks["test"]
    assert (leak.documents, leak.in_train) == (891, 889)
