"""The kinds of models that are trained, by name.

A new kind is a package with its settings and the function that trains it, and a line in :data:`KINDS`. Both
are loaded when they are first used: only a function that trains needs torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from telerank.errors import ModelError
from telerank.training.settings import SettingsSource, Training, read_settings
from telerank.training.trained import TrainedModels


@dataclass(frozen=True)
class TrainingKind:
    """Where the settings of one training are, and the function that trains it; ``plan`` is of several."""

    _settings: str
    _train: str
    _plan: str = ""
    _train_plan: str = ""

    @property
    def settings(self) -> type[Training]:
        """The class of the settings of one training."""
        settings: type[Training] = _load(self._settings)
        return settings

    @property
    def train(self) -> Callable[..., Path]:
        """Takes settings, an output, ``shared`` and the options of a training; returns the model's folder."""
        train: Callable[..., Path] = _load(self._train)
        return train

    def read(self, source: SettingsSource, changes: Mapping[str, object]) -> Training:
        """The settings of a file or a mapping, of one training or several, with other values of ``changes``.

        Raises FormatError if they have an unknown key or an invalid value; ModelError if this kind has no
        such changes.
        """
        settings: type[Training] = _load(self._plan or self._settings)
        if changes.keys() - settings.model_fields.keys():
            raise ModelError("seeds and sizes are for re-rankers")
        return read_settings(source, settings, changes)

    def train_all(self, settings: Training, output: str | Path, **options: Any) -> TrainedModels:
        """Train what :meth:`read` has read."""
        if self._train_plan:
            trained: TrainedModels = _load(self._train_plan)(settings, output, **options)
            return trained
        return TrainedModels({".": self.train(settings, output, **options)})


KINDS = {
    "bi-encoder": TrainingKind("bi_encoder.config:BiEncoderTraining", "bi_encoder.train:train_bi_encoder"),
    "reranker": TrainingKind(
        "reranker.config:RerankerTraining",
        "reranker.train:train_reranker",
        "reranker.plan:TrainingPlan",
        "reranker.compare:train_rerankers",
    ),
    "reader": TrainingKind("reader.config:ReaderTraining", "reader.train:train_reader"),
}


def find_training_kind(name: str) -> TrainingKind:
    """The kind of that name. Raises ModelError if there is none."""
    if name not in KINDS:
        raise ModelError(f"{name}: expected one of {', '.join(KINDS)}")
    return KINDS[name]


def _load(name: str) -> Any:
    return resolve_name(f"telerank.training.{name}")
