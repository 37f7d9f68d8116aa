"""The page that describes the API: each operation with its fields and an example, nothing from elsewhere."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from telerank.service.page.render import Inquiry, render

Record = Mapping[str, Any]


def _describe(method: str, path: str, operation: Record, schemas: Record, address: str) -> Record:
    """One operation; ``command`` asks for an example with curl, ``reply`` is what that gives."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    body = None if content is None else _example(content, schemas)
    parameters = operation.get("parameters", [])
    fields = [
        _field(each["name"], each["schema"], each.get("description", ""), schemas, required=each["required"])
        for each in parameters
    ]
    if content is not None:
        fields += _body_fields(content["schema"], schemas)
    replies = operation["responses"]
    good = next(each for status, each in replies.items() if status.startswith("2"))
    reply = next((_example(each, schemas) for each in good.get("content", {}).values()), None)
    return {
        "method": method.upper(),
        "path": path,
        "anchor": f"{method.upper()}{path}".translate(str.maketrans("/{}", "---")),
        "summary": operation.get("summary", ""),
        "description": operation.get("description", ""),
        "fields": fields,
        "command": _command(method, f"{address}{path}", parameters, body, schemas),
        "reply": reply if isinstance(reply, str) else "" if reply is None else _json(reply),
        "statuses": [(status, each["description"]) for status, each in replies.items()],
    }


def _command(method: str, url: str, parameters: list[Record], body: Any, schemas: Record) -> str:
    query = {}
    for parameter in parameters:
        example = _example(parameter, schemas)
        if parameter["in"] == "path":
            url = url.replace(f"{{{parameter['name']}}}", str(example or "NAME"))
        elif parameter["required"]:
            query[parameter["name"]] = example
    address = shlex.quote(f"{url}?{urlencode(query, doseq=True)}" if query else url)
    if body is None:
        return f"curl {address}" if method == "get" else f"curl -X {method.upper()} {address}"
    sent = shlex.quote(json.dumps(body, ensure_ascii=False))
    return f"curl {address} -H 'Content-Type: application/json' -d {sent}"


def _body_fields(schema: Record, schemas: Record) -> Iterator[Record]:
    """The fields of a body; those of each form that it may have."""
    for record in _forms(schema, schemas):
        required = record.get("required", [])
        for name, each in record.get("properties", {}).items():
            yield _field(name, each, each.get("description", ""), schemas, required=name in required)


def _field(name: str, schema: Record, description: str, schemas: Record, *, required: bool) -> Record:
    """A parameter, or a field of a body: its type and default as text."""
    default = "required" if required else _json(schema.get("default"))
    description = description or schema.get("description", "")
    return {"name": name, "kind": _kind(schema, schemas), "default": default, "description": description}


def _kind(schema: Record, schemas: Record) -> str:
    """The type of a value, in words."""
    if "enum" in schema or "const" in schema:
        return " or ".join(_json(value) for value in schema.get("enum", [schema.get("const")]))
    forms = schema.get("anyOf", schema.get("oneOf"))
    if forms:
        return " or ".join(
            kind for kind in dict.fromkeys(_kind(form, schemas) for form in forms) if kind != "null"
        )
    if "$ref" in schema:
        target = _resolve(schema, schemas)
        return _kind(target, schemas) if "enum" in target else "object"
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}), schemas)}"
    return str(schema.get("type", "any"))


def _example(content: Record, schemas: Record) -> Any:
    """The example of a content or a parameter, or of its schema; None if there is none."""
    named = content.get("examples")
    if isinstance(named, Mapping) and named:
        return next(iter(named.values()))["value"]
    if "example" in content:
        return content["example"]
    for form in _forms(content.get("schema", {}), schemas):
        if examples := form.get("examples"):
            return examples[0]
    return None


def _forms(schema: Record, schemas: Record) -> Iterator[Record]:
    """A schema, and those that it is a choice of."""
    own = _resolve(schema, schemas)
    yield own
    for form in own.get("anyOf", own.get("oneOf", [])):
        yield from _forms(form, schemas)


def _resolve(schema: Record, schemas: Record) -> Record:
    while "$ref" in schema:
        schema = schemas[schema["$ref"].rsplit("/", 1)[1]]
    return schema


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1 if isinstance(value, dict | list) else None)


router = APIRouter(include_in_schema=False)


@router.api_route("/docs", methods=["GET", "HEAD"])
async def reference(request: Request) -> Response:
    """Every operation of the API, with an example."""
    api, address = request.app.openapi(), str(request.base_url).rstrip("/")
    schemas = api.get("components", {}).get("schemas", {})
    operations = [
        _describe(method, path, operation, schemas, address)
        for path, methods in api["paths"].items()
        for method, operation in methods.items()
    ]
    return render(request, "api.html", {"inquiry": Inquiry(), "operations": operations})
