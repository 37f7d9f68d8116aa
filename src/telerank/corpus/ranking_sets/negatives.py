"""Negatives of questions by three strategies: documents that do not contain the answer.

All three (Karpukhin et al. 2020, as in the Piaf report) exclude the question's positives and every document
that contains the words of one of its answers in a row; in a split by paragraph
(:func:`.splits.split_by_paragraph`), also documents of other parts.

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
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from telerank.corpus.collection import rank_in_order
from telerank.corpus.ranking_sets.qa import WORDS, Question, normalise
from telerank.corpus.ranking_sets.splits import digest, shuffle
from telerank.stage import Stage
from telerank.types import Doc, Progress, Ranking, silent

STRATEGIES = ("bm25", "random", "gold")


class Screen:
    """Decides which documents may be negatives of a question, and counts refusals by reason."""

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
        """Why the document is refused, or an empty string; does not count the refusal."""
        if docno in question.positives:
            return "positive"
        if self._homes is not None and self._homes[docno] != self._homes[question.positives[0]]:
            return "other part"
        return "holds the answer" if self._has_answer(question, docno) else ""

    def _has_answer(self, question: Question, docno: str) -> bool:
        doc = self._docs[docno]
        words = self._words.get(docno)
        if words is None:
            words = self._words[docno] = f" {normalise(doc.full_text)} "
        return any(
            f" {normalise(text)} " in words if WORDS.search(text) else text in doc.full_text
            for text in dict.fromkeys(answer.text for answer in question.answers)
        )


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
            kept, refused = _keep_passing(question, ranking, screen, depth)
            if len(kept) < depth and len(ranking) == cut:
                short.append(question)
            else:
                negatives[question.query.qid] = kept
                screen.refused.update(refused)
                progress("searching negatives", len(negatives), len(questions))
        waiting, cut = short, 4 * cut
    return (negatives[question.query.qid] for question in questions)


def _keep_passing(
    question: Question, ranking: Ranking, screen: Screen, depth: int
) -> tuple[Ranking, Counter[str]]:
    """The first ``depth`` documents that pass, and the reasons of the refusals among them."""
    rows: list[int] = []
    refused: Counter[str] = Counter()
    for row, docno in enumerate(ranking.docnos):
        if len(rows) == depth:
            break
        if reason := screen.reason(question, docno):
            refused[reason] += 1
        else:
            rows.append(row)
    docnos = tuple(ranking.docnos[row] for row in rows)
    kept = Ranking.presorted(question.query, docnos, ranking.scores[np.array(rows, dtype=np.int64)])
    return kept, refused


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
