"""Families of sparse models under several analyzers, at their defaults and tuned (Piaf report, section 3).

Settings are measured on queries that had no part in choosing them: either the ``dev`` queries of the
experiment choose and the others measure, or each fold of the queries is measured under the setting that the
other folds chose. Only with ``folds: null`` the queries that measure choose, as in the report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from telerank.errors import MeasureError, count_noun
from telerank.evaluation.compare import Comparison, compare_evaluations
from telerank.evaluation.measures import Evaluation, expand_measures, find_cutoff, measure
from telerank.evaluation.tune import Folds, Objective, TuneResult, tune
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analyses.quality import describe_difference, describe_marks, record_differences
from telerank.experiments.analysis import (
    Analysis,
    AnalysisResult,
    Measure,
    Measures,
    Published,
    SimilarityText,
)
from telerank.experiments.published import PAPER
from telerank.retrieval.index import Index
from telerank.show.plots import bar_plot, line_plot
from telerank.show.tables import Cell, Table, show_value
from telerank.sparse.similarities.base import Similarity
from telerank.sparse.similarities.families import make_grid, parse_similarity
from telerank.text import Analyzer
from telerank.types import Query, Ranking

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEFAULT, TUNED, GIVEN = "default", "tuned", "given"
_BATCH = 256  # queries answered at a time
_COLOURS = ("#56B4E9", "#0072B2", "#E69F00", "#D55E00")  # light: defaults, dark: tuned; a hue per analyzer
FAMILIES = ("bm25", "lm_dirichlet", "lm_jelinek_mercer", "dfr", "dfi")


@dataclass(frozen=True)
class SparseSystem:
    """``model`` is the text of a family, or of a setting whose ``parameters`` are given."""

    model: str
    parameters: str
    analyzer: str

    def __str__(self) -> str:
        parameters = "" if self.parameters == GIVEN else f" {self.parameters}"
        return f"{self.model}{parameters}, {self.analyzer}"

    @property
    def label(self) -> str:
        """The family's name in the literature, or the setting's text."""
        return self.model if self.parameters == GIVEN else type(parse_similarity(self.model)).__name__


@dataclass(frozen=True, eq=False)
class SparseStudy:
    """The evaluation of each system on the queries that measure.

    ``tunings`` has the choice of settings for each tuned system. ``dev`` is the number of queries that
    choose; None if those that measure do. ``published`` has the printed values of families by their labels.
    """

    spec: TuningAnalysis
    analyzers: tuple[str, ...]
    evaluations: Mapping[SparseSystem, Evaluation]
    tunings: Mapping[SparseSystem, TuneResult[Similarity]]
    dev: int | None
    published: Published = field(default_factory=dict)

    @property
    def folds(self) -> int | None:
        """The number of folds, if each is measured under the setting that the others chose."""
        return None if self.dev else self.spec.folds

    @property
    def baseline(self) -> SparseSystem:
        """The first family at its defaults under the first analyzer."""
        return SparseSystem(self.spec.families[0], DEFAULT, self.analyzers[0])

    def tuned_under(self, analyzer: str) -> list[SparseSystem]:
        """The tuned families under an analyzer."""
        return [system for system in self.tunings if system.analyzer == analyzer]

    @property
    def by_depth(self) -> list[tuple[str, str, tuple[str, ...]]]:
        """The tables by depth: a measure, an analyzer, and the names of the measure at the depths."""
        analyzers = self.analyzers if self.spec.every_analyzer else self.analyzers[:1]
        return [(name, analyzer, at) for analyzer in analyzers for name, at in self.spec.by_depth.items()]

    @property
    def queries(self) -> int:
        """The number of queries that measure."""
        return len(self.evaluations[self.baseline].qids)

    def values(self, system: SparseSystem) -> dict[str, float]:
        """The objective's means of a tuned family.

        ``dev`` is the mean over the queries that chose the setting, which is too optimistic; ``held out``
        that over the others, and ``default`` that of the family's defaults over the others.
        """
        both = {"held out": system, "default": replace(system, parameters=DEFAULT)}
        means = {name: self.evaluations[own].mean[self.spec.objective] for name, own in both.items()}
        return {"dev": self.tunings[system].best_dev, **means}

    def describe_marks(self, comparison: Comparison) -> str:
        """What the marks of significant differences from the baseline mean."""
        base = self.baseline
        return describe_marks(comparison, f"{base.label} at its defaults with the analyzer {base.analyzer}")

    def compare(self, systems: Iterable[SparseSystem], measures: Sequence[str]) -> Comparison:
        """Compare systems with the baseline; the tests are one family."""
        evaluations = {str(system): self.evaluations[system] for system in (self.baseline, *systems)}
        return compare_evaluations(evaluations, [str(self.baseline)], measures=measures)


class TuningAnalysis(Analysis):
    """Families of sparse models under several analyzers, at their defaults and tuned.

    Attributes
    ----------
    objective
        The measure that settings are chosen by.
    families
        The grid of each is searched; the first, at its defaults under the first analyzer, is the baseline.
    analyzers
        None: that of the data, and ``none``.
    depths
        Depths at which the tuned models are measured; without them there are no tables by depth.
    depth_measures
        The measures by depth, without a cutoff; the Piaf report's Recall@k is Success@k.
    every_analyzer
        Show the tables by depth for every analyzer, and not for the first alone.
    given
        Settings that are measured as they are.
    folds
        Folds of the cross-validation if the experiment has no ``dev`` queries; None: the queries that
        measure choose, too, so that the values are those of the best of the grid (Piaf report).
    """

    kind: Literal["tuning"]
    objective: Measure
    measures: Measures
    families: Annotated[tuple[SimilarityText, ...], Field(min_length=1)] = FAMILIES
    analyzers: tuple[str, ...] | None = None
    depths: tuple[Annotated[int, Field(ge=1)], ...] = ()
    depth_measures: Annotated[tuple[str, ...], Field(min_length=1)] = ("R", "AP")
    every_analyzer: bool = False
    given: tuple[SimilarityText, ...] = ()
    folds: int | None = Field(5, ge=2)
    needs_systems: ClassVar[bool] = False

    @property
    def by_depth(self) -> dict[str, tuple[str, ...]]:
        """The names of the measures by depth at the depths."""
        return expand_measures(self.depth_measures, self.depths) if self.depths else {}

    @property
    def all_measures(self) -> tuple[str, ...]:
        """The measures, those by depth, and the objective."""
        return tuple(dict.fromkeys((*self.measures, *chain(*self.by_depth.values()), self.objective)))

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.systems is not None:
            raise ValueError("tuning has systems of its own: leave out `systems`")
        try:
            expand_measures(self.depth_measures, self.depths or (1,))
        except MeasureError as error:
            raise ValueError(f"depth_measures: {error}") from error
        return self

    def analyse(self, bench: Bench) -> AnalysisResult:
        """Tune each family under each analyzer, and measure each system once."""
        study = run_study(bench, self)
        tables = (*_depth_tables(study), _effects_table(study), _tunings_table(study))
        return AnalysisResult(tables, _record(study), _draw(study), tuple(_describe(study)))


def run_study(bench: Bench, spec: TuningAnalysis) -> SparseStudy:
    """Tune each family under each analyzer, and measure each system once."""
    analyzers = spec.analyzers or tuple(dict.fromkeys((bench.data.spec.analyzer, "none")))
    depth = _retrieval_depth(spec.all_measures, bench.depth)
    evaluations: dict[SparseSystem, Evaluation] = {}
    tunings = {}
    evaluate = partial(measure, qrels=bench.judged.qrels, measures=spec.all_measures)
    for analyzer in analyzers:
        index = bench.data.index(analyzer)
        for family in spec.families:
            default, tuned = (SparseSystem(family, how, analyzer) for how in (DEFAULT, TUNED))
            evaluations[default] = evaluate(_retrieve(index, depth, family, bench.judged.queries))
            tunings[tuned] = _tune(bench, spec, index, family)
            evaluations[tuned] = evaluate(_retrieve_tuned(bench, index, tunings[tuned], depth, spec.folds))
        for setting in spec.given:
            system = SparseSystem(setting, GIVEN, analyzer)
            evaluations[system] = evaluate(_retrieve(index, depth, setting, bench.judged.queries))
    dev = None if bench.data.dev is None else len(bench.data.dev.queries)
    return SparseStudy(spec, analyzers, evaluations, tunings, dev, bench.published)


def _tune(bench: Bench, spec: TuningAnalysis, index: Index, family: str) -> TuneResult[Similarity]:
    """Choose among the settings of a family, on the dev queries or by cross-validation."""
    depth = _retrieval_depth([spec.objective], bench.depth)

    def report(_: str, done: int, total: int | None) -> None:
        bench.data.progress(f"tuning {family}", done, total)

    choosing = bench.data.dev or bench.judged
    # with dev queries, or without folds, these choose nothing
    folds = Folds(2) if bench.data.dev or not spec.folds else Folds(spec.folds, bench.seed)
    objective = Objective(choosing.queries, choosing.qrels, spec.objective)
    run = partial(_retrieve, index, depth)
    grid = make_grid(parse_similarity(family), index.fields)
    return tune(grid, run, objective, held_out=folds, progress=report)


def _retrieve_tuned(
    bench: Bench, index: Index, result: TuneResult[Similarity], depth: int, folds: int | None
) -> Iterator[Ranking]:
    """Retrieve each query under the setting that was chosen without it; without folds, under the best."""
    if bench.data.dev or folds is None:
        yield from _retrieve(index, depth, result.best, bench.judged.queries)
        return
    queries = {query.qid: query for query in bench.judged.queries}
    for fold, choice in zip(result.folds, result.choices, strict=True):
        yield from _retrieve(index, depth, choice, [queries[qid] for qid in fold])


def _retrieve(
    index: Index, depth: int, setting: Similarity | str, queries: Sequence[Query]
) -> Iterator[Ranking]:
    return replace(index.retriever(setting), depth=depth, batch=_BATCH).run(queries)


def _retrieval_depth(measures: Sequence[str], otherwise: int) -> int:
    """The deepest cutoff of the measures; ``otherwise`` for a measure without a cutoff."""
    return max(find_cutoff(name) or otherwise for name in measures)


def _record(study: SparseStudy) -> dict[str, Any]:
    spec = study.spec
    comparisons = {
        name if analyzer == study.baseline.analyzer else f"{name}, {analyzer}": study.compare(
            study.tuned_under(analyzer), at
        )
        for name, analyzer, at in study.by_depth
    }
    comparisons["all systems"] = study.compare(study.evaluations, spec.measures)
    return {
        "objective": spec.objective,
        "analyzers": {analyzer: str(Analyzer.parse(analyzer)) for analyzer in study.analyzers},
        "queries": {"dev": study.dev, "folds": study.folds, "test": study.queries},
        "baseline": str(study.baseline),
        "systems": [
            {**asdict(system), "name": str(system), "means": evaluation.mean}
            for system, evaluation in study.evaluations.items()
        ],
        "tunings": [
            {**asdict(system), "tried": len(result.settings), "best": repr(result.best)}
            | {"choices": [repr(choice) for choice in result.choices] if study.folds else []}
            | study.values(system)
            for system, result in study.tunings.items()
        ],
        "comparisons": {name: record_differences(comparison) for name, comparison in comparisons.items()},
        "published": study.published,
    }


def _draw(study: SparseStudy) -> dict[str, Figure]:
    """The measures by depth, if there are any; the effects by the first measure and the objective."""
    means = {system: evaluation.mean for system, evaluation in study.evaluations.items()}
    curves = {
        f"{name}@k, {analyzer}" if study.spec.every_analyzer else f"{name}@k": {
            label: [means[system][each] for each in at] for label, system in _shown(study, analyzer).items()
        }
        for name, analyzer, at in study.by_depth
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
    effects = {"effects": bar_plot(bars, labels, colours=_COLOURS)}
    return {"curves": line_plot(curves, study.spec.depths, x_label="k"), **effects} if curves else effects


def _describe(study: SparseStudy) -> Iterator[str]:
    """The effects in a few sentences, by the objective."""
    name, baseline = study.spec.objective, study.baseline
    means = {system: evaluation.mean[name] for system, evaluation in study.evaluations.items()}
    base, analyzer = f"{baseline.label} at its defaults", baseline.analyzer
    for other in study.analyzers[1:]:
        yield (
            f"Preprocessing: {name} of {base} is {means[baseline]:.3f} with the analyzer {analyzer}, "
            f"{means[replace(baseline, analyzer=other)]:.3f} with {other}."
        )
    values = [study.values(system) for system in study.tuned_under(study.baseline.analyzer)]
    gains = [value["held out"] - value["default"] for value in values]
    part = "had no part in the choice" if study.dev or study.folds else "chose the settings: too optimistic"
    yield (
        f"Tuning: {name} changes by {min(gains):+.3f} to {max(gains):+.3f} with the analyzer {analyzer}, on "
        f"queries that {part}."
    )
    best = max(means, key=means.__getitem__)
    if best != baseline:
        verdict = describe_difference(study.compare(study.evaluations, [name]), str(best), name)
        shown = f"{best.label} {best.parameters} with the analyzer {best.analyzer}"
        yield f"Best: {shown}, {means[best]:.3f}, {verdict} {base}."


def _depth_tables(study: SparseStudy) -> Iterator[Table]:
    for name, analyzer, at in study.by_depth:
        comparison = study.compare(_shown(study, analyzer).values(), at)
        printed = study.published if analyzer == study.baseline.analyzer else {}
        notes, rows = [study.describe_marks(comparison)], list[list[str | Cell]]()
        for label, system in _shown(study, analyzer).items():
            rows.append([label, *_cells(comparison, system)])
            values = [printed.get(label, {}).get(each) for each in at]
            if any(value is not None for value in values):
                rows.append([f"  {PAPER}", *map(_format_share, values)])
        heads = (f"{name}@k, k =", *map(str, study.spec.depths))
        caption = f"{name}@k of the tuned models, analyzer {analyzer}"
        yield Table.of(heads, rows, caption=caption, notes=notes)


def _effects_table(study: SparseStudy) -> Table:
    comparison = study.compare(study.evaluations, study.spec.measures)
    order = {family: number for number, family in enumerate(study.spec.families)}
    systems = sorted(study.evaluations, key=lambda system: order.get(system.model, len(order)))
    rows = [
        [system.label, system.analyzer, system.parameters, *_cells(comparison, system)] for system in systems
    ]
    heads = ("model", "analyzer", "parameters", *comparison.measures)
    caption = "With and without preprocessing, at defaults and tuned"
    return Table.of(heads, rows, caption=caption, notes=[study.describe_marks(comparison)], left=3)


def _tunings_table(study: SparseStudy) -> Table:
    """The tuned settings, with their means on the queries that chose them and on others."""
    rows = []
    means = ("dev", "held out", "default") if study.dev or study.folds else ("dev", "default")
    for system, result in study.tunings.items():
        values = [_format_share(study.values(system)[name]) for name in means]
        folds = [f"{result.choices.count(result.best)}/{len(result.choices)}"] if study.folds else []
        rows.append([repr(result.best), system.analyzer, str(len(result.settings)), *folds, *values])
    folds = ["folds"] if study.folds else []
    heads = ("tuned setting", "analyzer", "tried", *folds, *means)
    chosen = f"dev: the best setting's mean over all {count_noun(study.queries, 'query')}, which chose it"
    note = f"{chosen}; default: the model's defaults."
    if study.dev is not None:
        note = (
            f"dev: mean over the {count_noun(study.dev, 'query')} that chose the setting; held out: "
            f"mean over the "
            f"{study.queries:,} others; default: the model's defaults on those."
        )
    elif study.folds:
        note = (
            f"{chosen}; folds: how many of {study.folds} chose it, too; held out: each query under the "
            "setting that the other folds chose; default: the model's defaults."
        )
    return Table.of(heads, rows, caption=f"Tuned by {study.spec.objective}", notes=[note], left=2)


def _shown(study: SparseStudy, analyzer: str) -> dict[str, SparseSystem]:
    """The first family at its defaults, and the tuned families, under an analyzer, by their labels."""
    tuned = {system.label: system for system in study.tuned_under(analyzer)}
    return {f"{study.baseline.label} {DEFAULT}": replace(study.baseline, analyzer=analyzer), **tuned}


def _cells(comparison: Comparison, system: SparseSystem) -> list[str | Cell]:
    """The means of a system with marks, strong if they are the best of the comparison."""
    cells: list[str | Cell] = []
    for name in comparison.measures:
        best = max(round(evaluation.mean[name], 3) for evaluation in comparison.evaluations.values())
        mean = round(comparison.evaluations[str(system)].mean[name], 3)
        marks = comparison.marks(str(system), name)
        cells.append(Cell(_format_share(mean), strong=mean == best, marks=marks))
    return cells


def _format_share(value: float | None) -> str:
    """``.712``, so that a row of eight shares fits into 80 columns."""
    return show_value(value).removeprefix("0")
