"""The process says whether it lives and whether it is ready."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

import telerank as tr
from telerank.service.app import create_app
from telerank.service.settings import ServiceSettings


def wait_until_ready(client: TestClient, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while client.get("/health").status_code != 200 and time.monotonic() < end:
        time.sleep(0.01)
    assert client.get("/health").json() == {"status": "ready"}


def test_it_is_ready_when_its_index_is_open(tmp_path):
    tr.index({"1": "a text"}, tmp_path / "idx", workers=1)
    with TestClient(create_app(ServiceSettings(indexes={"idx": tmp_path / "idx"}))) as client:
        assert client.get("/health/live").json() == {"status": "live"}
        wait_until_ready(client)


def test_an_index_that_cannot_be_opened_is_never_ready(tmp_path):
    with TestClient(create_app(ServiceSettings(indexes={"idx": tmp_path / "none"}))) as client:
        time.sleep(0.2)
        answer = client.get("/health/ready")
        assert answer.status_code == 503
        assert answer.headers["Retry-After"] == "1"
        assert answer.json().keys() == {"detail", "message", "error", "error_type"}


def test_compiled_code_is_loaded_before_the_first_request(tmp_path):
    import sys

    tr.index({"1": "a text"}, tmp_path / "idx", workers=1)
    with TestClient(create_app(ServiceSettings(indexes={"idx": tmp_path / "idx"}))) as client:
        wait_until_ready(client)
        assert "numba" in sys.modules


def test_a_search_loads_nothing_of_the_service(tmp_path):
    import subprocess
    import sys

    tr.index({"1": "a text"}, tmp_path / "idx", workers=1)
    code = (
        "import sys; from telerank.cli.main import app\n"
        f"app(['search', {str(tmp_path / 'idx')!r}, '--query', 'text'], standalone_mode=False)\n"
        "print(sorted({'fastapi', 'uvicorn', 'starlette', 'prometheus_client'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"
