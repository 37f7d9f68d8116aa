"""The public names: real and few (ruff holds their order)."""

from __future__ import annotations

import ast
import importlib
from contextlib import suppress
from types import ModuleType

import pytest

import telerank
from source_files import check_offences, source_files
from telerank.errors import MissingExtra


def test_what_a_package_exports_is_there():
    lacking, missing = [], []
    for file in source_files():
        if not file.name.endswith("__init__.py"):
            continue
        try:
            package = importlib.import_module(file.module)
        except MissingExtra as error:
            missing.append(str(error))
            continue
        exported = getattr(package, "__all__", [])
        lacking += [f"{file.name}: {name}" for name in exported if not hasattr(package, name)]
    check_offences(lacking, "a package has what it exports")
    if missing:
        pytest.skip("; ".join(missing))


def test_the_top_level_has_about_fifty_names():
    assert len(telerank.__all__) <= 60
    assert set(telerank.__all__) <= set(dir(telerank))


def test_type_checkers_see_the_names_that_programs_see():
    (tree,) = (file.tree for file in source_files() if file.name == "__init__.py")
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    aliases = [alias for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assigned = [node.targets[0].id for node in block.body if isinstance(node, ast.Assign)]
    assert sorted([*assigned, *(alias.asname for alias in aliases if alias.asname)]) == telerank.__all__


def test_tab_completion_shows_the_verbs_alone():
    assert [name for name in dir(telerank) if not name.startswith("__")] == sorted(telerank.__all__)


def test_no_package_takes_the_place_of_a_function():
    """Importing ``telerank.index.…`` would put the module where the function ``telerank.index`` was."""
    for file in source_files():
        with suppress(MissingExtra):
            importlib.import_module(file.module)
    assert [name for name in telerank.__all__ if isinstance(getattr(telerank, name), ModuleType)] == []
    assert all(callable(getattr(telerank, name)) for name in telerank.__all__)
