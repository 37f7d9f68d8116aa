"""Make the pairs that a re-ranker reads: each distinct text is split and tokenised once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.batches import batch_by_length
from telerank.errors import ModelError
from telerank.models.pairs.pair import Pair, PairBatch, PairTexts, Passage, Spans, batch_of
from telerank.models.rerankers.reranker import Reranker
from telerank.text.sentences import split_sentences
from telerank.types import Progress, silent

TextPair: TypeAlias = tuple[str, str]
"""The text of a query, the text of a passage."""

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

    def find_cut(self) -> npt.NDArray[np.bool_]:
        """Whether the query and the passage of each pair are cut, (pairs, 2); no pair is joined for it."""
        queries = np.array([len(query) for query in self.queries], np.int64)[self.pairs[:, 0]]
        passages = np.array([len(passage.ids) for passage in self.passages], np.int64)[self.pairs[:, 1]]
        texts = self.texts
        room = texts.max_length - texts.frame.size - np.minimum(queries, texts.longest_query)
        return np.stack([queries > texts.longest_query, passages > room], 1)


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


def make_pairs(reranker: Reranker, pairs: Sequence[TextPair]) -> list[Pair]:
    """The tokens of each pair, with sentences if the model reads them.

    Raises
    ------
    ValueError
        If sentences are needed and there is no splitter for the language.
    """
    language = reranker.shape.language if reranker.kind.reads_sentences else None
    tokenized = tokenize_pairs(reranker.texts, pairs, language)
    return [tokenized[number] for number in range(len(pairs))]


def batch_pairs(pairs: Sequence[Pair], pad_id: int, tokens: int) -> Iterator[tuple[list[int], PairBatch]]:
    """Batches of at most ``tokens`` tokens, padding included, with the rows of their pairs; longest first.

    A longer pair has a batch of its own.
    """
    for rows in batch_by_length([len(pair) for pair in pairs], tokens):
        yield rows, batch_of([pairs[row] for row in rows], pad_id)


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
