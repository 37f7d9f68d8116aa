from __future__ import annotations

import json
import logging
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from small_service import held, listening, serving, settings_of, wait_until
from telerank.service.app import create_app

KEY = "first-key-0001"
POST = b"POST /v1/search HTTP/1.1\r\n"
HEALTH = b"GET /health/live HTTP/1.1\r\n"
HOST = b"Host: localhost\r\n"
HEAD = HOST + b"Content-Type: application/json\r\n"
LENGTH = b"Content-Length: 15\r\n"
IN_CHUNKS = b"Transfer-Encoding: chunked\r\n"
BODY = b'{"query": "q1"}'
CHUNKED = b"f\r\n" + BODY + b"\r\n0\r\n"
BOTH = "Transfer-Encoding with Content-Length, or in HTTP/1.0"
LATE = "headers after the body"
LINES = "a header line is folded, or ends without CR"
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def address(folder):
    """A service that does not wait long."""
    limits = {"header_seconds": 0.5, "body_seconds": 0.5, "body_bytes": 100_000}
    with listening(settings_of(folder, limits=limits)) as address:
        yield address


@contextmanager
def connected(address: str):
    url = httpx.URL(address)
    with socket.create_connection((url.host, url.port), timeout=60) as connection:
        yield connection


def read_until_closed(connection: socket.socket) -> bytes:
    received = b""
    while chunk := connection.recv(65_536):
        received += chunk
    return received


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (POST + HEAD + LENGTH + IN_CHUNKS + b"\r\n" + CHUNKED + b"\r\n", BOTH),
        (POST + HEAD + IN_CHUNKS + b"Content-Length: 0\r\n\r\n" + CHUNKED + b"\r\n", BOTH),
        (POST + HEAD + IN_CHUNKS + b"\r\n" + CHUNKED + b"X-Late: 1\r\n\r\n", LATE),
        (POST + HEAD + b"X-Folded: a\r\n b\r\n" + LENGTH + b"\r\n" + BODY, LINES),
        (POST + HEAD + b"X-Folded: a\r\n\tb\r\n" + LENGTH + b"\r\n" + BODY, LINES),
        (POST + HEAD + b"X-Bare: a\n" + LENGTH + b"\r\n" + BODY, LINES),
        (POST + HEAD + LENGTH + b"\n" + BODY, LINES),
        (POST + HEAD + HOST + LENGTH + b"\r\n" + BODY, "Found multiple Host: headers"),
        (b"\x00\xff\xfe\r\n\r\n", "illegal request line"),
        (HEALTH + HOST + b"Content-Length: x\r\n\r\n", "bad Content-Length"),
        (POST + HOST + IN_CHUNKS + b"\r\nzz\r\n", "illegal chunk header"),
    ],
)
def test_what_proxies_may_read_otherwise_is_refused_and_the_connection_closed(address, sent, reason):
    for before in (b"", HEALTH + HOST + b"\r\n"):
        with connected(address) as connection:
            connection.sendall(before + sent)
            received = read_until_closed(connection)
        reply = received[received.rindex(b"HTTP/1.1 ") :]
        assert received.count(b"HTTP/1.1 ") == 1 + bool(before)
        assert reply.startswith(b"HTTP/1.1 400 ")
        assert json.loads(reply.partition(b"\r\n\r\n")[2])["message"].startswith(f"HTTP: {reason}")


@pytest.mark.parametrize("sent", [b"GET /" + b"a" * 200_000, HEALTH + HOST + b"X: y\r\n" * 50_000])
def test_a_head_that_does_not_end_is_a_bad_request(address, sent):
    with connected(address) as connection:
        try:
            connection.sendall(sent)
            reply = read_until_closed(connection)
        except ConnectionError:  # it was closed while we still sent
            reply = b"HTTP/1.1 400"
    assert reply.startswith(b"HTTP/1.1 400")
    assert httpx.get(f"{address}/health").status_code == 200


def test_line_feeds_in_a_body_are_no_lines_of_headers(address):
    body = b'\n {\n "query":\n\n "q1"\n}'
    assert httpx.post(f"{address}/v1/search", content=body, headers=JSON).status_code == 200
    assert httpx.post(f"{address}/v1/search", content=iter([body]), headers=JSON).status_code == 200


def test_headers_that_do_not_arrive_close_the_connection(address):
    for begun in (b"", b"GET /v1/se", HEALTH + HOST + b"X-Slow: ", HEALTH + HOST + b"\r\nGET"):
        with connected(address) as connection:
            connection.sendall(begun)
            with_reply = begun.endswith(b"GET")
            try:
                assert (b"live" in read_until_closed(connection)) is with_reply
            except ConnectionResetError:
                assert not with_reply


def test_headers_that_trickle_do_not_keep_a_connection(address):
    def trickle() -> None:
        for _ in range(1000):
            connection.sendall(b"X")
            time.sleep(0.05)

    with connected(address) as connection, pytest.raises(ConnectionError):
        trickle()


def test_a_body_that_does_not_arrive_is_a_bad_request(address):
    with connected(address) as connection:
        connection.sendall(POST + HEAD + LENGTH + b"\r\n{")
        reply = read_until_closed(connection)
    assert reply.startswith(b"HTTP/1.1 400")
    assert b"the body did not arrive within 0.5 seconds" in reply


def test_a_client_that_sends_too_much_reads_why(address):
    with connected(address) as connection:  # without its body, for which it waits
        connection.sendall(POST + HOST + b"Expect: 100-continue\r\nContent-Length: 200000\r\n\r\n")
        assert read_until_closed(connection).startswith(b"HTTP/1.1 413")
    with httpx.Client(base_url=address) as client:
        for _ in range(3):
            reply = client.post("/v1/search", content=b" " * 400_000, headers=JSON)
            assert (reply.status_code, reply.headers["connection"]) == (413, "close")
            assert client.get("/health").status_code == 200


@contextmanager
def half_sent(address: str, count: int, headers: bytes = b""):
    """Connections that have sent the headers of a request, and half of its body."""
    with ExitStack() as stack:
        connections = [stack.enter_context(connected(address)) for _ in range(count)]
        for connection in connections:
            connection.sendall(POST + HEAD + headers + LENGTH + b"\r\n{")
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
        reply = httpx.post(f"{address}/v1/search", content=b" " * 1_500_000, headers=JSON)
        assert (reply.status_code, reply.headers["connection"]) == (401, "close")


def test_health_is_answered_while_all_requests_that_may_be_are_open(folder):
    with listening(settings_of(folder, limits={"connections": 5})) as address, half_sent(address, 5):
        assert httpx.get(f"{address}/v1/search?query=q1").status_code == 429
        for path in ("/health", "/health/live", "/health/ready"):
            assert httpx.get(f"{address}{path}").status_code == 200
            assert httpx.get(f"{address}{path}", headers={"Host": "evil.example"}).status_code == 200
        with connected(address) as connection:  # a request for health has no body
            connection.sendall(HEALTH + HEAD + LENGTH + b"\r\n{")
            assert connection.recv(65_536).startswith(b"HTTP/1.1 400 ")


def test_an_address_with_too_many_connections_loses_those_whose_requests_have_not_arrived(folder):
    few = {"trusted_proxies": [], "limits": {"connections_per_address": 5}}
    with listening(settings_of(folder, **few)) as address, half_sent(address, 5) as others:
        for _ in range(3):
            assert httpx.get(f"{address}/v1/search?query=q1").status_code == 200
        assert others[0].recv(1) == b""  # closed


def test_an_address_gets_no_connection_beyond_those_that_are_answered(folder):
    few = {"trusted_proxies": [], "limits": {"connections_per_address": 1}}
    settings = settings_of(folder, threads=1, **few)
    app = create_app(settings)
    served = app.state.served
    with listening(settings, app) as address, connected(address) as connection:
        with held(served.search):
            connection.sendall(b"GET /v1/search?query=q1 HTTP/1.1\r\nConnection: close\r\n" + HEAD + b"\r\n")
            wait_until(lambda: served.waiting == 2)
            refused = httpx.get(f"{address}/v1/indexes")
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            assert refused.json()["message"] == "1 connections of 127.0.0.1 are open: try again"
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


def test_clients_that_leave_leave_nothing_behind(folder, caplog):
    caplog.set_level(logging.INFO, "telerank")
    settings = settings_of(folder, threads=1)
    app = create_app(settings)
    served = app.state.served
    with listening(settings, app) as address:
        with held(served.search):
            with ExitStack() as stack:
                for _ in range(10):
                    connection = stack.enter_context(connected(address))
                    connection.sendall(b"GET /v1/search?query=q1 HTTP/1.1\r\n" + HEAD + b"\r\n")
                wait_until(lambda: served.waiting == 11)
            wait_until(lambda: served.waiting == 1)
        assert httpx.get(f"{address}/v1/search?query=q1").status_code == 200
    fields = [record.fields for record in caplog.records if record.message == "request"]
    assert [each["status"] for each in fields if each["path"] == "/v1/search"] == [0] * 10 + [200]


def test_a_search_that_takes_too_long_is_given_up_and_too_many_that_wait_are_refused(folder):
    limits = {"queue": 2, "seconds": 1}
    with (
        serving(settings_of(folder, threads=1, limits=limits)) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        served = client.app.state.served
        with held(served.search):
            waiting = pool.submit(client.get, "/v1/search?query=q1")
            wait_until(lambda: served.waiting == 2)
            refused, late = client.get("/v1/search?query=q1"), waiting.result()
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert refused.json()["error_type"] == "overloaded"
    assert (late.status_code, late.headers["retry-after"]) == (503, "1")
    assert late.json()["message"] == "not done within 1 seconds"
