from __future__ import annotations

import subprocess
import sys

from fastapi.testclient import TestClient

from small_service import held, settings_of, wait_until
from telerank.service.app import create_app


def test_it_is_ready_when_its_index_is_open_and_its_compiled_code_is_loaded(client):
    assert client.get("/health/live").json() == {"status": "live"}
    for path in ("/health", "/health/ready"):
        assert client.get(path).json() == {"status": "ready"}
    assert "numba" in sys.modules


def test_an_index_that_cannot_be_opened_is_never_ready(tmp_path):
    settings = settings_of(tmp_path / "none", allowed_hosts=["testserver"])
    with TestClient(create_app(settings)) as client:
        wait_until(lambda: "failed" in client.get("/health/ready").json()["detail"])
        answer = client.get("/health/ready")
        assert answer.status_code == 503
        assert answer.headers["Retry-After"] == "1"
        assert answer.json().keys() == {"detail", "message", "error", "error_type"}
        page = client.get("/search?query=a", headers={"Accept": "text/html", "Accept-Language": "fr"})
    assert (page.status_code, page.headers["Retry-After"]) == (503, "1")
    assert "Le service n’est pas prêt" in page.text
    assert "Réessayer" in page.text
    assert str(tmp_path) not in page.text + answer.text


def test_it_lives_and_is_not_ready_before_everything_is_open(folder):
    app = create_app(settings_of(folder, allowed_hosts=["testserver"]))
    with held(app.state.served.prepare), TestClient(app) as client:
        assert client.get("/health/live").status_code == 200
        for path in ("/health/ready", "/v1/search?query=q1"):
            reply = client.get(path)
            assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")


def test_a_search_loads_nothing_of_the_service(folder):
    code = (
        "import sys; from telerank.cli.main import app\n"
        f"app(['search', {str(folder)!r}, '--query', 'q1'], standalone_mode=False)\n"
        "print(sorted({'fastapi', 'uvicorn', 'starlette', 'prometheus_client'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"
