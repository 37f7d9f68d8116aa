"""A ranking set: questions split into train, dev and test, each with positives and negatives, on disk.

The folder is an extended BEIR folder::

    corpus.jsonl  queries.jsonl  qrels/{train,dev,test}.tsv
    negatives/{train,dev,test}.run   candidates that are not relevant, a TREC run, best first
    answers/{train,dev,test}.jsonl   the answers as spans of the documents' texts
    ranking-set.json                 its settings, sources, counts, leak and versions

The same sets and settings give the same bytes.

Negatives of questions are documents that do not contain the answer. All three ways to find them (Karpukhin et
al. 2020, as in the Piaf report) exclude the question's positives and every document that contains the words
of one of its answers in a row; in a split by paragraph or article (:func:`.questions.split_by_paragraph`),
also documents of other parts.

``random``
    Documents drawn without replacement from the positives of other questions.
``gold``
    The positives of the other questions of a batch, as in training: the questions of a part, shuffled by
    ``seed``, are cut into batches of ``depth + 1``, and the last batch is filled up with the first questions.
    Each question contributes its first positive. Another seed is another epoch.
``bm25``
    The first ``depth`` documents of a first stage that pass, however far down they are: the report's
    1,375,690 pairs are nearly eleven for each of 125,440 questions.

A question has fewer than ``depth`` negatives if no more documents pass.

``ranking-set``: Sources and licences are in the set's ``ranking-set.json``.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from telerank.corpus.answers import read_answers
from telerank.corpus.collection import Collection, rank_in_order
from telerank.corpus.derived.questions import (
    PARTS,
    WORDS,
    Leak,
    MergedSet,
    Question,
    Split,
    count_leaks,
    digest,
    merge,
    normalise,
    shuffle,
    split_by_article,
    split_by_paragraph,
    split_by_question,
)
from telerank.corpus.readers.by_split import BEIR
from telerank.corpus.reading import has_file
from telerank.corpus.writing import check_folder, write_beir, write_manifest
from telerank.drafts import draft_folder
from telerank.errors import ArgumentError, CollectionError
from telerank.stage import Stage
from telerank.trec import Format, read_run, write_run
from telerank.types import Doc, Progress, Ranking, silent

MANIFEST = "ranking-set.json"
STRATEGIES = ("bm25", "random", "gold")
SPLITTERS = {"question": split_by_question, "paragraph": split_by_paragraph, "article": split_by_article}
# Opens a first stage over the documents, as a context manager that releases it.
FirstStage: TypeAlias = Callable[[Iterable[Doc]], AbstractContextManager[Stage]]


@dataclass(frozen=True, slots=True)
class RankingSetSettings:
    """How a ranking set is made; ``model`` describes the first stage that found the negatives.

    Without ``titles`` a document is its text alone, as the contexts of the Piaf report, without the title of
    its article before it. Raises ValueError if ``negatives`` or ``split_by`` is unknown, or the depth is
    below 1.
    """

    negatives: str = "bm25"
    depth: int = 10
    split_by: str = "question"
    seed: int = 0
    model: str = ""
    titles: bool = True

    def __post_init__(self) -> None:
        if self.negatives not in STRATEGIES:
            raise ArgumentError(f"negatives must be one of {', '.join(STRATEGIES)}, got {self.negatives!r}")
        if self.split_by not in SPLITTERS:
            raise ArgumentError(f"split_by must be one of {', '.join(SPLITTERS)}, got {self.split_by!r}")
        if self.depth < 1:
            raise ArgumentError(f"depth must be positive, got {self.depth}")


@dataclass(frozen=True, eq=False)
class RankingSet:
    """A result of :func:`make_ranking_set`; ``negatives`` has for each part one ranking a question."""

    settings: RankingSetSettings
    sources: tuple[Collection, ...]
    merged: MergedSet
    split: Split
    negatives: Mapping[str, tuple[Ranking, ...]]
    refused: Mapping[str, int]

    def manifest(self) -> dict[str, Any]:
        """The content of ``ranking-set.json``; its parts are those of :meth:`counts`."""
        return {
            "recipe": asdict(self.settings),
            "sources": [collection.provenance for collection in self.sources],
            "merged": asdict(self.merged.tally) | {"kept": len(self.merged.questions)},
            "parts": self.counts(),
            "refused_as_negative": dict(self.refused),
            "leak": {part: asdict(leak) for part, leak in self.leaks.items()},
            "versions": {"telerank": version("telerank")},
        }

    @property
    def leaks(self) -> dict[str, Leak]:
        return count_leaks(self.split)

    def counts(self) -> dict[str, dict[str, int]]:
        """For each part its questions, pairs with documents, and questions with too few negatives."""
        depth = self.settings.depth
        return {
            part: {
                "questions": len(questions),
                "positives": sum(len(question.positives) for question in questions),
                "negatives": sum(map(len, self.negatives[part])),
                "short_of_negatives": sum(len(ranking) < depth for ranking in self.negatives[part]),
            }
            for part, questions in self.split.parts.items()
        }


def make_ranking_set(
    collections: Sequence[Collection],
    settings: RankingSetSettings,
    *,
    first_stage: FirstStage | None = None,
    progress: Progress = silent,
) -> RankingSet:
    """Merge sets, remove duplicates, split 80/10/10 and find negatives (section 5 of the Piaf report).

    Raises
    ------
    ValueError
        If the negatives need a first stage and none is given.
    CollectionError
        If the sets cannot be merged (see :func:`.questions.merge`), or no question has a positive.
    """
    merged = merge(collections, titles=settings.titles, progress=progress)
    if not merged.questions:
        raise CollectionError("no question of these sets has a relevant document")
    split = SPLITTERS[settings.split_by](merged, seed=settings.seed)
    screen = Screen(merged.docs, split.homes)
    depth, seed = settings.depth, settings.seed
    with ExitStack() as resources:
        find: Callable[[tuple[Question, ...], Screen], Iterator[Ranking]]
        if settings.negatives == "bm25":
            if first_stage is None:
                raise ArgumentError("negatives 'bm25' need a first stage")
            find = partial(
                search_negatives,
                stage=resources.enter_context(first_stage(merged.docs.values())),
                depth=depth,
                progress=progress,
            )
        elif settings.negatives == "random":
            candidates = tuple(dict.fromkeys(docno for one in merged.questions for docno in one.positives))
            find = partial(draw_random_negatives, candidates=candidates, depth=depth, seed=seed)
        else:
            find = partial(take_batch_negatives, depth=depth, seed=seed)
        negatives = {part: tuple(find(questions, screen)) for part, questions in split.parts.items()}
    return RankingSet(
        settings, tuple(collections), merged, split, negatives, dict(sorted(screen.refused.items()))
    )


def is_made_by(folder: str | Path, settings: RankingSetSettings) -> bool:
    """Whether a folder holds a ranking set that was made by these settings."""
    manifest = Path(folder, MANIFEST)
    return manifest.is_file() and json.loads(manifest.read_text("utf-8")).get("recipe") == asdict(settings)


# Raise CollectionError if a ranking set cannot be written to a folder: only a set is replaced.
check_target = partial(check_folder, MANIFEST, "not a ranking set")


def write_ranking_set(folder: str | Path, ranking_set: RankingSet, *, overwrite: bool = False) -> None:
    """Write a ranking set, if :func:`check_target` allows it; the folder appears only when complete."""
    check_target(folder, overwrite=overwrite)
    with draft_folder(Path(folder)) as draft:
        positives, answers = {}, {}
        for part, own in ranking_set.split.parts.items():
            positives[part] = [(one.query.qid, docno) for one in own for docno in one.positives]
            answers[part] = [answer for one in own for answer in one.answers]
        write_beir(
            draft,
            ranking_set.merged.docs.values(),
            (question.query for question in ranking_set.merged.questions),
            positives,
            answers,
        )
        (draft / "negatives").mkdir()
        for part, rankings in ranking_set.negatives.items():
            write_run(draft / "negatives" / f"{part}.run", rankings, ranking_set.settings.negatives)
        write_manifest(draft / MANIFEST, ranking_set.manifest())


def _open(path: Path, encoding: str) -> Collection:
    collection = BEIR.read(path, encoding)

    def read_negatives(part: str) -> Iterator[Ranking]:
        queries = {query.qid: query for query in collection.split_queries(part)}
        for ranking in read_run(path / "negatives" / f"{part}.run"):
            query = queries.get(ranking.query.qid, ranking.query)
            yield Ranking.presorted(query, ranking.docnos, ranking.scores)

    return replace(
        collection,
        format=RANKING_SET.name,
        answers={part: partial(read_answers, path / "answers" / f"{part}.jsonl") for part in PARTS},
        pools={f"{part}/negatives": partial(read_negatives, part) for part in PARTS},
        source=f"made by telerank; {MANIFEST} names its sources",
        unread=tuple(name for name in collection.unread if name not in {"answers", "negatives", MANIFEST}),
    )


RANKING_SET = Format(
    "ranking-set",
    partial(has_file, name=MANIFEST),
    _open,
    f"ranking set made by telerank: {MANIFEST}",
)


class Screen:
    """Decides which documents may be negatives of a question, and counts refusals by reason."""

    def __init__(self, docs: Mapping[str, Doc], homes: Mapping[str, str] | None = None) -> None:
        self._docs, self._homes = docs, homes
        self._words: dict[str, str] = {}
        self.refused: Counter[str] = Counter()

    def passes(self, question: Question, docno: str) -> bool:
        reason = self._reason(question, docno)
        if reason:
            self.refused[reason] += 1
        return not reason

    def _reason(self, question: Question, docno: str) -> str:
        """Why the document is refused, or an empty string."""
        if docno in question.positives:
            return "positive"
        if self._homes is not None and self._homes[docno] != self._homes[question.positives[0]]:
            return "other part"
        doc = self._docs[docno]
        if (words := self._words.get(docno)) is None:
            words = self._words[docno] = f" {normalise(doc.full_text)} "
        holds_answer = any(
            f" {normalise(text)} " in words if WORDS.search(text) else text in doc.full_text
            for text in dict.fromkeys(answer.text for answer in question.answers)
        )
        return "holds the answer" if holds_answer else ""


def draw_random_negatives(
    questions: Iterable[Question], screen: Screen, candidates: Sequence[str], *, depth: int, seed: int
) -> Iterator[Ranking]:
    """Negatives by the strategy ``random``; ``candidates`` are the positives of all questions."""
    for question in questions:
        drawn = _draw(candidates, question.query.qid, seed)
        yield _first(question, (docno for docno in drawn if screen.passes(question, docno)), depth)


def take_batch_negatives(
    questions: Sequence[Question], screen: Screen, *, depth: int, seed: int
) -> Iterator[Ranking]:
    """Negatives by the strategy ``gold``."""
    order = shuffle(questions, lambda question: question.query.qid, seed=seed)
    size = depth + 1
    positions = {question.query.qid: n for n, question in enumerate(order)}
    for question in questions:
        begin = positions[question.query.qid] // size * size
        batch = order[begin : begin + size]
        batch += order[: min(size - len(batch), begin)]
        others = dict.fromkeys(other.positives[0] for other in batch if other is not question)
        yield _first(question, (docno for docno in others if screen.passes(question, docno)), depth)


def search_negatives(
    questions: Sequence[Question], screen: Screen, stage: Stage, *, depth: int, progress: Progress = silent
) -> Iterator[Ranking]:
    """Negatives by the strategy ``bm25``, with any first stage, whose scores are kept.

    If too few of its documents pass, the search is repeated for four times as many.
    """
    negatives: dict[str, Ranking] = {}
    waiting, cut = list(questions), 2 * depth
    while waiting:
        short: list[Question] = []
        rankings = (stage % cut).run(question.query for question in waiting)
        for question, ranking in zip(waiting, rankings, strict=True):
            before = screen.refused.copy()
            passing = (row for row, docno in enumerate(ranking.docnos) if screen.passes(question, docno))
            rows = list(islice(passing, depth))
            if len(rows) < depth and len(ranking) == cut:
                screen.refused = before  # only the last search of a question counts
                short.append(question)
                continue
            docnos = tuple(ranking.docnos[row] for row in rows)
            negatives[question.query.qid] = Ranking.presorted(
                question.query, docnos, ranking.scores[np.array(rows, dtype=np.int64)]
            )
            progress("searching negatives", len(negatives), len(questions))
        waiting, cut = short, 4 * cut
    return (negatives[question.query.qid] for question in questions)


def _first(question: Question, docnos: Iterable[str], depth: int) -> Ranking:
    return rank_in_order(question.query, islice(docnos, depth))


def _draw(candidates: Sequence[str], qid: str, seed: int) -> Iterator[str]:
    """All candidates in a random order, shuffled as far as it is read (Fisher and Yates)."""
    generator = random.Random(int.from_bytes(digest(seed, qid)[:8]))
    moved: dict[int, int] = {}
    for row in range(len(candidates)):
        pick = row + int(generator.random() * (len(candidates) - row))  # random() is the same in all Pythons
        yield candidates[moved.get(pick, pick)]
        moved[pick] = moved.get(row, row)
