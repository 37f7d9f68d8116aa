"""Weights of terms beside the counts: reading, building, changing, searching, against sums in float64."""

from __future__ import annotations

import gzip
import json
import lzma
import signal
import subprocess
import sys
import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest

import telerank as tr
from telerank.corpus.docstore import DocstoreWriter
from telerank.errors import (
    ArgumentError,
    CollectionError,
    ExpressionError,
    FormatError,
    IndexFault,
    MissingWeights,
)
from telerank.sparse.index import SparseIndex
from telerank.sparse.similarities.families import make_grid, parse_similarity
from telerank.sparse.weights import writing
from telerank.sparse.weights.entry import WeightsEntry
from telerank.sparse.weights.retriever import CountedTerms, ImpactRetriever, QuerySteps, StoredWeights
from telerank.sparse.weights.vectors import FileWeights, read_vectors
from telerank.sparse.weights.writing import choose_bits
from telerank.sparse.writer import IndexWriter
from telerank.testing import check_stage
from telerank.text import Analyzer
from telerank.types import Doc, Query, silent

TERMS = [f"t{number}" for number in range(40)]


def draw(count: int, seed: int, first: int = 0, *, whole: bool = False) -> dict[str, dict[str, float]]:
    """Vectors of documents ``d<first>``, …, each of some of the terms."""
    random = np.random.default_rng(seed)
    vectors = {}
    for number in range(first, first + count):
        held = random.choice(TERMS, random.integers(1, 12), replace=False)
        weights = random.integers(1, 200, len(held)) if whole else random.random(len(held)) * 3
        vectors[f"d{number}"] = dict(zip(held.tolist(), weights.tolist(), strict=True))
    return vectors


def write(path, vectors):
    opened = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    with opened(path, "wt", encoding="utf-8") as file:
        for docno, vector in vectors.items():
            file.write(json.dumps({"id": docno, "contents": "x", "vector": vector}) + "\n")
    return path


def docs(vectors):
    return [Doc(docno, " ".join(vector)) for docno, vector in vectors.items()]


def rank_slowly(vectors, query, step, gone=()):
    """Scores in float64 from weights rounded to steps, best first, ties by docno from the last."""
    scores = {}
    for docno, vector in vectors.items():
        rounded = {term: np.rint(weight / step) * step for term, weight in vector.items()}
        shared = [term for term in query if rounded.get(term)]
        if shared and docno not in gone:
            scores[docno] = float(np.float32(sum(query[term] * rounded[term] for term in shared)))
    return sorted(scores.items(), key=lambda each: (each[1], each[0]), reverse=True)


@pytest.fixture(scope="module")
def queries(tmp_path_factory):
    """A file of query vectors whose weights are steps of 1/64, so that the oracle rounds nothing of them."""
    random = np.random.default_rng(9)
    vectors = {}
    for number in range(30):
        held = random.choice(TERMS, random.integers(1, 9), replace=False).tolist()
        vectors[f"q{number}"] = {term: float(random.integers(1, 200)) / 64 for term in held}
    return write(tmp_path_factory.mktemp("queries") / "queries.jsonl", vectors), vectors


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("depth", [5, None])
def test_scores_are_those_of_a_sum_in_float64_over_segments_and_deletions(tmp_path, queries, whole, depth):
    file, weighed = queries
    old, new = draw(700, 1, whole=whole), draw(300, 2, 700, whole=whole)
    backwards = write(tmp_path / "old.jsonl", dict(reversed(old.items())))
    index = tr.index(docs(old), tmp_path / "idx", analyzer="none", weights=backwards)
    index.add(docs(new), weights=write(tmp_path / "new.jsonl.gz", new))
    index.delete(["d3", "d705"])
    step = index.sparse.manifest.term_weights.step
    assert step == (1 if whole else 1 / 512)
    for _ in range(2):
        stage = index.impact(queries=file)
        stage = stage if depth is None else stage % depth
        for qid, query in weighed.items():
            expected = rank_slowly({**old, **new}, query, step, {"d3", "d705"})[:depth]
            assert list(stage.search(Query(qid, ""))) == expected
        index.merge()
        index.verify()
        assert len(index.sparse.segments) == 1


def test_the_fast_path_equals_the_exhaustive_one(tmp_path, queries):
    vectors = draw(6000, 3)
    index = tr.index(
        docs(vectors), tmp_path / "idx", analyzer="none", weights=write(tmp_path / "w.jsonl", vectors)
    )
    [impacts] = index.sparse.impacts(StoredWeights())
    term = index.sparse.lists(StoredWeights()).term
    for query in queries[1].values():
        steps = {term(text): weight for text, weight in QuerySteps.of(query).steps.items()}
        known = {each.numbers[0]: weight for each, weight in steps.items() if each.numbers[0] >= 0}
        impacts.prepare((each.numbers[0], each.df, each.cf) for each in steps)
        slow = impacts.rank_exhaustively(known, 10)
        for fast in (impacts.rank([known], 10)[0], impacts.rank_by_numpy(known, 10)):
            assert all(np.array_equal(one, other) for one, other in zip(fast, slow, strict=True))


def test_many_heavy_weights_are_summed_exactly_too(tmp_path):
    vectors = {f"d{n}": {term: float(2**20 + n) for term in TERMS} for n in range(50)}
    index = tr.index(docs(vectors), tmp_path / "idx", analyzer="none", weights=write(tmp_path / "w", vectors))
    got = list(index.impact().search(" ".join(TERMS)))
    assert got == rank_slowly(vectors, dict.fromkeys(TERMS, 1), 1)


def test_counts_tables_filters_and_the_laws_of_stages(tmp_path):
    vectors = draw(80, 4)
    documents = [Doc(doc.docno, doc.text, columns={"part": int(doc.docno[1:]) % 2}) for doc in docs(vectors)]
    index = tr.index(
        documents, tmp_path / "idx", analyzer="none", weights=write(tmp_path / "w.jsonl", vectors)
    )
    step = index.sparse.manifest.term_weights.step
    assert list(index.impact().search("t1 t2 t2")) == rank_slowly(vectors, {"t1": 1, "t2": 2}, step)
    table = tmp_path / "table.json"
    table.write_text(json.dumps({"t1": 0.5, "t2": 2.25, "t9": 0}))
    stage = tr.pipeline(f"impact(table='{table}')", index)
    assert list(stage.search("t1 t2 t2 t9 t3")) == rank_slowly(vectors, {"t1": 0.5, "t2": 2.25}, step)
    odd = {docno for docno in vectors if int(docno[1:]) % 2}
    within = index.impact().where("part == 0", index.docs)
    assert list(within.search("t1")) == rank_slowly(vectors, {"t1": 1}, step, odd)
    for each in (stage, index.impact(), within, index.impact() % 3):
        check_stage(each, [Query("1", "t1 t2"), Query("2", "t3"), Query("3", "t4 t4 t5")])
        assert tr.pipeline(repr(each), index) == each
    assert list(index.bm25().search("t1"))  # the counts are there, too


def index_in_segments(folder):
    """An index of 100 documents in two segments, two of which are deleted."""
    old, new = draw(60, 5), draw(40, 6, 60)
    index = tr.index(docs(old), folder / "idx", analyzer="none", weights=write(folder / "old.jsonl", old))
    index.add(docs(new), weights=write(folder / "new.jsonl", new))
    index.delete(["d1", "d70"])
    assert len(index.sparse.segments) == 2
    return index


def test_vectors_of_queries_rank_the_same_in_threads_and_stand_in_the_text(tmp_path, queries):
    index = index_in_segments(tmp_path)
    stage = index.impact(queries=queries[0]) % 9
    asked = [Query(qid, "") for qid in queries[1]]
    assert list(stage.in_batches(4, threads=3).run(asked)) == [stage.search(query) for query in asked]
    assert tr.pipeline(repr(stage), index) == stage


def test_an_explanation_sums_to_the_score(tmp_path, queries):
    file, weighed = queries
    stage = index_in_segments(tmp_path).impact(queries=file)
    for qid in weighed:
        for docno, score in list(stage.search(Query(qid, "")))[:5]:
            explained = stage.explain(Query(qid, ""), docno)
            assert explained.value == score == sum(part.value for part in explained.parts)


def write_parts(folder, vectors):
    """Some lines in each of three files, whose names come in another order; a fourth is no file of vectors."""
    folder.mkdir()
    (folder / "notes.txt").write_text("not read")
    for name, part in (("b.jsonl.gz", 0), ("a.json.xz", 1), ("c.jsonl", 2)):
        write(folder / name, dict(list(vectors.items())[part::3]))
    return folder


@pytest.mark.parametrize("name", ["w.json", "w.jsonl.gz", "w.jsonl.xz", "folder"])
def test_vectors_are_read_from_packed_files_and_from_folders(tmp_path, name):
    vectors = draw(12, 13)

    def rank(path):
        index = tr.index(docs(vectors), tmp_path / f"idx {path.name}", analyzer="none", weights=path)
        weighed = [dict(index.impact(queries=path).search(Query(docno, ""))) for docno in vectors]
        [entry] = index.sparse.manifest.segments
        return weighed, {name: file for name, file in entry.files.items() if name.startswith("weights.")}

    packed = (write_parts if name == "folder" else write)(tmp_path / name, vectors)
    expected = rank(write(tmp_path / "plain.jsonl", vectors))
    assert rank(packed) == expected
    assert len(expected[1]) > 4
    assert all(docno in found for docno, found in zip(vectors, expected[0], strict=True))


class StreamedWeights:
    """Vectors that come as they are made, of documents in their order."""

    entry = WeightsEntry("made", "0" * 64)

    def weigh(self, docs, _analyzer, take, _progress):
        for row in range(len(docs)):
            take(row, vector_of(row))


def vector_of(row):
    return {f"t{(row * 7 + each) % 300}": 1 + (row + each) % 50 / 16 for each in range(40)}


@pytest.mark.parametrize("source", ["file", "stream"])
def test_memory_does_not_grow_with_the_weights(tmp_path, source, monkeypatch):
    """Of four times as many documents the postings take some megabytes, and nothing holds them all."""
    monkeypatch.setattr(writing, "_PIECE", 4000)
    peaks = []
    for count in (100, 600, 2400):
        folder, file = tmp_path / str(count), tmp_path / f"{count}.jsonl"
        with DocstoreWriter(folder) as store:
            for row in range(count):
                store.add(Doc(f"d{row}", "x"))
        write(file, {f"d{row}": vector_of(row) for row in range(count)})
        weights = FileWeights(str(file)) if source == "file" else StreamedWeights()
        tracemalloc.start()
        writing.write_weights(folder, WeightsEntry(), weights, Analyzer.parse("none"), silent)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < peaks[1] + 200_000, peaks  # 12 bytes for each document, and its docno


BAD = {
    '{"id": "d1"}': 'expected a "vector"',
    '{"vector": {}}': 'expected an "id"',
    '{"id": "d1", "vector": {"a": -1}}': "expected a weight of 'a'",
    '{"id": "d1", "vector": {"a": NaN}}': "expected a weight of 'a'",
    '{"id": "d1", "vector": {"a": 1e300}}': "expected a weight of 'a'",
    '{"id": "d1", "vector": {"a": true}}': "expected a weight of 'a'",
    '{"id": "d1", "vector": {"": 1}}': "expected terms of a character or more",
    '{"id": "d1", "vector": {"a": 1, "a": 2}}': "comes twice",
    "[1]": "expected a JSON object",
    "{": "expected a JSON object",
}


@pytest.mark.parametrize("line", BAD)
def test_a_bad_line_is_named(tmp_path, line):
    path = tmp_path / "w.jsonl"
    path.write_text('{"id": "d0", "vector": {}}\n\n' + line + "\n")
    with pytest.raises(FormatError, match=f"w.jsonl:3: .*{BAD[line]}"):
        list(read_vectors(path))
    with pytest.raises(FormatError, match=r"w\.jsonl:3"):
        tr.index({"d0": "a", "d1": "b"}, tmp_path / "idx", weights=path)
    assert not (tmp_path / "idx" / "manifest.json").exists()


def test_what_is_missing_is_told(tmp_path):
    vectors = draw(3, 6)
    path = write(tmp_path / "w.jsonl", {**vectors, "other": {"t1": 1.0}})
    with pytest.warns(MissingWeights) as told:
        index = tr.index([*docs(vectors), Doc("none", "t1")], tmp_path / "idx", weights=path)
    said = [str(each.message) for each in told]
    assert said[0].endswith("1 vector of no document that is indexed now, such as 'other'")
    assert said[1] == "1 document of 4 has no weights of terms"
    assert index.info()["documents without weights"] == 1
    with pytest.raises(IndexFault, match="its weights of terms are in files: give those of new documents"):
        index.add({"new": "t1"})
    with path.open("a") as file:
        file.write('{"id": "d0", "vector": {}}\n')
    with pytest.raises(FormatError, match=r"w.jsonl:5: expected one vector a document, got 'd0'"):
        tr.index(docs(vectors), tmp_path / "twice", weights=path)
    with pytest.raises(IndexFault, match="built with weights of terms of files, of other contents"):
        tr.index([*docs(vectors), Doc("none", "t1")], tmp_path / "idx", weights=path)
    plain = tr.index({"d0": "a"}, tmp_path / "plain")
    with pytest.raises(IndexFault, match="has no weights of terms: index it again with --weights"):
        plain.impact()
    with pytest.raises(IndexFault, match="has documents without weights of terms"):
        plain.add({"d1": "a"}, weights=path)
    with pytest.raises(ArgumentError, match="a file or a model, not both"):
        tr.index({"d0": "a"}, tmp_path / "both", weights=path, weights_model="m")
    with pytest.raises(ArgumentError, match="give one of model, queries and table"):
        index.impact("m", table="t")
    with pytest.raises(CollectionError, match="no such file"):
        tr.index({"d0": "a"}, tmp_path / "gone", weights=tmp_path / "gone.jsonl")
    queries = write(tmp_path / "q.jsonl", {"1": {"a": 1.0}})
    with pytest.raises(CollectionError, match="has no vector of the query '7'"):
        index.impact(queries=queries).search(Query("7", "a"))
    queries.write_text(queries.read_text() * 2)
    with pytest.raises(FormatError, match=r"q.jsonl:2: expected one vector a query, got '1'"):
        index.impact(queries=queries).search(Query("1", "a"))


def test_a_segment_whose_documents_have_no_weights_is_searched_and_merged(tmp_path):
    vectors = draw(5, 7)
    path = write(tmp_path / "w.jsonl", vectors)
    index = tr.index(docs(vectors), tmp_path / "idx", analyzer="none", weights=path)
    before = list(index.impact().search("t1 t2 t3 t4"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingWeights)
        index.add({"new": "t1"}, weights=path)
    for _ in range(2):
        assert list(index.impact().search("t1 t2 t3 t4")) == before
        index.merge()


def test_an_update_takes_weights_of_the_documents_that_it_writes(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.txt").write_text(name)
    path = write(tmp_path / "w.jsonl", {"a.txt": {"x": 2.0}, "b.txt": {"x": 1.0}})
    index = tr.index(folder, tmp_path / "idx", weights=path)
    (folder / "b.txt").write_text("another")
    with pytest.raises(IndexFault, match="give those of new documents, too"):
        index.update(folder)
    write(path, {"b.txt": {"x": 3.0}})
    assert index.update(folder, weights=path).changed == ("b.txt",)
    assert list(index.impact().search("x")) == [("b.txt", 3.0), ("a.txt", 2.0)]


def test_the_first_weights_choose_the_step_and_documents_that_it_loses_are_counted(tmp_path):
    with pytest.warns(MissingWeights, match="1 document of 1 has no weights"):
        index = tr.index({"a": "x"}, tmp_path / "idx", weights=write(tmp_path / "0.jsonl", {}))
    assert index.info()["weights of terms"] == "of files, none so far"
    assert not index.impact().search("x")
    assert not index.bm25(over="weights").search("x")
    index.add({"b": "x"}, weights=write(tmp_path / "1.jsonl", {"b": {"x": 2.0}}))
    assert list(index.impact().search("x")) == [("b", 2.0)]
    small = write(tmp_path / "2.jsonl", {"c": {"x": 0.4}, "d": {"x": 0.5, "y": 3.25}})
    with pytest.warns(MissingWeights, match="1 document of 2 has no weight of at least half a step of 1"):
        index.add({"c": "x", "d": "x"}, weights=small)
    assert list(index.impact().search("y")) == [("d", 3.0)]


def test_the_bits_that_weights_keep():
    assert choose_bits(255.0, whole=True) == 0
    assert [choose_bits(largest, whole=False) for largest in (3.5, 4.0, 1.0, 2000.5, 1e-12)] == [
        9,
        8,
        10,
        0,
        30,
    ]
    assert QuerySteps.of({}) == QuerySteps({}, 1.0)
    steps = QuerySteps.of({"a": 1.5, "b": 0.5})
    assert {term: each * steps.step for term, each in steps.steps.items()} == {"a": 1.5, "b": 0.5}
    assert sum(steps.steps.values()) <= 2**19


KILLED = """
import os, signal, sys
import telerank.sparse.weights.writing as writing
from telerank.sparse.weights.vectors import FileWeights
from telerank.sparse.writer import IndexWriter
from telerank.types import Doc

at, calls = sys.argv[3], 0
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
if at == "take":
    writing.WeightsWriter.take = die
elif at == "fold":
    writing.fold = die
else:
    import telerank.sparse.index
    telerank.sparse.index.IndexManifest.write = die
with IndexWriter(sys.argv[1], workers=1) as writer:
    writer.choose_weights(FileWeights(sys.argv[2]))
    writer.add([Doc("new", "t1 t2")])
"""


@pytest.mark.parametrize("at", ["take", "fold", "commit"])
def test_a_writer_that_is_killed_leaves_the_index_as_it_was(tmp_path, at):
    vectors = draw(20, 8)
    path = write(tmp_path / "w.jsonl", vectors)
    index = tr.index(docs(vectors), tmp_path / "idx", analyzer="none", weights=path)
    before = list(index.impact().search("t1 t2 t3"))
    new = write(tmp_path / "new.jsonl", {"new": {"t1": 9.0}})
    process = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "idx"), str(new), at], check=False)
    assert process.returncode == -signal.SIGKILL
    again = SparseIndex(tmp_path / "idx")
    again.verify()
    assert list(ImpactRetriever(again, CountedTerms()).search("t1 t2 t3")) == before
    with IndexWriter(tmp_path / "idx", Analyzer.parse("none"), workers=1) as writer:
        writer.choose_weights(FileWeights(str(new)))
        writer.add([Doc("new", "t1 t2")])
    named = {f for entry in writer.manifest.segments for f in entry.files}
    segments = list((tmp_path / "idx" / "segments").iterdir())
    assert len(segments) == 2
    assert {path.name for folder in segments for path in folder.rglob("*")} == named
    assert tr.open(tmp_path / "idx").impact().search("t1").docnos[0] == "new"


def test_whole_weights_are_filtered_and_deleted_as_counts_are(tmp_path):
    vectors = draw(60, 12, whole=True)
    counted = [
        Doc(docno, " ".join(" ".join([t] * int(w)) for t, w in own.items())) for docno, own in vectors.items()
    ]
    path = write(tmp_path / "w.jsonl", vectors)
    found = []
    for folder, texts, weights, over in (
        ("counts", counted, None, ""),
        ("weights", docs(vectors), path, ", over=weights"),
    ):
        halved = [replace(doc, columns={"half": number % 2}) for number, doc in enumerate(texts)]
        index = tr.index(halved, tmp_path / folder, analyzer="none", weights=weights)
        index.delete(["d3", "d41"])
        found.append(tr.pipeline(f"where(bm25(k1=8, b=0.9{over}), 'half == 1')", index).search("t1 t2 t3"))
    assert list(found[0]) == list(found[1])
    assert {"d3", "d41"}.isdisjoint(found[0].docnos)
    assert len(found[0]) > 5


def test_models_of_counts_read_whole_weights_by_their_text_form(tmp_path):
    vectors = draw(60, 11, whole=True)
    path = write(tmp_path / "w.jsonl", vectors)
    index = tr.index(docs(vectors), tmp_path / "idx", analyzer="none", weights=path)
    counted = {
        docno: " ".join(" ".join([t] * int(w)) for t, w in own.items()) for docno, own in vectors.items()
    }
    other = tr.index(counted, tmp_path / "counted", analyzer="none")
    for text in ("bm25(k1=8, b=0.9)", "lm_dirichlet(mu=100)", "tfidf(norm=cosine)", "inl2(c=2)", "dfi"):
        start = f"{text[:-1]}, " if text.endswith(")") else f"{text}("
        stage = tr.pipeline(f"{start}over=weights)", index)
        assert tr.pipeline(repr(stage), index) == stage
        for query in ("t1 t2", "t3 t3 t9"):  # as of texts that hold each term as often as its weight says
            assert list(stage.search(query)) == list(tr.pipeline(text, other).search(query))
    grid = make_grid(parse_similarity("bm25(over=weights)"))
    assert len({repr(each) for each in grid}) == len(grid) == 80
    assert parse_similarity(repr(grid[-1])) == grid[-1]
    for text, said in {
        "bm25(over=counts)": "over must be weights, got 'counts'",
        "bm25(over=weights, field=title)": "expected field or over, got both",
        "bm25(over=weights, over=weights)": "bm25: over is given twice",
    }.items():
        with pytest.raises(ExpressionError, match=said):
            tr.pipeline(text, index)
