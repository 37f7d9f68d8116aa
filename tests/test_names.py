"""Names are the field's nouns and plain verbs; references in docstrings lead somewhere; no class name twice."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from importlib import import_module

import pytest

from source_files import check_offences, source_files
from telerank.errors import MissingExtra

VAGUE = {"one", "ones", "found", "told", "asked", "made", "wanted", "place", "places"}
"""Words that name nothing; a comprehension's variable may be ``one``."""
REFERENCE = re.compile(r":(?:class|func|meth|attr|data|mod|exc):`~?([^`]+)`")
DEFINITIONS = ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef


def bindings(nodes: tuple[ast.AST, ...]):
    """Every name that a file gives to something, with its line; not those of comprehensions."""
    loops = [node.target for node in nodes if isinstance(node, ast.comprehension)]
    free = {id(inner) for target in loops for inner in ast.walk(target)}
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in free:
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, DEFINITIONS):
            yield node.name, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname, node.lineno
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name, node.lineno


def test_no_identifier_is_a_word_that_names_nothing():
    vague = [
        f"{file.at(line)}: {word}"
        for file in source_files()
        for word, line in bindings(file.nodes)
        if word.strip("_").lower() in VAGUE
    ]
    check_offences(vague, "a name says what it names")


def test_no_class_name_comes_twice():
    classes = defaultdict(list)
    for file in source_files():
        for node in file.nodes:
            if isinstance(node, ast.ClassDef):
                classes[node.name.lstrip("_")].append(file.at(node.lineno))
    twice = [f"{', '.join(lines)}: {name}" for name, lines in classes.items() if len(lines) > 1]
    check_offences(twice, "a class name is used once")


def test_only_public_names_say_what_they_raise():
    private = [
        f"{file.at(node.lineno)}: {node.name}"
        for file in source_files()
        for node in file.nodes
        if isinstance(node, DEFINITIONS)
        and node.name.startswith("_")
        and not node.name.startswith("__")
        and "Raises\n" in (ast.get_docstring(node) or "")
    ]
    check_offences(private, "a section Raises is for public names")


def test_references_in_docstrings_lead_somewhere():
    lost, missing = [], []
    for file in source_files():
        references = [
            (cls, target, line)
            for cls, text, line in docstrings(file.tree)
            for target in REFERENCE.findall(text)
        ]
        if not references or file.module.endswith("__main__"):
            continue
        try:
            module = import_module(file.module)
        except (MissingExtra, ModuleNotFoundError) as error:
            missing.append(str(error))
            continue
        package = file.module if file.name.endswith("__init__.py") else file.module.rpartition(".")[0]
        lost += [
            f"{file.at(line)}: {target}"
            for cls, target, line in references
            if not leads_somewhere(target, module, package, cls)
        ]
    check_offences(lost, "a reference leads to a name")
    if missing:
        pytest.skip("; ".join(sorted({*missing})))


def docstrings(tree: ast.AST, cls: str = ""):
    """Every string that stands alone, docstrings of attributes among them, with its class and line."""
    for node in ast.iter_child_nodes(tree):
        inner = node.name if isinstance(node, ast.ClassDef) else cls
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield cls, node.value.value, node.lineno
        yield from docstrings(node, inner)


def leads_somewhere(target: str, module, package: str, cls: str) -> bool:
    target = target.rsplit("<", maxsplit=1)[-1].rstrip(">").removesuffix("()")
    if target.startswith("."):
        target = f"{package}{target}"
    if resolves(module, target) or (cls and resolves(getattr(module, cls, None), target)):
        return True
    parts = target.split(".")
    for end in range(len(parts), 0, -1):
        try:
            longest = import_module(".".join(parts[:end]))
        except ImportError:
            continue
        return resolves(longest, ".".join(parts[end:]))
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
