"""Collections: their contents and statistics, other formats, ranking sets."""

from __future__ import annotations

from telerank.corpus.contents import count_contents, find_docs, find_query
from telerank.corpus.convert import convert
from telerank.corpus.formats import list_collections, list_formats
from telerank.corpus.ranking_sets import ranking_set
from telerank.corpus.statistics import describe, token_counter
from telerank.retrieval.index import TemporaryIndex

__all__ = [
    "TemporaryIndex",
    "convert",
    "count_contents",
    "describe",
    "find_docs",
    "find_query",
    "list_collections",
    "list_formats",
    "ranking_set",
    "token_counter",
]
