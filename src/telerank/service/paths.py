"""Paths of requests below the prefix of the service, and those that differ from all others."""

from __future__ import annotations

from starlette.types import Scope

HEALTH = frozenset(("/health", "/health/live", "/health/ready"))
"""Always answered: without a key, for any host, whatever else is open."""
OPENAI = frozenset(("/v1/embeddings", "/embeddings", "/v1/models", "/models"))
"""Their clients read the message of an error in an object."""


def add_prefix(scope: Scope, prefix: str) -> None:
    """Let the path of a request begin with ``prefix``, as ASGI has it, also if a proxy has stripped that.

    No path of the service may itself begin with ``prefix`` and a slash: stripped, it would not be completed.
    """
    scope["root_path"] = prefix
    if not scope["path"].startswith(f"{prefix}/"):
        scope["path"] = f"{prefix}{scope['path']}"


def path_of(scope: Scope) -> str:
    """The path of a request below the prefix of the service."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))
