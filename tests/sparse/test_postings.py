"""Postings: their codes, and indexes of the format before."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import build, contents, docs, retriever, write_format_1

from commands import ok
from telerank.errors import IndexDamaged, IndexFault
from telerank.sparse.index import IndexManifest, SparseIndex
from telerank.sparse.inverted import packed
from telerank.sparse.inverted.postings import PackedPostings, PostingsWriter
from telerank.sparse.writer import IndexWriter
from telerank.stored import compute_checksum

QUERIES = ("a", "a b", "rare a", "b w7", "common")


def texts(seed: int, size: int) -> list[str]:
    """Frequent and rare words, one of them 300 times in a text."""
    random = Random(seed)
    made = [" ".join(random.choices("abcdefgh", [2.0**-n for n in range(8)], k=9)) for _ in range(size)]
    return [f"{text} common {f'w{n}' * (n % 50 == 0)}" for n, text in enumerate(made)] + [
        "rare " + "a " * 300
    ]


def coded(numbers: list[int], below: int, start: int) -> np.ndarray:
    """The words in which numbers are, from the bit ``start`` on."""
    size = packed.size_of(len(numbers), below)
    words = np.zeros(-(-(start + size) // 64), np.uint64)
    code = start, len(numbers), packed.width_of(len(numbers), below)
    for position, number in Random(1).sample(list(enumerate(numbers)), len(numbers)):
        packed.put(words, code, position, number)
    return words


@given(
    st.sets(st.integers(0, 2**40), min_size=1, max_size=60),
    st.sampled_from((0, 1, 30, 2**20)),
    st.sampled_from((2**10, 2**20, 2**41)),
    st.integers(0, 130),
)
def test_numbers_are_read_as_they_were_written_by_both_readers(numbers, beyond, most, start):
    ascending = sorted({number % most for number in numbers})
    count, below = len(ascending), ascending[-1] + 1 + beyond
    words = coded(ascending, below, start)
    # what the code is defined to be, worked out with Python's numbers
    width = max(((below - count) // count).bit_length() - 1, 0)
    bits = 0
    for i, number in enumerate(ascending):
        value = number - i
        bits |= (value & ((1 << width) - 1)) << (start + i * width)
        bits |= 1 << (start + count * width + (value >> width) + i)
    assert sum(int(word) << (64 * n) for n, word in enumerate(words)) == bits
    read = np.zeros(count, np.int64)
    assert packed.take(words, start, count, below, read)
    by_numpy, end = packed.take_by_numpy(words, start, count, below)
    assert read.tolist() == by_numpy.tolist() == ascending
    assert end == start + packed.size_of(count, below)


def test_an_ascending_list_takes_two_bits_and_the_logarithm_of_its_gaps():
    for count, below in ((1, 1), (1000, 1000), (1000, 2000), (1000, 10**6), (1, 10**6), (10, 2**40)):
        assert packed.size_of(count, below) <= count * (2 + max(np.log2(below / count), 0)) + 1


def test_what_is_no_code_is_refused_by_both_readers_and_never_read_beyond(tmp_path):
    random = np.random.default_rng(1)
    for _ in range(300):
        words = random.integers(0, 2**64, 3, np.uint64) & random.integers(0, 2**64, 3, np.uint64)
        start, count, below = (int(random.integers(*ends)) for ends in ((-9, 200), (1, 40), (40, 2**20)))
        numbers = np.zeros(count, np.int64)
        held, (by_numpy, _) = (read(words, start, count, below, *rest) for read, rest in (
            (packed.take, [numbers]), (packed.take_by_numpy, [])))  # fmt: skip
        assert held == (by_numpy is not None)
        assert not held or (numbers.max() < below and numbers.tolist() == by_numpy.tolist())


def test_postings_written_run_by_run_are_read_term_by_term(tmp_path):
    """Frequencies may be any whole numbers, as the weights of a model would be."""
    random = Random(2)
    lists = [sorted(random.sample(range(500), size)) for size in (1, 500, 40, 3, 499)]
    weights = [[random.choice((1, 2, 255, 70_000)) for _ in rows] for rows in lists]
    sizes, totals = np.array([*map(len, lists)]), np.array([*map(sum, weights)])
    writer = PostingsWriter(tmp_path, 500, sizes, totals)
    for low in range(0, 500, 120):
        parts = [[(r, w) for r, w in zip(*pair, strict=True) if low <= r < low + 120]
                 for pair in zip(lists, weights, strict=True)]  # fmt: skip
        terms = [term for term in (3, 0, 4, 1, 2) if parts[term]]
        flat = np.array([pair for term in terms for pair in parts[term]], np.int32)
        counts = np.array([len(parts[term]) for term in terms])
        writer.add(np.array(terms), counts, flat[:, 0].copy(), flat[:, 1].copy())
    writer.close()
    postings = PackedPostings(tmp_path, 500)
    for term in range(5):
        rows, tfs = postings.read(np.array([term]))
        assert (rows.tolist(), tfs.tolist()) == (lists[term], weights[term])
    rows, tfs = postings.read(np.array([4, 0]))
    assert (rows.tolist(), tfs.tolist()) == (lists[4] + lists[0], weights[4] + weights[0])


def test_damaged_postings_are_an_error_and_not_a_ranking(tmp_path):
    """Where the checksum is that of the damaged file."""
    index = build(tmp_path / "index", texts(1, 300))
    [segment] = index.segments
    good = np.load(segment.folder / "postings.npy")
    for words in (np.zeros_like(good), ~good, good[:1]):
        np.save(segment.folder / "postings.npy", words)
        with pytest.raises(IndexDamaged, match=r"postings\.npy: damaged \(not the postings of its terms\)"):
            PackedPostings(segment.folder, len(segment)).read(np.arange(len(segment.terms)))


def test_an_index_of_format_1_is_searched_changed_and_merged_into_the_same_files_as_a_new_one(tmp_path):
    first, second = docs(texts(1, 400)), docs(texts(2, 300), 401)
    new, old = (tmp_path / name for name in ("new", "old"))
    for folder in (new, old):
        with IndexWriter(
            folder, build(tmp_path / f"built-{folder.name}", ["x"]).analyzer, workers=1
        ) as writer:
            writer.add(first)
    write_format_1(old)
    assert json.loads((old / "manifest.json").read_text())["format"] == 1
    assert "rows.npy" in contents(old)
    folders = [new, old]
    _same(folders)
    for folder in folders:
        with IndexWriter(folder, workers=1) as writer:
            writer.add(second)
            writer.delete(["d3", "d402"])
    assert [entry.format for entry in IndexManifest.read(old).segments] == [1, 2]
    _same(folders)
    assert SparseIndex(old).manifest.weights == "counts"
    for folder in folders:
        with IndexWriter(folder, workers=1) as writer:
            writer.merge()
        SparseIndex(folder).verify()
    assert contents(old) == contents(new)
    _same(folders)


def _same(folders: list[Path]) -> None:
    """Rankings and explanations are equal, pruned and exhaustive, and with those of the whole index."""
    indexes = list(map(SparseIndex, folders))
    for model, query in product(("bm25", "lm_dirichlet(mu=10)", "dfi"), QUERIES):
        one, other = (retriever(index, model) for index in indexes)
        for k in (1, 10, 1000):
            ranking = (one % k).search(query)
            assert list(ranking) == list((other % k).search(query))
        for docno in ranking.docnos[:2]:
            assert one.explain(query, docno) == other.explain(query, docno)


def test_one_command_makes_an_index_of_format_1_a_smaller_one(tmp_path):
    build(tmp_path / "index", texts(3, 200))
    before = contents(tmp_path / "index")
    write_format_1(tmp_path / "index")
    ok("index merge", tmp_path / "index")
    assert contents(tmp_path / "index") == before
    generation = SparseIndex(tmp_path / "index").manifest.generation
    ok("index merge", tmp_path / "index")  # nothing is left to be done
    assert SparseIndex(tmp_path / "index").manifest.generation == generation


def test_a_kind_of_weights_that_this_version_does_not_know_is_refused(tmp_path):
    build(tmp_path / "index", ["a"])
    path = tmp_path / "index" / "manifest.json"
    record = json.loads(path.read_text())
    del record["crc32"]
    record["weights"] = "impacts"
    path.write_text(json.dumps(record | {"crc32": compute_checksum(record)}))
    with pytest.raises(IndexFault, match=r"weights of the kind 'impacts', this version reads 'counts'"):
        SparseIndex(tmp_path / "index")


@pytest.mark.process
def test_without_numba_the_first_rankings_are_the_same(tmp_path):
    """A process that has not loaded it reads postings with numpy, and goes on with numba."""
    index = build(tmp_path / "index", texts(4, 300))
    expected = [list(retriever(index).search(query)) for query in QUERIES]
    program = f"""
import sys
from telerank.sparse.index import SparseIndex
from telerank.sparse.retriever import SparseRetriever
from telerank.sparse.similarities.families import parse_similarity
stage = SparseRetriever(SparseIndex({str(tmp_path / "index")!r}), parse_similarity("bm25"))
for load in (False, True):
    if load:
        import numba
    print([list(stage.search(query)) for query in {QUERIES!r}])
    print("numba" in sys.modules)
"""
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert printed.splitlines() == [str(expected), "False", str(expected), "True"]
