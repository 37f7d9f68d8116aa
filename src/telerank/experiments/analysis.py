"""What every analysis of an experiment is: its settings, what it makes of systems, and of pooled folds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, SerializeAsAny

from telerank.errors import MeasureError, ModelError, TelerankError
from telerank.evaluation.measures import parse_measures
from telerank.experiments.pooled_values import Items, PooledValues
from telerank.records import Section
from telerank.show.tables import Table
from telerank.sparse.similarities.families import parse_similarity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Published: TypeAlias = dict[str, dict[str, float | None]]
"""``published[row][column]``: the values that a paper prints; null if a value cannot be read."""
Depths: TypeAlias = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]


def _parse_measure(text: str) -> str:
    try:
        names = parse_measures(text)
    except MeasureError as error:
        raise ValueError(str(error)) from error
    if len(names) != 1:
        raise ValueError(f"expected one measure, got {text!r}")
    return names[0]


Measure: TypeAlias = Annotated[str, AfterValidator(_parse_measure)]
"""The name of one measure, as ir_measures writes it."""
Measures: TypeAlias = Annotated[tuple[Measure, ...], Field(min_length=1)]


def _check_similarity(text: str) -> str:
    try:
        parse_similarity(text)
    except ModelError as error:
        raise ValueError(str(error)) from error
    return text


SimilarityText: TypeAlias = Annotated[str, AfterValidator(_check_similarity)]
"""The text of a sparse model: ``bm25``, ``bm25(k1=0.9, b=0.4)``."""


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
    """The settings that every analysis has."""

    title: str = ""
    """The caption of its first table, and its heading in the report."""
    about: str = ""
    """What a reader must know of it, in the report."""
    systems: tuple[str, ...] | None = None
    """The systems that are analysed; None: all."""
    published: dict[str, Published] = Field(default_factory=dict)
    """The values that a paper prints, by data set; without them those of the experiment."""
    if TYPE_CHECKING:
        kind: (
            str  # Each class declares it with its own value; records then have it after the common settings.
        )
    needs_systems: ClassVar[bool] = True
    """Whether the analysis is of systems, and not available without one."""

    @property
    def system_names(self) -> tuple[str, ...]:
        """The systems of the experiment that the settings name."""
        return self.systems or ()

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


ANALYSES = {
    "quality": "quality.QualityAnalysis",
    "recall": "by_depth.RecallAnalysis",
    "reranking": "by_depth.RerankingAnalysis",
    "consistency": "by_depth.ConsistencyAnalysis",
    "combination": "combination.CombinationAnalysis",
    "tuning": "tuning.TuningAnalysis",
    "ranking-set": "ranking_set.RankingSetAnalysis",
    "losses": "specs.LossesSpec",
    "embeddings": "embeddings.EmbeddingsAnalysis",
    "grid": "specs.GridSpec",
    "sizes": "specs.SizesSpec",
    "statistics": "statistics.StatisticsAnalysis",
    "throughput": "throughput.ThroughputAnalysis",
    "diffusion": "diffusion.DiffusionAnalysis",
    "positions": "long_documents.positions.PositionsAnalysis",
    "behind-first": "long_documents.behind_first.BehindFirstAnalysis",
    "segments": "long_documents.segments.SegmentsAnalysis",
    "iterations": "long_documents.iterations.IterationsAnalysis",
    "answers": "answers.AnswersAnalysis",
    "answer-sizes": "answers.AnswerSizesAnalysis",
    "end-to-end": "answers.EndToEndAnalysis",
}
"""The class of each kind, in a module of :mod:`telerank.experiments.analyses`; a line adds one."""


def _read_analysis(record: object) -> object:
    if not isinstance(record, Mapping):
        return record
    kind = record.get("kind")
    if kind not in ANALYSES:
        raise ValueError(f"kind: expected one of {', '.join(ANALYSES)}, got {kind!r}")
    module, _, name = ANALYSES[kind].rpartition(".")
    analysis: type[Analysis] = getattr(import_module(f"telerank.experiments.analyses.{module}"), name)
    return analysis.model_validate(record)


AnalysisSettings: TypeAlias = Annotated[SerializeAsAny[Analysis], BeforeValidator(_read_analysis)]
"""An analysis as a file has it: its ``kind`` says which class reads it."""


def select_published(published: Mapping[str, Published], data: str) -> Published:
    """The values printed for a data set; if there are none, those of the first data set, as a rough guide."""
    return published.get(data) or next(iter(published.values()), {})
