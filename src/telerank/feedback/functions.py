"""The functions that make stages of feedback."""

from __future__ import annotations

from typing import Annotated, Any

from telerank.feedback.methods import RM3, Bo1, FeedbackMethod, Rocchio
from telerank.feedback.words import WordFeedback
from telerank.parameters import FieldsOf
from telerank.sparse.similarities.base import Similarity
from telerank.sparse.similarities.families import parse_similarity


def rm3(*, model: Similarity | str | None = None, **settings: Annotated[Any, FieldsOf(RM3)]) -> WordFeedback:
    """Search again with terms of the first documents, by RM3: ``index.bm25() >> tr.rm3(fb_docs=10)``.

    ``model`` is the similarity of the second search; None: that of the first. Settings are those of
    :class:`~telerank.feedback.methods.RM3`.
    """
    return _stage(RM3(**settings), model)


def bo1(*, model: Similarity | str | None = None, **settings: Annotated[Any, FieldsOf(Bo1)]) -> WordFeedback:
    """Search again with terms of the first documents, by Bo1; see :func:`rm3`.

    Settings are those of :class:`~telerank.feedback.methods.Bo1`.
    """
    return _stage(Bo1(**settings), model)


def rocchio(
    *, model: Similarity | str | None = None, **settings: Annotated[Any, FieldsOf(Rocchio)]
) -> WordFeedback:
    """Search again with terms, or with the vectors, of the first documents, by Rocchio; see :func:`rm3`.

    Behind a search of vectors alone it searches vectors: ``index.dense() >> tr.rocchio(fb_docs=3)``. Settings
    are those of :class:`~telerank.feedback.methods.Rocchio`.
    """
    return _stage(Rocchio(**settings), model)


def _stage(method: FeedbackMethod, model: Similarity | str | None) -> WordFeedback:
    return WordFeedback(method, model=parse_similarity(model) if isinstance(model, str) else model)
