"""The registry of re-rankers: each kind by its name, loaded when it is first used.

A new kind is a module that holds the model and its record, ``KIND``
(:class:`telerank.models.rerankers.kind.RerankerKind`), and a line here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from telerank.errors import ModelError

if TYPE_CHECKING:
    from telerank.models.rerankers.kind import RerankerKind

KINDS = {
    "monobert": "telerank.models.rerankers.monobert",
    "bert": "telerank.models.rerankers.bert",
    "bert-dmn": "telerank.models.rerankers.bert_dmn",
    "dmn": "telerank.models.rerankers.dmn",
    "qa-lstm": "telerank.models.rerankers.qa_lstm",
    "k-nrm": "telerank.models.rerankers.knrm",
}
"""The module of each kind. This file needs no torch; the modules do."""


def find_kind(name: str) -> RerankerKind:
    """The record of a kind.

    Raises
    ------
    ModelError
        If there is no such kind.
    """
    if name not in KINDS:
        raise ModelError(f"no re-ranker is called {name!r}; there are: {', '.join(KINDS)}")
    kind: RerankerKind = import_module(KINDS[name]).KIND
    return kind
