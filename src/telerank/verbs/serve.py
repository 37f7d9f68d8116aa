"""Serving indexes and models over HTTP."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from telerank.errors import MissingExtra
from telerank.parameters import FieldsOf
from telerank.service.settings import ServiceSettings, make_settings, name_folders, with_reader

if TYPE_CHECKING:
    from telerank.retrieval.index import Index


def check_indexes(settings: ServiceSettings) -> None:
    """Check that the indexes can be opened, before anything is logged.

    Raises
    ------
    TelerankError
        If one of them cannot be opened.
    """
    from telerank.retrieval.index import Index

    for folder in settings.indexes.values():
        Index(folder)


def serve(
    index: Index | str | Path | ServiceSettings, **settings: Annotated[Any, FieldsOf(ServiceSettings)]
) -> None:
    """Serve an index over HTTP until the process is ended (Ctrl-C, SIGTERM).

    ``settings`` are those of :class:`~telerank.service.settings.ServiceSettings`, such as ``model``, ``port``
    and ``rerankers``; or ``index`` is all of them.

    >>> tr.serve("piaf-index", model="bm25 % 100 >> rerank(my-reranker) % 10", port=8080)

    Raises
    ------
    CollectionError
        If a setting is not as expected.
    MissingExtra
        If fastapi or uvicorn is not installed.
    TelerankError
        If an index or a model cannot be opened.
    """
    for module in ("fastapi", "uvicorn", "prometheus_client"):
        if find_spec(module) is None:
            raise MissingExtra(module, "serve")
    from telerank.service.workers import run_service

    if not isinstance(index, ServiceSettings):
        folder = index if isinstance(index, str | Path) else index.folder
        index = make_settings({"indexes": name_folders([str(folder)]), **settings})
    check_indexes(index)
    run_service(with_reader(index))
