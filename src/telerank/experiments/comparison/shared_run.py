"""Several systems over the same queries; a stage that several of them share is run once."""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

from telerank.pipelines.run_files import ListedRankings
from telerank.stage import Chain, Stage, inner_stages
from telerank.types import Progress, Query, Ranking, silent

_BATCH = 256  # queries whose rankings are held at a time

Node: TypeAlias = tuple[tuple[Stage, ...], Stage]
"""A stage and the stages of the chain before it: together they decide its rankings."""


@dataclass(frozen=True)
class SystemTimes:
    """Seconds that the stages of each system took together, shared ones counted for each system."""

    seconds: Mapping[str, float]
    queries: int

    def milliseconds(self, system: str) -> float:
        """Wall time per query, queries being answered in batches."""
        return 1000.0 * self.seconds[system] / max(1, self.queries)


def run_systems(
    systems: Mapping[str, Stage], queries: Sequence[Query], *, progress: Progress = silent
) -> tuple[dict[str, list[Ranking]], SystemTimes]:
    """The rankings of every system in the order of the queries, and the times.

    A stage that stands behind the same stages in several systems is run once for all of them, and so is a
    stage inside of a sum or a fusion.
    """
    seconds: defaultdict[Node, float] = defaultdict(float)
    nodes: dict[str, set[Node]] = {name: set() for name in systems}
    rankings: dict[str, list[Ranking]] = {name: [] for name in systems}
    stream = iter(queries)
    while batch := list(islice(stream, _BATCH)):
        shared = _Batch([Ranking(query) for query in batch], seconds)
        for name, stage in systems.items():
            rankings[name] += shared.run(stage, (), nodes[name])
            progress(f"running {name}", len(rankings[name]), len(queries))
    times = {name: sum(seconds[node] for node in nodes[name]) for name in systems}
    return rankings, SystemTimes(times, len(queries))


@dataclass
class _Batch:
    """Rankings of a batch of queries by node; ``seconds`` is added to."""

    bare: list[Ranking]
    seconds: defaultdict[Node, float]
    known: dict[Node, list[Ranking]] = field(default_factory=dict)

    def run(self, stage: Stage, before: tuple[Stage, ...], nodes: set[Node]) -> list[Ranking]:
        """The rankings of ``stage`` behind the stages ``before``; the nodes that took part are added."""
        if isinstance(stage, Chain):
            rankings = self._input(before)
            for part in stage.stages:
                rankings = self.run(part, before, nodes)
                before = (*before, part)
            return rankings
        node = before, stage
        runnable = self._with_answers(stage, before, nodes)
        nodes.add(node)
        if node not in self.known:
            began = time.perf_counter()
            self.known[node] = list(runnable(self._input(before)))
            self.seconds[node] += time.perf_counter() - began
        return self.known[node]

    def _input(self, before: tuple[Stage, ...]) -> list[Ranking]:
        return self.known[before[:-1], before[-1]] if before else self.bare

    def _with_answers(self, stage: Stage, before: tuple[Stage, ...], nodes: set[Node]) -> Stage:
        """The stage with the rankings of the stages that it is made of in their places.

        Stages that override ``after`` give what they are fed to each of their stages.
        """
        if type(stage).after is Stage.after or not dataclasses.is_dataclass(stage):
            return stage
        answers = {
            name: ListedRankings.of("a stage", self.run(inner, before, nodes))
            if isinstance(inner, Stage)
            else tuple(ListedRankings.of("a stage", self.run(part, before, nodes)) for part in inner)
            for name, inner in inner_stages(stage).items()
        }
        return dataclasses.replace(stage, **answers)
