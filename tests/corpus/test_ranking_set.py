"""From question-answering sets to a ranking set in a folder, and back."""

from __future__ import annotations

import hashlib
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

from telerank.corpus.formats import open_collection
from telerank.corpus.ranking_sets.qa import normalise
from telerank.corpus.ranking_sets.ranking_set import RankingSetSettings, make_ranking_set, write_ranking_set
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


@pytest.fixture(params=["bm25", "random", "gold"])
def strategy(request):
    return request.param


@pytest.mark.parametrize("split_by", ["question", "paragraph"])
def test_no_document_is_positive_and_negative_and_none_holds_the_answer(tmp_path, strategy, split_by):
    made = make_ranking_set([towns()], RankingSetSettings(strategy, 4, split_by), first_stage=overlap)
    write_ranking_set(tmp_path / "set", made)
    opened = open_collection(tmp_path / "set")
    texts = {doc.docno: doc.text for doc in opened.docs()}
    seen = 0
    for part in PARTS:
        positives, negatives = pairs(tmp_path / "set", part)
        answers = {answer.qid: answer.text for answer in opened.answers[part]()}
        for qid, docnos in negatives.items():
            seen += len(docnos)
            assert len(docnos) <= 4
            assert not positives[qid] & set(docnos)
            assert not any(answers[qid] in texts[docno].split() for docno in docnos)
    assert seen > 200


def test_split_by_paragraph_no_document_is_in_two_parts(tmp_path, strategy):
    write_ranking_set(
        tmp_path / "set",
        make_ranking_set([towns()], RankingSetSettings(strategy, 4, "paragraph"), first_stage=overlap),
    )
    used: dict[str, set[str]] = {}
    for part in PARTS:
        positives, negatives = pairs(tmp_path / "set", part)
        used[part] = set().union(*positives.values(), *negatives.values())
    assert not used["train"] & used["test"]
    assert not used["train"] & used["dev"]
    assert not used["dev"] & used["test"]
    leak = json.loads((tmp_path / "set" / "ranking-set.json").read_text())["leak"]
    assert leak["test"]["in_train"] == leak["dev"]["in_train"] == 0


def test_split_by_question_the_leak_of_paragraphs_is_written_down(tmp_path):
    write_ranking_set(tmp_path / "set", make_ranking_set([towns(count=100)], RankingSetSettings("random")))
    leak = json.loads((tmp_path / "set" / "ranking-set.json").read_text())["leak"]["test"]
    train, test = (set().union(*pairs(tmp_path / "set", part)[0].values()) for part in ("train", "test"))
    assert leak == {"documents": len(test), "in_train": len(test & train)}
    assert leak["in_train"] > 0.9 * leak["documents"]


def test_a_first_stages_negatives_are_its_best_in_its_order(tmp_path):
    made = make_ranking_set([towns()], RankingSetSettings("bm25", 3), first_stage=overlap)
    stage = Overlap(tuple(made.merged.docs.values()))
    for part, questions in made.split.parts.items():
        for one, ranking in zip(questions, made.negatives[part], strict=True):
            whole = stage.search(one.query)
            river = one.answers[0].text
            passed = [
                docno
                for docno in whole.docnos
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
    told = json.loads((tmp_path / "set" / "ranking-set.json").read_text())
    assert told["recipe"] == {
        "negatives": "random",
        "depth": 5,
        "split_by": "question",
        "seed": 2,
        "model": "",
        "titles": True,
    }
    assert told["sources"] == [{"name": "towns", "format": "memory", "licence": "none", "notes": {}}]
    assert told["merged"]["kept"] == 90
    assert told["parts"]["test"] == {"questions": 9, "positives": 9, "negatives": 45, "short_of_negatives": 0}
    assert "telerank" in told["versions"]


def test_without_titles_a_document_is_its_text_alone(tmp_path):
    titled = replace(towns(), docs=lambda: (replace(doc, title="r3") for doc in towns().docs()))
    for titles in (True, False):
        made = make_ranking_set([titled], RankingSetSettings("random", 4, titles=titles))
        write_ranking_set(tmp_path / str(titles), made)
        texts = {doc.full_text for doc in open_collection(tmp_path / str(titles)).docs()}
        assert texts == {f"{'r3 ' * titles}{doc.text}" for doc in towns().docs()}


def digests(folder: Path) -> dict[str, str]:
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def test_the_same_recipe_gives_the_same_bytes_in_every_process(tmp_path):
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from test_ranking_set import *; "
        "[write_ranking_set(f'{sys.argv[2]}-{s}', make_ranking_set([towns()], RankingSetSettings(s, 4, p), first_stage=overlap)) "
        "for s, p in (('bm25', 'paragraph'), ('random', 'question'), ('gold', 'paragraph'))]"
    )
    found = []
    for hash_seed in ("1", "2"):
        place = tmp_path / hash_seed
        subprocess.run(
            [sys.executable, "-c", program, str(Path(__file__).parent), str(place)],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            check=True,
        )
        found.append([digests(tmp_path / f"{hash_seed}-{one}") for one in ("bm25", "random", "gold")])
    assert found[0] == found[1]
    assert all(len(one) == 12 for one in found[0])


def test_another_seed_gives_another_set(tmp_path):
    for seed in (0, 1):
        write_ranking_set(
            tmp_path / str(seed), make_ranking_set([towns()], RankingSetSettings("random", seed=seed))
        )
    assert digests(tmp_path / "0")["qrels/test.tsv"] != digests(tmp_path / "1")["qrels/test.tsv"]


def test_what_stands_there_is_not_overwritten_unless_it_is_a_ranking_set_and_asked_for(tmp_path):
    made = make_ranking_set([towns()], RankingSetSettings("random"))
    write_ranking_set(tmp_path / "set", made)
    with pytest.raises(CollectionError, match="already exists"):
        write_ranking_set(tmp_path / "set", made)
    write_ranking_set(tmp_path / "set", made, overwrite=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(CollectionError, match="not a ranking set"):
        write_ranking_set(tmp_path / "mine", made, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "set"]


def test_a_write_that_fails_leaves_nothing(tmp_path):
    half = qa_set("half", {"d": "half a \ud800 character"}, {"all": [("q", "d", "half")]})
    made = make_ranking_set([half], RankingSetSettings("random"))
    with pytest.raises(UnicodeEncodeError):
        write_ranking_set(tmp_path / "set", made)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("change", [{"negatives": "hard"}, {"split_by": "article"}, {"depth": 0}])
def test_a_recipe_that_cannot_be_followed_is_refused(change):
    with pytest.raises(ValueError, match="must be"):
        RankingSetSettings(**change)


def test_negatives_of_a_first_stage_need_one():
    with pytest.raises(ValueError, match="need a first stage"):
        make_ranking_set([towns()], RankingSetSettings("bm25"))


def test_sets_without_any_positive_are_refused():
    with pytest.raises(CollectionError, match="no question of these sets has a relevant document"):
        make_ranking_set([qa_set("one", {"d": "x"}, {"all": [("q", "", "")]})], RankingSetSettings("random"))


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
