"""The outcome of the sparse experiment as one page that needs no other file, and as JSON."""

from __future__ import annotations

import base64
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from telerank.evaluate.compare import Comparison
from telerank.evaluate.depth import expand_measures
from telerank.evaluate.tune import Folds
from telerank.recipes.dense import FusedOutcome, fused_findings, fused_table
from telerank.recipes.head import HeadOutcome, head_findings, head_record, head_table
from telerank.recipes.sparse import TUNED, Outcome, System
from telerank.recipes.sparse_tables import (
    curves_plot,
    depth_tables,
    effect_table,
    effects_plot,
    label,
    tuning_table,
)
from telerank.show.tables import render_html
from telerank.text import Analyzer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PACKAGES = ("telerank", "numpy", "numba", "ir-measures", "scipy", "PyStemmer")


@dataclass(frozen=True)
class View:
    """What a report says of the collection, and what it shows.

    ``depths`` are those of the tables R@k and AP@k, ``measures`` of the table of all systems,
    ``panels`` of the plot of bars.
    """

    title: str
    collection: Mapping[str, str]
    depths: Sequence[int]
    measures: Sequence[str]
    panels: Sequence[str]
    relevant: str = ""


def findings(outcome: Outcome) -> list[str]:
    """The outcome in a few sentences, by the objective."""
    name, first = outcome.plan.objective, outcome.baseline.analyzer
    means = {system: one.mean[name] for system, one in outcome.evaluations.items()}
    said = [
        f"Preprocessing: {name} of BM25 at its defaults is {means[outcome.baseline]:.3f} with the analyzer "
        f"{first}, {means[replace(outcome.baseline, analyzer=other)]:.3f} with {other}."
        for other in list(outcome.plan.analyzers)[1:]
    ]
    gains = [one.held_out - one.default for one in outcome.tunings if one.analyzer == first]
    said.append(
        f"Tuning: {name} changes by {min(gains):+.3f} to {max(gains):+.3f} with the analyzer {first}, on "
        "questions that had no part in the choice."
    )
    best = max(outcome.evaluations, key=lambda system: means[system])
    marked = outcome.compared(outcome.evaluations, [name]).marks(str(best), name)
    verdict = "significantly" if marked else "not significantly"
    if best != outcome.baseline:
        said.append(
            f"Best: {label(best.model)} {best.how} with the analyzer {best.analyzer}, {means[best]:.3f}, "
            f"{verdict} above BM25 at its defaults."
        )
    return said


def page(
    outcome: Outcome, view: View, fused: FusedOutcome | None = None, head: HeadOutcome | None = None
) -> str:
    """A page of HTML with its tables, plots and style."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("telerank.recipes"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    r_table, ap_table = depth_tables(outcome, view.depths)
    tables = {
        "r_table": r_table,
        "ap_table": ap_table,
        "effects": effect_table(outcome, view.measures),
        "tunings": tuning_table(outcome),
    }
    return environment.get_template("sparse.html").render(
        view=view,
        findings=[
            *findings(outcome),
            *(fused_findings(fused) if fused else ()),
            *(head_findings(head) if head else ()),
        ],
        fused=Markup(render_html(fused_table(fused))) if fused else "",  # noqa: S704 — render_html escapes
        head=Markup(render_html(head_table(head))) if head else "",  # noqa: S704 — render_html escapes
        curves=_embedded(curves_plot(outcome, view.depths)),
        bars=_embedded(effects_plot(outcome, view.panels)),
        facts=facts(outcome, view),
        **{name: Markup(render_html(table)) for name, table in tables.items()},  # noqa: S704 — render_html escapes
    )


def facts(outcome: Outcome, view: View) -> dict[str, str]:
    """What was run, for people."""
    plan = outcome.plan
    if isinstance(plan.held_out, Folds):
        how = f"{plan.held_out.k} folds of {outcome.test:,}, seed {plan.held_out.seed}"
    else:
        how = f"{outcome.dev:,} choose, {outcome.test:,} others measure; drawn with seed {plan.held_out.seed}"
    analyzers = {
        f"Analyzer {name}": str(Analyzer.parse(analyzer)) for name, analyzer in plan.analyzers.items()
    }
    tried = sum(one.tried for one in outcome.tunings)
    return {
        **view.collection,
        "Questions": how,
        **analyzers,
        "Tuned by": f"{plan.objective}, {tried:,} settings tried",
        "Versions": ", ".join(f"{name} {number}" for name, number in versions().items()),
    }


def record(
    outcome: Outcome, view: View, fused: FusedOutcome | None = None, head: HeadOutcome | None = None
) -> dict[str, Any]:
    """Every figure of the report, for programs."""
    plan = outcome.plan
    compared = {
        **{
            name: outcome.compared(_tuned(outcome), names)
            for name, names in expand_measures(("R", "AP"), view.depths).items()
        },
        "all systems": outcome.compared(outcome.evaluations, view.measures),
    }
    return {
        "collection": dict(view.collection),
        "versions": versions(),
        "analyzers": {name: str(Analyzer.parse(one)) for name, one in plan.analyzers.items()},
        "objective": plan.objective,
        "held_out": {type(plan.held_out).__name__.lower(): asdict(plan.held_out)},
        "questions": {"dev": outcome.dev, "test": outcome.test},
        "baseline": str(outcome.baseline),
        "systems": [
            {**asdict(system), "name": str(system), "means": one.mean}
            for system, one in outcome.evaluations.items()
        ],
        "tunings": [
            asdict(one) | {"best": repr(one.best), "choices": [repr(choice) for choice in one.choices]}
            for one in outcome.tunings
        ],
        "comparisons": {name: _differences(one) for name, one in compared.items()},
        "fused": _fused(fused) if fused else None,
        "head": head_record(head) if head else None,
    }


def _fused(fused: FusedOutcome) -> dict[str, Any]:
    return {
        "systems": [{"name": name, "means": one.mean} for name, one in fused.evaluations.items()],
        "weights": fused.tuning.result.best,
        "dev": fused.tuning.in_sample,
        "documents": {"longer than the dense model reads": fused.cut, "all": fused.documents},
        "differences": _differences(fused.comparison),
    }


def _tuned(outcome: Outcome) -> list[System]:
    return [
        one for one in outcome.evaluations if (one.how, one.analyzer) == (TUNED, outcome.baseline.analyzer)
    ]


def _differences(comparison: Comparison) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in asdict(one).items() if key != "changed"}
        for one in comparison.differences
    ]


def versions() -> dict[str, str]:
    """Of what the figures depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


def _embedded(figure: Figure) -> str:
    """A plot as the address of an image; the names inside it cannot clash with another's."""
    from telerank.show.plots import render_plot

    return f"data:image/svg+xml;base64,{base64.b64encode(render_plot(figure, 'svg')).decode()}"
