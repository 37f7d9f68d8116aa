"""Make the pairs that a re-ranker reads: each distinct text is split and tokenised once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from telerank.batches import batch_by_length
from telerank.errors import ModelError
from telerank.models.pairs.pair import (
    PASSAGE,
    QUERY,
    Pair,
    PairBatch,
    PairTexts,
    Passage,
    Spans,
    batch_of,
)
from telerank.models.rerankers.reranker import Reranker
from telerank.text.sentences import split_sentences
from telerank.types import Progress, silent

TextPair: TypeAlias = tuple[str, str]
"""The text of a query, the text of a passage."""

_Tokens: TypeAlias = npt.NDArray[np.int32]
_CHUNK = 4096  # passages whose sentences are in memory at a time


@dataclass(frozen=True, eq=False)
class TokenizedPairs:
    """The tokens of pairs, each joined on access; each text was tokenised once.

    ``pairs`` (pairs, 2) has the numbers of a query and a passage.
    """

    texts: PairTexts
    queries: Sequence[npt.NDArray[np.int32]]
    passages: Sequence[Passage]
    pairs: npt.NDArray[np.int64]

    def __getitem__(self, number: int) -> Pair:
        query, passage = self.pairs[number].tolist()
        return self.texts.pair(self.queries[query], self.passages[passage])

    def __len__(self) -> int:
        return len(self.pairs)

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The tokens of each pair, special ones among them, (pairs,)."""
        lengths: npt.NDArray[np.int64] = self.texts.frame.size + self._kept.sum(1)
        return lengths

    @cached_property
    def cut(self) -> npt.NDArray[np.int64]:
        """How many tokens of the query and of the passage of each pair are cut off, (pairs, 2)."""
        return self._whole - self._kept

    def find_cut(self) -> npt.NDArray[np.bool_]:
        """Whether the query and the passage of each pair are cut, (pairs, 2); no pair is joined for it."""
        return self.cut > 0

    def join(self, rows: Sequence[int], width: int, fields: int = 5) -> Tensor:
        """The tensors of a batch of pairs, padded to ``width``, (``fields``, B, width) int64.

        They are the first 3, or all 5, of :class:`~telerank.models.pairs.pair.PairBatch`, and the same as
        those of :func:`~telerank.models.pairs.pair.batch_of`, but no pair is joined alone.
        """
        frame, columns = self.texts.frame, np.arange(width)
        numbers, kept = self.pairs[rows], self._kept[rows]
        begin = np.full((len(rows), 1), len(frame.before))
        middle = begin + kept[:, :1]  # where the query has ended
        passage = middle + len(frame.between)
        after = passage + kept[:, 1:]
        ends = (begin, middle, passage, after, after + len(frame.after))  # of all five parts, each (B, 1)
        query_at = (columns >= begin) & (columns < middle)  # (B, width)
        passage_at = (columns >= passage) & (columns < after)
        block = np.zeros((fields, len(rows), width), np.int64)
        ids, mask, types = block[:3]
        mask[:] = columns < ends[-1]
        ids[:] = self.texts.pad_id
        ids[:, : len(frame.before)] = frame.before
        for end, special in ((middle, frame.between), (after, frame.after)):
            np.put_along_axis(ids, end + np.arange(len(special)), np.array([special], np.int64), 1)
        tokens, starts = self._query_tokens
        ids[query_at] = tokens[_ranges(starts[numbers[:, 0]], kept[:, 0])]
        tokens, sentences, starts = self._passage_tokens
        chosen = _ranges(starts[numbers[:, 1]], kept[:, 1])
        ids[passage_at] = tokens[chosen]
        for start, end, kind in zip((0 * begin, *ends[:-1]), ends, frame.types, strict=True):
            if kind:
                types[(columns >= start) & (columns < end)] = kind
        if fields > 3:
            block[3] = QUERY * query_at + PASSAGE * passage_at
            block[4] = -1
            block[4][passage_at] = sentences[chosen]
        return torch.from_numpy(block)

    @cached_property
    def _whole(self) -> npt.NDArray[np.int64]:
        """The tokens of the query and of the passage of each pair before they are cut, (pairs, 2)."""
        queries = np.array([len(query) for query in self.queries], np.int64)
        passages = np.array([len(passage.ids) for passage in self.passages], np.int64)
        return np.stack([queries[self.pairs[:, 0]], passages[self.pairs[:, 1]]], 1)

    @cached_property
    def _kept(self) -> npt.NDArray[np.int64]:
        queries = np.minimum(self._whole[:, 0], self.texts.longest_query)
        room = self.texts.max_length - self.texts.frame.size - queries
        return np.stack([queries, np.minimum(self._whole[:, 1], room)], 1)

    @cached_property
    def _query_tokens(self) -> tuple[_Tokens, npt.NDArray[np.int64]]:
        """The tokens of all queries, and where those of each begin."""
        return _concatenate(self.queries), np.cumsum([0, *map(len, self.queries)])

    @cached_property
    def _passage_tokens(self) -> tuple[_Tokens, _Tokens, npt.NDArray[np.int64]]:
        """The tokens of all passages, their sentences, and where those of each begin."""
        ids = [passage.ids for passage in self.passages]
        sentences = _concatenate([passage.sentences for passage in self.passages])
        return _concatenate(ids), sentences, np.cumsum([0, *map(len, ids)])


def tokenize_pairs(
    texts: PairTexts, pairs: Sequence[TextPair], language: str | None, progress: Progress = silent
) -> TokenizedPairs:
    """Tokenise pairs; passages are split into sentences if their ``language`` is given.

    Raises
    ------
    ValueError
        If there is no splitter for the language.
    """
    queries = {text: number for number, text in enumerate(dict.fromkeys(query for query, _ in pairs))}
    passages = {text: number for number, text in enumerate(dict.fromkeys(text for _, text in pairs))}
    numbers = np.array([(queries[query], passages[text]) for query, text in pairs], np.int64).reshape(-1, 2)
    distinct = list(passages)
    tokens: list[Passage] = []
    for first in range(0, len(distinct), _CHUNK):
        chunk = distinct[first : first + _CHUNK]
        spans = None if language is None else [split_sentences(text, language) for text in chunk]
        tokens += texts.passages(chunk, spans)
        progress("tokenising passages", len(tokens), len(distinct))
    return TokenizedPairs(texts, texts.queries(list(queries)), tokens, numbers)


def tokenize_for(reranker: Reranker, pairs: Sequence[TextPair]) -> TokenizedPairs:
    """The tokens of pairs, with sentences if the model reads them.

    Raises
    ------
    ValueError
        If sentences are needed and there is no splitter for the language.
    """
    language = reranker.shape.language if reranker.kind.reads_sentences else None
    return tokenize_pairs(reranker.texts, pairs, language)


def make_pairs(reranker: Reranker, pairs: Sequence[TextPair]) -> list[Pair]:
    """The tokens of each pair, as :func:`tokenize_for` has them.

    Raises
    ------
    ValueError
        If sentences are needed and there is no splitter for the language.
    """
    tokenized = tokenize_for(reranker, pairs)
    return [tokenized[number] for number in range(len(pairs))]


def batch_pairs(pairs: Sequence[Pair], pad_id: int, tokens: int) -> Iterator[tuple[list[int], PairBatch]]:
    """Batches of at most ``tokens`` tokens, padding included, with the rows of their pairs; longest first.

    A longer pair has a batch of its own.
    """
    for rows in batch_by_length([len(pair) for pair in pairs], tokens):
        yield rows, batch_of([pairs[row] for row in rows], pad_id)


def _concatenate(arrays: Sequence[_Tokens]) -> _Tokens:
    return np.concatenate([np.empty(0, np.int32), *arrays])


def _ranges(starts: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The numbers of ranges, one range after the other."""
    ends = np.cumsum(counts)
    return np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - ends + counts, counts)


def sentences_with_tokens(texts: PairTexts, passage: str, spans: Spans, tokens: Passage) -> list[bool]:
    """Whether each sentence of a passage has tokens: only those are numbered in ``tokens``, and have gates.

    Raises
    ------
    ModelError
        If that cannot be decided, since sentences share a token.
    """
    count = int(tokens.sentences.max(initial=-1)) + 1
    if count == len(spans):
        return [True] * len(spans)
    alone = [len(rows) > 0 for rows in texts.queries([passage[start:end] for start, end in spans])]
    if sum(alone) != count:
        raise ModelError(f"{len(spans)} sentences, but {count} by their tokens: a token spans several")
    return alone
