from __future__ import annotations

import gzip
import json
import socket

import pytest

from small_service import serving, settings_of
from telerank.errors import CollectionError
from telerank.service.app import create_app
from telerank.service.gate import measure_depth
from telerank.service.settings import make_settings

KEYS = ("first-key-0001", "second-key-0002")
LIMITS = {"body_bytes": 20_000, "json_depth": 8, "headers": 20, "header_bytes": 2_000, "path_bytes": 500}


@pytest.fixture(scope="module")
def client(folder):
    with serving(settings_of(folder, limits=LIMITS)) as client:
        yield client


@pytest.fixture(scope="module")
def guarded(folder):
    with serving(settings_of(folder, keys=KEYS, prefix="/search", cors=("https://example.org",))) as client:
        yield client


def post(client, content, kind="application/json"):
    return client.post("/v1/search", content=content, headers={"content-type": kind})


def body_of(size: int) -> bytes:
    text = json.dumps({"query": "q1", "index": "idx"})
    return f"{text}{' ' * (size - len(text))}".encode()


def test_a_body_has_a_limit_with_and_without_a_length(client):
    for size, status in ((19_999, 200), (20_000, 200), (20_001, 413), (500_000, 413)):
        reply = post(client, body_of(size))
        assert reply.status_code == status
        assert status == 200 or reply.json()["message"] == "the body has more than 20,000 bytes"
    assert post(client, iter([body_of(20_000)])).status_code == 200
    assert post(client, iter([body_of(15_000)] * 2)).status_code == 413


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        (b"[" * 9 + b"]" * 9, 400, "the body has more than 8 levels of brackets"),
        (b"[" * 19_999, 400, "the body has more than 8 levels of brackets"),
        (b'{"query": "q\xff"}', 400, "the body is not UTF-8, from byte 12 on"),
        ('{"query": "q1"}'.encode("utf-16-le"), 400, "the body is no JSON"),
        (b'{"query": ', 400, "the body is no JSON"),
        (b'{"query": "q1", "k": ' + b"9" * 5000 + b"}", 400, "parsing the body"),
        (b"", 422, "Field required"),
        (b"[]", 422, "Input should be"),
        (b"null", 422, "Input should be"),
        (b'{"query": null}', 422, "query: Field required, or like"),
        (b'{"query": "q1", "query": "q2"}', 422, "query: an object has this key twice"),
        (b'{"query": "q1", "a": {"b": [{"c": 1, "c": 1}]}}', 422, "c: an object has this key twice"),
        (b'{"query": "q1", "k": true}', 422, "k: Input should be a valid integer"),
        (b'{"query": "q1", "k": "1"}', 422, "k: Input should be a valid integer"),
        (b'{"query": "q1", "k": 1.0}', 422, "k: Input should be a valid integer"),
        (b'{"query": "q1", "text": 1}', 422, "text: Input should be a valid boolean"),
    ],
)
def test_a_body_is_json_with_the_types_of_its_values_and_each_key_once(client, content, status, message):
    reply = post(client, content)
    assert reply.status_code == status, reply.text
    assert message in reply.json()["message"]


def test_brackets_in_strings_do_not_count():
    assert measure_depth(rb'{"a": "[[[[\"[[", "b": [[1], "\\", [[]]]}') == 4
    assert measure_depth(b"") == 0
    assert measure_depth(b"[" * 7) == 7
    assert measure_depth(b'"' + rb"\"" * 1_000_000 + b"\\") == 0  # in linear time


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/search?query=q1", 200),
        ("/v1/search?query=%ff", 400),
        ("/v1/indexes/%ff", 400),
        ("/v1/indexes/%00", 400),
        ("/v1/indexes/a%0d%0ab", 400),
        ("/v1/indexes/..%2f..%2fetc%2fpasswd", 404),
        ("/v1/indexes/%2e%2e", 404),
        ("http://testserver//v1/search?query=q1", 404),
        ("/v1/search/?query=q1", 404),
        ("/v1/documents?docno=../../etc/passwd", 404),
        ("/v1/search?query=" + "q" * 500, 413),
        ("/v1/search?query=q1&query=q2", 200),
        ("/v1/search?query=q1&k=1&text=false", 200),
        ("/v1/search?query=q1&unknown=1", 422),
        ("/v1/search?query=q1&k=1e3", 422),
        ("/v1/search", 422),
    ],
)
def test_a_path_leads_to_a_route_or_nowhere(client, path, status):
    reply = client.get(path)
    assert reply.status_code == status, reply.text
    assert "root:" not in reply.text


def test_a_flood_of_headers_is_refused(client):
    assert client.get("/health", headers={f"x-{n}": "1" for n in range(30)}).status_code == 413
    assert client.get("/health", headers={"x-long": "1" * 3000}).status_code == 413
    assert client.put("/v1/search").status_code == 405


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer first-key-0001"}, 200),
        ({"Authorization": "bearer second-key-0002"}, 200),
        ({"Authorization": "second-key-0002"}, 200),
        ({"X-API-Key": "first-key-0001"}, 200),
        ({"Authorization": "Basic YW5uOnNlY29uZC1rZXktMDAwMg=="}, 200),
        ({"Authorization": "Basic !!!"}, 401),
        ({"Authorization": "Bearer first-key-000"}, 401),
        ({"Authorization": "Bearer first-key-00011"}, 401),
        ({"Authorization": "Bearer "}, 401),
        ({"X-API-Key": ""}, 401),
        ({"X-API-Key": "first-key-0001, second-key-0002"}, 401),
        ({"X-API-Key": "first-key-0001", "Host": "evil.example"}, 421),
    ],
)
def test_with_keys_a_request_needs_one(guarded, headers, status):
    for path in ("/v1/search?query=q1", "/metrics", "/openapi.json"):
        reply = guarded.get(path, headers=headers)
        assert reply.status_code == status, reply.text
    assert guarded.get("/health").status_code == 200
    if status == 401:
        assert guarded.get("/v1/nothing", headers=headers).status_code == 401
        assert reply.headers["WWW-Authenticate"] == "Bearer"
        assert "key-000" not in reply.text


def test_a_prefix_may_be_stripped_by_a_proxy_or_not(guarded):
    headers = {"Authorization": KEYS[0]}
    for path in ("/v1/indexes", "/search/v1/indexes"):
        assert guarded.get(path, headers=headers).status_code == 200
    assert guarded.get("/search/health").status_code == 200
    assert guarded.get("/searchx/health").status_code == 401
    assert guarded.get("/openapi.json", headers=headers).json()["servers"] == [{"url": "/search"}]
    for path in ("/search?query=q1", "/search/search?query=q1"):  # it may be the path of a page, too
        page = guarded.get(path, headers={**headers, "Accept": "text/html"})
        assert page.status_code == 200
        assert 'action="/search/search"' in page.text
    browser = guarded.get("/", headers={"Accept": "text/html"})  # asks its user for the key
    assert browser.headers["WWW-Authenticate"].startswith("Basic ")


def test_below_a_prefix_are_no_paths_of_the_service():
    for prefix in ("/v1", "/v1/indexes", "/health", "/static"):
        with pytest.raises(CollectionError, match=f"prefix: expected another than {prefix}: {prefix}/"):
            create_app(make_settings({"indexes": {"a": "/a"}, "prefix": prefix}))


def test_a_request_for_another_host_is_refused(folder):
    hosts = ("search.example.org", "*.example.com")
    with serving(settings_of(folder, allowed_hosts=hosts, host="bound.example.org")) as client:
        for host in (
            *("localhost:8080", "LOCALHOST.", "127.0.0.1:8080", "192.0.2.7", "[::1]:8080"),
            *(socket.gethostname(), "search.example.org", "a.b.example.com:443", "bound.example.org"),
        ):
            assert client.get("/v1/indexes", headers={"Host": host}).status_code == 200, host
        for host in (
            *("evil.example:8080", "example.com", "search.example.org.evil.example", ""),
            *("127.0.0.1.evil.example", "evil.example@localhost", "localhost, evil.example"),
            *("[evil.example]", "other.example.org"),
        ):
            reply = client.get("/v1/indexes", headers={"Host": host})
            assert reply.status_code == 421, host
            assert reply.json()["message"].endswith(" is not served: see allowed_hosts")
    with serving(settings_of(folder, allowed_hosts=["*"])) as client:
        assert client.get("/v1/indexes", headers={"Host": "any.example"}).status_code == 200


@pytest.mark.parametrize("encoding", ["gzip", "br", "GZIP, identity"])
def test_a_compressed_body_is_refused(client, encoding):
    headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
    reply = client.post("/v1/search", content=gzip.compress(body_of(100)), headers=headers)
    assert reply.status_code == 415
    assert reply.json()["message"] == f"Content-Encoding: a body is read uncompressed, got '{encoding}'"


def test_a_method_that_is_not_taken_gets_those_that_are(client):
    for method in ("OPTIONS", "PUT"):
        reply = client.request(method, "/v1/search")
        assert (reply.status_code, reply.headers["allow"]) == (405, "GET, POST")
    assert client.post("/v1/indexes").headers["allow"] == "GET"


def test_pages_of_other_origins_are_refused_unless_they_are_named(client, guarded):
    preflight = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}
    assert "access-control-allow-origin" not in client.options("/v1/search", headers=preflight).headers
    allowed = guarded.options(
        "/v1/search", headers={**preflight, "Access-Control-Request-Headers": "authorization"}
    )
    assert allowed.headers["access-control-allow-origin"] == "https://example.org"
    other = guarded.options("/v1/search", headers={**preflight, "Origin": "https://example.com"})
    assert "access-control-allow-origin" not in other.headers
    assert guarded.get("/v1/search", headers={"Origin": "https://example.org"}).headers[
        "access-control-allow-origin"
    ]
