"""The description of the API: an example for everything, and nothing but the statuses that it names."""

from __future__ import annotations

import inspect

import pytest

pytest.importorskip("fastapi")

from small_service import make_index, serving, settings_of
from telerank.service.app import ROUTERS
from telerank.service.errors import ERRORS

OWN = (
    "/v1/search",
    "/v1/answer",
    "/v1/explain",
    "/v1/documents",
    "/v1/indexes",
    "/v1/indexes/{name}",
    "/health",
    "/health/live",
    "/health/ready",
    "/metrics",
)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with serving(settings_of(make_index(tmp_path_factory.mktemp("contract") / "idx"))) as client:
        yield client


@pytest.fixture(scope="module")
def api(client):
    return client.get("/openapi.json").json()


def operations(api, paths=None):
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            if paths is None or path in paths:
                yield f"{method} {path}", operation


def follow(api, schema):
    while "$ref" in schema:
        schema = api["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def has_example(api, content) -> bool:
    schema = follow(api, content.get("schema", {}))
    if {"example", "examples"} & (content.keys() | schema.keys()):
        return True
    forms = schema.get("oneOf", schema.get("anyOf", []))
    return any(has_example(api, {"schema": form}) for form in forms)


def test_every_route_is_described(api):
    assert set(OWN) <= set(api["paths"])
    for name, operation in operations(api):
        assert operation.get("summary"), name
        assert operation.get("description"), name


def test_every_body_has_an_example(api):
    for name, operation in operations(api):
        bodies = [operation["requestBody"]] if "requestBody" in operation else []
        good = next(each for status, each in operation["responses"].items() if status.startswith("2"))
        for body in [*bodies, good] if name.split()[1] in OWN else bodies:
            for content in body.get("content", {}).values():
                assert has_example(api, content), name


def test_every_parameter_without_a_default_has_an_example(api):
    for name, operation in operations(api, OWN):
        for parameter in operation.get("parameters", ()):
            if parameter["required"] and parameter["name"] != "name":
                schema = follow(api, parameter["schema"])
                assert parameter.get("example") or parameter.get("examples") or schema.get("examples"), (
                    name,
                    parameter,
                )


def test_every_error_of_a_route_is_named(api):
    for name, operation in operations(api, [path for path in OWN if path.startswith("/v1")]):
        assert set(map(str, ERRORS)) <= operation["responses"].keys(), name
        example = operation["responses"]["422"]["content"]["application/json"]
        assert has_example(api, example), name


def test_the_errors_of_judgments_and_of_openais_routes_are_their_own(api):
    errors = api["paths"]["/v1/judgments"]["post"]["responses"]
    assert {"403", "507"} <= errors.keys()
    assert "403" not in api["paths"]["/v1/search"]["post"]["responses"]
    error = api["paths"]["/v1/embeddings"]["post"]["responses"]["404"]["content"]["application/json"][
        "example"
    ]
    assert error["error"]["message"] == error["message"]


def test_the_examples_are_valid_requests(client, api):
    for name, operation in operations(api, OWN):
        method, path = name.split()
        if method != "post":
            continue
        content = operation["requestBody"]["content"]["application/json"]
        for example in follow(api, content["schema"])["examples"]:
            reply = client.post(path, json={key: value for key, value in example.items() if key != "index"})
            assert reply.status_code in (200, 404), reply.text  # no reader, no such document


def test_the_page_of_the_api_shows_every_operation_and_loads_nothing_from_elsewhere(client, api):
    import re

    page = client.get("/docs", headers={"accept": "text/html"})
    assert page.status_code == 200
    for name, operation in operations(api):
        method, path = name.split()
        assert f"<code>{method.upper()} {path}</code>" in page.text
        assert operation["summary"] in page.text
    assert "curl http://testserver/v1/search -H &#39;Content-Type: application/json&#39;" in page.text
    addresses = re.findall(r"(?:src|href)=\"([^\"]+)\"", page.text)
    assert addresses
    assert all(address.startswith(("/", "#")) and not address.startswith("//") for address in addresses)


def test_nothing_of_a_request_runs_in_threads_of_the_framework():
    """A function would: that takes longer than most of them; metrics read the files of all processes."""
    pending = [route.dependant for router in ROUTERS for route in router.routes]
    functions = []
    while pending:
        dependant = pending.pop()
        functions.append(dependant.call)
        pending += dependant.dependencies
    assert len(functions) > 20
    assert {call.__qualname__ for call in functions if not inspect.iscoroutinefunction(call)} == {"metrics"}
