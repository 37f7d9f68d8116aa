"""Predicting the queries of all documents, keeping the best, and writing them: each step can be gone on with.

What was done is kept (:mod:`telerank.corpus.derived.kept`): lines of queries and, if a re-ranker filters
them, their scores. What was kept of other documents, or made in another way, is dropped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice, tee
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from telerank.corpus.derived.kept import DocSource, KeptFile, add_to_digest, continue_lines, keeping
from telerank.corpus.derived.predicted import QUERIES, read_published
from telerank.drafts import remove
from telerank.errors import CollectionError, count_noun
from telerank.stored import file_checksum
from telerank.trec import check_exists, open_to_write
from telerank.types import Doc, Progress

WINDOW = 64
"""Documents that are done together."""
_LINES, _SCORES = "queries.jsonl", "scores.bin"


class Predictor(Protocol):
    """What predicts the queries of documents; ``settings`` has everything that decides them."""

    @property
    def settings(self) -> Mapping[str, object]: ...

    def predict(self, docs: Sequence[Doc]) -> tuple[list[list[str]], int]:
        """The queries of each document of a window, and how many documents were cut."""


@dataclass(frozen=True)
class QueryFilter:
    """Keeps the share ``keep`` of all queries that ``score`` gives the highest scores (doc2query--).

    ``score`` takes pairs of a query and a text; ``settings`` decide the scores. Mitko Gospodinov, Sean
    MacAvaney, Craig Macdonald: Doc2Query--: When Less is More (ECIR 2023).
    """

    score: Callable[[Sequence[tuple[str, str]]], npt.NDArray[Any]]
    keep: float
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class WrittenQueries:
    """What was written to ``output``: the queries that are left of all that were predicted.

    ``cut`` documents were longer than the model reads; ``without`` have no query. ``record`` is what stands
    in ``OUT.json``.
    """

    output: Path
    documents: int
    predicted: int
    queries: int
    cut: int = 0
    without: int = 0
    record: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        documents = count_noun(self.documents, "document")
        lines = [f"wrote {self.output}: {count_noun(self.queries, 'query')} of {documents}"]
        if self.queries < self.predicted:
            share = self.queries / self.predicted
            lines.append(f"the filter left {share:.1%} of {self.predicted:,} predicted queries")
        if self.cut:
            longest = self.record["settings"]["max_length"]
            lines.append(f"{count_noun(self.cut, 'document')} longer than {longest} pieces: cut there")
        if self.without:
            lines.append(f"{count_noun(self.without, 'document')} without a query")
        return "\n".join(lines)


def write_expansion(
    source: DocSource,
    output: Path,
    predictor: Predictor | Path,
    chosen: QueryFilter | None,
    progress: Progress,
) -> WrittenQueries:
    """Write the queries of all documents, a line of JSON each, in the order of the documents.

    ``predictor`` is a model, or a published file (:mod:`telerank.corpus.derived.predicted`).

    Raises
    ------
    ModelError
        If another process writes this output.
    CollectionError
        If there is no document.
    FormatError
        If a published file is wrong, or has not a line for each document.
    """
    with keeping(output) as scratch:
        settings = dict(_describe(predictor))
        lines = KeptFile(scratch / _LINES, json.dumps(settings, sort_keys=True))
        if isinstance(predictor, Path):
            _copy_published(source, predictor, lines, progress)
        else:
            _predict(source, predictor, lines, progress)
        if not lines.items:
            raise CollectionError(f"{source.name} has no document")
        scores: npt.NDArray[np.float32] | None = None
        if chosen is not None:
            settings |= {"filter": dict(chosen.settings), "keep": chosen.keep}
            scores = _score(source, chosen, lines, scratch, progress)
        return _finish(
            output, lines, _mark_best(scores, chosen), {"collection": source.name, "settings": settings}
        )


def _describe(predictor: Predictor | Path) -> Mapping[str, object]:
    if not isinstance(predictor, Path):
        return predictor.settings
    check_exists(predictor)
    digest = "" if predictor.is_dir() else file_checksum(predictor)
    return {"predicted": str(predictor), "checksum": digest}


def _predict(source: DocSource, predictor: Predictor, lines: KeptFile, progress: Progress) -> None:
    def make(docs: Sequence[Doc]) -> tuple[bytes, Mapping[str, int]]:
        queries, cut = predictor.predict(docs)
        content = b"".join(_make_line(doc, each) for doc, each in zip(docs, queries, strict=True))
        return content, {"cut": cut, **_count(queries)}

    continue_lines(
        source, lines, WINDOW, make, lambda: progress("predicting queries", lines.items, source.size)
    )


def _copy_published(source: DocSource, path: Path, lines: KeptFile, progress: Progress) -> None:
    """The queries of a published file as lines: from the beginning, as that is soon done."""
    lines.clear()
    digest = sha256()
    docs, named = tee(source.open())
    pairs = zip(docs, read_published(path)(doc.docno for doc in named), strict=True)
    while window := list(islice(pairs, WINDOW)):
        for doc, _ in window:
            add_to_digest(digest, doc)
        content = b"".join(_make_line(doc, each) for doc, each in window)
        lines.append(content, len(window), digest.hexdigest(), _count([each for _, each in window]))
        progress("reading queries", lines.items, source.size)


def _score(
    source: DocSource, chosen: QueryFilter, lines: KeptFile, scratch: Path, progress: Progress
) -> npt.NDArray[np.float32]:
    """The score of every query, in their order."""
    key = json.dumps([lines.digest, lines.counts, dict(chosen.settings)], sort_keys=True, default=str)
    scores = KeptFile(scratch / _SCORES, key)
    pairs = zip(source.open(), _read_lines(lines), strict=False)
    for _ in islice(pairs, scores.items):
        pass
    while window := list(islice(pairs, WINDOW)):
        texts = [(query, doc.full_text) for doc, record in window for query in record[QUERIES]]
        values = np.asarray(chosen.score(texts), np.float32) if texts else np.zeros(0, np.float32)
        scores.append(values.tobytes(), len(window), lines.digest)
        progress("scoring queries", scores.items, source.size)
    return np.frombuffer(scores.read(), np.float32)


def _mark_best(
    scores: npt.NDArray[np.float32] | None, chosen: QueryFilter | None
) -> npt.NDArray[np.bool_] | None:
    """Which queries are kept: those of the share with the highest scores; of equal scores all."""
    if scores is None or chosen is None or not len(scores):
        return None
    first = len(scores) - max(round(chosen.keep * len(scores)), 1)
    kept: npt.NDArray[np.bool_] = scores >= np.partition(scores, first)[first]
    return kept


def _finish(
    output: Path, lines: KeptFile, kept: npt.NDArray[np.bool_] | None, record: Mapping[str, Any]
) -> WrittenQueries:
    predicted, left, without = lines.counts.get("queries", 0), 0, 0
    counts: dict[str, int] = {}

    def describe() -> Mapping[str, Any]:
        return {**record, **counts}

    with open_to_write(output, describe) as file:
        number = 0
        for line in _read_lines(lines):
            queries = line[QUERIES]
            if kept is not None:
                marks = kept[number : number + len(queries)].tolist()
                number += len(queries)
                queries = [query for query, is_kept in zip(queries, marks, strict=True) if is_kept]
            left, without = left + len(queries), without + (not queries)
            file.write(_show_line(line["id"], queries))
        counts |= {"documents": lines.items, "predicted": predicted, "queries": left}
        counts |= {"cut": lines.counts.get("cut", 0), "without": without}
    remove(lines.path.parent)
    return WrittenQueries(output, **counts, record=record)


def _read_lines(lines: KeptFile) -> Iterator[dict[str, Any]]:
    with lines.path.open("rb") as file:
        for line in islice(file, lines.items):
            yield json.loads(line)


def _make_line(doc: Doc, queries: Sequence[str]) -> bytes:
    return _show_line(doc.docno, queries).encode("utf-8", "surrogatepass")


def _show_line(docno: str, queries: Sequence[str]) -> str:
    return json.dumps({"id": docno, QUERIES: list(queries)}, ensure_ascii=False) + "\n"


def _count(queries: Sequence[Sequence[str]]) -> dict[str, int]:
    return {"queries": sum(map(len, queries))}
