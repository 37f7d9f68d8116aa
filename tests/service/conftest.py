"""Indexes, models and services that many tests use, and none changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, for tests with the mark ``browser``; while it is open no other test can run an event loop."""
    from playwright.sync_api import sync_playwright

    path = Path("/usr/bin/chromium")
    if not path.exists():
        pytest.skip(f"no {path}")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens pages in contexts of their own, which must have no error and load nothing from elsewhere."""
    contexts, faults, hosts = [], [], set()

    def open_page(address: str, *, is_strict: bool = True, **settings: Any) -> Any:
        context = browser.new_context(**{"locale": "en-GB", **settings})
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()
        if is_strict:
            page.on("pageerror", lambda error: faults.append(str(error)))
            page.on("console", lambda line: faults.append(line.text) if line.type == "error" else None)
        page.on("dialog", lambda dialog: (faults.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: hosts.add(urlsplit(request.url).hostname))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not [fault for fault in faults if "the server responded with a status of" not in fault]
    assert hosts <= {"127.0.0.1"}
