"""``telerank serve`` as a process of its own, on a free port of this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from forked import free_ports
from small_service import wait_until

ROOT = Path(__file__).parent.parent


class ServedProcess:
    """A running service; ``lines`` are those of its log so far."""

    def __init__(self, *arguments: str, python: str = sys.executable, **environment: str) -> None:
        self.port = free_ports(1)[0]
        command = [python, "-m", "telerank", "serve", *arguments, "--port", str(self.port)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in list(self.lines) if line.startswith("{")]

    def wait_until_ready(self) -> None:
        def is_ready() -> bool:
            assert self.process.poll() is None, "\n".join(self.lines)
            try:
                return httpx.get(f"{self.url}/health", timeout=5).status_code == 200
            except httpx.TransportError:
                return False

        wait_until(is_ready)

    def end(self, number: int = signal.SIGTERM, seconds: float = 60) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(seconds)
        finally:
            self.process.kill()
            self._reading.join(10)
            self.process.stderr.close()

    def _read(self) -> None:
        for line in self.process.stderr or ():
            self.lines.append(line.rstrip("\n"))


@contextmanager
def served_process(*arguments: Any, **environment: str) -> Iterator[ServedProcess]:
    """A service that is ready."""
    service = ServedProcess(*map(str, arguments), **environment)
    try:
        service.wait_until_ready()
        yield service
    finally:
        service.end()
