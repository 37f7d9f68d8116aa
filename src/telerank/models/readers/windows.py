"""The windows of a question and a context: what a reader reads at a time.

A context that does not fit behind its question is read in several windows, which share ``stride`` tokens with
their neighbours, as in transformers' tokenizers. Most tokens are in several windows; each counts in the
one in which it has most context, the smaller of what is before and behind it (Devlin et al.'s run_squad).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from telerank.models.pairs.pair import Pair, PairTokenizer, Passage


@dataclass(frozen=True, eq=False)
class Context:
    """The ``T`` tokens of a context, not yet cut: ``ids``, (T,), and the characters of each.

    ``offsets`` (T, 2) has the first character of each token and the one after its last. They ascend, may
    overlap, if tokens are parts of a character, and may begin with a blank.
    """

    text: str
    ids: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class ContextWindow:
    """A question with ``count`` tokens of a context, beginning with its token number ``first``.

    They are the tokens ``begin`` to ``begin + count`` of ``pair``. ``counts`` (count,) says which of them
    have most context in this window.
    """

    pair: Pair
    first: int
    count: int
    begin: int
    counts: npt.NDArray[np.bool_]


def tokenize_contexts(texts: PairTokenizer, contexts: Sequence[str]) -> list[Context]:
    """The tokens of contexts, with the characters of each."""
    return [
        Context(text, np.array(encoding.ids, np.int32), np.array(encoding.offsets, np.int64).reshape(-1, 2))
        for text, encoding in zip(contexts, texts.encode(contexts), strict=True)
    ]


def cut_windows(
    texts: PairTokenizer, question: npt.NDArray[np.int32], context: Context, stride: int
) -> list[ContextWindow]:
    """The windows of a context, each as long as ``texts`` allows; none if the context has no token.

    ``question`` has its tokens, not yet cut: each window's pair counts those that were cut off.
    """
    room = texts.max_length - texts.frame.size - min(len(question), texts.longest_query)
    begin = len(texts.frame.before) + min(len(question), texts.longest_query) + len(texts.frame.between)
    starts = _starts(len(context), room, stride)
    owners = _owners(len(context), room, starts)
    windows = []
    for number, first in enumerate(starts):
        ids = context.ids[first : first + room]
        pair = texts.pair(question, Passage(ids, np.zeros(len(ids), np.int32)))
        windows.append(ContextWindow(pair, first, len(ids), begin, owners[first : first + room] == number))
    return windows


def find_tokens(context: Context, start: int, end: int) -> tuple[int, int] | None:
    """The first and the last token that have one of the characters from ``start`` to before ``end``.

    None if no token has any of them.
    """
    starts, ends = context.offsets.T
    inside = np.flatnonzero((ends > start) & (starts < end) & (ends > starts))
    return (int(inside[0]), int(inside[-1])) if len(inside) else None


def _starts(length: int, room: int, stride: int) -> list[int]:
    """Windows begin every ``room - stride`` tokens, until one reaches the end."""
    if not length:
        return []
    step = room - stride
    return list(range(0, max(1, length - room + step), step))


def _owners(length: int, room: int, starts: Sequence[int]) -> npt.NDArray[np.int64]:
    """The number of the window in which each token has most context, the earlier one if several are equal."""
    owners, most = np.zeros(length, np.int64), np.full(length, -1, np.int64)
    for number, first in enumerate(starts):
        end = min(first + room, length)
        before = np.arange(end - first)
        around = np.minimum(before, before[::-1])
        better = around > most[first:end]
        owners[first:end][better] = number
        most[first:end][better] = around[better]
    return owners
