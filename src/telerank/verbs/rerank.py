"""Re-ranking: as a stage of a pipeline, or the candidates of a run file."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from telerank.corpus.collection import Collection
from telerank.corpus.docstore import Docstore, DocstoreWriter
from telerank.errors import CollectionError, ModelError
from telerank.pipelines.functions import pipeline
from telerank.pipelines.run_files import LazyRun
from telerank.retrieval.index import Index, locate_model
from telerank.show.progress import show_progress
from telerank.show.tables import count_noun
from telerank.stage import Stage
from telerank.training import launched
from telerank.trec import read_run
from telerank.types import ProgressSetting, Query, Ranking, silent

if TYPE_CHECKING:
    from telerank.models.rerankers.reranker import Reranker
    from telerank.reranking.calibration import Calibration
    from telerank.reranking.scorer import Scorer
    from telerank.reranking.stage import CrossReranker, Docs


def rerank(
    model: str | Path | Reranker | Scorer,
    texts: Index | Collection | Docs | Mapping[str, str],
    **settings: Any,
) -> CrossReranker:
    """The stage that scores the documents of rankings again with a re-ranker.

    ``model`` is the folder of a re-ranker, a name (looked for with the index, in the folders of
    ``TELERANK_MODELS``, as a path, on the hub), or a loaded one. ``texts`` has the documents: an index, a
    collection (whose texts are then held in memory), a docstore, or a mapping of texts by docno. ``settings``
    are those of :class:`~telerank.reranking.scorer.Scorer`: ``backend``, ``precision``, ``max_length``, ….

    >>> pipeline = index.bm25() % 100 >> tr.rerank("my-reranker", index) % 10

    Raises
    ------
    ModelError
        If there is no such model, back end or precision.
    MissingExtra
        If torch or the package of the back end is not installed.
    """
    from telerank.reranking.stage import CrossReranker

    scorer = _open_scorer(model, texts, settings)
    if isinstance(texts, Index):
        return CrossReranker(scorer, texts.docs, name=str(model) if isinstance(model, str | Path) else "")
    docs = {doc.docno: doc.full_text for doc in texts.docs()} if isinstance(texts, Collection) else texts
    return CrossReranker(scorer, docs)


@dataclass(frozen=True, eq=False)
class DevRun:
    """A run over judged queries of a collection's split, to calibrate int8 and to measure what it loses."""

    run: str | Path
    data: Collection
    split: str | None = None


def rerank_run(
    run: str | Path,
    model: str | Path | Reranker | Scorer,
    texts: Index | Collection | None,
    queries: Collection | None = None,
    *,
    split: str | None = None,
    depth: int | None = None,
    k: int | None = None,
    dev: DevRun | None = None,
    progress: ProgressSetting = None,
    **settings: Any,
) -> LazyRun:
    """Score the first ``depth`` documents of each query of a run file again, and keep ``k``.

    ``pool(NAME)`` instead of a file are candidate lists that come with the queries. ``texts`` has the
    documents; ``queries`` the queries, in its ``split``, if it is another collection. ``model`` and
    ``settings`` are those of :func:`rerank`. The precision ``int8`` needs ``dev``: one half of its queries
    calibrates it, the other half measures what it loses. A run that is wrong somewhere is refused at once;
    the scores are computed when the rankings are read or saved. Under ``torchrun`` the processes share the
    queries; each must read or save the rankings, and the first one writes.

    >>> rerank_run("bm25.run", "my-reranker", data, split="test", depth=100, k=10).save("reranked.run")

    Raises
    ------
    CollectionError
        If a query or a document of the run is unknown, or a query is in ``dev``, too.
    ModelError
        If there is no such model, back end or precision, or ``dev`` is missing or not needed.
    MissingExtra
        If torch or the package of the back end is not installed.
    """
    if launched.is_shared():
        settings["device"] = launched.join(settings.get("device"))
        progress = progress if launched.is_first() else silent

    def prepare() -> _Scoring:
        """Open what is read, and check it; int8 is calibrated."""
        scorer = _open_scorer(model, texts, settings)
        if (scorer.precision == "int8") != (dev is not None):
            raise ModelError("int8 goes with --dev, a run to calibrate it and to measure its loss on")
        source = queries or (texts if isinstance(texts, Collection) else None)
        if source is None or texts is None:
            raise CollectionError("give the documents, and the collection that has the queries")
        calibrating = [] if dev is None else list(_Candidates(str(dev.run), dev.data, dev.split, depth))
        excluded = frozenset(part.query.qid for part in calibrating)
        candidates = _Candidates(str(run), source, split, depth, excluded)
        docs: Docs
        if isinstance(texts, Index):
            rankings, total = candidates.check(None)
            docs, name = texts.docs, str(texts.folder)
        else:
            docnos = {docno for part in calibrating for docno in part.docnos}
            rankings, total = candidates.check(docnos)
            docs = _store_docs(texts, docnos, str(run) if dev is None else f"{run} or {dev.run}")
            name = texts.name
        calibration = None
        if dev is not None:
            from telerank.reranking.calibration import calibrate

            calibration = calibrate(scorer, docs, calibrating, dev.data.judged(dev.split))
            scorer = calibration.scorer
        options = {"run": str(run), "depth": depth, "k": k, "texts": name, "queries": source.name}
        return _Scoring(scorer, docs, rankings, k, total, options, calibration, progress)

    scoring = launched.each(prepare)
    return LazyRun(scoring.compute, scoring.record, scoring.describe)


@dataclass
class _Candidates:
    """The first ``depth`` documents of each query of a run file, which is read again by each iteration.

    A run that is no file may be the text of a pipeline over the collection's candidate lists.
    The texts of the queries are those of a collection's ``split``. Queries of ``excluded`` are refused: those
    that calibrate int8. Raises CollectionError if a query has no text, or is excluded.
    """

    run: str
    queries: Collection
    split: str | None
    depth: int | None
    excluded: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.texts = {query.qid: query.text for query in self.queries.split_queries(self.split)}
        self.lists: Stage | None = None
        if self.run.startswith("pool(") and not Path(self.run).exists():
            self.lists = pipeline(self.run, pool=partial(self.queries.pool, split=self.split))

    def __iter__(self) -> Iterator[Ranking]:
        queries = map(Query, self.texts.keys(), self.texts.values())
        for ranking in read_run(self.run) if self.lists is None else self.lists.run(queries):
            qid = ranking.query.qid
            if qid not in self.texts:
                known = f"{len(self.texts):,} queries of {self.queries.name}"
                raise CollectionError(f"{self.run}: query {qid} is none of the {known}")
            if qid in self.excluded:
                raise CollectionError(
                    f"{self.run}: query {qid} is in --dev, too: int8 needs other queries there"
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
class _Scoring:
    """Scoring the candidates of one run, and what it took."""

    scorer: Scorer
    docs: Docs
    candidates: Iterable[Ranking]
    k: int | None
    total: int | None
    options: Mapping[str, Any]
    calibration: Calibration | None
    progress: ProgressSetting
    seconds: float = field(default=0.0, init=False)

    def compute(self) -> Iterator[Ranking]:
        from telerank.reranking.stage import CrossReranker

        began = time.perf_counter()
        stage = CrossReranker(self.scorer, self.docs, self.k)
        rankings: Iterable[Ranking] = stage(self.candidates)
        if launched.is_shared():
            from telerank.training.shares import rerank_shares

            rankings = rerank_shares(stage, self.candidates)
        with show_progress(self.progress, self.total) as shown:
            for ranking in rankings:
                shown("scoring", self.scorer.counts.pairs, self.total)
                yield ranking
        self.seconds = time.perf_counter() - began

    def record(self) -> dict[str, Any]:
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
            **self.options,
        }
        return record if self.calibration is None else {**record, "loss": self.calibration.record()}

    def describe(self) -> list[str]:
        counts, scorer = self.scorer.counts, self.scorer
        rate = f"{self.seconds:.1f} s, {counts.pairs / max(self.seconds, 1e-9):,.0f} a second"
        by = f"{scorer.name} in {scorer.backend} {scorer.computes_in}"
        calibration = "" if self.calibration is None else str(self.calibration)
        lines = (scorer.describe_cut(), scorer.describe_memory(), calibration)
        return [f"scored {count_noun(counts.pairs, 'pair')} by {by} ({rate})", *filter(None, lines)]


def _open_scorer(
    model: str | Path | Reranker | Scorer,
    texts: Index | Collection | Docs | Mapping[str, str] | None,
    settings: Mapping[str, Any],
) -> Scorer:
    from telerank.reranking.scorer import Scorer

    if isinstance(model, str | Path):
        model = locate_model(str(model), index=texts.folder if isinstance(texts, Index) else None)
    return model if isinstance(model, Scorer) else Scorer(model, **settings)


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
