"""Small collections for the tests of the sparse engine, and its ranking worked out in plain Python."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from telerank.sparse.index import SparseIndex
from telerank.sparse.retriever import SparseRetriever
from telerank.sparse.similarities.base import Similarity, Statistics
from telerank.sparse.similarities.families import (
    BM25,
    DFI,
    DFR,
    H1,
    H2,
    H3,
    LMDirichlet,
    LMJelinekMercer,
    NoNormalization,
    Z,
    parse_similarity,
)
from telerank.sparse.similarities.literal import TFIDF, BM25Printed
from telerank.sparse.writer import build_index
from telerank.stored import compute_checksum, record_files
from telerank.types import Doc

MODELS: tuple[Similarity, ...] = (
    BM25(),
    BM25(0.9, 0.4),
    BM25(0, 0),
    LMDirichlet(),
    LMDirichlet(10),
    LMJelinekMercer(),
    LMJelinekMercer(1),  # every score is 0
    *(
        DFR(basic, after, normalization)
        for basic in ("g", "if", "in", "ine")
        for after in ("b", "l", "none")
        for normalization in (H1(), H2(), H3(), Z(), NoNormalization())
    ),
    DFI("standardized"),
    DFI("saturated"),
    DFI("chisquared"),
    *(TFIDF(tf, idf) for tf in ("raw", "log", "sqrt") for idf in ("log", "smooth")),
    TFIDF("sqrt", "smooth", "length"),
    TFIDF(norm="none"),
    BM25Printed(),
)
STEP = 2.0**-20


def docs(texts: Iterable[str], first: int = 0) -> list[Doc]:
    """``d0``, ``d1``, …: as strings ``d10`` stands before ``d2``."""
    return [Doc(f"d{number}", text) for number, text in enumerate(texts, first)]


def build(folder: Path, texts: Iterable[str], analyzer: str = "none") -> SparseIndex:
    return build_index(docs(texts), folder, analyzer=analyzer, workers=1)


def contents(folder: Path) -> dict[str, bytes]:
    """The files of an index's one segment."""
    [segment] = (folder / "segments").iterdir()
    return {path.name: path.read_bytes() for path in segment.iterdir()}


def write_format_1(folder: Path) -> None:
    """Make an index one of format 1: postings in plain arrays, numbers of 64 bits, no kind of weights."""
    index = SparseIndex(folder)
    entries = []
    for entry, segment in zip(index.manifest.segments, index.segments, strict=True):
        rows, tfs = segment.postings.read(np.arange(len(segment.terms)))
        large = np.flatnonzero(tfs >= 255)
        arrays = {
            "rows": rows,
            "tfs": np.minimum(tfs, 255).astype(np.uint8),
            "tfs.large": np.column_stack((large, tfs[large])),
            "offsets": segment.offsets.astype(np.int64),
            "occurrences": segment.occurrences.astype(np.int64),
            "terms.starts": np.load(segment.folder / "terms.starts.npy").astype(np.int64),
        }
        for name in ("postings.npy", "starts.npy"):
            (segment.folder / name).unlink()
        for name, values in arrays.items():
            np.save(segment.folder / f"{name}.npy", values)
        entries.append(
            {**asdict(entry), "files": {n: asdict(f) for n, f in record_files(segment.folder).items()}}
        )
        del entries[-1]["format"]
    record = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    record |= {"segments": entries, "format": 1}
    del record["crc32"], record["weights"]
    content = json.dumps(record | {"crc32": compute_checksum(record)})
    (folder / "manifest.json").write_text(content, encoding="utf-8")


def retriever(index: SparseIndex, model: Similarity | str = "bm25") -> SparseRetriever:
    return SparseRetriever(index, parse_similarity(model) if isinstance(model, str) else model)


def reference(
    documents: Mapping[str, Sequence[str]],
    query: Sequence[str],
    model: Similarity,
    gone: Iterable[str] = (),
) -> tuple[list[tuple[str, float]], dict[str, float]]:
    """The whole ranking of documents given as terms, best first, and the scores without any rounding.

    The ranking's scores are sums of contributions rounded to 2^-20, then to float32. Documents that are
    ``gone`` count in the statistics and are not ranked.
    """
    counts = {docno: Counter(terms) for docno, terms in documents.items()}
    nonempty = [terms for terms in documents.values() if terms]
    collection = Statistics(len(nonempty), sum(map(len, nonempty)))
    norms = vector_lengths(counts, model, collection) if isinstance(model, TFIDF) else {}
    steps: Counter[str] = Counter()
    exact: Counter[str] = Counter()
    for term, weight in Counter(query).items():
        holding = [docno for docno, count in counts.items() if count[term]]
        tfs = [counts[docno][term] for docno in holding]
        lengths = [len(documents[docno]) for docno in holding]
        values = model.contributions(tfs, lengths, len(holding), sum(tfs), collection) if holding else ()
        values = np.asarray(values).tolist()
        if isinstance(model, TFIDF) and model.norm == "cosine":
            values = [v / (norms[docno] or 1.0) for docno, v in zip(holding, values, strict=True)]
        for docno, value in zip(holding, values, strict=True):
            steps[docno] += round(value / STEP) * weight
            exact[docno] += value * weight
    for docno in gone:
        del steps[docno]
    scores = {docno: float(np.float32(total) * np.float32(STEP)) for docno, total in steps.items()}
    ranked = sorted(scores.items(), key=lambda pair: (pair[1], pair[0]), reverse=True)
    return ranked, dict(exact)


def vector_lengths(
    counts: Mapping[str, Counter[str]], model: TFIDF, collection: Statistics
) -> dict[str, float]:
    """The length of each document's vector, its terms added in their order."""
    df = Counter(term for count in counts.values() for term in count)
    inverse = {"log": lambda n: np.log(collection.documents / n)}.get(
        model.idf, lambda n: 1 + np.log((collection.documents + 1) / (n + 1))
    )
    occurrences = {"raw": float, "log": lambda tf: 1 + np.log(tf), "sqrt": np.sqrt}[model.tf]
    squares = dict.fromkeys(counts, 0.0)
    for docno, count in counts.items():
        for term in sorted(count):
            squares[docno] += float(occurrences(count[term]) * inverse(df[term])) ** 2
    return {docno: float(np.sqrt(square)) for docno, square in squares.items()}


def terms_of(index: SparseIndex) -> dict[str, list[str]]:
    """What the index should have made of its documents."""
    return {doc.docno: index.analyzer(doc.full_text) for doc in index.docs.values()}
