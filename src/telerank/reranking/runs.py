"""Scoring the candidates of a run again: checked first, scored while they are read; and calibrating int8.

Half of the judged queries of another run calibrate int8, the other half compare it with float32.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from telerank.corpus.collection import Collection
from telerank.corpus.docstore import Docstore, DocstoreWriter, read_doc
from telerank.corpus.read_fields import FieldNames, check_known, select_fields
from telerank.errors import CollectionError, ModelError, count_noun
from telerank.evaluation.measures import measure
from telerank.reranking.scorer import Scorer
from telerank.reranking.stage import CrossReranker
from telerank.show.progress import show_progress
from telerank.stage import Stage
from telerank.trec import read_run
from telerank.types import Docs, ProgressSetting, Qrels, Query, Ranking


@dataclass
class RunCandidates:
    """The first ``depth`` documents of each query of a run file, which is read again by each iteration.

    With ``lists``, of the rankings that this stage gives. The texts of the queries are those of a
    collection's ``split``. Queries of ``excluded`` are refused: those that calibrate int8. Raises
    CollectionError if a query has no text, or is excluded.
    """

    run: str
    queries: Collection
    split: str | None
    depth: int | None
    lists: Stage | None = None
    excluded: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.texts = {query.qid: query.text for query in self.queries.split_queries(self.split)}

    def __iter__(self) -> Iterator[Ranking]:
        queries = map(Query, self.texts.keys(), self.texts.values())
        for ranking in read_run(self.run) if self.lists is None else self.lists.run(queries):
            qid = ranking.query.qid
            if qid not in self.texts:
                known = f"{count_noun(len(self.texts), 'query')} of {self.queries.name}"
                raise CollectionError(f"{self.run}: query {qid} is none of the {known}")
            if qid in self.excluded:
                raise CollectionError(
                    f"{self.run}: query {qid} is in dev=…, too: int8 needs other queries there"
                )
            candidates = replace(ranking, query=Query(qid, self.texts[qid]))
            yield candidates if self.depth is None else candidates.cut(self.depth)

    def check(self, docnos: set[str] | None) -> tuple[Iterable[Ranking], int | None]:
        """The candidates, read once to find errors before anything is scored, and their number.

        Their docnos are added to ``docnos``; if that is None, a piped run is not read ahead or counted.
        """
        candidates: Iterable[Ranking] = self
        if self.run == "-" or (Path(self.run).exists() and not Path(self.run).is_file()):  # piped: read once
            if docnos is None:
                return self, None
            candidates = list(self)
        total = 0
        for ranking in candidates:
            total += len(ranking)
            if docnos is not None:
                docnos.update(ranking.docnos)
        return candidates, total


@dataclass
class RunScoring:
    """Scoring the candidates of one run, which are read and checked first, and what it took.

    int8 is calibrated on ``dev``. ``name`` stands for the documents; those of a collection are stored in a
    folder that is removed with them.
    """

    scorer: Scorer
    docs: Docs | Collection
    name: str
    run: RunCandidates
    dev: RunCandidates | None
    k: int | None
    fields: FieldNames = ()
    calibration: Calibration | None = field(default=None, init=False)
    seconds: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        if (self.scorer.precision == "int8") != (self.dev is not None):
            raise ModelError("int8 goes with dev=…, a run to calibrate it and to measure its loss on")
        calibrating = list(self.dev or ())
        self.run.excluded = frozenset(ranking.query.qid for ranking in calibrating)
        docnos = {docno for ranking in calibrating for docno in ranking.docnos}
        is_collection = isinstance(self.docs, Collection)
        self.candidates, self.total = self.run.check(docnos if is_collection else None)
        runs = self.run.run if self.dev is None else f"{self.run.run} or {self.dev.run}"
        texts = _store_docs(self.docs, docnos, runs) if isinstance(self.docs, Collection) else self.docs
        check_known(self.fields, texts)
        self.texts = select_fields(texts, self.fields)
        if self.dev is not None:
            judged = self.dev.queries.judged(self.dev.split)
            self.calibration = calibrate(self.scorer, self.texts, calibrating, judged)
            self.scorer = self.calibration.scorer

    def compute(
        self,
        rerank: Callable[[CrossReranker, Iterable[Ranking]], Iterable[Ranking]],
        progress: ProgressSetting,
    ) -> Iterator[Ranking]:
        """The rankings, as ``rerank`` computes them."""
        began = time.perf_counter()
        with show_progress(progress, self.total) as shown:
            for ranking in rerank(CrossReranker(self.scorer, self.texts, self.k), self.candidates):
                shown("scoring", self.scorer.counts.pairs, self.total)
                yield ranking
        self.seconds = time.perf_counter() - began

    def record(self) -> dict[str, Any]:
        """What was computed, for JSON."""
        counts, scorer = self.scorer.counts, self.scorer
        record = {
            "model": scorer.name,
            "backend": scorer.backend,
            "precision": scorer.computes_in,
            "max_query": scorer.max_query,
            "max_length": scorer.max_length,
            "pairs": counts.pairs,
            "seconds": round(self.seconds, 3),
            "cut pairs": counts.cut_pairs,
            "cut tokens": counts.cut,
            "run": self.run.run,
            "depth": self.run.depth,
            "k": self.k,
            "texts": self.name,
            **({"fields": list(self.fields)} if self.fields else {}),
            "queries": self.run.queries.name,
        }
        return record if self.calibration is None else {**record, "loss": self.calibration.record()}

    def describe(self) -> list[str]:
        """What was scored, cut and lost, in lines."""
        counts, scorer = self.scorer.counts, self.scorer
        rate = f"{self.seconds:.1f} s, {counts.pairs / max(self.seconds, 1e-9):,.0f} a second"
        by = f"{scorer.name} in {scorer.backend} {scorer.computes_in}"
        calibration = "" if self.calibration is None else str(self.calibration)
        lines = (scorer.describe_cut(), scorer.describe_memory(), calibration)
        return [f"scored {count_noun(counts.pairs, 'pair')} by {by} ({rate})", *filter(None, lines)]


def _store_docs(collection: Collection, docnos: set[str], runs: str) -> Docs:
    """The documents of a collection that are named, in a docstore in a folder that is removed with it."""
    missing = set(docnos)
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="telerank-", ignore_cleanup_errors=True))
        with DocstoreWriter(folder) as writer:
            for doc in collection.docs():
                if doc.docno in missing:
                    missing.remove(doc.docno)
                    writer.add(doc)
        if missing:
            more = f" (and {len(missing) - 1:,} more)" if len(missing) > 1 else ""
            raise CollectionError(
                f"{runs}: {min(missing)!r}{more} is none of the documents of {collection.name}"
            )
        store = Docstore(folder)
        weakref.finalize(store, stack.pop_all().close)
    return store


MEASURE = "nDCG@10"
_CALIBRATION_PAIRS, _MEASURED_PAIRS = 300, 2000  # at most


@dataclass(frozen=True)
class Calibration:
    """A calibrated scorer, and what it loses on ``queries`` that it was not calibrated on.

    ``float32`` and ``int8`` are means of :data:`MEASURE`; ``correlation`` is the rank correlation of scores.
    """

    scorer: Scorer
    float32: float
    int8: float
    correlation: float
    queries: int

    def __str__(self) -> str:
        means = f"{MEASURE} {self.int8:.4f} instead of {self.float32:.4f} in float32"
        where = f"on {self.queries} dev queries that it was not calibrated on"
        return f"int8: {means}, rank correlation of scores {self.correlation:.4f} ({where})"

    def record(self) -> dict[str, Any]:
        """The loss, for JSON."""
        means = {"int8": self.int8, "float32": self.float32}
        return {MEASURE: means, "rank correlation": self.correlation, "queries": self.queries}


def calibrate(scorer: Scorer, docs: Docs, rankings: Sequence[Ranking], qrels: Qrels) -> Calibration:
    """Calibrate a scorer in int8 on every other judged query of ``rankings``, and measure it on the rest.

    Raises
    ------
    CollectionError
        If fewer than two of the queries are judged.
    """
    judged = [ranking for ranking in rankings if ranking.query.qid in qrels]
    if len(judged) < 2:
        raise CollectionError(f"int8 needs two judged queries, got {len(judged)} among {len(rankings)}")
    # a few candidates of each query, from all ranks
    each = max(1, _CALIBRATION_PAIRS // len(judged[::2]))
    samples = tuple(
        (ranking.query.text, read_doc(docs, docno).full_text)
        for ranking in judged[::2][:_CALIBRATION_PAIRS]
        for docno in ranking.docnos[:: max(1, len(ranking) // each)][:each]
    )
    calibrated = replace(scorer, samples=samples)
    sums = np.cumsum([len(ranking) for ranking in judged[1::2]])
    candidates = judged[1::2][: max(1, int(np.searchsorted(sums, _MEASURED_PAIRS, side="right")))]
    grades = {ranking.query.qid: qrels[ranking.query.qid] for ranking in candidates}
    means, scores = [], []
    for other in (calibrated, replace(scorer, precision="float32")):
        run = list(CrossReranker(other, docs)(candidates))
        means.append(measure(run, grades, MEASURE).mean[MEASURE])
        scores.append([score for ranking in run for _, score in sorted(ranking)])  # by docno
    from scipy.stats import spearmanr

    correlation = float(spearmanr(scores[0], scores[1]).statistic)
    return Calibration(calibrated, means[1], means[0], correlation, len(candidates))
