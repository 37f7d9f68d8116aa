"""The kinds of models that are trained, by name.

A new kind is a module that ends with its record, ``KIND``, and a line in :data:`KINDS`. The modules need
torch, and are loaded when they are first used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from telerank.errors import ModelError, known_names
from telerank.show.tables import Table
from telerank.training.settings import SettingsSource, Training, read_settings
from telerank.training.trained import TrainedModels

KINDS = {
    "bi-encoder": "telerank.training.bi_encoder.train",
    "splade": "telerank.training.splade.train",
    "late-interaction": "telerank.training.late_interaction.train",
    "reranker": "telerank.training.reranker.train",
    "reader": "telerank.training.reader.train",
    "mlm": "telerank.training.mlm.train",
    "term-weights": "telerank.training.term_weights.train",
}
"""The module of each kind."""


@dataclass(frozen=True)
class TrainingKind:
    """The ``settings`` of one training and the function that trains it; those of ``several``, if it has such.

    ``train`` takes settings, an output, ``shared`` and the options of a training, and returns the model's
    folder; ``train_several`` takes the settings of several, an output and the options. ``results`` makes the
    tables of what was measured, from the folder of the training.
    """

    settings: type[Training]
    train: Callable[..., Path]
    several: type[Training] | None = None
    train_several: Callable[..., TrainedModels] | None = None
    results: Callable[[Path], Sequence[Table]] = lambda _: ()

    def read(self, source: SettingsSource, changes: Mapping[str, object]) -> Training:
        """The settings of a file or a mapping, of one training or several, with other values of ``changes``.

        Raises FormatError if they have an unknown key or an invalid value; ModelError if this kind has no
        such changes.
        """
        settings = self.several or self.settings
        if changes.keys() - settings.model_fields.keys():
            raise ModelError("seeds and sizes are for re-rankers")
        return read_settings(source, settings, changes)

    def train_all(self, settings: Training, output: str | Path, **options: Any) -> TrainedModels:
        """Train what :meth:`read` has read."""
        if self.train_several is not None:
            return self.train_several(settings, output, **options)
        model = self.train(settings, output, **options)
        return TrainedModels({".": model}, self.results(model.parent))


def find_training_kind(name: str) -> TrainingKind:
    """The kind of that name. Raises ModelError if there is none."""
    if name not in KINDS:
        raise ModelError(f"no kind of training is called {name!r}; {known_names(KINDS, name)}")
    kind: TrainingKind = import_module(KINDS[name]).KIND
    return kind
