"""``telerank serve`` as a process of its own, and what it uses of memory and of the processor."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import psutil
import yaml

from serve_load.client import HOST

WAIT = 300  # seconds until it is ready, or has ended
LIMITS: Mapping[str, Any] = {"body_bytes": 200_000, "body_seconds": 2.0, "header_seconds": 2.0}
"""Below the defaults, so that slow clients meet them within seconds."""


@dataclass(frozen=True)
class Server:
    """A service that is ready."""

    port: int
    process: psutil.Process

    @property
    def memory(self) -> float:
        """Resident MB."""
        return float(self.process.memory_info().rss) / 1e6

    @property
    def processor_time(self) -> float:
        """Seconds so far."""
        used = self.process.cpu_times()
        return float(used.user + used.system)


@contextmanager
def running(folder: Path, settings: Mapping[str, Any]) -> Iterator[Server]:
    """A service with these settings, ready; it is ended at the end, and must end well."""
    port = free_port()
    file = folder / "service.yaml"
    file.write_text(yaml.safe_dump({**settings, "port": port, "limits": dict(LIMITS)}), encoding="utf-8")
    command = [sys.executable, "-m", "telerank", "serve", "--config", str(file)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait(process, port, log)
            yield Server(port, psutil.Process(process.pid))
        finally:
            process.terminate()
            try:
                process.wait(WAIT)
            finally:
                process.kill()
        if process.returncode:
            sys.exit(f"the service ended with status {process.returncode}:\n{_last(log)}")


def _wait(process: subprocess.Popen[bytes], port: int, log: Any) -> None:
    end = time.monotonic() + WAIT
    while time.monotonic() < end and process.poll() is None:
        try:
            with urlopen(f"http://{HOST}:{port}/health/ready", timeout=5) as reply:
                if reply.status == 200:
                    return
        except (URLError, OSError):
            time.sleep(0.1)
    sys.exit(f"the service did not start:\n{_last(log)}")


def _last(log: Any) -> str:
    log.seek(0)
    return str(log.read().decode(errors="replace")[-4000:])


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return int(listener.getsockname()[1])
