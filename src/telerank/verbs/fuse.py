"""``fuse``: write the fusion of several runs as one run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from telerank.errors import CollectionError
from telerank.fuse.join import join_runs
from telerank.fuse.methods import Fusion
from telerank.show.progress import show_progress
from telerank.trec import write_run
from telerank.types import Progress, Ranking
from telerank.verbs.judge import Runs, name_runs, read_rankings

DEPTH = 1000


@dataclass(frozen=True)
class FusedRun:
    """A fused run that was written; ``lacking`` counts the queries that a run lacks, by name."""

    queries: int
    lacking: Mapping[str, int]

    @property
    def remarks(self) -> list[str]:
        return [
            f"{name}: has no list for {count} of {self.queries} queries: fused from the others"
            for name, count in self.lacking.items()
            if count
        ]


def fuse(
    runs: Runs,
    output: str | Path,
    fusion: Fusion = Fusion(depth=DEPTH),  # noqa: B008 — frozen
    *,
    progress: Progress | None = None,
) -> FusedRun:
    """Fuse runs query by query and write the run to ``output`` (``-``: standard output).

    A query that a run lacks is fused from the others. The settings are written to ``output`` + ``.json``.
    The runs are read in parallel and need not fit in memory.

    Raises
    ------
    CollectionError
        If there are fewer than two runs, or the number of weights differs.
    """
    by_name = name_runs(runs)
    if len(by_name) < 2:
        raise CollectionError("there is nothing to fuse: give two runs or more")
    if fusion.method == "linear" and not fusion.weights:
        fusion = replace(fusion, weights=(1.0 / len(by_name),) * len(by_name))
    if len(fusion.weights) not in (0, len(by_name)):
        raise CollectionError(f"{len(fusion.weights)} weights for {len(by_name)} runs")
    counts = dict.fromkeys(by_name, 0)
    queries = 0

    def fuse_queries() -> Iterator[Ranking]:
        nonlocal queries
        for rankings in join_runs([read_rankings(run) for run in by_name.values()]):
            for name, ranking in zip(counts, rankings, strict=True):
                counts[name] += not len(ranking)
            yield fusion(rankings)
            queries += 1
            shown("fusing", queries, None)

    with show_progress(progress) as shown:
        write_run(output, fuse_queries())
    if str(output) != "-":
        _write_settings(fusion, by_name, output)
    return FusedRun(queries, counts)


def _write_settings(fusion: Fusion, runs: Mapping[str, object], output: str | Path) -> None:
    from telerank.experiments.provenance import versions

    sources = [str(run) if isinstance(run, str | Path) else name for name, run in runs.items()]
    settings = {**asdict(fusion), "runs": sources, "versions": versions()}
    Path(f"{output}.json").write_text(json.dumps(settings, indent=1, ensure_ascii=False) + "\n", "utf-8")
