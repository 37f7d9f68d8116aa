"""A service over a few documents, with small models, and clients of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from telerank.types import Doc

DOCS = [
    Doc("a", "q1 x1 x2. x3 q2 x4 x5.", "d1", "https://example.org/a"),
    Doc("b", "q1 q1 x6 x7. x8 x9.", "d2"),
    Doc("c/ç d"[:3], "x1 q3 x2 x3. q1 x5."),
    Doc("e", "x1 x2 x3 x4 q5."),
]


def make_index(folder: Path, docs=DOCS, **settings: Any) -> Path:
    import telerank as tr

    tr.index(docs, folder, workers=1, **settings)
    return folder


def save_models(folder: Path) -> dict[str, Path]:
    """Folders of a small re-ranker, encoder and reader."""
    from small_models import small_encoder
    from small_readers import small_reader
    from small_rerankers import small_reranker
    from telerank.models.readers.reader import save_reader
    from telerank.models.rerankers.reranker import save_reranker

    save_reranker(small_reranker(folder / "starts"), folder / "small-reranker")
    save_reader(small_reader(folder / "starts", threshold=10.0), folder / "small-reader")
    return {
        "reranker": folder / "small-reranker",
        "reader": folder / "small-reader",
        "encoder": small_encoder(folder / "small-encoder"),
    }


def settings_of(folder: Path, **more: Any):
    from telerank.service.settings import make_settings

    return make_settings({"indexes": {folder.name: folder}, **more})


@contextmanager
def serving(settings: Any) -> Iterator[Any]:
    """A client of a service in this process, which is ready."""
    from fastapi.testclient import TestClient

    from telerank.service.app import create_app

    hosts = (*settings.allowed_hosts, "testserver")
    app = create_app(settings.model_copy(update={"allowed_hosts": hosts}))
    with TestClient(app, raise_server_exceptions=True) as client:
        wait_until_ready(client)
        yield client


def wait_until_ready(client: Any, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while (health := client.get("/health")).status_code != 200 and time.monotonic() < end:
        time.sleep(0.05)
    assert health.status_code == 200, health.text
