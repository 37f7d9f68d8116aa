"""The results of an experiment in files: a page with everything in it, tables, plots, every value as JSON.

Data of the same ``pool`` are folds of one collection: what one measures, no other one does. Their values are
pooled over all queries, of each analysis that keeps those of its queries.
"""

from __future__ import annotations

import base64
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from telerank.drafts import replace_file
from telerank.experiments.analysis import Analysis, AnalysisResult, PooledValues
from telerank.experiments.data import ExperimentData
from telerank.experiments.schema import Experiment
from telerank.experiments.systems import SystemRuns
from telerank.show.report import to_json
from telerank.show.tables import render_html, render_markdown
from telerank.sparse.build import count_cores
from telerank.stored import versions

REPORT, TABLES, RESULTS, EXPERIMENT = "report.html", "tables.md", "results.json", "experiment.yaml"
# When the experiment was run and how long it took: the other files are the same in each run.
TIMES = "times.json"


class _Timed:
    """What took ``seconds``, in which nothing was made that was kept from an earlier run."""

    seconds: float

    @property
    def time(self) -> str:
        """How long it took, in minutes or seconds."""
        return f"{self.seconds / 60:,.1f} minutes" if self.seconds >= 60 else f"{self.seconds:.0f} seconds"


@dataclass(frozen=True, eq=False)
class ExperimentOutcome(_Timed):
    """What came of an experiment on one collection; ``lacking`` says why systems are missing.

    ``size`` is ``full size`` or ``small copy`` of a file that has both. The files are in ``folder``.
    """

    spec: Experiment
    data: ExperimentData
    size: str
    systems: Mapping[str, SystemRuns]
    lacking: Mapping[str, str]
    results: tuple[AnalysisResult, ...]
    folder: Path
    seconds: float

    @property
    def title(self) -> str:
        """The title of the experiment, and the size that was run."""
        return f"{self.spec.title} ({self.size})" if self.size else self.spec.title

    @property
    def protocol(self) -> tuple[str, ...]:
        """What was measured on which data, and what is missing."""
        data = self.data.spec
        counts = ", ".join(f"{count:,} {what}" for what, count in self.data.counts.items())
        about = f": {data.about}" if data.about else ""
        split = f", split {data.split}" if data.split else ""
        size = f"; {self.size}" if self.size else ""
        notes = [f"Measured on {self.data.name}{about} ({counts}{split}{size})."]
        if self.spec.published and not data.paper:
            source = f" ({self.spec.source})" if self.spec.source else ""
            notes.append(f"The published values{source} are of other data (no `paper: true`): a rough guide.")
        notes += [f"{name}: {system.about}." for name, system in self.systems.items() if system.about != name]
        notes += [f"{name}: {remark}." for name, system in self.systems.items() for remark in system.remarks]
        for reason in dict.fromkeys(self.lacking.values()):
            names = ", ".join(name for name, why in self.lacking.items() if why == reason)
            notes.append(f"Not measured: {names} ({reason}).")
        return tuple(notes)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the tables."""
        return (
            *self.protocol,
            *chain.from_iterable(result.notes for result in self.results),
            f"Machine: {machine()}.",
        )


def write_report(outcome: ExperimentOutcome) -> None:
    """Write page, tables, values, plots and the resolved experiment into the folder of the outcome.

    The values come last, and old ones are removed first: with them the results are complete.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    spec, data = outcome.spec, outcome.data
    outcome.folder.mkdir(parents=True, exist_ok=True)
    (outcome.folder / RESULTS).unlink(missing_ok=True)
    environment = Environment(
        loader=PackageLoader("telerank.experiments"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    page = environment.get_template("report.html").render(
        spec=spec,
        analyses=[_render_analysis(*pair) for pair in zip(spec.analyses, outcome.results, strict=True)],
        notes=outcome.protocol,
        facts={
            **({"Size": outcome.size} if outcome.size else {}),
            "Seed": spec.seed,
            "Time": f"in {TIMES}",
            "Versions": ", ".join(f"{name} {number}" for name, number in versions().items()),
            "Machine": machine(),
        },
    )
    replace_file(outcome.folder / REPORT, page.encode())
    replace_file(outcome.folder / EXPERIMENT, spec.yaml().encode())
    record = {
        "experiment": spec.model_dump(mode="json"),
        "size": outcome.size,
        "data": {"name": data.name, **data.spec.model_dump(mode="json")},
        "counts": data.counts,
        "systems": {name: system.about for name, system in outcome.systems.items()},
        "remarks": {name: system.remarks for name, system in outcome.systems.items() if system.remarks},
        "lacking": outcome.lacking,
        "results": _record_results(spec.analyses, outcome.results),
        "notes": outcome.notes,
        "seed": spec.seed,
        "versions": versions(),
        "machine": machine(),
    }
    _write(outcome, record)


def _render_analysis(spec: Analysis, result: AnalysisResult) -> dict[str, Any]:
    """An analysis as the template shows it; a caption that repeats the heading is left out."""
    from markupsafe import Markup

    from telerank.show.plots import render_plot

    tables = [replace(table, caption="") if table.caption == spec.title else table for table in result.tables]
    images = {name: base64.b64encode(render_plot(figure, "svg")) for name, figure in result.plots.items()}
    return {
        "spec": spec,
        "notes": result.notes,
        "tables": [Markup(render_html(table)) for table in tables],  # noqa: S704 — render_html escapes
        # the address holds the image itself, so that names inside it cannot clash
        "plots": {name: f"data:image/svg+xml;base64,{image.decode()}" for name, image in images.items()},
    }


def _record_results(specs: Sequence[Analysis], results: Sequence[AnalysisResult]) -> list[dict[str, Any]]:
    return [
        {"kind": spec.kind, "title": spec.title, **result.record}
        for spec, result in zip(specs, results, strict=True)
    ]


def _write(outcome: ExperimentOutcome | PooledOutcome, record: Mapping[str, Any]) -> None:
    """Write plots, tables and times into the folder of the outcome, and the values last."""
    from telerank.show.plots import save_plot

    names: list[str] = []
    for name, figure in chain.from_iterable(result.plots.items() for result in outcome.results):
        names.append(name)
        count = names.count(name)  # a second plot of a name gets a number
        for form in ("svg", "png"):
            save_plot(figure, outcome.folder / f"{name if count == 1 else f'{name}-{count}'}.{form}")
    tables = [render_markdown(table) for result in outcome.results for table in result.tables]
    text = "\n".join([f"# {outcome.title}\n", *tables, *(f"- {note}" for note in outcome.notes)])
    times = {"seconds": round(outcome.seconds, 1), "ended": datetime.now(UTC).isoformat(timespec="seconds")}
    for file, content in ((TABLES, f"{text}\n"), (TIMES, to_json(times)), (RESULTS, to_json(record))):
        replace_file(outcome.folder / file, content.encode())


def machine() -> str:
    """The machine in a line: processor, cores that this process may use, memory, system."""
    cores, info = count_cores(), Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8", errors="replace").splitlines() if info.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = next(iter(named), "") or platform.processor() or platform.machine()
    parts = [processor, f"{cores} cores" if cores > 1 else "1 core"]
    if hasattr(os, "sysconf") and {"SC_PAGE_SIZE", "SC_PHYS_PAGES"} <= os.sysconf_names.keys():
        parts.append(f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB")
    return ", ".join((*parts, platform.system()))


@dataclass(frozen=True, eq=False)
class PooledOutcome(_Timed):
    """What came of an experiment on the folds of a pool: pooled ``results``, and files in ``folder``."""

    title: str
    folds: tuple[ExperimentOutcome, ...]
    results: tuple[AnalysisResult, ...]
    folder: Path
    seconds: float

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the tables."""
        names = ", ".join(fold.data.name for fold in self.folds)
        pooled = f"Pooled over the folds {names}, each measured with models that learned from others."
        return (pooled, *chain.from_iterable(result.notes for result in self.results))


def pool_outcomes(outcomes: Sequence[ExperimentOutcome], folder: Path, pool: str) -> PooledOutcome:
    """Pool the analyses of the folds, and write tables, values and plots into ``folder``."""
    results, specs = [], outcomes[0].spec.analyses
    for number, spec in enumerate(specs):
        by_fold = {outcome.data.name: outcome.results[number].items for outcome in outcomes}
        if folds := {name: items for name, items in by_fold.items() if items}:
            results.append(spec.pool_folds(PooledValues(folds)))
        else:
            results.append(
                AnalysisResult((), {"columns": {}}, notes=(f"Not pooled: {spec.title or spec.kind}.",))
            )
    title, seconds = f"{outcomes[0].title}, {pool}", sum(outcome.seconds for outcome in outcomes)
    pooled = PooledOutcome(title, tuple(outcomes), tuple(results), folder, seconds)
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "pool": pool,
        "folds": [fold.folder.name for fold in outcomes],
        "results": _record_results(specs, results),
        "notes": pooled.notes,
        "versions": versions(),
    }
    _write(pooled, record)
    return pooled
