"""Pipelines that are kept with an index, by name."""

from __future__ import annotations

import re

from telerank.errors import CollectionError
from telerank.pipelines.functions import FUNCTIONS, pipeline
from telerank.retrieval.index import Index, save_pipelines
from telerank.sparse.similarities.families import is_similarity
from telerank.stage import Stage


def save_pipeline(index: Index, name: str, text: str | Stage) -> Stage:
    """Keep a pipeline with the index under a name, which then stands for it in other texts.

    A pipeline of that name is replaced. The text is read first, so that nothing is saved that does not work.

    Raises
    ------
    CollectionError
        If the name is not a word, or is that of a function.
    ExpressionError
        If the text cannot be read.
    """
    if not re.fullmatch(r"[^\W\d][\w.:-]*", name):
        raise CollectionError(f"{name!r}: the name of a pipeline is a word, such as best or bm25-tuned")
    if name in FUNCTIONS or is_similarity(name):
        raise CollectionError(f"{name!r} is the name of a function: choose another one")
    known = index.pipelines
    stage = pipeline(str(text) if isinstance(text, str) else text.text, index)
    save_pipelines(index, {**known, name: stage.text})
    return stage


def saved_pipeline(index: Index, name: str) -> str:
    """The text of a saved pipeline.

    Raises
    ------
    CollectionError
        If there is no such pipeline.
    """
    saved = index.pipelines
    if name not in saved:
        raise CollectionError(
            f"{index.folder}: no pipeline {name!r} (there are: {', '.join(saved) or 'none'})"
        )
    return saved[name]


def remove_pipeline(index: Index, name: str) -> None:
    """Forget a saved pipeline.

    Raises
    ------
    CollectionError
        If there is no such pipeline.
    """
    saved_pipeline(index, name)
    save_pipelines(index, {other: text for other, text in index.pipelines.items() if other != name})
