"""Measure trained re-rankers on their test, and compare those that differ in seed, size, fold or settings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from telerank.drafts import replace_file
from telerank.errors import ModelError
from telerank.evaluation.measures import measure
from telerank.records import read_record
from telerank.show.tables import Table
from telerank.training.reranker.candidates import CandidateSet
from telerank.training.reranker.config import RerankerTest
from telerank.training.reranker.pair_logits import CutCounts
from telerank.training.reranker.plan import Variant, format_mean, plot_sizes, show_setting
from telerank.training.trained import RESULT, RUN
from telerank.trec import write_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEHIND = "behind the last segment to learn from"
"""What is left out, where only the leading segments are learned from, in the counts of a training."""


@dataclass(frozen=True)
class RerankerOutcome:
    """Means over ``queries`` by measure, after and before re-ranking ``candidates`` pairs.

    ``without`` of the queries have no candidates and count as not answered. The query is longer than the
    model reads in ``cut_queries`` of the pairs, the document in ``cut_documents``; of segments,
    the document has text behind those that are read, and ``cut_titles`` have a cut title.
    """

    queries: int
    candidates: int
    without: int
    measures: Mapping[str, float]
    before: Mapping[str, float]
    cut_queries: int = 0
    cut_documents: int = 0
    cut_titles: int = 0


def measure_test(
    candidates: CandidateSet,
    scores: Sequence[float],
    cut: CutCounts,
    settings: RerankerTest,
    output: Path,
    *,
    cut_titles: int = 0,
) -> None:
    """Write the run and its measures into ``output``; ``cut`` counts the pairs of the candidates.

    ``cut_titles`` of them have a document whose title is cut.
    """
    qrels = candidates.qrels
    if settings.listed:
        listed = {ranking.query.qid for ranking in candidates.rankings}
        qrels = {qid: grades for qid, grades in qrels.items() if qid in listed}
    rankings = candidates.rerank(scores)
    after = measure(rankings, qrels, settings.measures)
    before = measure(candidates.rankings, qrels, settings.measures)
    write_run(output / RUN, rankings)
    sizes = len(after.qids), len(scores), len(after.missing)
    outcome = RerankerOutcome(*sizes, after.mean, before.mean, cut.queries, cut.passages, cut_titles)
    replace_file(output / RESULT, f"{json.dumps(asdict(outcome), indent=2)}\n".encode())


def read_outcome(output: Path) -> RerankerOutcome:
    """Read what :func:`measure_test` has written. Raises ModelError if the file is damaged."""
    return read_record(output / RESULT, RerankerOutcome, ModelError)


def join_outcomes(outcomes: Sequence[RerankerOutcome]) -> RerankerOutcome:
    """The means over all queries of outcomes that have no query in common."""
    if len(outcomes) == 1:
        return outcomes[0]
    records = [asdict(outcome) for outcome in outcomes]
    queries = sum(outcome.queries for outcome in outcomes)
    joined: dict[str, Any] = {}
    for name, first in records[0].items():
        if isinstance(first, Mapping):
            joined[name] = {
                measure: sum(record[name][measure] * record["queries"] for record in records) / queries
                for measure in first
            }
        else:
            joined[name] = sum(record[name] for record in records)
    return RerankerOutcome(**joined)


@dataclass(frozen=True)
class Study:
    """The test of each training."""

    outcomes: Mapping[Variant, RerankerOutcome]

    @property
    def folds(self) -> dict[Variant, RerankerOutcome]:
        """The outcome of each fold of a cross-validation."""
        return {variant: outcome for variant, outcome in self.outcomes.items() if variant.fold is not None}

    @cached_property
    def tested(self) -> dict[Variant, RerankerOutcome]:
        """The outcome of each training, with the folds of a cross-validation joined."""
        parts: dict[Variant, list[RerankerOutcome]] = {}
        for variant, outcome in self.outcomes.items():
            parts.setdefault(replace(variant, fold=None), []).append(outcome)
        return {variant: join_outcomes(outcomes) for variant, outcomes in parts.items()}

    @property
    def measures(self) -> tuple[str, ...]:
        return tuple(next(iter(self.outcomes.values())).measures)

    @property
    def sizes(self) -> list[int]:
        """The numbers of training pairs that were compared, if any."""
        return list(dict.fromkeys(variant.size for variant in self.tested if variant.size is not None))

    def values(self, size: int | None, measure: str) -> list[float]:
        """The measure for each seed, with ``size`` training pairs."""
        return [outcome.measures[measure] for variant, outcome in self.tested.items() if variant.size == size]

    def table(self) -> Table:
        """A row for each training, or for each size; then the mean over seeds."""
        first = next(iter(self.tested.values()))
        rows = [("first stage", *self._cells(first.before))]
        if self.sizes:
            rows += [(f"{size:,} pairs", *self._means(size)) for size in self.sizes]
        else:
            for variant, outcome in (*self.folds.items(), *self.tested.items()):
                rows.append((variant.label, *self._cells(outcome.measures)))
            rows += [(f"mean over {self._repeated}", *self._means(None))] if len(self.tested) > 1 else []
        notes = [f"{first.queries:,} test queries, {first.candidates:,} candidates."]
        if first.without:
            notes.append(f"{first.without:,} of the queries have no candidates, and count 0.")
        if first.cut_queries or first.cut_documents:
            lost = f"the query of {first.cut_queries:,} pairs and the document of {first.cut_documents:,}"
            notes.append(f"Longer than the models read, and cut: {lost}.")
        runs = {(variant.seed, variant.repetition) for variant in self.tested}
        if len(runs) > 1:
            notes.append(f"Means over {len(runs)} {self._repeated} ± their standard deviation.")
        return Table.of(("training", *self.measures), rows, notes=notes)

    @property
    def _repeated(self) -> str:
        is_repeated = any(variant.repetition is not None for variant in self.tested)
        return "repetitions" if is_repeated else "seeds"

    def record(self) -> dict[str, object]:
        """Every value, for JSON."""
        parts = {"trainings": self.tested, "folds": self.folds}
        return {
            name: [{**asdict(variant), **asdict(outcome)} for variant, outcome in part.items()]
            for name, part in parts.items()
        }

    def plot(self) -> Figure:
        """Each measure by the number of training pairs, the mean over seeds."""
        panels = {
            name: {"re-ranked": [fmean(self.values(size, name)) for size in self.sizes]}
            for name in self.measures
        }
        return plot_sizes(panels, self.sizes)

    def _cells(self, values: Mapping[str, float]) -> list[str]:
        return [f"{values[name]:.4f}" for name in self.measures]

    def _means(self, size: int | None) -> list[str]:
        return [format_mean(self.values(size, name)) for name in self.measures]


@dataclass(frozen=True)
class Grid:
    """The dev measure, or the dev loss, of each training."""

    measure: str
    values: Mapping[Variant, float]
    lower_is_better: bool = False

    @property
    def ordered(self) -> dict[Variant, list[float]]:
        """The values of each combination, one for each seed; the best mean first."""
        values: dict[Variant, list[float]] = {}
        for variant, value in self.values.items():
            values.setdefault(replace(variant, seed=None), []).append(value)
        sign = 1 if self.lower_is_better else -1
        return dict(sorted(values.items(), key=lambda item: sign * fmean(item[1])))

    @property
    def best(self) -> list[Variant]:
        """The trainings with the best combination."""
        first = next(iter(self.ordered))
        return [variant for variant in self.values if variant.settings == first.settings]

    def table(self) -> Table:
        """A row for each combination, the best first."""
        names = [name for name, _ in self.best[0].settings]
        rows = [
            (*(show_setting(json.loads(value)) for _, value in combination.settings), format_mean(values))
            for combination, values in self.ordered.items()
        ]
        seeds = len(self.best)
        notes = [f"Means over {seeds} seeds ± their standard deviation."] if seeds > 1 else []
        return Table.of((*names, f"dev {self.measure}"), rows, notes=notes, left=len(names))

    def record(self) -> dict[str, object]:
        """Every value, for JSON."""
        rows = [
            {"settings": {name: json.loads(value) for name, value in combination.settings}, "dev": values}
            for combination, values in self.ordered.items()
        ]
        return {"measure": self.measure, "combinations": rows}
