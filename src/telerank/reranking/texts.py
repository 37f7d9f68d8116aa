"""Texts to pairs, as a re-ranker reads them: each distinct text is split and tokenised once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.errors import ModelError
from telerank.models.pairs.pair import Pair, PairTexts, Passage, Spans
from telerank.models.rerankers.reranker import Reranker
from telerank.text.sentences import split_sentences
from telerank.types import Progress, silent

TextPair: TypeAlias = tuple[str, str]
"""The text of a query, the text of a passage."""

_AT_ONCE = 4096  # passages whose sentences are looked for at a time


@dataclass(frozen=True, eq=False)
class TokenizedPairs:
    """The tokens of pairs, each joined when it is asked for; each text was tokenised once."""

    texts: PairTexts
    queries: Sequence[npt.NDArray[np.int32]]
    passages: Sequence[Passage]
    pairs: npt.NDArray[np.int64]

    def __getitem__(self, place: int) -> Pair:
        query, passage = self.pairs[place].tolist()
        return self.texts.pair(self.queries[query], self.passages[passage])

    def __len__(self) -> int:
        return len(self.pairs)


def tokenize_pairs(
    texts: PairTexts, pairs: Sequence[TextPair], language: str | None, progress: Progress = silent
) -> TokenizedPairs:
    """The tokens of pairs; sentences of passages are told apart where their ``language`` is given.

    Raises
    ------
    ValueError
        where that is a language that is not split.
    """
    asked = {text: place for place, text in enumerate(dict.fromkeys(query for query, _ in pairs))}
    told = {text: place for place, text in enumerate(dict.fromkeys(text for _, text in pairs))}
    places = np.array([(asked[query], told[text]) for query, text in pairs], np.int64).reshape(-1, 2)
    distinct = list(told)
    read: list[Passage] = []
    for first in range(0, len(distinct), _AT_ONCE):
        some = distinct[first : first + _AT_ONCE]
        spans = None if language is None else [split_sentences(text, language) for text in some]
        read += texts.passages(some, spans)
        progress("tokenising passages", len(read), len(distinct))
    return TokenizedPairs(texts, texts.queries(list(asked)), read, places)


def make_pairs(reranker: Reranker, queries: Sequence[str], passages: Sequence[str]) -> list[Pair]:
    """Each query with the passage at its place, with sentences where the model reads them.

    Raises
    ------
    ValueError
        where sentences are needed in a language that is not split.
    """
    language = reranker.shape.language if reranker.needs_sentences else None
    found = tokenize_pairs(reranker.texts, list(zip(queries, passages, strict=True)), language)
    return [found[place] for place in range(len(found))]


def sentences_with_tokens(texts: PairTexts, passage: str, spans: Spans, read: Passage) -> list[bool]:
    """Which sentences of a passage have tokens: those alone have numbers in ``read``, and gates.

    Raises
    ------
    ModelError
        where that cannot be told, since sentences share a token.
    """
    numbered = int(read.sentences.max(initial=-1)) + 1
    if numbered == len(spans):
        return [True] * len(spans)
    alone = [len(one.ids) > 0 for one in texts.passages([passage[start:end] for start, end in spans])]
    if sum(alone) != numbered:
        raise ModelError(f"{len(spans)} sentences, but {numbered} by their tokens: a token spans several")
    return alone
