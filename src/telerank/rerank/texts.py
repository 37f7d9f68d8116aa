"""Texts to pairs, as a re-ranker reads them: each distinct text is split and tokenised once."""

from __future__ import annotations

from collections.abc import Sequence

from telerank.models.pairs import Pair, Passage
from telerank.models.reranker import Reranker
from telerank.text.sentences import split_sentences


def pair_texts(reranker: Reranker, queries: Sequence[str], passages: Sequence[str]) -> list[Pair]:
    """Each query with the passage at its place; what is said twice is tokenised once."""
    asked = list(dict.fromkeys(queries))
    read = list(dict.fromkeys(passages))
    of_query = dict(zip(asked, reranker.texts.queries(asked), strict=True))
    of_passage = dict(zip(read, passage_tokens(reranker, read), strict=True))
    join = reranker.texts.pair
    return [join(of_query[one], of_passage[other]) for one, other in zip(queries, passages, strict=True)]


def passage_tokens(reranker: Reranker, passages: Sequence[str]) -> list[Passage]:
    """The tokens of passages, with their sentences where the model reads them.

    Raises
    ------
    ValueError
        where sentences are needed in a language that is not split.
    """
    if not reranker.needs_sentences:
        return reranker.texts.passages(passages)
    spans = [split_sentences(one, reranker.shape.language) for one in passages]
    return reranker.texts.passages(passages, spans)
