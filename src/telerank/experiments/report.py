"""The results of an experiment in files: a page with everything in it, tables, plots, every value as JSON."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from telerank.experiments.analyses.bench import AnalysisResult
from telerank.experiments.analyses.specs import AnalysisSpec
from telerank.experiments.outcome import ExperimentOutcome
from telerank.experiments.provenance import machine
from telerank.show.report import to_json
from telerank.show.tables import render_html, render_markdown
from telerank.versions import versions

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure

REPORT, TABLES, RESULTS, EXPERIMENT = "report.html", "tables.md", "results.json", "experiment.yaml"
_FORMS = ("svg", "png")


def write_report(outcome: ExperimentOutcome) -> None:
    """Write page, tables, values, plots and the resolved experiment into the folder of the outcome."""
    from telerank.show.plots import save_plot

    folder = outcome.folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in _name_plots(outcome):
        for form in _FORMS:
            save_plot(figure, folder / f"{name}.{form}")
    contents = {
        REPORT: render_report(outcome),
        TABLES: render_tables(outcome),
        RESULTS: to_json(record_outcome(outcome)),
        EXPERIMENT: outcome.spec.yaml(),
    }
    for name, text in contents.items():
        (folder / name).write_text(text, encoding="utf-8")


def render_report(outcome: ExperimentOutcome) -> str:
    """An HTML page with every table, plot and note."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("telerank.experiments"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    pairs = zip(outcome.spec.analyses, outcome.results, strict=True)
    return environment.get_template("report.html").render(
        spec=outcome.spec,
        analyses=[_AnalysisSection(spec, result) for spec, result in pairs],
        notes=outcome.protocol,
        facts={
            **({"Size": outcome.size} if outcome.size else {}),
            "Seed": outcome.spec.seed,
            "Versions": ", ".join(f"{name} {number}" for name, number in versions().items()),
            "Machine": machine(),
        },
    )


def render_tables(outcome: ExperimentOutcome) -> str:
    """The tables and notes in Markdown."""
    tables = [render_markdown(table) for result in outcome.results for table in result.tables]
    text = [f"# {outcome.title}\n", *tables, *(f"- {note}" for note in outcome.notes)]
    return "\n".join(text) + "\n"


def record_outcome(outcome: ExperimentOutcome) -> dict[str, Any]:
    """Every value, and all that it depends on, for JSON."""
    pairs = zip(outcome.spec.analyses, outcome.results, strict=True)
    return {
        "experiment": outcome.spec.model_dump(mode="json"),
        "size": outcome.size,
        "data": {"name": outcome.name_of_data, **outcome.data.model_dump(mode="json")},
        "counts": outcome.counts,
        "systems": {name: system.about for name, system in outcome.systems.items()},
        "lacking": outcome.lacking,
        "results": [{"kind": spec.kind, "title": spec.title, **result.record} for spec, result in pairs],
        "notes": outcome.notes,
        "seed": outcome.spec.seed,
        "versions": versions(),
        "machine": machine(),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@dataclass(frozen=True)
class _AnalysisSection:
    """An analysis as the template shows it."""

    spec: AnalysisSpec
    result: AnalysisResult

    @property
    def notes(self) -> tuple[str, ...]:
        return self.result.notes

    @property
    def tables(self) -> list[Markup]:
        """HTML; a caption that repeats the heading is left out."""
        from markupsafe import Markup

        tables = [
            replace(table, caption="") if table.caption == self.spec.title else table
            for table in self.result.tables
        ]
        return [Markup(render_html(table)) for table in tables]  # noqa: S704 — render_html escapes

    @property
    def plots(self) -> dict[str, str]:
        """The address of each image, which holds the image itself; names inside it cannot clash."""
        from telerank.show.plots import render_plot

        images = {name: render_plot(figure, "svg") for name, figure in self.result.plots.items()}
        return {
            name: f"data:image/svg+xml;base64,{base64.b64encode(image).decode()}"
            for name, image in images.items()
        }


def _name_plots(outcome: ExperimentOutcome) -> Iterator[tuple[str, Figure]]:
    """Each plot with the name of its files; a second plot of a name gets a number."""
    names: list[str] = []
    for result in outcome.results:
        for name, figure in result.plots.items():
            names.append(name)
            count = names.count(name)
            yield (name if count == 1 else f"{name}-{count}"), figure
