"""What several tests of experiments look at, and none changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from small_bench import make_bench, write_systems

from papers import small_msmarco


@pytest.fixture(scope="session")
def bench(tmp_path_factory):
    """Three systems over random words; no query has known relevant text."""
    folder = tmp_path_factory.mktemp("bench")
    empty = make_bench(folder)
    systems = {"BM25": "bm25", "DFR": "dfr", "short": "bm25 % 2"}
    return replace(empty, systems=write_systems(empty, folder, systems))


@pytest.fixture(scope="session")
def marco(tmp_path_factory) -> Path:
    """A folder with ``msmarco``."""
    folder = tmp_path_factory.mktemp("data")
    small_msmarco(folder / "msmarco")
    return folder


@pytest.fixture(scope="session")
def starts(tmp_path_factory) -> Path:
    """A folder of what models start from: the encoder ``tiny`` and the word vectors ``words``."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from small_models import WORDS, save_vectors, small_encoder
    from telerank.models.pairs.words import SPECIAL

    folder = tmp_path_factory.mktemp("starts")
    small_encoder(folder / "tiny")
    save_vectors(folder / "words", WORDS, torch.randn(len(WORDS) + SPECIAL, 8))
    return folder


@pytest.fixture
def describe_results(monkeypatch):
    """What makes a page of results of the folder of an experiment."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import paper_results

    return lambda name, folder: paper_results.describe_results(name, folder, set())
