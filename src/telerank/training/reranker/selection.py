"""Known relevant passages, and which segment of each document a model selects.

A selection is a file, one line for each query and document. The first line says how the documents were cut,
without which the numbers mean nothing::

    {"iteration": 2, "pairs": 120, "segments": {…}}
    {"query-id": "q1", "corpus-id": "d7", "segment": 2, "start": 812, "end": 1604, "scores": [-1.2, 0.3, 2.9]}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from telerank.corpus.answers import read_answers
from telerank.corpus.collection import Collection
from telerank.drafts import replace_file
from telerank.errors import FormatError, ModelError
from telerank.reranking.texts import TextPair
from telerank.segments.split import Segments
from telerank.text.sentences import Span
from telerank.training.examples.reading import MANY
from telerank.training.parallel import ALONE, Processes
from telerank.training.reranker.config import SegmentTraining
from telerank.training.reranker.scoring import PairScores
from telerank.training.reranker.segments import SegmentTable
from telerank.trec.files import numbered_lines, parse_object
from telerank.types import Answer, Doc, Progress, silent

_BLANKS = re.compile(r"\s+")
Key: TypeAlias = tuple[str, str]
"""A qid and a docno."""
_WINDOW = 2048  # documents of queries whose segments are scored together


@dataclass(frozen=True, eq=False)
class Truth:
    """The spans of known passages in documents' texts, ``spans[qid, docno]``; ``passages`` were given."""

    spans: Mapping[Key, Sequence[Span]]
    passages: int
    aligned: int
    moved: int = 0

    def describe(self) -> dict[str, int]:
        """The counts, by description."""
        share = round(100 * self.aligned / self.passages) if self.passages else 0
        return {
            "known passages of these documents": self.passages,
            f"of them found in their document ({share} %)": self.aligned,
            "of them found elsewhere than their offset says": self.moved,
        }

    def is_right(self, qid: str, segments: Segments, number: int) -> bool:
        """Whether a segment contains a known passage of its document as a whole."""
        start, end = segments.span(number)
        return any(start <= span.start and span.end <= end for span in self.spans[qid, segments.doc.docno])

    def gold(self, qid: str, segments: Segments) -> int:
        """The segment with most of a known passage: the first that contains one, if one does."""
        spans = self.spans[qid, segments.doc.docno]

        def most(number: int) -> float:
            start, end = segments.span(number)
            return max((min(end, s.end) - max(start, s.start)) / max(1, s.end - s.start) for s in spans)

        return max(range(len(segments)), key=lambda number: (most(number), -number))


def align(answers: Iterable[Answer], docs: Mapping[str, Doc]) -> Truth:
    """Find each passage in its document: where its offset says, else where its text is nearest to that.

    Texts are compared by their words: blanks, line ends and upper case do not count. Passages of other
    documents than ``docs`` are not looked at.
    """
    spans: dict[Key, list[Span]] = {}
    passages = moved = aligned = 0
    for answer in answers:
        if answer.docno not in docs:
            continue
        passages += 1
        span = _find(answer, docs[answer.docno].text)
        if span is not None:
            aligned += 1
            moved += span.start != answer.start
            spans.setdefault((answer.qid, answer.docno), []).append(span)
    return Truth(spans, passages, aligned, moved)


def _find(answer: Answer, text: str) -> Span | None:
    """Where the passage is, if it is there."""
    words = _BLANKS.split(answer.text.strip())
    if not words[0]:
        return None
    if text[answer.start : answer.end] == answer.text:
        return Span(answer.start, answer.end)
    pattern = re.compile(r"\s+".join(map(re.escape, words)), re.IGNORECASE)
    matches = [Span(match.start(), match.end()) for match in pattern.finditer(text)]
    return min(matches, key=lambda span: abs(span.start - answer.start), default=None)


def read_truth(
    settings: SegmentTraining,
    collection: Collection,
    split: str,
    docs: Sequence[Doc] | None = None,
    progress: Progress = silent,
) -> Truth:
    """The known passages of a split, aligned with ``docs``; by default with all documents that they name.

    Without answers there are none.
    """
    if settings.answers is not None:
        qids = {query.qid for query in collection.split_queries(split)}
        answers = [answer for answer in read_answers(settings.answers) if answer.qid in qids]
    else:
        parts = (part for part in split.split("+") if part in collection.answers)
        answers = [answer for part in parts for answer in collection.answers[part]()]
    if docs is None:
        named = {answer.docno for answer in answers}
        every = collection.read_docs("reading documents", progress, MANY) if answers else ()
        docs = [doc for doc in every if doc.docno in named]
    return align(answers, {doc.docno: doc for doc in docs})


@dataclass(frozen=True, eq=False)
class Selection:
    """The number of the selected segment of each query and document, and the scores of all its segments."""

    scores: Mapping[Key, Sequence[float]]

    def __call__(self, qid: str, docno: str) -> int:
        """The segment with the highest score, of equal ones the first (BeST, equations 3 and 4)."""
        return int(np.argmax(self.scores[qid, docno]))

    def changed(self, before: Selection) -> float:
        """The share of the selections that differ from those before."""
        return sum(self(*key) != before(*key) for key in self.scores) / len(self.scores)

    def precision(self, truth: Truth, table: SegmentTable) -> float | None:
        """P@1: the share of documents with a known passage whose selected segment contains it.

        None if no document has one.
        """
        keys = [key for key in self.scores if key in truth.spans]
        return mean_share(truth.is_right(qid, table.segments[docno], self(qid, docno)) for qid, docno in keys)

    def reachable(self, truth: Truth, table: SegmentTable) -> float | None:
        """The highest possible :meth:`precision`: where any of a document's segments contains the passage."""
        keys = [key for key in self.scores if key in truth.spans]
        return mean_share(
            any(truth.is_right(qid, table.segments[docno], number) for number in range(table.count(docno)))
            for qid, docno in keys
        )

    def write(self, path: Path, table: SegmentTable, head: Mapping[str, Any]) -> None:
        """Write the file, whole or not at all."""
        lines = [json.dumps({**head, "pairs": len(self.scores)}, sort_keys=True)]
        for (qid, docno), scores in self.scores.items():
            number = self(qid, docno)
            start, end = table.segments[docno].span(number)
            where = {"query-id": qid, "corpus-id": docno, "segment": number, "start": start, "end": end}
            lines.append(json.dumps({**where, "scores": list(scores)}, ensure_ascii=False))
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, "".join(f"{line}\n" for line in lines).encode())


def read_selection(path: Path, head: Mapping[str, Any]) -> Selection:
    """Read what :meth:`Selection.write` has written with this ``head``.

    Raises FormatError if a line is damaged or missing, ModelError if the documents were cut otherwise.
    """
    scores: dict[Key, tuple[float, ...]] = {}
    pairs: int | None = None
    for number, line in numbered_lines(path):
        record = parse_object(path, number, line)
        if pairs is None:
            pairs = record.pop("pairs", None)
            if record != json.loads(json.dumps(head)):
                raise ModelError(f"{path}: these segments were selected of documents that were cut otherwise")
            continue
        try:
            own = tuple(map(float, record["scores"]))
            scores[str(record["query-id"]), str(record["corpus-id"])] = own
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(path, number, "an object with query-id, corpus-id and scores", line) from error
        if not own:
            raise FormatError(path, number, "the score of at least one segment", line)
    if pairs != len(scores):
        raise FormatError(path, None, f"{pairs} selections", f"{len(scores)}")
    return Selection(scores)


def select_best(
    keys: Sequence[Key],
    queries: Mapping[str, str],
    table: SegmentTable,
    scorer: PairScores,
    progress: Progress = silent,
    *,
    processes: Processes = ALONE,
) -> Selection:
    """Score all segments of these queries' documents, and select the best.

    Each process scores a share; only the first one gets the selection.
    """

    def score_all(part: Sequence[Key]) -> list[Sequence[float]]:
        pairs: list[TextPair] = [(queries[qid], text) for qid, docno in part for text in table.texts(docno)]
        values = iter(scorer.score(pairs))
        return [[next(values) for _ in range(table.count(docno))] for _, docno in part]

    scores: list[Sequence[float]] = []
    for own in processes.share_out(score_all, keys, _WINDOW):
        scores += own
        progress("selecting segments", len(scores), len(keys))
    return Selection(dict(zip(keys, scores, strict=False)))  # of other processes: nothing


def mean_share(right: Iterable[bool]) -> float | None:
    """The share that is right; None of nothing."""
    every = list(right)
    return sum(every) / len(every) if every else None
