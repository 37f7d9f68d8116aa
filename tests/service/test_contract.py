from __future__ import annotations

import re

import pytest

from telerank.service.errors import ERRORS

OF_OPENAI_AND_TEI = {"/v1/embeddings", "/v1/models", "/v1/rerank", "/v1/score", "/v2/rerank"}
"""Their descriptions are as those of other services."""


@pytest.fixture(scope="module")
def api(client):
    return client.get("/openapi.json").json()


def operations(api):
    """The name of each operation, whether it is of this service alone, and its description."""
    for path, methods in api["paths"].items():
        is_plain = path.startswith(("/v1/", "/health", "/metrics")) and path not in OF_OPENAI_AND_TEI
        for method, operation in methods.items():
            yield f"{method} {path}", is_plain, operation


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


def test_every_route_is_described_with_examples_and_its_errors(api):
    for name, is_plain, operation in operations(api):
        assert operation.get("summary"), name
        assert operation.get("description"), name
        bodies = [operation["requestBody"]] if "requestBody" in operation else []
        if is_plain:
            bodies += [each for status, each in operation["responses"].items() if status.startswith("2")]
        for body in bodies:
            for content in body.get("content", {}).values():
                assert has_example(api, content), name
        for parameter in operation.get("parameters", ()) if is_plain else ():
            if parameter["required"] and parameter["name"] != "name":
                schema = follow(api, parameter["schema"])
                assert {"example", "examples"} & (parameter.keys() | schema.keys()), (name, parameter)
        if is_plain and "/v1/" in name and "judgments" not in name:
            assert set(map(str, ERRORS)) <= operation["responses"].keys(), name
            assert has_example(api, operation["responses"]["422"]["content"]["application/json"]), name


def test_the_errors_of_judgments_and_of_openais_routes_are_their_own(api):
    errors = api["paths"]["/v1/judgments"]["post"]["responses"]
    assert {"403", "507"} <= errors.keys()
    assert "403" not in api["paths"]["/v1/search"]["post"]["responses"]
    error = api["paths"]["/v1/embeddings"]["post"]["responses"]["404"]["content"]["application/json"][
        "example"
    ]
    assert error["error"]["message"] == error["message"]


def test_the_examples_are_valid_requests(client, api):
    for name, is_plain, operation in operations(api):
        method, path = name.split()
        if method != "post" or not is_plain:
            continue
        content = operation["requestBody"]["content"]["application/json"]
        for example in follow(api, content["schema"])["examples"]:
            reply = client.post(path, json={key: value for key, value in example.items() if key != "index"})
            assert reply.status_code in (200, 404), reply.text  # no reader, no such document


def test_the_page_of_the_api_shows_every_operation_and_loads_nothing_from_elsewhere(client, api):
    page = client.get("/docs", headers={"accept": "text/html"})
    assert page.status_code == 200
    for name, _, operation in operations(api):
        method, path = name.split()
        assert f"<code>{method.upper()} {path}</code>" in page.text
        assert operation["summary"] in page.text
    assert "curl http://testserver/v1/search -H &#39;Content-Type: application/json&#39;" in page.text
    addresses = re.findall(r"(?:src|href)=\"([^\"]+)\"", page.text)
    assert addresses
    assert all(address.startswith(("/", "#")) and not address.startswith("//") for address in addresses)
