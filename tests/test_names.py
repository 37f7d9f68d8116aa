"""Names are the field's nouns and plain verbs; references in docstrings lead somewhere; no class name twice."""

from __future__ import annotations

import ast
import re
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

import telerank
from telerank.errors import MissingExtra

SOURCE = Path(telerank.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
VAGUE = {"one", "ones", "found", "told", "asked", "made", "wanted", "place", "places"}
"""Words that name nothing; a comprehension's variable may be ``one``."""
REFERENCE = re.compile(r":(?:class|func|meth|attr|data|mod|exc):`~?([^`]+)`")


def name(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def trees():
    for path in FILES:
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def in_comprehensions(tree: ast.AST) -> set[int]:
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.comprehension)]
    return {id(inner) for loop in loops for inner in ast.walk(loop.target)}


def bindings(tree: ast.AST):
    """Every name that the file gives to something, with its line."""
    free = in_comprehensions(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in free:
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname, 0
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name, node.lineno


@pytest.mark.parametrize("path", FILES, ids=name)
def test_no_identifier_is_a_word_that_names_nothing(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    vague = [f"{line}: {word}" for word, line in bindings(tree) if word.strip("_").lower() in VAGUE]
    assert vague == []


def test_no_class_name_comes_twice():
    classes = Counter(
        node.name.lstrip("_")
        for _, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )
    assert [cls for cls, count in classes.items() if count > 1] == []


@pytest.mark.parametrize("path", FILES, ids=name)
def test_only_public_names_say_what_they_raise(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    private = [
        f"{node.lineno}: {node.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and node.name.startswith("_")
        and not node.name.startswith("__")
        and "Raises\n" in (ast.get_docstring(node) or "")
    ]
    assert private == []


@pytest.mark.parametrize("path", FILES, ids=name)
def test_references_in_docstrings_lead_somewhere(path):
    module_name = ".".join(("telerank", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(
        ".__init__"
    )
    if module_name.endswith("__main__"):
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    references = [(cls, target) for cls, text in docstrings(tree) for target in REFERENCE.findall(text)]
    if not references:
        return
    try:
        module = import_module(module_name)
    except (MissingExtra, ModuleNotFoundError) as error:
        pytest.skip(str(error))
    assert [target for cls, target in references if not leads_somewhere(target, module, cls)] == []


def docstrings(tree: ast.AST, cls: str = ""):
    """Every string that stands alone, docstrings of attributes among them, with the class that it is in."""
    for node in ast.iter_child_nodes(tree):
        inner = node.name if isinstance(node, ast.ClassDef) else cls
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield cls, node.value.value
        yield from docstrings(node, inner)


def leads_somewhere(target: str, module, cls: str) -> bool:
    target = target.rsplit("<", maxsplit=1)[-1].rstrip(">").removesuffix("()")
    if target.startswith("."):
        target = f"{module.__name__.rpartition('.')[0]}{target}"
    if resolves(module, target) or (cls and resolves(getattr(module, cls, None), target)):
        return True
    parts = target.split(".")
    for end in range(len(parts), 0, -1):
        try:
            module_found = import_module(".".join(parts[:end]))
        except ImportError:
            continue
        return resolves(module_found, ".".join(parts[end:]))
    return False


def resolves(value, dotted: str) -> bool:
    for part in filter(None, dotted.split(".")):
        if part in getattr(value, "__annotations__", {}):
            return True
        if part in getattr(value, "__dataclass_fields__", {}) or part in getattr(value, "model_fields", {}):
            return True
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return value is not None
