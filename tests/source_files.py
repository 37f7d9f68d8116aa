"""The source of the package, read and parsed once for all tests of it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

import telerank

SOURCE = Path(telerank.__file__).parent


class SourceFile(NamedTuple):
    name: str  # its path below the package, with slashes
    text: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]  # all of the tree

    @property
    def module(self) -> str:
        return ".".join(("telerank", *self.name.removesuffix(".py").split("/"))).removesuffix(".__init__")

    def at(self, line: int) -> str:
        return f"{self.name}:{line}"


@cache
def source_files() -> tuple[SourceFile, ...]:
    return tuple(_parsed(path) for path in sorted(SOURCE.rglob("*.py")))


def _parsed(path: Path) -> SourceFile:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    return SourceFile(path.relative_to(SOURCE).as_posix(), text, tree, tuple(ast.walk(tree)))


def imported_parts(node: ast.AST) -> set[str]:
    """The parts of telerank that a statement imports."""
    names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
    names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    return {name.split(".")[1] for name in names if name.startswith("telerank.")}


def check_offences(offences: list[str], rule: str) -> None:
    """Fail with a line for each offence against a rule, if there is any."""
    assert not offences, "\n".join([rule, *offences])
