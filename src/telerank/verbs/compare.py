"""``compare``: runs compared with baselines, with significance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from telerank.errors import CollectionError
from telerank.evaluation.compare import Comparison, compare_evaluations
from telerank.evaluation.measures import MeasureNames, parse_measures, require_means
from telerank.types import Progress
from telerank.verbs.evaluate import MEASURES, measure_runs
from telerank.verbs.judge import JudgedRuns


def compare(
    runs: JudgedRuns,
    baselines: Sequence[str | Path] = (),
    measures: MeasureNames = MEASURES,
    *,
    level: float = 0.05,
    relevance_level: int = 1,
    progress: Progress | None = None,
) -> Comparison:
    """Compare runs with baselines, given by name or file (default: the first run).

    A difference is significant if its p, after Holm's correction, is below ``level``.
    Grades from ``relevance_level`` up are relevant for measures that take a level and do not name one.

    Raises
    ------
    CollectionError
        If there are fewer than two runs, a baseline is not one of them, or the qrels judge no query of a run.
    MeasureError
        If the name of a measure is invalid, or the measure is not a mean over queries.
    """
    names = parse_measures(measures, relevance_level)
    require_means(names)
    runs.require_two("compare")
    chosen = _find_baselines([str(baseline) for baseline in baselines], runs)
    return compare_evaluations(measure_runs(runs, names, progress=progress), chosen, level=level)


def _find_baselines(baselines: Sequence[str], runs: JudgedRuns) -> list[str]:
    if not baselines:
        return list(runs.runs)[:1]
    files = {str(run): name for name, run in runs.runs.items() if isinstance(run, str | Path)}
    names = files | {name: name for name in runs.runs}
    for baseline in baselines:
        if baseline not in names:
            known = ", ".join(runs.runs)
            raise CollectionError(f"the baseline {baseline} is not one of the runs: {known}")
    return list(dict.fromkeys(names[baseline] for baseline in baselines))
