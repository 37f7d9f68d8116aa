"""Families of sparse models under several analyzers, at their defaults and tuned (Piaf report, section 3).

Settings are measured on queries that had no part in choosing them: either the ``dev`` queries of the
experiment choose and the others measure, or each fold of the queries is measured under the setting that the
other folds chose.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from telerank.evaluation.compare import Comparison, compare_evaluations
from telerank.evaluation.measures import Evaluation, measure
from telerank.evaluation.tune import Folds, Objective, TuneResult, tune
from telerank.experiments.analyses.bench import AnalysisResult, Bench
from telerank.experiments.analyses.significance import record_differences
from telerank.experiments.analyses.specs import TuningSpec
from telerank.retrieval.index import Index
from telerank.sparse.similarities import Similarity, make_grid, parse_similarity
from telerank.text import Analyzer
from telerank.types import Query, Ranking

DEFAULT, TUNED, GIVEN = "default", "tuned", "given"
_BATCH = 256  # queries answered at a time
_CUTOFF = re.compile(r"@(\d+)$")


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
    choose; None if each fold is measured under the setting that the others chose.
    """

    spec: TuningSpec
    analyzers: tuple[str, ...]
    evaluations: Mapping[SparseSystem, Evaluation]
    tunings: Mapping[SparseSystem, TuneResult[Similarity]]
    dev: int | None

    @property
    def baseline(self) -> SparseSystem:
        """The first family at its defaults under the first analyzer."""
        return SparseSystem(self.spec.families[0], DEFAULT, self.analyzers[0])

    @property
    def tuned(self) -> list[SparseSystem]:
        """The tuned families under the analyzer of the baseline."""
        return [system for system in self.tunings if system.analyzer == self.baseline.analyzer]

    @property
    def queries(self) -> int:
        """The number of queries that measure."""
        return len(self.evaluations[self.baseline].qids)

    def values(self, system: SparseSystem) -> dict[str, float]:
        """The objective's means of a tuned family.

        ``dev`` is the mean over the queries that chose the setting, which is too optimistic; ``held out``
        that over the others, and ``default`` that of the family's defaults over the others.
        """
        name, default = self.spec.objective, replace(system, parameters=DEFAULT)
        held_out, default_mean = (self.evaluations[one].mean[name] for one in (system, default))
        return {"dev": self.tunings[system].best_dev, "held out": held_out, "default": default_mean}

    def compare(self, systems: Iterable[SparseSystem], measures: Sequence[str]) -> Comparison:
        """Compare systems with the baseline; the tests are one family."""
        evaluations = {str(system): self.evaluations[system] for system in (self.baseline, *systems)}
        return compare_evaluations(evaluations, [str(self.baseline)], measures=measures)


def analyse_tuning(bench: Bench, spec: TuningSpec) -> AnalysisResult:
    """Tune each family under each analyzer, and measure each system once."""
    from telerank.experiments.analyses.tuning_tables import describe_study, draw_study, study_tables

    study = run_study(bench, spec)
    return AnalysisResult(
        study_tables(study), _record(study), draw_study(study), tuple(describe_study(study))
    )


def run_study(bench: Bench, spec: TuningSpec) -> SparseStudy:
    """Tune each family under each analyzer, and measure each system once."""
    analyzers = spec.analyzers or tuple(dict.fromkeys((bench.data.analyzer, "none")))
    depth = _retrieval_depth(spec.all_measures, bench.depth)
    evaluations: dict[SparseSystem, Evaluation] = {}
    tunings = {}

    def evaluate(rankings: Iterable[Ranking]) -> Evaluation:
        return measure(rankings, bench.qrels, spec.all_measures)

    for analyzer in analyzers:
        index = bench.index(analyzer)
        for family in spec.families:
            default, tuned = (SparseSystem(family, how, analyzer) for how in (DEFAULT, TUNED))
            evaluations[default] = evaluate(_retrieve(index, family, bench.queries, depth))
            tunings[tuned] = _tune(bench, spec, index, family)
            evaluations[tuned] = evaluate(_retrieve_tuned(bench, index, tunings[tuned], depth))
        for setting in spec.given:
            system = SparseSystem(setting, GIVEN, analyzer)
            evaluations[system] = evaluate(_retrieve(index, setting, bench.queries, depth))
    dev = None if bench.dev is None else len(bench.dev.queries)
    return SparseStudy(spec, analyzers, evaluations, tunings, dev)


def _tune(bench: Bench, spec: TuningSpec, index: Index, family: str) -> TuneResult[Similarity]:
    """Choose among the settings of a family, on the dev queries or by cross-validation."""
    depth = _retrieval_depth([spec.objective], bench.depth)

    def run(setting: Similarity, queries: Sequence[Query]) -> Iterator[Ranking]:
        return _retrieve(index, setting, queries, depth)

    def report(_: str, done: int, total: int | None) -> None:
        bench.progress(f"tuning {family}", done, total)

    choosing = bench.dev or bench
    folds = Folds(2) if bench.dev else Folds(spec.folds, bench.seed)  # of dev: they choose nothing
    objective = Objective(choosing.queries, choosing.qrels, spec.objective)
    return tune(make_grid(parse_similarity(family)), run, objective, held_out=folds, progress=report)


def _retrieve_tuned(
    bench: Bench, index: Index, result: TuneResult[Similarity], depth: int
) -> Iterator[Ranking]:
    """Retrieve each query under the setting that was chosen without it."""
    if bench.dev:
        yield from _retrieve(index, result.best, bench.queries, depth)
        return
    queries = {query.qid: query for query in bench.queries}
    for fold, choice in zip(result.folds, result.choices, strict=True):
        yield from _retrieve(index, choice, [queries[qid] for qid in fold], depth)


def _retrieve(
    index: Index, setting: Similarity | str, queries: Sequence[Query], depth: int
) -> Iterator[Ranking]:
    return replace(index.retriever(setting), depth=depth, batch=_BATCH).run(queries)


def _retrieval_depth(measures: Sequence[str], otherwise: int) -> int:
    """The deepest cutoff of the measures; ``otherwise`` for a measure without a cutoff."""
    cutoffs = [_CUTOFF.search(name) for name in measures]
    return max(int(cutoff[1]) if cutoff else otherwise for cutoff in cutoffs)


def _record(study: SparseStudy) -> dict[str, Any]:
    spec = study.spec
    comparisons = {name: study.compare(study.tuned, names) for name, names in spec.by_depth.items()}
    comparisons["all systems"] = study.compare(study.evaluations, spec.measures)
    return {
        "objective": spec.objective,
        "analyzers": {analyzer: str(Analyzer.parse(analyzer)) for analyzer in study.analyzers},
        "queries": {"dev": study.dev, "folds": None if study.dev else spec.folds, "test": study.queries},
        "baseline": str(study.baseline),
        "systems": [
            {**asdict(system), "name": str(system), "means": evaluation.mean}
            for system, evaluation in study.evaluations.items()
        ],
        "tunings": [
            {**asdict(system), "tried": len(result.settings), "best": repr(result.best)}
            | {"choices": [repr(choice) for choice in result.choices] if study.dev is None else []}
            | study.values(system)
            for system, result in study.tunings.items()
        ],
        "comparisons": {name: record_differences(comparison) for name, comparison in comparisons.items()},
    }
