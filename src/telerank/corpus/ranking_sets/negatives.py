"""Negatives of a question by three strategies: documents that do not hold its answer.

All three (Karpukhin et al. 2020, as the Piaf report takes them) leave out the question's positives and
every document whose words hold those of one of its answers in a row; where a split keeps paragraphs
apart (:func:`.splits.by_paragraph`), also what belongs to another part.

``random``
    documents drawn without replacement from the positives of other questions.
``gold``
    the positives of the other questions of the batch. It is a strategy of training time: the
    questions of a part, in the random order of ``seed``, are cut into batches of ``depth + 1``; the
    last batch is filled up with the first questions. Each question brings its first positive. Another
    seed is another epoch.
``bm25``
    the first ``depth`` documents of a first stage that pass; not what passes of its first
    ``depth``: the report's 1,375,690 pairs are nearly eleven for each of 125,440 questions.

A question gets fewer than ``depth`` where no more documents pass.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from telerank.corpus.ranking_sets.qa import WORDS, Question, normalise
from telerank.corpus.ranking_sets.splits import digest, shuffle
from telerank.stage import Stage
from telerank.types import Doc, Progress, Query, Ranking, silent

STRATEGIES = ("bm25", "random", "gold")


class Screen:
    """Tells which documents may be negatives of a question, and counts what it refused and why."""

    def __init__(self, docs: Mapping[str, Doc], homes: Mapping[str, str] | None = None) -> None:
        self._docs, self._homes = docs, homes
        self._words: dict[str, str] = {}
        self.refused: Counter[str] = Counter()

    def passes(self, question: Question, docno: str) -> bool:
        reason = self.reason(question, docno)
        if reason:
            self.refused[reason] += 1
        return not reason

    def reason(self, question: Question, docno: str) -> str:
        """Why the document is refused, not counted; empty where it passes."""
        if docno in question.positives:
            return "positive"
        if self._homes is not None and self._homes[docno] != self._homes[question.positives[0]]:
            return "other part"
        return "holds the answer" if self._holds(question, docno) else ""

    def _holds(self, question: Question, docno: str) -> bool:
        doc = self._docs[docno]
        words = self._words.get(docno)
        if words is None:
            words = self._words[docno] = f" {normalise(doc.full_text)} "
        return any(
            f" {normalise(text)} " in words if WORDS.search(text) else text in doc.full_text
            for text in dict.fromkeys(one.text for one in question.answers)
        )


def draw_random_negatives(
    questions: Iterable[Question], screen: Screen, candidates: Sequence[str], *, depth: int, seed: int
) -> Iterator[Ranking]:
    """``random`` of the module's table; ``candidates`` are the positives of all questions."""
    for one in questions:
        passed = (docno for docno in _drawn(candidates, one.query.qid, seed) if screen.passes(one, docno))
        yield _listed(one.query, passed, depth)


def take_batch_negatives(
    questions: Sequence[Question], screen: Screen, *, depth: int, seed: int
) -> Iterator[Ranking]:
    """``gold`` of the module's table."""
    order = shuffle(questions, lambda one: one.query.qid, seed=seed)
    size = depth + 1
    place = {one.query.qid: n for n, one in enumerate(order)}
    for one in questions:
        begin = place[one.query.qid] // size * size
        batch = order[begin : begin + size]
        batch += order[: min(size - len(batch), begin)]
        others = dict.fromkeys(other.positives[0] for other in batch if other is not one)
        yield _listed(one.query, (docno for docno in others if screen.passes(one, docno)), depth)


def search_negatives(
    questions: Sequence[Question], screen: Screen, stage: Stage, *, depth: int, progress: Progress = silent
) -> Iterator[Ranking]:
    """``bm25`` of the module's table, with any first stage; its scores are kept.

    Where too few of its first documents pass, it is asked again for four times as many.
    """
    found: dict[str, Ranking] = {}
    waiting, cut = list(questions), 2 * depth
    while waiting:
        again: list[Question] = []
        rankings = (stage % cut).run(one.query for one in waiting)
        for one, ranking in zip(waiting, rankings, strict=True):
            kept, refused = _passed(one, ranking, screen, depth)
            if len(kept) < depth and len(ranking) == cut:
                again.append(one)
            else:
                found[one.query.qid] = kept
                screen.refused.update(refused)
                progress("searching negatives", len(found), len(questions))
        waiting, cut = again, 4 * cut
    return (found[one.query.qid] for one in questions)


def _passed(question: Question, ranking: Ranking, screen: Screen, depth: int) -> tuple[Ranking, Counter[str]]:
    """The first ``depth`` documents that pass, and why those between them do not."""
    rows: list[int] = []
    refused: Counter[str] = Counter()
    for row, docno in enumerate(ranking.docnos):
        if len(rows) == depth:
            break
        reason = screen.reason(question, docno)
        if reason:
            refused[reason] += 1
        else:
            rows.append(row)
    docnos = tuple(ranking.docnos[row] for row in rows)
    kept = Ranking.presorted(question.query, docnos, ranking.scores[np.array(rows, dtype=np.int64)])
    return kept, refused


def _listed(query: Query, docnos: Iterable[str], depth: int) -> Ranking:
    """The first ``depth``, with scores that fall by one from place to place."""
    first = tuple(docno for docno, _ in zip(docnos, range(depth), strict=False))
    return Ranking.presorted(query, first, np.arange(len(first), 0, -1, dtype=np.float32))


def _drawn(candidates: Sequence[str], qid: str, seed: int) -> Iterator[str]:
    """All candidates in a random order that is made as far as it is asked for (Fisher and Yates)."""
    draw = random.Random(
        int.from_bytes(digest(seed, qid)[:8])
    ).random  # the one method that no Python changes
    moved: dict[int, int] = {}
    for place in range(len(candidates)):
        pick = place + int(draw() * (len(candidates) - place))
        yield candidates[moved.get(pick, pick)]
        moved[pick] = moved.get(place, place)
