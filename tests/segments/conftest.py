"""Small models that tests of segments read."""

from __future__ import annotations

import pytest

from small_rerankers import small_reranker
from telerank.models.rerankers.reranker import Reranker


@pytest.fixture(scope="session")
def rerankers(tmp_path_factory) -> dict[str, Reranker]:
    """A small re-ranker of each kind; nothing of them may be changed."""
    folder = tmp_path_factory.mktemp("rerankers")
    return {kind: small_reranker(folder, kind) for kind in ("monobert", "bert-dmn")}
