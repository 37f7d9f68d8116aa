"""A service over a few documents, with small models, and clients of it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from telerank.types import Doc

DOCS = [
    Doc("a", "q1 x1 x2. x3 q2 x4 x5.", "d1", "https://example.org/a"),
    Doc("b", "q1 q1 x6 x7. x8 x9.", "d2"),
    Doc("c/ç", "x1 q3 x2 x3. q1 x5."),
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
    from telerank.models.readers import save_reader
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
def serving(settings: Any, **options: Any) -> Iterator[Any]:
    """A client of a service in this process, which is ready."""
    from fastapi.testclient import TestClient

    from telerank.service.app import create_app

    hosts = (*settings.allowed_hosts, "testserver")
    app = create_app(settings.model_copy(update={"allowed_hosts": hosts}))
    with TestClient(app, **options) as client:
        wait_until(lambda: client.get("/health").status_code == 200)
        yield client


@contextmanager
def listening(settings: Any, app: Any = None) -> Iterator[str]:
    """The address of a service in a thread of this process, which is ready; ``app`` may be made before."""
    import httpx
    import uvicorn

    from telerank.service.app import create_app
    from telerank.service.workers import BoundedConfig

    config = BoundedConfig(settings, app or create_app(settings), host="127.0.0.1", port=0, log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        wait_until(lambda: server.started)
        address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        wait_until(lambda: httpx.get(f"{address}/health", timeout=10).status_code == 200)
        yield address
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


def wait_until(condition: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.01)


@contextmanager
def held(run: Any) -> Iterator[None]:
    """Work of the same threads waits meanwhile; ``run`` is ``Served.search`` or ``Served.prepare``."""
    begun, gate = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        gate.wait()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, run(wait))
        begun.wait()
        try:
            yield
        finally:
            gate.set()
