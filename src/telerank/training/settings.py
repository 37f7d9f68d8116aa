"""The settings that every training has, and how they are read from and written to a YAML file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import yaml
from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    field_serializer,
    field_validator,
    model_validator,
)

from telerank.drafts import replace_file
from telerank.errors import FormatError, MeasureError
from telerank.evaluation.measures import parse_measures
from telerank.records import Section, describe_error
from telerank.yaml_files import read_yaml

Seed: TypeAlias = Annotated[int, Field(ge=0, lt=2**63)]
"""A seed of random numbers."""
Share: TypeAlias = Annotated[float, Field(gt=0, lt=1)]
"""A share of all updates: more than 0, less than 1."""


def _parse_interval(value: Any) -> int | str:
    number, _, unit = str(value).strip().partition(" ")
    try:
        amount = float(number)
    except ValueError:
        amount = 0.0
    if 0 < amount < math.inf and unit.strip() in ("epoch", "epochs"):
        return f"{amount:.12g} epochs"
    if amount > 0 and amount.is_integer() and not unit:
        return int(amount)
    raise ValueError(f"expected updates, as 100, or epochs, as 0.5 epochs, got {value!r}")


Interval: TypeAlias = Annotated[int | str, BeforeValidator(_parse_interval)]
"""A number of updates, or epochs as a text: `0.5 epochs`."""


def check_measures(measures: str | Sequence[str]) -> tuple[str, ...]:
    """The names of measures, checked before anything is trained.

    Raises ValueError if a name is unknown, or there is none.
    """
    try:
        return parse_measures(measures)
    except MeasureError as error:
        raise ValueError(str(error)) from error


class TrainingData(Section):
    """The collection to learn from."""

    collection: str
    """A folder, a file, or an ir_datasets id."""
    split: str = "train"
    """The split whose queries and qrels the model learns from."""
    format: str | None = None
    """The collection's format, if it is not recognised."""
    encoding: str = "utf-8"
    """The encoding of the collection's texts."""


class OptimisationSettings(Section):
    """How long the training is, and how it updates the weights."""

    steps: PositiveInt
    """Number of updates of the weights; ignored if `epochs` is set, and then saved as `null`."""
    epochs: float | None = Field(default=None, gt=0)
    """Length of the training in passes over all examples, instead of `steps`; may be a fraction."""
    batch: PositiveInt
    """Examples in a batch, over all processes together."""
    accumulation: PositiveInt = 1
    """Batches whose gradients are averaged for each update."""
    optimiser: Literal["adamw", "adam"] = "adamw"
    """`adamw` decays the weights themselves, `adam` adds the decay to their gradients."""
    learning_rate: float = Field(gt=0)
    """The highest learning rate, reached at the end of the warm-up."""
    schedule: Literal["linear", "constant"] = "linear"
    """After the warm-up the rate falls linearly to 0 at the last update, or stays constant."""
    warm_up: NonNegativeInt | Share = 0
    """Updates during which the rate rises from 0; a number below 1 is a share of all updates."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of Adam's two moving averages."""
    eps: float = Field(default=1e-8, gt=0)
    """Added to the square root of Adam's second average."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Decay of the weights; biases and layer norms do not decay."""
    max_gradient_norm: float | None = Field(default=1.0, gt=0)
    """Longer gradients are scaled down to this norm, as in the training of BERT; `null` leaves them."""

    @model_validator(mode="before")
    @classmethod
    def _steps_or_epochs(cls, record: Any) -> Any:
        if not isinstance(record, Mapping):
            return record
        if record.get("steps") is not None and record.get("epochs") is not None:
            raise ValueError("expected steps or epochs, got both")
        return {name: value for name, value in record.items() if name != "steps" or value is not None}

    @field_serializer("steps")
    def _null_beside_epochs(self, steps: int) -> int | None:
        return steps if self.epochs is None else None


class DevSettings(Section):
    """When the dev measure is computed; it decides which weights are kept, and when training stops early."""

    every: Interval
    """Updates between two dev measures, or epochs: `0.5 epochs`."""
    patience: Interval
    """Stop after this many updates without a better dev measure, or epochs: `3 epochs`."""

    @field_validator("measure", check_fields=False)  # a field of each task's section
    @classmethod
    def _one_measure(cls, measure: str) -> str:
        if len(names := check_measures(measure)) > 1:
            raise ValueError(f"expected one measure, got {', '.join(names)}")
        return measure

    @model_validator(mode="after")
    def _measured_before_it_ends(self) -> DevSettings:
        if type(self.every) is type(self.patience):  # else it depends on the length of an epoch
            self.intervals(lambda epochs: epochs)
        return self

    def intervals(self, updates: Callable[[float], float]) -> tuple[float, float]:
        """``every`` and ``patience`` in updates; ``updates`` converts a number of epochs.

        Raises ValueError if patience ends the training before the first dev measure, and so without a model.
        """
        every, patience = (
            value if isinstance(value, int) else updates(float(value.split()[0]))
            for value in (self.every, self.patience)
        )
        if patience < every:
            problem = f"patience ({self.patience}) must not be less than every ({self.every})"
            raise ValueError(f"{problem}: training would end before the first dev measure")
        return every, patience


class Training(Section):
    """The settings of the loop; a task's settings add the model, its data and its loss."""

    optimisation: OptimisationSettings
    dev: DevSettings | None = None
    """Dev queries; without them the last weights are kept."""
    precision: Literal["auto", "float32", "float32-fast", "bfloat16"] = "auto"
    """Precision of matrix products; `auto` is bfloat16 on a GPU that supports it, else float32."""
    device: str = "auto"
    """`cpu`, `cuda` or `cuda:1`; `auto` is the GPU if there is one."""
    seed: Seed = 0
    """Seed of fresh weights, dropout, negatives and the order of examples."""
    log_every: PositiveInt = 10
    """Updates between two lines of the log."""
    tensorboard: bool = False
    """Also log to the folder `tensorboard` in the output (extra `tensorboard`)."""
    checkpoint_every: PositiveInt = 1000
    """Updates between two checkpoints."""
    keep: PositiveInt = 2
    """Number of latest checkpoints that are kept on disk, besides the best weights."""

    @model_validator(mode="after")
    def _warms_up_within_the_training(self) -> Training:
        settings = self.optimisation
        if settings.epochs is None and settings.warm_up >= settings.steps:
            raise ValueError(f"warm_up ({settings.warm_up}) must be less than steps ({settings.steps})")
        return self


T = TypeVar("T", bound=Section)
SettingsSource: TypeAlias = str | Path | Mapping[str, Any]
"""A YAML file, or what it would hold."""


def read_settings(path: SettingsSource, kind: type[T]) -> T:
    """The settings of a YAML file, or of a mapping.

    Raises FormatError if it is not YAML, has an unknown key, or an invalid value.
    """
    return validate_settings(read_mapping(path), kind, path)


def read_mapping(path: SettingsSource) -> dict[str, Any]:
    """The mapping of a YAML file, unchecked, or the mapping itself.

    Raises FormatError if the file does not hold a mapping.
    """
    if isinstance(path, Mapping):
        return dict(path)
    record = read_yaml(path)
    if not isinstance(record, dict):
        raise FormatError(path, None, "a mapping with at least data: {collection: …}", repr(record))
    return record


def validate_settings(record: Mapping[str, Any], kind: type[T], path: SettingsSource) -> T:
    """The settings of a mapping that was read from ``path``.

    Raises FormatError if it has an unknown key, or an invalid value.
    """
    try:
        return kind.model_validate(record)
    except ValidationError as error:
        source = "the settings" if isinstance(path, Mapping) else path
        raise FormatError(source, None, describe_error(error)) from error


def write_settings(settings: Section, path: Path) -> None:
    """Write all settings, including defaults, as :func:`read_settings` reads them."""
    replace_file(path, dump_settings(settings).encode())


def dump_settings(settings: Section) -> str:
    """All settings in YAML, as :func:`write_settings` writes them."""
    return yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False)
