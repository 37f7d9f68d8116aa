"""What an analysis reads and what it returns."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from telerank.errors import TelerankError
from telerank.experiments.analyses.specs import Published
from telerank.retrieval.index import Index
from telerank.show.tables import Table
from telerank.sparse.index import IndexDocs
from telerank.stage import Stage
from telerank.trec import read_run
from telerank.types import Progress, Qrels, Query, Ranking, silent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from telerank.experiments.schema import DataSpec, Experiment
    from telerank.experiments.systems import SystemRuns


class Unavailable(TelerankError):  # noqa: N818
    """A system or a model cannot be had here; the message says why."""


@dataclass(frozen=True)
class QuerySet:
    """Queries with the judgments of all of them."""

    queries: tuple[Query, ...]
    qrels: Qrels

    def deal(self, dev: int, measuring: int | None = None, seed: int = 0) -> tuple[QuerySet, QuerySet]:
        """``dev`` queries that choose, and ``measuring`` others (None: all others), drawn by ``seed``.

        The order of the queries does not matter to the draw, and stays in both parts.

        Raises
        ------
        ValueError
            If fewer than two queries choose, none measures, or there are too few.
        """
        deck = sorted(query.qid for query in self.queries)
        count = len(deck) - dev if measuring is None else measuring
        if dev < 2 or count < 1 or dev + count > len(deck):
            rest = "the others" if measuring is None else measuring
            raise ValueError(f"{len(deck)} judged queries cannot be dealt into {dev} that choose and {rest}")
        random.Random(seed).shuffle(deck)
        return self.select(deck[:dev]), self.select(deck[dev : dev + count])

    def select(self, qids: Iterable[str]) -> QuerySet:
        """Those of the queries that have these qids."""
        kept = set(qids)
        queries = tuple(query for query in self.queries if query.qid in kept)
        return QuerySet(queries, {query.qid: self.qrels[query.qid] for query in queries})


@dataclass(frozen=True)
class Bench:
    """What an analysis reads.

    ``index(analyzer)`` is the index of the data with an analyzer, built if it is not there;
    ``index(data.analyzer)`` is the usual one. ``read_stage(name, text)`` is the stage of a pipeline text over
    the systems and models of the experiment; it raises :class:`Unavailable` or
    :class:`~telerank.errors.MissingExtra`. ``queries`` and ``qrels`` are those that measure; ``dev`` are
    those that choose, if the experiment has ``dev`` queries. Rankings are cut to ``depth``.
    """

    spec: Experiment
    data: DataSpec
    name_of_data: str
    index: Callable[[str], Index]
    read_stage: Callable[[str, str], Stage]
    docs: IndexDocs
    queries: tuple[Query, ...]
    qrels: Qrels
    dev: QuerySet | None
    systems: Mapping[str, SystemRuns]
    published: Published = field(default_factory=dict)
    depth: int = 1000
    seed: int = 0
    progress: Progress = silent

    def rankings(self, name: str, seed: int = 0) -> Iterator[Ranking]:
        """The rankings of a system for the measuring queries, with their texts, cut to ``depth``.

        ``seed`` is the number of the training, for a system that has several runs.
        """
        runs = self.systems[name].runs
        queries = {query.qid: query for query in self.queries}  # a run file holds no texts
        for ranking in read_run(runs[seed if len(runs) > 1 else 0]):
            if query := queries.get(ranking.query.qid):
                yield Ranking.presorted(query, ranking.docnos, ranking.scores).cut(self.depth)


@dataclass(frozen=True)
class AnalysisResult:
    """Tables to read, figures by name, every value for programs, and what must be said of them."""

    tables: tuple[Table, ...]
    record: Mapping[str, Any]
    plots: Mapping[str, Figure] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
