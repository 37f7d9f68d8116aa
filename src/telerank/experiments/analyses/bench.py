"""What an analysis reads and what it returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from telerank.errors import TelerankError
from telerank.experiments.analysis_base import Published
from telerank.experiments.comparison.compare_systems import read_rankings
from telerank.experiments.judged_queries import JudgedQueries
from telerank.show.tables import Table
from telerank.types import Ranking

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from telerank.experiments.data import ExperimentData
    from telerank.experiments.systems import SystemRunner, SystemRuns


Items: TypeAlias = Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]
"""Values by column, row and qid."""


class Unavailable(TelerankError):  # noqa: N818
    """A system or a model cannot be had here; the message says why."""


@dataclass(frozen=True)
class Bench:
    """What an analysis reads: the data, the runs of the systems, and their ``runner``.

    The runner reads pipelines over the systems and models of the experiment, and trains models. Rankings are
    cut to ``depth``.
    """

    data: ExperimentData
    systems: Mapping[str, SystemRuns]
    runner: SystemRunner
    published: Published = field(default_factory=dict)
    depth: int = 1000
    seed: int = 0

    @property
    def judged(self) -> JudgedQueries:
        """The queries that measure."""
        return self.data.judged

    def rankings(self, name: str, seed: int = 0) -> Iterator[Ranking]:
        """The rankings of a system for the measuring queries, with their texts, cut to ``depth``.

        ``seed`` is the number of the training, for a system that has several runs.
        """
        rankings = read_rankings(self.systems[name].run(seed), self.judged.queries)
        return (ranking.cut(self.depth) for ranking in rankings)


@dataclass(frozen=True)
class AnalysisResult:
    """Tables to read, figures by name, every value for programs, and what must be said of them.

    ``items[column][row][qid]`` are the values that a cell of the tables is the mean of: experiments on parts
    of one collection are pooled by them.
    """

    tables: tuple[Table, ...]
    record: Mapping[str, Any]
    plots: Mapping[str, Figure] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    items: Items = field(default_factory=dict)
