"""The dense first stage: the documents whose vectors have the largest inner products with the query's.

Approximate search is with FAISS (extra ``ann``): graphs (HNSW) and lists of product codes (IVF-PQ).
``approximate.KIND.json`` and ``approximate.KIND.CHECKSUM.faiss`` are files beside the vectors. The former
names the latter and the vectors, so that replacing it replaces the index; it reports which share of the exact
best rows the index finds. The rows found are scored exactly.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from telerank.columns.filters import Filter
from telerank.dense.encoder import Encoder, TorchEncoder, open_encoder
from telerank.dense.kinds import Floats
from telerank.dense.manifest import VectorManifest
from telerank.dense.search import TOGETHER, Hits, rank_exhaustively, rank_rows, search
from telerank.dense.segments import SegmentDocs
from telerank.dense.vectors import Encoded, Vectors
from telerank.drafts import DRAFT, replace_file, sweep, sync_file
from telerank.errors import (
    IndexDamaged,
    IndexFault,
    MissingExtra,
    ModelError,
    count_noun,
    known_names,
    nearest_name,
)
from telerank.expressions import (
    as_call,
    bind,
    call_text,
    parse_expression,
    quote,
    whole_number,
    wrong,
)
from telerank.records import read_record
from telerank.stage import Retriever, check_depth
from telerank.stored import compute_checksum, compute_crc32
from telerank.types import Docs, Explanation, Phrase, Progress, Query, Ranking, silent

# Rows that an approximate index finds for a query, by default.
CANDIDATES = 1000
# Kinds and parameters; 0 for ``ivfpq``: 4 times the square root of the rows, an eighth of the dimensions.
DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "hnsw": {"links": 32, "construction": 200, "search": 256},
    "ivfpq": {"lists": 0, "bytes": 0, "probes": 64},
}
CUTOFFS = (10, 100, 1000)
_SAMPLED = 200  # queries for which recall is measured
_TRAINED_ON = 1 << 17  # rows that lists and codes are learned from, at most


@dataclass(frozen=True)
class RecallReport:
    """How an approximate index was built, and the share of the exact best k that it finds, by k.

    It has the first ``rows`` that are stored, whose checksum is ``vectors``; others are searched exactly.
    """

    kind: str
    parameters: Mapping[str, int]
    recall: Mapping[int, float]
    queries: int
    sampled: str
    vectors: int = 0
    crc32: int = 0
    rows: int = 0


@dataclass(frozen=True, repr=False)
class DenseRetriever(Retriever):
    """Ranks all documents by inner product; ``depth`` None keeps all of them.

    ``batch`` queries are read, encoded and searched together. A query's ranking does not depend on the batch,
    but the model's arithmetic may differ in the last digits. ``threads`` divide the rows among themselves;
    with a ``device`` such as ``cuda:1`` torch searches on a GPU. Rankings are the same.

    With ``approximate``, the kind of an index beside the vectors, the ``candidates`` that it finds are ranked
    by their exact scores; :attr:`report` is of that index.

    Raises ModelError if the encoder is not the one that made the vectors, IndexFault if there is no such
    approximate index of them. ``docs`` are read by stages after it.

    Documents that do not pass the filter ``chosen`` are not there. Then a processor searches; if an
    approximate index finds fewer documents than there are, all that pass are scored: ``remarks`` count that.
    """

    vectors: Vectors
    encoder: Encoder
    depth: int | None = None
    batch: int = field(default=64, compare=False)
    threads: int = field(default=1, compare=False)
    device: str = field(default="cpu", compare=False)
    name: str = field(default="", compare=False)
    docs: Docs | None = field(default=None, compare=False)
    approximate: str | None = None
    candidates: int = CANDIDATES
    report: RecallReport | None = field(default=None, init=False, compare=False)
    chosen: Filter | None = None
    fallbacks: Counter[str] = field(default_factory=Counter, init=False, compare=False)
    searches_within = True
    role = "dense"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_depth(self.threads)
        check_depth(self.candidates)
        mine, other = self.vectors.manifest, self.encoder
        if mine.fingerprint != other.fingerprint:
            raise ModelError(
                f"{self.vectors.folder}: its vectors were made by {mine.model} "
                f"({mine.fingerprint[:12]}), not by {other.name} ({other.fingerprint[:12]})"
            )
        if self.approximate is not None:
            object.__setattr__(self, "report", read_report(self.vectors, self.approximate))
        if self.chosen is not None:
            self.chosen.bind(self._columned.kinds)

    @property
    def _columned(self) -> SegmentDocs:
        if not isinstance(self.docs, SegmentDocs):
            raise IndexFault(f"{self.vectors.folder}: vectors without an index have no columns to filter by")
        return self.docs

    def approximately(self, kind: str, candidates: int = CANDIDATES) -> DenseRetriever:
        """The same by an approximate index, which a processor searches."""
        return replace(self, approximate=kind, candidates=candidates, device="cpu")

    def in_batches(self, batch: int, threads: int = 1) -> DenseRetriever:
        """On a GPU batches are at least as large as it searches together, unless queries come one by one."""
        least = TOGETHER if self.device != "cpu" and batch > 1 else 1
        return replace(self, batch=max(batch, least), threads=threads)

    @property
    def call(self) -> str:
        values: dict[str, object] = {} if self.approximate is None else {"approximate": self.approximate}
        if self.candidates != CANDIDATES:
            values["candidates"] = self.candidates
        return call_text("dense", quote(self.name or self.encoder.name), **values)

    @property
    def sources(self) -> Mapping[str, object]:
        report = {} if self.report is None else asdict(self.report)
        return {f"dense({self.name or self.encoder.name})": {**self.vectors.identity, **report}}

    @property
    def remarks(self) -> Sequence[str]:
        if total := self.fallbacks["filtered"]:
            exact = self.fallbacks["exact"]
            return (
                [f"{self.call}: {exact:,} of {count_noun(total, 'filtered search')} scored all that pass"]
                if exact
                else ()
            )
        if self.device == "cpu":
            return ()
        from telerank.dense.torch_search import describe_memory

        memory = describe_memory(self.vectors, self.device)
        return [f"{self.call}: {memory}"] if memory else ()

    def explanation(self, query: Query, docno: str) -> Explanation:
        row = np.array([self.vectors.docnos.row(docno)], np.int64)
        if row[0] not in self._searched.rows:
            raise KeyError(docno)
        [target] = self.vectors.require(self.encoder.encode_queries([query.text]))
        lengths = [float(np.linalg.norm(vector)) for vector in (target, self.vectors.take(row)[0])]
        score = float(self.vectors.score_rows(row, target)[0])
        product = lengths[0] * lengths[1]
        parts = (
            Explanation(lengths[0], "length of the query's vector"),
            Explanation(lengths[1], "length of the document's vector"),
            Explanation(score / product if product else 0.0, "cosine of the angle between them"),
        )
        model = self.name or self.encoder.name
        if fields := self.vectors.manifest.fields:
            model += f" ({', '.join(fields)})"
        what = "inner product of {n} dimensions, by {model}: the product of"
        return Explanation(score, Phrase(what, n=self.vectors.dimension, model=model), parts)

    def rank_batch(self, queries: list[Query]) -> Iterator[Ranking]:
        return self.rank_encoded(queries, self.encoder.encode_queries([query.text for query in queries]))

    def rank_encoded(self, queries: Sequence[Query], encoded: Encoded) -> Iterator[Ranking]:
        """The rankings of queries whose vectors are given."""
        searched = self._searched
        most = len(searched) if self.report is None else min(self.candidates, len(searched))
        depth = most if self.depth is None else min(self.depth, most)
        for query, (rows, scores) in zip(queries, self._search(encoded, depth), strict=True):
            docnos = self.vectors.docnos.take(rows[:depth])
            yield Ranking.presorted(query, tuple(docnos), scores[:depth])

    @property
    def _searched(self) -> Vectors:
        """The vectors of the documents that pass the filter."""
        if self.chosen is None:
            return self.vectors
        docs: Any = self._columned  # hashed by identity, as of any index
        return _select(self.vectors, docs, self.chosen)

    def _search(self, queries: Encoded, depth: int) -> Iterable[Hits]:
        vectors = self._searched
        if not depth:
            return [Hits(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries.vectors]
        if self.report is not None:
            index = _open_index(self.vectors, self.report.kind, self.report.crc32)
            if self.chosen is None:
                return _search_index(vectors, index, self.report, queries, self.candidates)
            return self._search_filtered(vectors, index, queries, depth)
        if self.device == "cpu" or self.chosen is not None:
            return search(vectors, queries, depth, threads=self.threads)
        from telerank.dense.torch_search import load_on_device

        return load_on_device(self.vectors, self.device).search(queries, depth)

    def _search_filtered(self, vectors: Vectors, index: Any, queries: Encoded, depth: int) -> Iterator[Hits]:
        """The rows that an approximate index finds among those that pass, or the best of all of them."""
        nearest: Iterable[Hits | None] = [None] * len(queries.vectors)
        if self.report is not None and not vectors.are_few:
            nearest = _search_index(vectors, index, self.report, queries, self.candidates)
        for hits, query in zip(nearest, vectors.require(queries), strict=True):
            is_short = hits is None or len(hits.rows) < depth
            self.fallbacks.update({"filtered": 1, "exact": int(is_short)})
            yield rank_exhaustively(vectors, query, depth) if hits is None or is_short else hits


def open_retriever(
    vectors: Vectors | str | Path,
    model: str | Encoder | None = None,
    *,
    name: str = "",
    docs: Docs | None = None,
) -> DenseRetriever:
    """Open the retriever over a folder of vectors; without ``model``, the one that the folder names is used.

    ``name`` is the model's name in the text of the stage, ``docs`` are the documents.
    Raises as :class:`Vectors`, :class:`DenseRetriever`
    and :class:`TorchEncoder` do.
    """
    opened = vectors if isinstance(vectors, Vectors) else Vectors(vectors)
    encoder = model or opened.manifest.model
    if isinstance(encoder, str):
        encoder = open_encoder(encoder, precision=opened.manifest.settings.get("precision", "float32"))
    device = encoder.device_name if isinstance(encoder, TorchEncoder) else "cpu"
    batch = 64 if device == "cpu" else TOGETHER
    return DenseRetriever(opened, encoder, batch=batch, device=device, name=name, docs=docs)


def build_approximate(
    vectors: Vectors, kind: str = "hnsw", *, queries: Encoded | None = None, progress: Progress = silent
) -> RecallReport:
    """Build an approximate index beside the vectors; ``kind`` may name parameters: ``hnsw(links=16)``.

    Recall is measured for ``queries``; without them, for 200 of the documents' vectors. An unknown kind or
    parameter raises ModelError.
    """
    faiss = _faiss()
    name, parameters = parse_kind(kind, vectors)
    inner = faiss.METRIC_INNER_PRODUCT
    if name == "ivfpq":
        codes = f"IVF{parameters['lists']},PQ{parameters['bytes']}x8"
        index = faiss.index_factory(vectors.dimension, codes, inner)
    else:
        half, links = faiss.ScalarQuantizer.QT_fp16, parameters["links"]
        index = faiss.IndexHNSWSQ(vectors.dimension, half, links, inner)
        index.hnsw.efConstruction = parameters["construction"]
    if not index.is_trained:
        progress("learning lists and codes", 0, None)
        index.train(_sample(vectors, min(_TRAINED_ON, len(vectors))))
    for first, block in vectors.read_blocks():
        index.add(block)
        progress(f"building {name}", first + len(block), vectors.manifest.rows)
    record = _record_file(vectors, name)
    draft = record.with_suffix(f".faiss{DRAFT}")
    faiss.write_index(index, str(draft))
    searched = queries or Encoded(_sample(vectors, min(_SAMPLED, len(vectors))), vectors.manifest.fingerprint)
    sampled = "documents as queries" if queries is None else "queries"
    rows = vectors.manifest.rows
    facts = len(searched.vectors), sampled, _identity(vectors.manifest, rows), compute_crc32(draft), rows
    report = RecallReport(name, parameters, {}, *facts)
    report = replace(report, recall=_recall(vectors, index, report, searched))
    file = _index_file(vectors, name, report.crc32)
    sync_file(draft)
    draft.replace(file)
    replace_file(record, f"{json.dumps(report.__dict__, indent=1)}\n".encode())
    sweep(vectors.folder.glob(f"approximate.{name}.*"), (file.name, record.name))
    return report


def parse_kind(text: str, vectors: Vectors) -> tuple[str, dict[str, int]]:
    """Parse the text of an index: ``hnsw``, ``ivfpq(lists=1024, probes=32)``; kind and parameters."""
    call = as_call(parse_expression(text), text)
    if call.name not in DEFAULTS:
        raise wrong(
            text, call.at, f"unknown approximate index {call.name!r}; {known_names(DEFAULTS, call.name)}"
        )
    defaults = DEFAULTS[call.name]
    given = {name: whole_number(value, text) for name, value in bind(call, defaults, text).items()}
    parameters = {**defaults, **given}
    if call.name == "ivfpq":
        parameters["lists"] = parameters["lists"] or max(
            1, min(int(4 * len(vectors) ** 0.5), len(vectors) // 39)
        )
        # the divisor of the dimensions that is nearest to an eighth of them
        divisors = (n for n in range(1, vectors.dimension + 1) if vectors.dimension % n == 0)
        nearest = min(divisors, key=lambda n: abs(n - vectors.dimension / 8))
        parameters["bytes"] = parameters["bytes"] or nearest
        if vectors.dimension % parameters["bytes"]:
            raise ModelError(
                f"{text!r}: {parameters['bytes']} bytes do not divide {vectors.dimension} dimensions"
            )
    return call.name, parameters


def read_report(vectors: Vectors, kind: str) -> RecallReport:
    """The report of an approximate index; raises IndexFault if there is none of these vectors."""
    record = _record_file(vectors, kind)
    if not record.is_file():
        built = f'tr.encode(INDEX, approximate="{kind}"), telerank encode INDEX --approximate {kind}'
        help_ = f"; to build one: {built}" if kind in DEFAULTS else nearest_name(DEFAULTS, kind)
        raise IndexFault(f"{vectors.folder}: no approximate index {kind!r}{help_}")
    report = read_record(record, RecallReport, IndexDamaged)
    if report.vectors != _identity(vectors.manifest, report.rows):
        raise IndexFault(f"{record}: is of other vectors; build it again")
    return report if report.rows else replace(report, rows=vectors.manifest.rows)


def list_reports(folder: Path, manifest: VectorManifest) -> dict[str, RecallReport]:
    """The reports of the approximate indexes of vectors, by the texts of their kinds and parameters."""
    reports = (read_record(file, RecallReport, IndexDamaged) for file in folder.glob("approximate.*.json"))
    return {
        call_text(report.kind, **report.parameters): report
        for report in reports
        if report.vectors == _identity(manifest, report.rows)
    }


def renew_reports(folder: Path, manifest: VectorManifest) -> None:
    """Let approximate indexes of these vectors stay valid when shards are added to the vectors."""
    rows = manifest.rows
    for report in list_reports(folder, manifest).values():
        renewed = replace(report, vectors=_identity(manifest, rows), rows=rows)
        record = f"{json.dumps(renewed.__dict__, indent=1)}\n"
        replace_file(folder / f"approximate.{report.kind}.json", record.encode())


@lru_cache(maxsize=4)
def _open_index(vectors: Vectors, kind: str, crc32: int) -> Any:
    file = _index_file(vectors, kind, crc32)
    if not file.is_file():
        raise IndexDamaged(f"{file}: missing")
    if compute_crc32(file) != crc32:
        raise IndexDamaged(f"{file}: damaged (its checksum differs)")
    return _faiss().read_index(str(file))


@lru_cache(maxsize=8)
def _select(vectors: Vectors, docs: SegmentDocs, chosen: Filter) -> Vectors:
    return vectors.within(docs.hidden(chosen))


def _search_index(
    vectors: Vectors,
    index: Any,
    report: RecallReport,
    queries: Encoded,
    k: int,
) -> Iterator[Hits]:
    """The rows that an approximate index finds among those that are searched, by their exact scores."""
    faiss, depth, parameters = _faiss(), min(k, len(vectors)), report.parameters
    selector = None if len(vectors) == vectors.manifest.rows else faiss.IDSelectorBatch(vectors.rows)
    if report.kind == "ivfpq":
        how = faiss.SearchParametersIVF(sel=selector, nprobe=min(parameters["probes"], parameters["lists"]))
    else:
        how = faiss.SearchParametersHNSW(sel=selector, efSearch=max(parameters["search"], depth))
    targets = vectors.require(queries)
    searched = vectors.rows
    covered = int(np.searchsorted(searched, report.rows))
    _, nearest = index.search(targets, depth, params=how)
    for query, row in zip(targets, nearest, strict=True):
        # FAISS fills up with -1, and has rows that are not searched any more
        numbers = np.intersect1d(row[row >= 0].astype(np.int64), searched[:covered], assume_unique=True)
        yield rank_rows(vectors, np.concatenate([numbers, searched[covered:]]), query, depth)


def _recall(vectors: Vectors, index: Any, report: RecallReport, queries: Encoded) -> dict[int, float]:
    cutoffs = [k for k in CUTOFFS if k <= len(vectors)] or [len(vectors)]
    exact = search(vectors, queries, max(cutoffs))
    recall = {}
    for k in cutoffs:
        # rows that tie with the last of the exact list count
        pairs = zip(_search_index(vectors, index, report, queries, k), exact, strict=True)
        recall[k] = round(float(np.mean([(a.scores >= b.scores[k - 1]).sum() / k for a, b in pairs])), 4)
    return recall


def _sample(vectors: Vectors, count: int) -> Floats:
    """``count`` vectors, spread evenly over the rows."""
    return vectors.take(vectors.rows[np.linspace(0, len(vectors) - 1, count).astype(np.int64)])


def _identity(manifest: VectorManifest, rows: int) -> int:
    """The checksum of the shards that have the first ``rows``; 0: of all that older manifests had."""
    if not rows:
        record = asdict(manifest)
        for shard in record["shards"]:
            del shard["segments"]
        return compute_checksum(record)
    ends = np.cumsum([entry.rows for entry in manifest.shards])
    first = manifest.shards[: int(np.searchsorted(ends, rows)) + 1]
    names = [(entry.file_names["vectors"], entry.file_names["bounds"]) for entry in first]
    crc32 = [[entry.files[name].crc32 for name in pair] for entry, pair in zip(first, names, strict=True)]
    return compute_checksum({"rows": rows, "crc32": crc32})


def _record_file(vectors: Vectors, kind: str) -> Path:
    return vectors.folder / f"approximate.{kind}.json"


def _index_file(vectors: Vectors, kind: str, crc32: int) -> Path:
    return vectors.folder / f"approximate.{kind}.{crc32:08x}.faiss"


def _faiss() -> Any:
    try:
        import faiss
    except ModuleNotFoundError as error:
        raise MissingExtra("faiss-cpu", "ann") from error
    return faiss
