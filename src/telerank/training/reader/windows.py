"""Windows to learn from, on disk: made once for a tokenizer, its lengths and these questions, and mapped.

=================  ==================================================================================
``manifest.json``  the key of everything that they depend on, counts, and checksums
``ids.npy``        (tokens,) int32: of each window its question's tokens, then its context's
``windows.npy``    (windows,) a :data:`WINDOW` each
=================  ==================================================================================

The folder appears when it is complete.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from telerank.corpus.derived.questions import digest
from telerank.drafts import draft_folder
from telerank.errors import CollectionError, IndexDamaged
from telerank.models.pairs.pair import Pair, PairTokenizer, Passage
from telerank.models.readers import ContextWindow, Reader, cut_windows, find_tokens, tokenize_contexts
from telerank.stored import MANIFEST, Manifest, StoredFiles, check_files, map_npy, record_files
from telerank.training.reader.questions import QuestionSet, TextQuestion
from telerank.types import Progress, silent

WINDOW = np.dtype(
    [
        ("begin", "<i8"),
        ("question", "<i4"),
        ("context", "<i4"),
        ("start", "<i4"),
        ("end", "<i4"),
        ("set", "<i4"),
    ]
)
"""Where its ids begin, how many tokens its question and its context have, the first and the last token of its
answer in the pair (0 and 0, the first token of all, if it has none), and the number of its set."""
_IDS, _WINDOWS = "ids.npy", "windows.npy"
_AT_ONCE = 256  # questions that are tokenised at a time
Ids = npt.NDArray[np.int32]


@dataclass(frozen=True)
class WindowManifest(Manifest):
    """``key`` is a hash of everything that the windows depend on."""

    key: str
    tokens: int
    windows: int
    counts: Mapping[str, int]
    files: StoredFiles
    kind: str = "reading-windows"
    format: int = 1


@dataclass(frozen=True, eq=False)
class LearningWindows:
    """Windows as they are learned from; ``ids`` are mapped from the disk."""

    ids: Ids
    table: npt.NDArray[Any]
    texts: PairTokenizer
    counts: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.table)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The number of tokens of each window, special ones among them, (windows,)."""
        lengths: npt.NDArray[np.int64] = self.table["question"] + self.table["context"].astype(np.int64)
        return lengths + self.texts.frame.size

    def pair(self, row: int) -> Pair:
        """The tokens of a window."""
        begin, question, context = (int(self.table[name][row]) for name in ("begin", "question", "context"))
        ids = np.array(self.ids[begin : begin + question + context])
        return self.texts.pair(ids[:question], Passage(ids[question:], np.zeros(context, np.int32)))

    def answer(self, row: int) -> tuple[int, int]:
        """The first and the last token of the answer in :meth:`pair`; the first token of all if there is
        none.
        """
        return int(self.table["start"][row]), int(self.table["end"][row])


def open_windows(
    folder: Path, reader: Reader, sets: Sequence[QuestionSet], seed: int, progress: Progress = silent
) -> LearningWindows:
    """The windows of these questions in a folder of windows; they are made if they are not there.

    Raises CollectionError if no window has an answer, IndexDamaged if a file is missing or differs.
    """
    key = _key(reader, sets, seed)
    target = folder / key[:32]
    if not (target / MANIFEST).exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with draft_folder(target) as draft:
            _write(draft, key, reader, sets, seed=seed, progress=progress)
    manifest = WindowManifest.read(target)
    if manifest.key != key:
        raise IndexDamaged(f"{target}: it has the windows of other questions")
    check_files(target, manifest.files)
    ids = map_npy(target / _IDS, np.int32, (manifest.tokens,))
    table = map_npy(target / _WINDOWS, WINDOW, (manifest.windows,), mapped=False)
    return LearningWindows(ids, table, reader.texts, manifest.counts)


def _key(reader: Reader, sets: Sequence[QuestionSet], seed: int) -> str:
    known = hashlib.sha256()
    settings = {"texts": reader.texts.record(), "stride": reader.settings.stride, "seed": seed}
    known.update(json.dumps(settings, sort_keys=True, default=repr).encode())
    for own in sets:
        known.update(f"\n{own.source.other_windows}\n".encode())
        for question in own.questions:
            answer = [(answer.text, answer.start) for answer in question.answers[:1]]
            record = (question.query.qid, question.query.text, question.doc.text, answer, question.unrelated)
            known.update(repr(record).encode("utf-8", "surrogatepass"))
    return known.hexdigest()


def _write(
    draft: Path, key: str, reader: Reader, sets: Sequence[QuestionSet], *, seed: int, progress: Progress
) -> None:
    """Write the windows of the sets into a folder, and count what is cut and left out."""
    ids: list[Ids] = []
    rows: list[tuple[int, ...]] = []
    counts: dict[str, int] = {}
    begin, done, total = 0, 0, sum(len(own.questions) for own in sets)
    for number, own in enumerate(sets):
        for first in range(0, len(own.questions), _AT_ONCE):
            chunk = own.questions[first : first + _AT_ONCE]
            for question, windows in zip(chunk, _cut(reader, chunk, counts), strict=True):
                for window, start, end in _choose(question, windows, own.source.other_windows, seed):
                    parts = window.pair.ids[window.pair.parts > 0]
                    rows.append((begin, len(parts) - window.count, window.count, start, end, number))
                    ids.append(parts)
                    begin += len(parts)
            done += len(chunk)
            progress("making windows", done, total)
    table = np.array(rows, WINDOW)
    held = int((table["start"] > 0).sum())
    if not held:
        raise CollectionError("no window has an answer: there is nothing to learn from")
    counts |= {"windows": len(table), "windows with the answer": held}
    np.save(draft / _IDS, np.concatenate(ids))
    np.save(draft / _WINDOWS, table)
    WindowManifest(key, begin, len(table), counts, record_files(draft)).write(draft)


LabelledWindow = tuple[ContextWindow, int, int]
"""A window, and the first and the last token of the answer in its pair; 0 and 0 if it does not hold it."""


def _cut(
    reader: Reader, questions: Sequence[TextQuestion], counts: dict[str, int]
) -> Iterator[list[LabelledWindow]]:
    """The windows of each question, those of one without tokens or with an unreadable answer being none."""
    texts = reader.texts
    names = list(dict.fromkeys(question.doc.text for question in questions))
    contexts = dict(zip(names, tokenize_contexts(texts, names), strict=True))
    token_ids = texts.queries([question.query.text for question in questions])
    for question, ids in zip(questions, token_ids, strict=True):
        context = contexts[question.doc.text]
        span = None
        if len(ids) > texts.longest_query:
            counts["questions that are cut"] = counts.get("questions that are cut", 0) + 1
        if question.answers:
            answer = question.answers[0]
            span = find_tokens(context, answer.start, answer.end)
            if span is None:
                counts["answers without a token"] = counts.get("answers without a token", 0) + 1
                yield []
                continue
        labelled = []
        for window in cut_windows(texts, ids, context, reader.settings.stride):
            start, end, offset = 0, 0, window.begin - window.first
            if span is not None and window.first <= span[0] and span[1] < window.first + window.count:
                start, end = span[0] + offset, span[1] + offset
            labelled.append((window, start, end))
        yield labelled


def _choose(
    question: TextQuestion, windows: Sequence[LabelledWindow], most: int | None, seed: int
) -> Sequence[LabelledWindow]:
    """All windows, or those with the answer and ``most`` others, drawn by the seed."""
    if most is None or not question.answers:
        return windows
    others = [number for number, (_, start, _) in enumerate(windows) if not start]
    others.sort(key=lambda number: digest(seed, f"window {question.query.qid} {number}"))
    dropped = set(others[most:])
    return [window for number, window in enumerate(windows) if number not in dropped]


Rows = npt.NDArray[np.int64]
_POOL = 50  # batches whose windows are sorted by length together


class WindowOrder:
    """Batch 0, 1, 2 … of ``size`` rows each; a function of the seed and the number, so that training resumes.

    An epoch has each window of a set ``weight`` times: those of a weight of 1.5 once or twice, all of
    them once before any comes twice. Within a stretch of 50 batches windows of similar lengths share a batch,
    which saves padding; the order of the batches is random.
    """

    def __init__(
        self, lengths: Rows, sets: Rows, weights: tuple[float, ...], *, size: int, seed: int
    ) -> None:
        self._lengths, self._size, self._seed = lengths, size, seed
        self._parts = [
            (rows := np.flatnonzero(sets == number), round(weight * len(rows)))
            for number, weight in enumerate(weights)
        ]
        self.epoch_length = sum(count for _, count in self._parts)
        self._order = lru_cache(maxsize=2)(self._compute)

    def __getitem__(self, number: int) -> Rows:
        """The rows of a batch."""
        begin = number * self._size
        rows = []
        for position in range(begin, begin + self._size):
            epoch, inside = divmod(position, self.epoch_length)
            rows.append(self._order(epoch)[inside])
        return np.array(rows, np.int64)

    def _compute(self, epoch: int) -> Rows:
        """The rows of an epoch; its batches begin where those of the epoch before end."""
        random = np.random.default_rng((self._seed, epoch))
        drawn = random.permutation(
            np.concatenate([self._draw(rows, count, epoch) for rows, count in self._parts])
        )
        first = -epoch * self.epoch_length % self._size
        blocks = [drawn[:first]]
        pool = _POOL * self._size
        for begin in range(first, len(drawn), pool):
            stretch = drawn[begin : begin + pool]
            ordered = stretch[np.argsort(self._lengths[stretch], kind="stable")]
            whole = len(ordered) // self._size
            batches = [ordered[n * self._size : (n + 1) * self._size] for n in range(whole)]
            blocks += [batches[n] for n in random.permutation(whole)]
            blocks.append(ordered[whole * self._size :])  # only the last stretch has such
        return np.concatenate(blocks)

    def _draw(self, rows: Rows, count: int, epoch: int) -> Rows:
        """``count`` rows of a set: the next of an endless sequence of its permutations, epoch after epoch."""
        if not count:
            return rows[:0]
        begin, own = epoch * count, []
        for position in range(begin // len(rows), -(-(begin + count) // len(rows))):
            shuffled = np.random.default_rng((self._seed, 1, position)).permutation(rows)
            low = max(0, begin - position * len(rows))
            own.append(shuffled[low : begin + count - position * len(rows)])
        return np.concatenate(own)
