"""The public names: real and few (ruff holds their order)."""

from __future__ import annotations

import importlib
from pathlib import Path

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


def test_the_top_level_has_at_most_a_dozen_names():
    assert len(telerank.__all__) <= 12
