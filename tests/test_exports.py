"""The public names: real and few (ruff holds their order)."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest

import telerank
from telerank.errors import MissingExtra

SOURCE = Path(telerank.__file__).parent
MODULES = sorted(
    ".".join(("telerank", *path.parent.relative_to(SOURCE).parts)) for path in SOURCE.rglob("__init__.py")
)


@pytest.mark.parametrize("name", MODULES)
def test_what_a_package_exports_is_there(name):
    try:
        package = importlib.import_module(name)
    except MissingExtra as error:
        pytest.skip(str(error))
    exported = getattr(package, "__all__", [])
    assert all(hasattr(package, one) for one in exported)


def test_the_top_level_has_about_thirty_names():
    assert len(telerank.__all__) <= 39
    assert set(telerank.__all__) <= set(dir(telerank))


def test_type_checkers_see_the_names_that_programs_see():
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    aliases = [alias for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assigned = [node.targets[0].id for node in block.body if isinstance(node, ast.Assign)]
    assert sorted([*assigned, *(alias.asname for alias in aliases if alias.asname)]) == telerank.__all__


def test_tab_completion_shows_the_verbs_alone():
    assert [name for name in dir(telerank) if not name.startswith("__")] == sorted(telerank.__all__)


def test_no_package_takes_the_place_of_a_function():
    """Importing ``telerank.index.…`` would put the module where the function ``telerank.index`` was."""
    for module in pkgutil.walk_packages([str(SOURCE)], "telerank."):
        with suppress(MissingExtra):
            importlib.import_module(module.name)
    assert [name for name in telerank.__all__ if isinstance(getattr(telerank, name), ModuleType)] == []
    assert all(callable(getattr(telerank, name)) for name in telerank.__all__)
