"""Small encoders that nothing changes."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import pytest

from small_models import small_encoder

if find_spec("torch") is None or find_spec("transformers") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def encoders(tmp_path_factory):
    """The folder of the encoder of an architecture, drawn by a seed; copy it to change it."""
    root = tmp_path_factory.mktemp("encoders")
    return cache(lambda name="bert", seed=0: small_encoder(root / f"{name}-{seed}", name, seed=seed))
