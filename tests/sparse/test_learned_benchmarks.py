"""The benchmarks of learned first stages measure what they say: on a few texts, without a time that is believed."""

from __future__ import annotations

import lzma
import os
import sys
from argparse import Namespace
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
scipy_sparse = pytest.importorskip("scipy.sparse")

from small_models import WORDS, small_masked  # noqa: E402
from small_set import write_beir  # noqa: E402
from telerank.models.encoders.sparse import load_sparse_encoder  # noqa: E402

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    """Imports a benchmark, which asks for one thread; tests keep their own number."""
    monkeypatch.syspath_prepend(BENCHMARKS)

    def load(name):
        before = dict(os.environ)
        try:
            return import_module(name)
        finally:
            os.environ.clear()
            os.environ.update(before)

    return load


@pytest.fixture(scope="module")
def masked(tmp_path_factory) -> Path:
    return small_masked(tmp_path_factory.mktemp("masked") / "model")


@pytest.fixture
def speed(benchmark, monkeypatch):
    """Passages in parts of 10, of which the best 3 and 5 are found."""
    module = benchmark("learned_sparse_speed")
    monkeypatch.setattr(module, "PART", 10)
    monkeypatch.setattr(module, "DEPTHS", (3, 5))
    return module


@pytest.fixture
def options(tmp_path) -> Namespace:
    lines = (f"{n}\ta\t{' '.join(WORDS[n + 3 * m] for m in range(6))}\n" for n in range(36))
    passages = tmp_path / "passages.tsv.xz"
    passages.write_bytes(lzma.compress("".join(lines).encode()))
    return Namespace(passages=passages, vectors=tmp_path / "vectors", documents=34, queries=6)


def test_vectors_are_kept_in_parts_and_are_whole_numbers(speed, options, masked):
    encoding = load_sparse_encoder(masked, "cpu")
    matrix = speed.read_documents(options, encoding)
    assert sorted(file.name for file in options.vectors.iterdir()) == [f"part00{n}.npz" for n in range(4)]
    texts = list(speed.corpus.passages(options.passages, 34))
    expected = np.zeros((34, len(encoding.pieces)))
    for row, vector in zip(expected, encoding.encode(texts, queries=False), strict=True):
        row[vector.numbers] = np.rint(vector.weights * 100)
    assert np.abs(matrix.toarray() - expected).max() <= 1  # of another batch
    assert (matrix.data > 0).all()
    again = speed.read_documents(options, Namespace(pieces=encoding.pieces))  # nothing is encoded
    assert (again != matrix).nnz == 0


class WrongEngine:
    """It finds the first documents, whatever is asked."""

    def search(self, _number, k):
        return range(k), [1.0] * k


def test_engines_are_held_to_the_product_of_the_matrix(speed, options, masked, tmp_path):
    encoding = load_sparse_encoder(masked, "cpu")
    documents, queries = speed.read_documents(options, encoding), speed.make_queries(options, encoding)
    assert len(queries) == 6
    once = [(terms, np.ones_like(values)) for terms, values in queries]
    speed.write_index(tmp_path, documents, queries, once)
    for name, asked in (("queries", queries), ("once", once)):
        matrix = speed.Matrix(documents, asked)
        engines = {"scipy": matrix, "telerank": speed.Telerank(tmp_path, f"{name}.jsonl")}
        rows = [row[:3] for k in speed.DEPTHS for row in speed.measure(engines, len(asked), k, rounds=1)]
        assert rows == [[engine, f"top-{k}", "1.0000"] for k in (3, 5) for engine in engines]
        truth = [matrix.score(number) for number in range(6)]
        assert speed.compare("BMP", WrongEngine(), 3, truth) < 1
        with pytest.raises(SystemExit, match="telerank does not rank by these weights"):
            speed.compare("telerank", WrongEngine(), 3, truth)


def test_bounds_hold_and_smaller_groups_let_less_be_read(benchmark, monkeypatch):
    module = benchmark("sparse_bounds")
    monkeypatch.setattr(module, "DEPTHS", (3, 40))
    draw = np.random.default_rng(1)
    dense = np.where(draw.random((1100, 30)) < 0.1, draw.integers(1, 300, (1100, 30)), 0)
    documents = scipy_sparse.csr_matrix(dense.astype(np.float32))
    queries = [(np.sort(draw.choice(30, 4, replace=False)), draw.integers(1, 9, 4)) for _ in range(5)]
    bounded, columns = module.Bounded.of(documents), documents.tocsc()
    for size, largest in bounded.largest.items():
        groups = [dense[first : first + size].max(axis=0) for first in range(0, len(dense), size)]
        np.testing.assert_array_equal(largest.toarray(), groups)
    for terms, weights in queries:
        scores = dense[:, terms] @ weights
        read = [module.read_by(bounded, columns, (terms, weights), size) for size in module.GROUPS]
        for size, rows in zip(module.GROUPS, read, strict=True):
            bounds = np.repeat(bounded.bound((terms, weights), size), size)[: len(scores)]
            assert (bounds >= scores).all()
            for (share, postings, forward), k in zip(rows, (3, 40), strict=True):
                assert 0 < share <= 1
                assert postings <= (dense[:, terms] > 0).sum()
                assert forward >= (dense[np.sort(scores)[-k] <= scores] > 0).sum()
        assert all((small <= large).all() for large, small in pairwise(read))
    order = module.order_by_content(documents)
    assert sorted(order) == list(range(1100))
    shown = list(module.count("random", documents[order], queries))
    assert [(row[0], row[1]) for row in shown] == [("random", f"{size:,}") for size in module.GROUPS]


def test_maxsim_is_compared_with_sums_in_float64(benchmark, capsys):
    module = benchmark("maxsim_speed")
    small = ("candidates", 6, "tokens", 5, "query-tokens", 4, "dimension", 16, "queries", 2, "rounds", 1)
    module.main([f"--{name}" if i % 2 == 0 else str(name) for i, name in enumerate(small)])
    printed = capsys.readouterr().out
    assert "6 candidates of 5 tokens, 4 tokens of a query, 16 numbers each" in printed
    rows = [line.split()[1] for line in printed.splitlines() if line.startswith("| ")]
    assert {"telerank", "numpy"} <= {*rows}
    with pytest.raises(SystemExit, match=r"numpy differs from the sums in float64 by 5\.0e-01"):
        module.compare("numpy", np.array([1.0, 1.0]), np.array([1.0, 2.0]), 1e-5)


def test_rounding_of_weights_is_counted(benchmark, monkeypatch, tmp_path, masked, capsys):
    module = benchmark("weight_rounding")
    vectors = {"a": {"x": 1}, "b": {"x": 2, "y": 1}, "c": {"z": 1}}
    assert module.rank_exactly(vectors, {"x": 1, "y": 3}) == ["b", "a"]
    docs = [{"_id": f"d{n}", "title": "", "text": f"d{n} q{n} x{n % 5}"} for n in range(20)]
    write_beir(tmp_path / "set", docs, {f"q{n}": f"d{n} x1" for n in range(4)}, {"test": [("q1", "d1", 1)]})
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path / "set"), "test", str(masked), "--documents", "15"])
    module.main()
    first, *depths = capsys.readouterr().out.splitlines()
    assert first.startswith("15 documents, 1 queries, weights of files, in steps of 1/")
    assert [line.split(":")[0] for line in depths] == ["first 10", "first 1,000"]
    assert depths[0].endswith("0 of 10 documents are others")


def test_each_variant_of_the_search_but_the_first_changes_it(benchmark, monkeypatch):
    parts = benchmark("sparse_parts")
    names = ("PART_BITS", "PARTS", "_MANY_TERMS", "MOST_TERMS", "_floor_of_best")
    before = {name: getattr(parts.kernel, name) for name in names}
    changed = []
    for change in parts.VARIANTS.values():
        for name, value in before.items():
            monkeypatch.setattr(parts.kernel, name, value)
        change()
        changed.append({name for name, value in before.items() if getattr(parts.kernel, name) is not value})
    assert changed == [
        *(set(), {"PART_BITS", "PARTS"}, {"PART_BITS", "PARTS"}),
        *({"_MANY_TERMS"}, {"_floor_of_best"}, {"MOST_TERMS"}),
    ]
    assert parts.show(1.5, 0.5) == ("1.500", "3.00")
