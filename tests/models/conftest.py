"""Small encoders that nothing changes."""

from __future__ import annotations

from functools import cache

import pytest

from small_models import small_encoder


@pytest.fixture(scope="session")
def encoders(tmp_path_factory):
    """The folder of the encoder of an architecture, drawn by a seed; copy it to change it."""
    root = tmp_path_factory.mktemp("encoders")
    return cache(lambda name="bert", seed=0: small_encoder(root / f"{name}-{seed}", name, seed=seed))
