"""A study of sparse models as tables, plots and sentences; the first tables are the Piaf report's 1 and 2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from telerank.evaluation.compare import Comparison
from telerank.experiments.analyses.significance import describe_difference, describe_marks
from telerank.experiments.analyses.tuning import DEFAULT, TUNED, SparseStudy, SparseSystem
from telerank.show.tables import Cell, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = ("#56B4E9", "#0072B2", "#E69F00", "#D55E00")  # light: defaults, dark: tuned; a hue per analyzer


def study_tables(study: SparseStudy) -> tuple[Table, ...]:
    """R@k and AP@k by depth, the effects of preprocessing and tuning, the tuned settings."""
    return (*_depth_tables(study), _effects_table(study), _tunings_table(study))


def draw_study(study: SparseStudy) -> dict[str, Figure]:
    """R@k and AP@k over k, if there are depths; the effects by the first measure and the objective."""
    from telerank.show.plots import bar_plot, line_plot

    means = {system: evaluation.mean for system, evaluation in study.evaluations.items()}
    curves = {
        f"{name}@k": {label: [means[system][at] for at in names] for label, system in _shown(study).items()}
        for name, names in study.spec.by_depth.items()
    }
    families = study.spec.families
    bars = {
        name: {
            f"{analyzer}, {parameters}": [
                means[SparseSystem(family, parameters, analyzer)][name] for family in families
            ]
            for analyzer in study.analyzers
            for parameters in (DEFAULT, TUNED)
        }
        for name in (study.spec.measures[0], study.spec.objective)
    }
    labels = [SparseSystem(family, DEFAULT, "").label for family in families]
    plots = {"curves": line_plot(curves, study.spec.depths, x_label="k")} if curves else {}
    return plots | {"effects": bar_plot(bars, labels, colours=_COLOURS)}


def describe_study(study: SparseStudy) -> Iterator[str]:
    """The effects in a few sentences, by the objective."""
    name, baseline = study.spec.objective, study.baseline
    means = {system: evaluation.mean[name] for system, evaluation in study.evaluations.items()}
    base, analyzer = f"{baseline.label} at its defaults", baseline.analyzer
    for other in study.analyzers[1:]:
        yield (
            f"Preprocessing: {name} of {base} is {means[baseline]:.3f} with the analyzer {analyzer}, "
            f"{means[replace(baseline, analyzer=other)]:.3f} with {other}."
        )
    values = [study.values(system) for system in study.tuned]
    gains = [value["held out"] - value["default"] for value in values]
    yield (
        f"Tuning: {name} changes by {min(gains):+.3f} to {max(gains):+.3f} with the analyzer {analyzer}, on "
        "queries that had no part in the choice."
    )
    best = max(means, key=means.__getitem__)
    if best != baseline:
        verdict = describe_difference(study.compare(study.evaluations, [name]), str(best), name)
        shown = f"{best.label} {best.parameters} with the analyzer {best.analyzer}"
        yield f"Best: {shown}, {means[best]:.3f}, {verdict} {base}."


def _depth_tables(study: SparseStudy) -> Iterator[Table]:
    for name, names in study.spec.by_depth.items():
        comparison = study.compare(study.tuned, names)
        rows = [[label, *_cells(comparison, system)] for label, system in _shown(study).items()]
        heads = (f"{name}@k, k =", *map(str, study.spec.depths))
        caption = f"{name}@k of the tuned models, analyzer {study.baseline.analyzer}"
        yield Table.of(heads, rows, caption=caption, notes=[_describe_marks(study, comparison)])


def _effects_table(study: SparseStudy) -> Table:
    comparison = study.compare(study.evaluations, study.spec.measures)
    order = {family: number for number, family in enumerate(study.spec.families)}
    systems = sorted(study.evaluations, key=lambda system: order.get(system.model, len(order)))
    rows = [
        [system.label, system.analyzer, system.parameters, *_cells(comparison, system)] for system in systems
    ]
    heads = ("model", "analyzer", "parameters", *comparison.measures)
    caption = "With and without preprocessing, at defaults and tuned"
    return Table.of(heads, rows, caption=caption, notes=[_describe_marks(study, comparison)], left=3)


def _tunings_table(study: SparseStudy) -> Table:
    """The tuned settings, with their means on the queries that chose them and on others."""
    rows = []
    for system, result in study.tunings.items():
        share = f"{result.choices.count(result.best)}/{len(result.choices)}"
        counts = [str(len(result.settings)), *([share] if study.dev is None else [])]
        values = [_format_share(value) for value in study.values(system).values()]
        rows.append([repr(result.best), system.analyzer, *counts, *values])
    folds = ["folds"] if study.dev is None else []
    heads = ("tuned setting", "analyzer", "tried", *folds, "dev", "held out", "default")
    caption = f"Tuned by {study.spec.objective}"
    return Table.of(heads, rows, caption=caption, notes=[_describe_protocol(study)], left=2)


def _shown(study: SparseStudy) -> dict[str, SparseSystem]:
    """The baseline, and the tuned families under its analyzer, by their labels."""
    baseline = {f"{study.baseline.label} {DEFAULT}": study.baseline}
    return baseline | {system.label: system for system in study.tuned}


def _cells(comparison: Comparison, system: SparseSystem) -> list[str | Cell]:
    """The means of a system with marks, strong if they are the best of the comparison."""
    cells: list[str | Cell] = []
    for name in comparison.measures:
        best = max(round(evaluation.mean[name], 3) for evaluation in comparison.evaluations.values())
        mean = round(comparison.evaluations[str(system)].mean[name], 3)
        marks = comparison.marks(str(system), name)
        cells.append(Cell(_format_share(mean), strong=mean == best, marks=marks))
    return cells


def _describe_marks(study: SparseStudy, comparison: Comparison) -> str:
    baseline = study.baseline
    shown = f"{baseline.label} at its defaults with the analyzer {baseline.analyzer}"
    return describe_marks(comparison, shown)


def _describe_protocol(study: SparseStudy) -> str:
    if study.dev is None:
        return (
            f"dev: the best setting's mean over all {study.queries:,} queries, which chose it; folds: how "
            f"many of {study.spec.folds} chose it, too; held out: each query under the setting that the "
            "other folds chose; default: the model's defaults."
        )
    return (
        f"dev: mean over the {study.dev:,} queries that chose the setting; held out: mean over the "
        f"{study.queries:,} others; default: the model's defaults on those."
    )


def _format_share(value: float) -> str:
    """``.712``, so that a row of eight shares fits into 80 columns."""
    return f"{value:.3f}".removeprefix("0")
