"""A re-ranker that reads more or less of a pair than its folder says."""

from __future__ import annotations

from dataclasses import replace

from telerank.errors import ModelError
from telerank.models.pairs.pair import PairTexts, PairTokenizer
from telerank.models.pairs.words import Words
from telerank.models.positions import positions
from telerank.models.rerankers.reranker import Reranker


def with_lengths(reranker: Reranker, max_query: int | None, max_length: int | None) -> Reranker:
    """The same model on pairs that are cut elsewhere; None keeps the length that it has.

    Raises
    ------
    ModelError
        where the model has not so many positions, or a query leaves no room for a passage.
    """
    if max_query is None and max_length is None:
        return reranker
    query = reranker.shape.max_query if max_query is None else max_query
    pair = reranker.shape.max_length if max_length is None else max_length
    longest = positions(reranker.model)
    if longest is not None and pair > longest:
        raise ModelError(f"pairs of {pair} tokens, but the model has {longest} positions")
    shape = replace(reranker.shape, max_query=query, max_length=pair)
    return Reranker(reranker.model, _texts(reranker.texts, query, pair), shape)


def _texts(texts: PairTexts, max_query: int, max_length: int) -> PairTexts:
    if isinstance(texts, PairTokenizer):
        return PairTokenizer(texts.tokenizer, max_query=max_query, max_length=max_length)
    if isinstance(texts, Words):
        return Words(texts.vocabulary, max_query=max_query, max_length=max_length)
    raise ModelError(f"pairs of {type(texts).__name__} have no other lengths")
