"""The public names: real and few (ruff holds their order)."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import telerank

MODULES = ["telerank", *(m.name for m in pkgutil.walk_packages(telerank.__path__, "telerank.") if m.ispkg)]


@pytest.mark.parametrize("name", MODULES)
def test_what_a_package_exports_is_there(name):
    package = importlib.import_module(name)
    exported = getattr(package, "__all__", [])
    assert all(hasattr(package, one) for one in exported)


def test_the_top_level_has_at_most_a_dozen_names():
    assert len(telerank.__all__) <= 12
