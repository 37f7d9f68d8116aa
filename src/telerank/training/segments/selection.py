"""Which segment of each document is learned from: a file, one line for each query and document.

The first line says how the documents were cut, without which the numbers mean nothing::

    {"iteration": 2, "pairs": 120, "segments": {…}}
    {"query-id": "q1", "corpus-id": "d7", "segment": 2, "start": 812, "end": 1604, "scores": [-1.2, 0.3, 2.9]}
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from telerank.drafts import replace_file
from telerank.errors import FormatError, ModelError
from telerank.reranking.texts import TextPair
from telerank.training.parallel import ALONE, Processes
from telerank.training.segments.table import ScorePairs, SegmentTable
from telerank.training.segments.truth import Truth
from telerank.trec.files import numbered_lines, parse_object
from telerank.types import Progress, silent

Key: TypeAlias = tuple[str, str]
"""A qid and a docno."""
Choose: TypeAlias = Callable[[str, str], int]
"""The number of the segment of a query's document, by qid and docno."""
_WINDOW = 2048  # documents of queries whose segments are scored together


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
        known = [key for key in self.scores if key in truth.spans]
        right = sum(truth.is_right(key[0], table.segments[key[1]], self(*key)) for key in known)
        return right / len(known) if known else None

    def reachable(self, truth: Truth, table: SegmentTable) -> float | None:
        """The highest possible :meth:`precision`: where any of a document's segments contains the passage."""
        known = [key for key in self.scores if key in truth.spans]
        within = sum(truth.is_reachable(qid, table.segments[docno]) for qid, docno in known)
        return within / len(known) if known else None

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
    score: ScorePairs,
    progress: Progress = silent,
    *,
    processes: Processes = ALONE,
) -> Selection:
    """Score all segments of these queries' documents, and select the best.

    Each process scores a share; only the first one gets the selection.
    """

    def score_all(part: Sequence[Key]) -> list[Sequence[float]]:
        pairs: list[TextPair] = [(queries[qid], text) for qid, docno in part for text in table.texts(docno)]
        values = iter(score(pairs, silent))
        return [[next(values) for _ in range(table.count(docno))] for _, docno in part]

    scores: list[Sequence[float]] = []
    for own in processes.share_out(score_all, keys, _WINDOW):
        scores += own
        progress("selecting segments", len(scores), len(keys))
    return Selection(dict(zip(keys, scores, strict=False)))  # of other processes: nothing


@dataclass(frozen=True, eq=False)
class Drawn:
    """A random segment of each query's document: a function of the seed, the qid and the docno."""

    table: SegmentTable
    seed: int

    def __call__(self, qid: str, docno: str) -> int:
        draw = random.Random(f"{self.seed} {qid} {docno}")  # text: the same on every machine
        return draw.randrange(self.table.count(docno))


@dataclass(frozen=True, eq=False)
class Gold:
    """The segment with the known passage; of a document without one, a random segment."""

    truth: Truth
    others: Drawn

    def __call__(self, qid: str, docno: str) -> int:
        if (qid, docno) in self.truth.spans:
            return self.truth.gold(qid, self.others.table.segments[docno])
        return self.others(qid, docno)


def choose_first(_qid: str, _docno: str) -> int:
    """The first segment of every document."""
    return 0


def dev_precision(truth: Truth, best: Iterable[tuple[str, Any, int]]) -> float | None:
    """P@1 of segments (qid, segments, number) of documents with a known passage; None without any."""
    right = [truth.is_right(qid, segments, number) for qid, segments, number in best]
    return sum(right) / len(right) if right else None
