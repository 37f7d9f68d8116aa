"""Over raw sockets: what is no strict HTTP is refused, and who has no key does not block who has."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import ExitStack, contextmanager

import pytest

pytest.importorskip("httpx")
pytest.importorskip("fastapi")

import httpx
from running import listening

from small_service import make_index, settings_of
from telerank.sparse.retriever import SparseRetriever

KEY = "first-key-0001"
HEAD = b"Host: localhost\r\nContent-Type: application/json\r\n"
BODY = b'{"query": "q1"}'
CHUNKED = b"f\r\n" + BODY + b"\r\n0\r\n"
BOTH = "Transfer-Encoding with Content-Length, or in HTTP/1.0"
LATE = "headers after the body"
LINES = "a header line is folded, or ends without CR"
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_index(tmp_path_factory.mktemp("connections") / "idx")


@pytest.fixture(scope="module")
def open_address(folder):
    with listening(settings_of(folder)) as address:
        yield address


@contextmanager
def connected(address: str):
    url = httpx.URL(address)
    with socket.create_connection((url.host, url.port), timeout=20) as connection:
        yield connection


def read_until_closed(connection: socket.socket) -> bytes:
    received = b""
    while chunk := connection.recv(65_536):
        received += chunk
    return received


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (HEAD + b"Content-Length: 15\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKED + b"\r\n", BOTH),
        (HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n" + CHUNKED + b"\r\n", BOTH),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKED + b"X-Late: 1\r\n\r\n", LATE),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKED + b"X-Late: 1\n\n", LATE),
        (HEAD + b"X-Folded: a\r\n b\r\nContent-Length: 15\r\n\r\n" + BODY, LINES),
        (HEAD + b"X-Folded: a\r\n\tb\r\nContent-Length: 15\r\n\r\n" + BODY, LINES),
        (HEAD + b"X-Bare: a\nContent-Length: 15\r\n\r\n" + BODY, LINES),
        (HEAD + b"Content-Length: 15\r\n\n" + BODY, LINES),
        (HEAD + b"Host: localhost\r\nContent-Length: 15\r\n\r\n" + BODY, "Found multiple Host: headers"),
    ],
)
def test_what_proxies_may_read_otherwise_is_refused_and_the_connection_closed(open_address, sent, reason):
    for before in (b"", b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"):
        with connected(open_address) as connection:
            connection.sendall(before + b"POST /v1/search HTTP/1.1\r\n" + sent)
            received = read_until_closed(connection)
        reply = received[received.rindex(b"HTTP/1.1 ") :]
        assert received.count(b"HTTP/1.1 ") == 1 + bool(before)
        assert reply.startswith(b"HTTP/1.1 400 ")
        assert json.loads(reply.partition(b"\r\n\r\n")[2])["message"] == f"HTTP: {reason}"


def test_line_feeds_in_a_body_are_no_lines_of_headers(open_address):
    body = b'\n {\n "query":\n\n "q1"\n}'
    assert httpx.post(f"{open_address}/v1/search", content=body, headers=JSON).status_code == 200
    assert httpx.post(f"{open_address}/v1/search", content=iter([body]), headers=JSON).status_code == 200


@contextmanager
def half_sent(address: str, count: int, headers: bytes = b""):
    """Connections that have sent the headers of a request, and half of its body."""
    with ExitStack() as stack:
        connections = [stack.enter_context(connected(address)) for _ in range(count)]
        for connection in connections:
            connection.sendall(
                b"POST /v1/search HTTP/1.1\r\n" + HEAD + headers + b"Content-Length: 15\r\n\r\n{"
            )
        yield connections


def test_who_has_no_key_does_not_block_who_has(folder):
    limits = {"connections": 20}
    with (
        listening(settings_of(folder, keys=[KEY], limits=limits)) as address,
        half_sent(address, 60) as others,
    ):
        for connection in others:  # refused before the rest of the body
            assert connection.recv(65_536).startswith(b"HTTP/1.1 401 ")
        assert httpx.get(f"{address}/v1/search?query=q1", headers={"X-API-Key": KEY}).status_code == 200
        assert httpx.get(f"{address}/health/live").status_code == 200


def test_health_is_answered_while_all_requests_that_may_be_are_open(folder):
    with listening(settings_of(folder, limits={"connections": 5})) as address, half_sent(address, 5):
        assert httpx.get(f"{address}/v1/search?query=q1").status_code == 429
        for path in ("/health", "/health/live", "/health/ready"):
            assert httpx.get(f"{address}{path}").status_code == 200
            assert httpx.get(f"{address}{path}", headers={"Host": "evil.example"}).status_code == 200


def test_a_request_for_health_has_no_body(open_address):
    with connected(open_address) as connection:
        connection.sendall(b"GET /health/live HTTP/1.1\r\n" + HEAD + b"Content-Length: 15\r\n\r\n{")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 400 ")


def test_who_is_refused_reads_why_though_the_body_is_long(folder):
    with listening(settings_of(folder, keys=[KEY])) as address:
        for _ in range(5):
            reply = httpx.post(f"{address}/v1/search", content=b" " * 1_500_000, headers=JSON)
            assert (reply.status_code, reply.headers["connection"]) == (401, "close")


def test_an_address_with_too_many_connections_loses_those_whose_requests_have_not_arrived(folder):
    few = {"trusted_proxies": [], "limits": {"connections_per_address": 5}}
    with listening(settings_of(folder, **few)) as address, half_sent(address, 5) as others:
        for _ in range(3):
            assert httpx.get(f"{address}/v1/search?query=q1").status_code == 200
        assert others[0].recv(1) == b""  # closed


def test_an_address_gets_no_connection_beyond_those_that_are_answered(folder, monkeypatch):
    begun, may_end, rank = threading.Event(), threading.Event(), SparseRetriever.rank_batch

    def wait_and_rank(self, queries):
        if any("slow" in query.text for query in queries):
            begun.set()
            may_end.wait(20)
        return rank(self, queries)

    monkeypatch.setattr(SparseRetriever, "rank_batch", wait_and_rank)
    few = {"trusted_proxies": [], "limits": {"connections_per_address": 1}}
    with listening(settings_of(folder, **few)) as address, connected(address) as connection:
        connection.sendall(
            b"GET /v1/search?query=slow%20q1 HTTP/1.1\r\nConnection: close\r\n" + HEAD + b"\r\n"
        )
        assert begun.wait(20)
        refused = httpx.get(f"{address}/v1/indexes")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.json()["message"] == "1 connections of 127.0.0.1 are open: try again"
        may_end.set()
        assert read_until_closed(connection).startswith(b"HTTP/1.1 200 ")
        assert httpx.get(f"{address}/v1/indexes").status_code == 200


def test_open_requests_of_an_address_are_limited_behind_a_trusted_proxy_alone_by_what_that_says(folder):
    few = {"limits": {"connections_per_address": 5}}
    client = b"X-Forwarded-For: 192.0.2.7\r\n"
    with listening(settings_of(folder, **few)) as address, half_sent(address, 5, client):
        get = f"{address}/v1/search?query=q1"
        refused = httpx.get(get, headers={"X-Forwarded-For": "192.0.2.7"})
        assert refused.status_code == 429
        assert refused.json()["message"] == "5 requests of 192.0.2.7 are open: try again"
        spoofed = httpx.get(get, headers={"X-Forwarded-For": "192.0.2.8, 192.0.2.7"})
        assert spoofed.status_code == 429
        assert httpx.get(get, headers={"X-Forwarded-For": "192.0.2.8"}).status_code == 200
        assert httpx.get(get).status_code == 200
    few["trusted_proxies"] = []
    with listening(settings_of(folder, **few)) as address, half_sent(address, 4, client):
        assert httpx.get(f"{address}/v1/search?query=q1", headers={"X-Forwarded-For": "192.0.2.7"}).is_success
