"""The outcome of the sparse experiment as tables, the report's 1 and 2 among them, and as plots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from telerank.evaluate.compare import Comparison
from telerank.evaluate.depth import expand_measures
from telerank.recipes.sparse import DEFAULT, FAMILIES, TUNED, Outcome, System
from telerank.show.tables import Cell, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CURVES = ("R", "AP")
_PAIRS = ("#56B4E9", "#0072B2", "#E69F00", "#D55E00")  # light for defaults, dark for tuned; a hue an analyzer


def depth_tables(outcome: Outcome, depths: Sequence[int]) -> tuple[Table, Table]:
    """R@k and AP@k of the tuned models beside the baseline: the report's tables 1 and 2."""
    return _depth_table(outcome, "R", depths), _depth_table(outcome, "AP", depths)


def effect_table(outcome: Outcome, measures: Sequence[str]) -> Table:
    """Every system: what preprocessing is worth, and what tuning."""
    comparison = outcome.compared(outcome.evaluations, measures)
    order = {model: place for place, model in enumerate(FAMILIES)}
    systems = sorted(outcome.evaluations, key=lambda one: order.get(one.model, len(order)))
    rows: list[list[str | Cell]] = [
        [label(system.model), system.analyzer, system.how, *cells]
        for system, cells in zip(systems, _cells(comparison, systems), strict=True)
    ]
    columns = ("model", "analyzer", "parameters", *comparison.measures)
    caption = "With and without preprocessing, at defaults and tuned"
    return Table.of(columns, rows, caption=caption, notes=[_note(comparison, outcome)], left=3)


def tuning_table(outcome: Outcome) -> Table:
    """The tuned settings, how good they looked, and how good they are."""
    folded = any(len(one.choices) > 1 for one in outcome.tunings)
    columns = [
        "tuned setting",
        "analyzer",
        "tried",
        *(["folds"] if folded else []),
        "dev",
        "held out",
        "default",
    ]
    rows = []
    for one in outcome.tunings:
        share = [f"{one.choices.count(one.best)}/{len(one.choices)}"] if folded else []
        values = [_short(value) for value in (one.dev, one.held_out, one.default)]
        rows.append([repr(one.best), one.analyzer, str(one.tried), *share, *values])
    return Table.of(
        columns, rows, caption=f"Tuned by {outcome.plan.objective}", notes=[_tuned(outcome)], left=2
    )


def curves_plot(outcome: Outcome, depths: Sequence[int]) -> Figure:
    """R@k and AP@k over k, of the tuned models and the baseline."""
    from telerank.show.plots import line_plot

    panels = {
        f"{measure}@k": {
            _row(outcome, system): [outcome.evaluations[system].mean[name] for name in names]
            for system in _shown(outcome)
        }
        for measure, names in expand_measures(_CURVES, depths).items()
    }
    return line_plot(panels, depths, x_label="k")


def effects_plot(outcome: Outcome, measures: Sequence[str]) -> Figure:
    """What preprocessing and tuning are worth to each model."""
    from telerank.show.plots import bar_plot

    panels = {
        name: {
            f"{analyzer}, {how}": [
                outcome.evaluations[System(family, how, analyzer)].mean[name] for family in FAMILIES
            ]
            for analyzer in outcome.plan.analyzers
            for how in (DEFAULT, TUNED)
        }
        for name in measures
    }
    return bar_plot(panels, [label(family) for family in FAMILIES], colours=_PAIRS)


def label(model: str) -> str:
    """A family by the name that the report gives it; a setting by its text form."""
    return type(FAMILIES[model]).__name__ if model in FAMILIES else model


def _depth_table(outcome: Outcome, measure: str, depths: Sequence[int]) -> Table:
    names = expand_measures(measure, depths)[measure]
    systems = _shown(outcome)
    comparison = outcome.compared(systems, names)
    rows: list[list[str | Cell]] = [
        [_row(outcome, system), *cells]
        for system, cells in zip(systems, _cells(comparison, systems), strict=True)
    ]
    caption = f"{measure}@k of the tuned models, analyzer {outcome.baseline.analyzer}"
    columns = [f"{measure}@k, k =", *map(str, depths)]
    return Table.of(columns, rows, caption=caption, notes=[_note(comparison, outcome)])


def _shown(outcome: Outcome) -> list[System]:
    """The baseline, and the tuned models under its analyzer."""
    return [outcome.baseline, *(System(one, TUNED, outcome.baseline.analyzer) for one in FAMILIES)]


def _row(outcome: Outcome, system: System) -> str:
    return f"{label(system.model)} {DEFAULT}" if system == outcome.baseline else label(system.model)


def _cells(comparison: Comparison, systems: Iterable[System]) -> list[list[Cell]]:
    """The means, the best of each measure strong, marks where they differ from the baseline's."""
    means: Mapping[str, Mapping[str, float]] = {
        name: {measure: round(mean, 3) for measure, mean in one.mean.items()}
        for name, one in comparison.evaluations.items()
    }
    best = {measure: max(one[measure] for one in means.values()) for measure in comparison.measures}
    return [
        [
            Cell(_short(mean), strong=mean == best[measure], marks=comparison.marks(str(system), measure))
            for measure, mean in ((name, means[str(system)][name]) for name in comparison.measures)
        ]
        for system in systems
    ]


def _note(comparison: Comparison, outcome: Outcome) -> str:
    (baseline,) = comparison.baselines
    shown = f"{label(outcome.baseline.model)} at its defaults with the analyzer {outcome.baseline.analyzer}"
    return (
        f"{comparison.mark(baseline)} differs from {shown}: p < {comparison.level:g} in a paired t-test over "
        f"{outcome.test:,} questions, with Holm's correction over the {len(comparison.differences)} tests of "
        "this table. Bold: the best."
    )


def _tuned(outcome: Outcome) -> str:
    if any(len(one.choices) > 1 for one in outcome.tunings):
        folds = len(outcome.tunings[0].choices)
        return (
            f"dev: the best setting's mean over all {outcome.dev:,} questions, which chose it; folds: how "
            f"many of {folds} chose it, too; held out: each question answered by the setting that the other "
            "folds chose; default: the model's defaults."
        )
    return (
        f"dev: mean over the {outcome.dev:,} questions that chose the setting; held out: mean over the "
        f"{outcome.test:,} others; default: the model's defaults on those."
    )


def _short(value: float) -> str:
    """``.712``: these are shares, and eight of them stand in a row of 80 columns."""
    return f"{value:.3f}".removeprefix("0")
