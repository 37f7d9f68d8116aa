"""Stages map a stream of rankings to a stream of rankings; operators combine them to pipelines.

====================  ===============================================================
``a >> b``            ``b`` works on the rankings of ``a``
``a % k``             the first ``k`` documents of each ranking of ``a``
``a + b``             the sum of scores; a document that is missing in a ranking has 0 there
``w * a``             scores multiplied by ``w``
====================  ===============================================================

Only operators that bind tighter than ``>>`` are used, so that pipelines need no parentheses. The ``repr`` of
a pipeline over an index is a text that :func:`telerank.pipelines.functions.pipeline` reads back.
"""

from telerank.stage.algebra import (
    CALL,
    CHAIN,
    PRODUCT,
    SUM,
    Chain,
    Cut,
    Stage,
    Sum,
    Weighted,
    check_depth,
    operand_text,
    require_first,
)
from telerank.stage.around import StageAround
from telerank.stage.parts import change_stages, find_docs, inner_stages, map_inner, walk_stages
from telerank.stage.retriever import Retriever, batch_queries, rank_in_threads
from telerank.stage.where import Where, where_text

__all__ = [
    "CALL",
    "CHAIN",
    "PRODUCT",
    "SUM",
    "Chain",
    "Cut",
    "Retriever",
    "Stage",
    "StageAround",
    "Sum",
    "Weighted",
    "Where",
    "batch_queries",
    "change_stages",
    "check_depth",
    "find_docs",
    "inner_stages",
    "map_inner",
    "operand_text",
    "rank_in_threads",
    "require_first",
    "walk_stages",
    "where_text",
]
