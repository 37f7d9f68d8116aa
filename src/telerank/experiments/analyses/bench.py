"""What an analysis reads and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from telerank.errors import TelerankError
from telerank.experiments.analyses.specs import Published
from telerank.experiments.comparison.compare_systems import read_rankings
from telerank.experiments.judged_queries import JudgedQueries
from telerank.retrieval.index import Index
from telerank.show.tables import Table
from telerank.sparse.index import IndexDocs
from telerank.stage import Stage
from telerank.types import Progress, Qrels, Query, Ranking, silent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from telerank.experiments.schema import DataSpec, Experiment
    from telerank.experiments.systems import SystemRuns


class Unavailable(TelerankError):  # noqa: N818
    """A system or a model cannot be had here; the message says why."""


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
    dev: JudgedQueries | None
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
        for ranking in read_rankings(runs[seed if len(runs) > 1 else 0], self.queries):
            yield ranking.cut(self.depth)


@dataclass(frozen=True)
class AnalysisResult:
    """Tables to read, figures by name, every value for programs, and what must be said of them."""

    tables: tuple[Table, ...]
    record: Mapping[str, Any]
    plots: Mapping[str, Figure] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
