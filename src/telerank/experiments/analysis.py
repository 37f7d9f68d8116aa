"""What every analysis of an experiment is: its settings, what it makes of systems, and of pooled folds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, SerializeAsAny

from telerank.errors import MeasureError, ModelError, TelerankError
from telerank.evaluation.answers.overlap import parse_answer_measures
from telerank.evaluation.measures import Evaluation, parse_measures
from telerank.evaluation.statistics import bootstrap_intervals
from telerank.records import Section
from telerank.show.tables import Cell, Table, show_interval
from telerank.sparse.similarities.families import parse_similarity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Values by column, row and qid.
Items: TypeAlias = Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]


@dataclass(frozen=True, eq=False)
class PooledValues:
    """The values of each fold, by its name."""

    by_fold: Mapping[str, Items]

    @cached_property
    def items(self) -> Items:
        """The values of all folds; a query may be in several."""
        joined: dict[str, dict[str, dict[str, list[float]]]] = {}
        for items in self.by_fold.values():
            for column, rows in items.items():
                for row, by_qid in rows.items():
                    queries = joined.setdefault(column, {}).setdefault(row, {})
                    for qid, values in by_qid.items():
                        queries.setdefault(qid, []).extend(values)
        return joined

    @cached_property
    def columns(self) -> dict[str, dict[str, dict[str, Any]]]:
        """The mean of each fold, their mean and deviation, and the pooled mean with its interval."""
        return {
            column: {row: self._summarise(column, row, by_qid) for row, by_qid in rows.items()}
            for column, rows in self.items.items()
        }

    def _summarise(self, column: str, row: str, by_qid: Mapping[str, Sequence[float]]) -> dict[str, Any]:
        folds = {}
        for name, items in self.by_fold.items():
            values = [value for each in items.get(column, {}).get(row, {}).values() for value in each]
            if values:
                folds[name] = fmean(values)
        sums = np.array([sum(values) for values in by_qid.values()])
        counts = np.array([len(values) for values in by_qid.values()])
        ((low, high),) = bootstrap_intervals([sums], counts)
        return {
            "folds": folds,
            "mean": fmean(folds.values()),
            "deviation": stdev(folds.values()) if len(folds) > 1 else None,
            "pooled": float(sums.sum() / counts.sum()),
            "low": low,
            "high": high,
            "queries": len(counts),
        }

    def tables(
        self, marks: Callable[[str, str], str] | None = None, notes: Sequence[str] = ()
    ) -> tuple[Table, ...]:
        """A table for each column: a row for each system, a column for each fold.

        With ``marks`` (row, column) the pooled values are marked, and the best of them is strong.
        """
        tables = []
        for column, rows in self.columns.items():
            best, lines = max(round(values["pooled"], 3) for values in rows.values()), []
            for row, values in rows.items():
                spread = "" if values["deviation"] is None else f" ± {values['deviation']:.3f}"
                is_best = marks is not None and round(values["pooled"], 3) == best
                lines.append(
                    {
                        "system": row,
                        **{name: values["folds"].get(name) for name in self.by_fold},
                        "mean": f"{values['mean']:.3f}{spread}",
                        "pooled": Cell(
                            f"{values['pooled']:.3f}", is_best, marks(row, column) if marks else ""
                        ),
                        "95% interval": show_interval(values["low"], values["high"]),
                    }
                )
            counts = sorted({values["queries"] for values in rows.values()})
            over = f"{counts[-1]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
            spread = "mean ± deviation of the folds"
            tables.append(
                Table.of_rows(
                    lines,
                    caption=f"{column} by fold",
                    notes=[
                        f"Pooled over {over} queries or folds, with the 95% bootstrap interval; {spread}.",
                        *notes,
                    ],
                )
            )
        return tuple(tables)


def query_items(
    evaluations: Mapping[str, Evaluation], measures: Sequence[str], suffix: str = ""
) -> dict[str, dict[str, dict[str, list[float]]]]:
    """The values of evaluations: a column for each measure, named with the suffix, a row for each system."""
    return {
        f"{name}{suffix}": {
            system: {qid: [value] for qid, value in evaluation.of(name).items()}
            for system, evaluation in evaluations.items()
        }
        for name in measures
    }


# ``published[row][column]``: the values that a paper prints; null if a value cannot be read.
Published: TypeAlias = dict[str, dict[str, float | None]]
Depths: TypeAlias = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]


def _parse_measure(text: str) -> str:
    try:
        names = parse_measures(text)
    except MeasureError as error:
        raise ValueError(str(error)) from error
    if len(names) != 1:
        raise ValueError(f"expected one measure, got {text!r}")
    return names[0]


# The name of one measure, as ir_measures writes it.
Measure: TypeAlias = Annotated[str, AfterValidator(_parse_measure)]
Measures: TypeAlias = Annotated[tuple[Measure, ...], Field(min_length=1)]


def _parse_answer_measures(measures: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return parse_answer_measures(measures)
    except MeasureError as error:
        raise ValueError(f"expected measures of answers: {error}") from error


AnswerMeasures: TypeAlias = Annotated[tuple[str, ...], AfterValidator(_parse_answer_measures)]


def _check_similarity(text: str) -> str:
    try:
        parse_similarity(text)
    except ModelError as error:
        raise ValueError(str(error)) from error
    return text


# The text of a sparse model: ``bm25``, ``bm25(k1=0.9, b=0.4)``.
SimilarityText: TypeAlias = Annotated[str, AfterValidator(_check_similarity)]


class Unavailable(TelerankError):  # noqa: N818
    """A system or a model cannot be had here; the message says why."""


@dataclass(frozen=True)
class AnalysisResult:
    """Tables to read, figures by name, every value for programs, and what must be said of them.

    ``items[column][row][qid]`` are the values that a cell of the tables is the mean of: experiments on parts
    of one collection are pooled by them.
    """

    tables: tuple[Table, ...]
    record: Mapping[str, Any]
    plots: Mapping[str, Figure] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    items: Items = field(default_factory=dict)


class Analysis(Section):
    """The settings that every analysis has.

    Attributes
    ----------
    title
        The caption of its first table, and its heading in the report.
    about
        Its notes in the report.
    systems
        The systems that are analysed; None: all.
    published
        The values that a paper prints, by data set; without them those of the experiment.
    needs_systems
        Whether the analysis is of systems, and not available without one.
    named_by
        The settings that name a system, or none, beside ``systems``.
    """

    title: str = ""
    about: str = ""
    systems: tuple[str, ...] | None = None
    published: dict[str, Published] = Field(default_factory=dict)
    if TYPE_CHECKING:
        kind: (
            str  # Each class declares it with its own value; records then have it after the common settings.
        )
    needs_systems: ClassVar[bool] = True

    named_by: ClassVar[tuple[str, ...]] = ()

    @property
    def system_names(self) -> tuple[str, ...]:
        """The systems of the experiment that the settings name."""
        return (*(self.systems or ()), *filter(None, (getattr(self, name) for name in self.named_by)))

    @property
    def pipeline_names(self) -> tuple[str, ...]:
        """The pipelines that the settings define beside the systems; a user may give or skip them, too."""
        return ()

    @property
    def quality_measures(self) -> tuple[str, ...]:
        """The measures of systems as a whole; trained models are tested by those of the first analysis."""
        return ()

    @abstractmethod
    def analyse(self, bench: Any) -> AnalysisResult:
        """Analyse what a :class:`~telerank.experiments.analyses.bench.Bench` has.

        Raises Unavailable if something that the analysis needs is missing.
        """

    def pool_folds(self, folds: PooledValues) -> AnalysisResult:
        """What the values of several folds show together."""
        return AnalysisResult(folds.tables(), {"columns": folds.columns})


# The class of each kind, in a module of :mod:`telerank.experiments.analyses`; a line adds one.
ANALYSES = {
    "quality": "quality.QualityAnalysis",
    "recall": "first_stages.RecallAnalysis",
    "reranking": "first_stages.RerankingAnalysis",
    "consistency": "first_stages.ConsistencyAnalysis",
    "combination": "first_stages.CombinationAnalysis",
    "tuning": "tuning.TuningAnalysis",
    "ranking-set": "statistics.RankingSetAnalysis",
    "losses": "trainings.LossesAnalysis",
    "embeddings": "representations.EmbeddingsAnalysis",
    "grid": "trainings.GridAnalysis",
    "sizes": "trainings.SizesAnalysis",
    "statistics": "statistics.StatisticsAnalysis",
    "throughput": "trainings.ThroughputAnalysis",
    "diffusion": "representations.DiffusionAnalysis",
    "positions": "relevant_text.PositionsAnalysis",
    "behind-first": "relevant_text.BehindFirstAnalysis",
    "segments": "segments.SegmentsAnalysis",
    "iterations": "iterations.IterationsAnalysis",
    "answers": "answers.AnswersAnalysis",
    "answer-sizes": "answers.AnswerSizesAnalysis",
    "end-to-end": "answers.EndToEndAnalysis",
}


def _read_analysis(record: object) -> object:
    if not isinstance(record, Mapping):
        return record
    kind = record.get("kind")
    if kind not in ANALYSES:
        raise ValueError(f"kind: expected one of {', '.join(ANALYSES)}, got {kind!r}")
    module, _, name = ANALYSES[kind].rpartition(".")
    analysis: type[Analysis] = getattr(import_module(f"telerank.experiments.analyses.{module}"), name)
    return analysis.model_validate(record)


# An analysis as a file has it: its ``kind`` says which class reads it.
AnalysisSettings: TypeAlias = Annotated[SerializeAsAny[Analysis], BeforeValidator(_read_analysis)]


def select_published(published: Mapping[str, Published], data: str) -> Published:
    """The values printed for a data set; if there are none, those of the first data set, as a rough guide."""
    return published.get(data) or next(iter(published.values()), {})
