"""The service as processes: started by the command, ended by a signal, replaced when they die."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

pytest.importorskip("httpx")
pytest.importorskip("fastapi")

import httpx

import telerank as tr
from served_process import ROOT, ServedProcess, served_process
from small_service import make_index

pytestmark = pytest.mark.process

SLOW = """
import sys, time
from telerank.sparse.retriever import SparseRetriever
rank = SparseRetriever.rank_batch
def slowly(self, queries):
    time.sleep(1.5 if any("slow" in query.text for query in queries) else 0)
    return rank(self, queries)
SparseRetriever.rank_batch = slowly
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_index(tmp_path_factory.mktemp("processes") / "idx")


@pytest.fixture(scope="module")
def slow_searches(tmp_path_factory):
    """An environment in which a query with the word slow takes a second and a half."""
    place = tmp_path_factory.mktemp("slow")
    (place / "sitecustomize.py").write_text(SLOW)
    return {"PYTHONPATH": f"{place}{os.pathsep}{ROOT / 'src'}"}


def search(url, query="q1", **parameters):
    return httpx.get(f"{url}/v1/search", params={"query": query, **parameters}, timeout=30)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_request_that_was_begun_is_answered_before_the_end(folder, slow_searches, workers):
    replies: list = []
    with served_process(folder, "--workers", workers, **slow_searches) as service:
        asking = threading.Thread(target=lambda: replies.append(search(service.url, "slow q1")))
        asking.start()
        time.sleep(0.7)
        begin = time.monotonic()
        assert service.end(signal.SIGTERM) == 0, service.lines
        assert time.monotonic() - begin < 30
        asking.join(30)
        with pytest.raises(httpx.ConnectError):
            search(service.url)
    assert replies
    assert replies[0].status_code == 200
    assert replies[0].json()["hits"]


@pytest.fixture(scope="module")
def two(folder):
    with served_process(folder, "--workers", 2) as service:
        yield service


def children(pid: int) -> set[int]:
    psutil = pytest.importorskip("psutil")
    own = psutil.Process(pid).children()
    return {child.pid for child in own if "resource_tracker" not in " ".join(child.cmdline())}


def test_a_process_that_dies_is_replaced_and_no_request_meets_one_that_is_not_ready(two):
    before = children(two.process.pid)
    assert len(before) == 2
    victim = min(before)
    os.kill(victim, signal.SIGKILL)
    time.sleep(0.1)  # connections that the kernel had given to it are lost with it
    end = time.monotonic() + 60
    statuses = set()
    while time.monotonic() < end:
        statuses.add(search(two.url).status_code)
        now = children(two.process.pid)
        if len(now) == 2 and victim not in now:
            break
    for _ in range(100):
        statuses.add(search(two.url).status_code)
    assert statuses == {200}
    assert len(children(two.process.pid)) == 2
    assert any(line["message"] == "process died" and line["process"] == victim for line in two.log)


def test_the_numbers_of_all_processes_are_added(two):
    def count() -> float:
        lines = httpx.get(f"{two.url}/metrics").text.splitlines()
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in lines
            if line.startswith("telerank_requests_total") and "/v1/search" in line
        )

    before = count()
    for _ in range(40):  # a new connection each: both processes answer
        assert search(two.url).status_code == 200
    assert count() - before == 40
    assert 'telerank_index_generation{index="idx"} 1.0' in httpx.get(f"{two.url}/metrics").text


def test_all_processes_take_up_a_changed_index(tmp_path):
    folder = make_index(tmp_path / "idx")
    with served_process(folder, "--workers", 2) as service:
        tr.index({"new": "q1 news"}, folder, overwrite=True, workers=1)
        end = time.monotonic() + 60
        row = 0
        while row < 20 and time.monotonic() < end:
            reply = search(service.url)
            assert reply.status_code == 200
            row = row + 1 if [hit["docno"] for hit in reply.json()["hits"]] == ["new"] else 0
            time.sleep(0.02)
        assert row == 20


@pytest.mark.parametrize("workers", [1, 2])
def test_what_cannot_be_opened_ends_the_start_with_one_line(tmp_path, workers):
    service = ServedProcess(str(tmp_path / "none"), "--workers", str(workers))
    assert service.process.wait(120) == 2
    service.end()
    [line] = service.lines
    assert line.startswith("telerank: ")
    assert "no index here" in line


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("error", "last"),
    [("PermissionError(13, 'Permission denied', 'idx')", "telerank: "), ("RuntimeError('?')", "")],
)
def test_whatever_cannot_be_opened_ends_the_start(folder, tmp_path, error, last, workers):
    (tmp_path / "sitecustomize.py").write_text(
        "from telerank.service.indexes import ServedIndex\n"
        f"def fail(*_):\n    raise {error}\n"
        "ServedIndex.open = fail\n"
    )
    service = ServedProcess(
        str(folder), "--workers", str(workers), PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT / 'src'}"
    )
    status = service.process.wait(120)
    service.end()
    assert status in (1, 2)
    assert service.lines[-1].startswith(last)
    assert any(line["message"].startswith("cannot serve: ") for line in service.log)
    assert ("Traceback" in "".join(service.lines)) == (not last)


def test_judgments_that_cannot_be_saved_end_the_start_with_one_line(folder, tmp_path):
    service = ServedProcess(str(folder), "--judgments", str(tmp_path / "none" / "judged.jsonl"))
    assert service.process.wait(120) == 2
    service.end()
    assert service.lines[-1].startswith("telerank: judgments: ")
    assert service.lines[-1].endswith("cannot be written: there is no such folder")


def test_a_port_that_is_taken_is_said_in_one_line(folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command = [
            sys.executable,
            "-m",
            "telerank",
            "serve",
            str(folder),
            "--port",
            str(taken.getsockname()[1]),
        ]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1].endswith("Address already in use")


def test_it_is_not_ready_before_it_is_warm(folder, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import time\n"
        "from telerank.service.indexes import ServedIndex\n"
        "warm = ServedIndex.warm\n"
        "ServedIndex.warm = lambda self: (time.sleep(3), warm(self))\n"
    )
    path = f"{tmp_path}{os.pathsep}{ROOT / 'src'}"
    service = ServedProcess(str(folder), PYTHONPATH=path)
    try:
        seen = []
        end = time.monotonic() + 120
        while 200 not in seen and time.monotonic() < end:
            try:
                reply = httpx.get(f"{service.url}/health/ready", timeout=5)
            except httpx.TransportError:
                continue
            if reply.status_code == 503:
                assert httpx.get(f"{service.url}/health/live").status_code == 200
                refused = search(service.url)
                assert refused.status_code in (503, 200)
                if refused.status_code == 503:
                    assert refused.headers["retry-after"] == "1"
            seen.append(reply.status_code)
            time.sleep(0.1)
        assert seen[0] == 503
        assert seen[-1] == 200
        assert search(service.url).status_code == 200
    finally:
        service.end()


def read_until_closed(connection: socket.socket) -> bytes:
    received = b""
    while chunk := connection.recv(65_536):
        received += chunk
    return received


@pytest.fixture(scope="module")
def hasty(folder, tmp_path_factory, slow_searches):
    """A service that waits for a second for headers and bodies."""
    file = tmp_path_factory.mktemp("hasty") / "service.yaml"
    file.write_text(
        f"indexes: {{idx: {folder}}}\nlimits: {{header_seconds: 1, body_seconds: 1, seconds: 3, body_bytes: 100000}}\n"
    )
    with served_process("--config", file, **slow_searches) as service:
        yield service


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET /v1/se",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
        b"GET /health HTTP/1.1\r\n\r\nGET",
    ],
)
def test_headers_that_do_not_arrive_close_the_connection(hasty, begun):
    with socket.create_connection(("127.0.0.1", hasty.port), timeout=20) as connection:
        connection.sendall(begun)
        begin = time.monotonic()
        try:
            received = read_until_closed(connection)
        except ConnectionResetError:
            received = b""
        assert time.monotonic() - begin < 15
        assert (
            not received or received.startswith(b"HTTP/1.1 4") or b"live" in received or b"ready" in received
        )


def trickle(connection: socket.socket) -> None:
    for _ in range(200):
        connection.sendall(b"X")
        time.sleep(0.1)


def test_headers_that_trickle_do_not_keep_a_connection(hasty):
    with socket.create_connection(("127.0.0.1", hasty.port), timeout=20) as connection:
        begin = time.monotonic()
        with pytest.raises((ConnectionError, TimeoutError)):
            trickle(connection)
        assert time.monotonic() - begin < 15


def test_a_body_that_does_not_arrive_is_a_bad_request(hasty):
    with socket.create_connection(("127.0.0.1", hasty.port), timeout=20) as connection:
        connection.sendall(
            b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
        )
        reply = read_until_closed(connection)
    assert reply.startswith(b"HTTP/1.1 400")
    assert b"the body did not arrive within 1 seconds" in reply


def test_a_client_that_waits_to_send_is_answered_at_once(hasty):
    with socket.create_connection(("127.0.0.1", hasty.port), timeout=20) as connection:
        connection.sendall(
            b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 200000\r\n\r\n"
        )
        assert read_until_closed(connection).startswith(b"HTTP/1.1 413")


def test_a_client_that_sends_too_much_reads_why(hasty):
    for _ in range(5):
        reply = httpx.post(
            f"{hasty.url}/v1/search", content=b" " * 400_000, headers={"content-type": "application/json"}
        )
        assert reply.status_code == 413
    with httpx.Client(base_url=hasty.url) as client:  # on one connection, too
        for _ in range(3):
            assert client.post("/v1/search", content=b" " * 400_000).status_code == 413
            assert client.get("/health").status_code == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\xff\xfe\r\n\r\n",
        b"GET / HTTX/1.1\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 50_000 + b"\r\n",
    ],
)
def test_what_is_no_http_is_a_bad_request(hasty, sent):
    with socket.create_connection(("127.0.0.1", hasty.port), timeout=20) as connection:
        try:
            connection.sendall(sent)
            reply = read_until_closed(connection)
        except ConnectionError:  # it was closed while we still sent
            reply = b"HTTP/1.1 400"
    assert reply.startswith((b"HTTP/1.1 400", b"HTTP/1.1 413")), reply[:200]
    assert httpx.get(f"{hasty.url}/health").status_code == 200


def test_a_client_that_leaves_leaves_nothing_behind(hasty):
    for _ in range(10):
        with socket.create_connection(("127.0.0.1", hasty.port), timeout=20) as connection:
            connection.sendall(b"GET /v1/search?query=slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
            time.sleep(0.05)
    end = time.monotonic() + 30
    while "telerank_requests_waiting 0.0" not in httpx.get(f"{hasty.url}/metrics").text:
        assert time.monotonic() < end
        time.sleep(0.1)
    # of two threads each runs one search to its end; the others were never begun
    assert search(hasty.url).status_code == 200
    left = [
        line
        for line in hasty.log
        if line.get("path") == "/v1/search" and (line["method"], line["status"]) == ("GET", 0)
    ]
    assert len(left) == 10
    assert "Traceback" not in "".join(hasty.lines)


def test_a_search_that_takes_too_long_is_given_up(folder, tmp_path, slow_searches):
    file = tmp_path / "service.yaml"
    file.write_text(f"indexes: {{idx: {folder}}}\nlimits: {{seconds: 0.5}}\n")
    with served_process("--config", file, **slow_searches) as service:
        reply = search(service.url, "slow")
        assert reply.status_code == 503
        assert reply.json()["message"] == "not done within 0.5 seconds"
        assert reply.headers["retry-after"] == "1"
        assert search(service.url).status_code in (200, 503)


def test_too_many_waiting_requests_are_refused(folder, tmp_path, slow_searches):
    file = tmp_path / "service.yaml"
    file.write_text(f"indexes: {{idx: {folder}}}\nlimits: {{queue: 2}}\n")
    with served_process("--config", file, **slow_searches) as service:
        replies: list = []
        asking = [
            threading.Thread(target=lambda: replies.append(search(service.url, "slow q1"))) for _ in range(8)
        ]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join(60)
    statuses = [reply.status_code for reply in replies]
    assert set(statuses) == {200, 429}
    refused = next(reply for reply in replies if reply.status_code == 429)
    assert refused.headers["retry-after"] == "1"
    assert refused.json()["error_type"] == "overloaded"


def test_a_service_that_is_killed_leaves_no_process(folder):
    psutil = pytest.importorskip("psutil")
    with served_process(folder, "--workers", 2) as service:
        left = [psutil.Process(pid) for pid in children(service.process.pid)]
        service.process.kill()
        _, alive = psutil.wait_procs(left, timeout=60)
        assert not alive


def test_a_thread_that_searches_yields_to_the_event_loop(folder, tmp_path):
    code = SLOW.replace(
        "time.sleep(1.5 if", "print('yields', sys.getswitchinterval(), file=sys.stderr) or (0 if"
    )
    (tmp_path / "sitecustomize.py").write_text(code)
    path = f"{tmp_path}{os.pathsep}{ROOT / 'src'}"
    with served_process(folder, PYTHONPATH=path) as service:
        assert search(service.url).status_code == 200
    assert any(line.startswith("yields 0.0005") for line in service.lines), service.lines
