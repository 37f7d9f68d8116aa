"""A service that listens on a free port of this machine, for clients that know addresses alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def listening(settings: Any, seconds: float = 120) -> Iterator[str]:
    """The address of a service in a thread of this process, which is ready."""
    import httpx
    import uvicorn

    from telerank.service.app import create_app
    from telerank.service.guards.protocol import BoundedConfig

    config = BoundedConfig(settings, create_app(settings), host="127.0.0.1", port=0, log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    end = time.monotonic() + seconds
    try:
        while not server.started and time.monotonic() < end:
            time.sleep(0.02)
        address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        while (health := httpx.get(f"{address}/health")).status_code != 200 and time.monotonic() < end:
            time.sleep(0.05)
        assert health.status_code == 200, health.text
        yield address
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()
