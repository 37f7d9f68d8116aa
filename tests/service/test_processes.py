from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress

import httpx
import psutil
import pytest

import telerank as tr
from served_process import ROOT, ServedProcess, served_process
from small_service import make_index, settings_of, wait_until
from telerank.errors import CollectionError
from telerank.service.workers import listen


def search(url, query="q1"):
    return httpx.get(f"{url}/v1/search", params={"query": query}, timeout=30)


def children(process) -> set[int]:
    """The processes that serve, without one that is dead and not yet buried."""
    serving = set()
    for child in psutil.Process(process.pid).children():
        with suppress(psutil.NoSuchProcess):  # a zombie is one, too
            if "resource_tracker" not in " ".join(child.cmdline()):
                serving.add(child.pid)
    return serving


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A service of two processes, and the folder of its index. When it is killed, no process is left."""
    folder = make_index(tmp_path_factory.mktemp("processes") / "idx")
    with served_process(folder, "--workers", 2) as service:
        yield service, folder
        left = [psutil.Process(pid) for pid in children(service.process)]
        assert len(left) == 2
        service.process.kill()
        _, alive = psutil.wait_procs(left, timeout=60)
        assert not alive


def is_dead(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # its parent has asked for its status
        return True


@pytest.mark.process
def test_a_process_that_dies_is_replaced_and_no_request_meets_one_that_is_not_ready(two):
    service, _ = two
    before = children(service.process)
    assert len(before) == 2
    victim = psutil.Process(min(before))
    victim.kill()
    # connections that the kernel had given to it are lost with it
    wait_until(lambda: is_dead(victim))
    statuses = set()

    def is_replaced() -> bool:
        statuses.add(search(service.url).status_code)
        now = children(service.process)
        return len(now) == 2 and victim.pid not in now

    wait_until(is_replaced)
    statuses |= {search(service.url).status_code for _ in range(100)}
    assert statuses == {200}
    assert len(children(service.process)) == 2
    assert any(line["message"] == "process died" and line["process"] == victim.pid for line in service.log)


@pytest.mark.process
def test_the_numbers_of_all_processes_are_added_and_all_take_up_a_changed_index(two):
    service, folder = two

    def count() -> float:
        lines = httpx.get(f"{service.url}/metrics").text.splitlines()
        name = "telerank_requests_total"
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name) and "search" in line)

    before = count()
    for _ in range(40):  # a new connection each: both processes answer
        assert search(service.url).status_code == 200
    assert count() - before == 40
    tr.index({"new": "q1 news"}, folder, overwrite=True, workers=1)

    def is_taken_up() -> bool:
        replies = [search(service.url) for _ in range(20)]
        assert {reply.status_code for reply in replies} == {200}
        return all([hit["docno"] for hit in reply.json()["hits"]] == ["new"] for reply in replies)

    wait_until(is_taken_up)
    line = 'telerank_index_generation{index="idx"} 2.0'
    assert line in httpx.get(f"{service.url}/metrics").text.splitlines()


@pytest.mark.process
@pytest.mark.parametrize("workers", [1, 2])
def test_a_request_that_was_begun_is_answered_before_the_end(folder, workers):
    head = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with served_process(folder, "--workers", workers) as service:
        with socket.create_connection(("127.0.0.1", service.port), timeout=60) as connection:
            connection.sendall(head + b"Expect: 100-continue\r\nContent-Length: 15\r\n\r\n")
            assert connection.recv(65_536).startswith(b"HTTP/1.1 100 ")
            service.process.send_signal(signal.SIGTERM)

            def is_closed() -> bool:
                try:
                    return search(service.url).status_code == 0
                except httpx.TransportError:
                    return True

            wait_until(is_closed)
            connection.sendall(b'{"query": "q1"}')
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")
        assert service.end() == 0, service.lines


@pytest.mark.process
@pytest.mark.parametrize("workers", [1, 2])
def test_what_cannot_be_opened_ends_the_start_with_one_line(tmp_path, workers):
    service = ServedProcess(str(tmp_path / "none"), "--workers", str(workers))
    assert service.process.wait(120) == 2
    service.end()
    [line] = service.lines
    assert line.startswith("telerank: ")
    assert "no index here" in line


@pytest.mark.process
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("error", "last"),
    [("PermissionError(13, 'Permission denied', 'idx')", "telerank: "), ("RuntimeError('?')", "")],
)
def test_whatever_cannot_be_opened_ends_the_start(folder, tmp_path, error, last, workers):
    (tmp_path / "sitecustomize.py").write_text(
        "from telerank.service.indexes import ServedIndex\n"
        f"def fail(*_):\n    raise {error}\n"
        "ServedIndex.__init__ = fail\n"
    )
    path = f"{tmp_path}{os.pathsep}{ROOT / 'src'}"
    service = ServedProcess(str(folder), "--workers", str(workers), PYTHONPATH=path)
    status = service.process.wait(120)
    service.end()
    assert status in (1, 2)
    assert service.lines[-1].startswith(last)
    assert any(line["message"].startswith("cannot serve: ") for line in service.log)
    assert ("Traceback" in "".join(service.lines)) == (not last)


def test_a_port_that_is_taken_is_said_in_one_line(folder):
    with listen(settings_of(folder, port=0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            CollectionError, match=rf"cannot listen on 127.0.0.1:{port}: Address already in use"
        ):
            listen(settings_of(folder, port=port))
