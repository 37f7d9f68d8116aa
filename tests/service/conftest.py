"""Indexes, models and services that many tests use, and none changes."""

from __future__ import annotations

import pytest

import small_pages
from small_rerankers import pairs
from small_service import make_index, save_models, serving, settings_of

TEXTS = [text for _, text in pairs(9, longest=25)]


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """An index of :data:`small_service.DOCS`."""
    return make_index(tmp_path_factory.mktemp("service") / "idx")


@pytest.fixture(scope="session")
def fiches(tmp_path_factory):
    """A French index of :data:`small_pages.DOCS`."""
    folder = tmp_path_factory.mktemp("page") / "fiches"
    return make_index(folder, small_pages.DOCS, analyzer="french")


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Folders of a ``reranker``, an ``encoder`` and a ``reader``."""
    return save_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def client(folder):
    """A client of a service with nothing but the index."""
    with serving(settings_of(folder)) as client:
        yield client
