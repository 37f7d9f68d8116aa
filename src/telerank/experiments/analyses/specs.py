"""The settings of analyses that train models again; an unknown key is an error."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analysis import Analysis, AnalysisResult, Measure, Measures


class LossesSpec(Analysis):
    """Training and dev loss by update of the re-rankers that systems train (Piaf report, figures 11, 12)."""

    kind: Literal["losses"]

    def analyse(self, bench: Bench) -> AnalysisResult:
        from telerank.experiments.analyses.trainings import analyse_losses

        return analyse_losses(bench, self)


class _OfSystem(Analysis):
    system: str
    """``CANDIDATES >> rerank(MODEL)``, whose model is trained again with other settings."""

    @property
    def system_names(self) -> tuple[str, ...]:
        return (*super().system_names, self.system)


class GridSpec(_OfSystem):
    """Trainings of one model under every combination of settings, compared by their dev losses."""

    kind: Literal["grid"]
    settings: dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]] = Field(min_length=1)
    """Dotted names of settings of the training, each with its values."""
    measures: Measures
    """Of the test of the combination with the least dev loss."""
    shown: int = Field(10, ge=1)
    """Number of combinations in the table; the values of all are in the results."""

    def analyse(self, bench: Bench) -> AnalysisResult:
        from telerank.experiments.analyses.trainings import analyse_grid

        return analyse_grid(bench, self)


class SizesSpec(_OfSystem):
    """A measure of a re-ranker by the number of pairs that it learns from (monoBERT, figure 1)."""

    kind: Literal["sizes"]
    measure: Measure
    pairs: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    """Numbers of pairs to learn from."""
    changes: dict[str, Any] = Field(default_factory=dict)
    """Settings of the trainings that differ from the model's."""

    def analyse(self, bench: Bench) -> AnalysisResult:
        from telerank.experiments.analyses.sizes import analyse_sizes

        return analyse_sizes(bench, self)
