"""What every training is told, and how it stands in a YAML file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    field_serializer,
    field_validator,
    model_validator,
)

from telerank.errors import FormatError, MeasureError
from telerank.evaluate.measures import parse_measures
from telerank.yaml_files import read_yaml

Share: TypeAlias = Annotated[float, Field(gt=0, lt=1)]


def _interval(said: Any) -> int | str:
    number, _, unit = str(said).strip().partition(" ")
    try:
        value = float(number)
    except ValueError:
        value = 0.0
    if 0 < value < math.inf and unit.strip() in ("epoch", "epochs"):
        return f"{value:.12g} epochs"
    if value > 0 and value.is_integer() and not unit:
        return int(value)
    raise ValueError(f"expected updates, as 100, or epochs, as 0.5 epochs, got {said!r}")


Interval: TypeAlias = Annotated[int | str, BeforeValidator(_interval)]
"""So many updates, or, as a text, epochs: `0.5 epochs`."""


def known_measures(said: str | Sequence[str]) -> tuple[str, ...]:
    """The names of measures, read before anything is trained.

    Raises
    ------
    ValueError
        where a name is not a measure's, or there is none.
    """
    try:
        return parse_measures(said)
    except MeasureError as error:
        raise ValueError(str(error)) from error


class Section(BaseModel):
    """A group of settings; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class TrainingData(Section):
    """Where what is learned from stands."""

    collection: str
    """A folder, a file, or an ir_datasets id."""
    split: str = "train"
    """The split whose qrels are learned from."""
    format: str | None = None
    """The collection's format, if it is not recognised."""
    encoding: str = "utf-8"
    """Encoding of its texts."""


class OptimisationSettings(Section):
    """The updates of the weights."""

    steps: PositiveInt
    """Updates of the weights; of no account beside epochs, and then `null` in what is saved."""
    epochs: float | None = Field(default=None, gt=0)
    """Instead of steps: so many times as many examples as there are."""
    batch: PositiveInt
    """Examples of a batch, those of all processes together."""
    accumulation: PositiveInt = 1
    """Batches to an update."""
    optimiser: Literal["adamw", "adam"] = "adamw"
    """Adam, with weights that decay of themselves (`adamw`) or by their gradient (`adam`)."""
    learning_rate: float = Field(gt=0)
    """The highest, at the end of the warm-up."""
    schedule: Literal["linear", "constant"] = "linear"
    """After the warm-up the rate falls to 0 at the end, or stays."""
    warm_up: NonNegativeInt | Share = 0
    """Updates during which the rate rises from 0, or, below 1, their share of all."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay of Adam's two means."""
    eps: float = Field(default=1e-8, gt=0)
    """Is added to the root of Adam's second mean."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Not of biases and of layer norms."""
    max_gradient_norm: float | None = Field(default=1.0, gt=0)
    """Longer gradients are shortened to this, as in the training of BERT; `null`: they are not."""

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


class Looks(Section):
    """When the dev measure is taken; it tells which weights to keep, and when to stop."""

    every: Interval
    """Updates between two looks, or epochs: `0.5 epochs`."""
    patience: Interval
    """Stop after so many updates without a better value, or epochs: `3 epochs`."""

    @field_validator("measure", check_fields=False)  # which stands in the section of each task
    @classmethod
    def _one_measure(cls, said: str) -> str:
        if len(names := known_measures(said)) > 1:
            raise ValueError(f"expected one measure, got {', '.join(names)}")
        return said

    @model_validator(mode="after")
    def _looks_before_it_ends(self) -> Looks:
        if type(self.every) is type(self.patience):  # else an epoch's length tells
            self.in_updates(lambda epochs: epochs)
        return self

    def in_updates(self, updates: Callable[[float], float]) -> tuple[float, float]:
        """``every`` and ``patience``, where ``updates`` says how long so many epochs are.

        Raises
        ------
        ValueError
            where patience ends before the first look, and with it the training, without a model.
        """
        every, patience = (
            one if isinstance(one, int) else updates(float(one.split()[0]))
            for one in (self.every, self.patience)
        )
        if patience < every:
            says = f"patience ({self.patience}) must not be less than every ({self.every})"
            raise ValueError(f"{says}: the training would end before its first look")
        return every, patience


class Training(Section):
    """What the loop is told; a task's settings add what it learns, and from what."""

    optimisation: OptimisationSettings
    dev: Looks | None = None
    """Without it the last weights are kept."""
    precision: Literal["auto", "float32", "float32-fast", "bfloat16"] = "auto"
    """bfloat16 where `auto` finds a GPU that computes in it, else float32."""
    device: str = "auto"
    """`cpu`, `cuda`, `cuda:1`; `auto` is the GPU where there is one."""
    seed: int = Field(default=0, ge=0)
    """Of the order of examples, of negatives, of dropout and of fresh weights."""
    log_every: PositiveInt = 10
    """Updates between two lines of the log."""
    tensorboard: bool = False
    """Write the same for TensorBoard, in the folder `tensorboard` beside the log (extra `tensorboard`)."""
    checkpoint_every: PositiveInt = 1000
    """Updates between two checkpoints."""
    keep: PositiveInt = 2
    """Checkpoints that stay on disk, besides the best weights."""

    @model_validator(mode="after")
    def _warms_up_within_the_training(self) -> Training:
        wanted = self.optimisation
        if wanted.epochs is None and wanted.warm_up >= wanted.steps:
            raise ValueError(f"warm_up ({wanted.warm_up}) must be less than steps ({wanted.steps})")
        return self


T = TypeVar("T", bound=Section)


def read_settings(path: str | Path, kind: type[T]) -> T:
    """The settings of a YAML file.

    Raises
    ------
    FormatError
        where it is no YAML, has an unknown key, or a value that cannot be.
    """
    return checked(read_record(path), kind, path)


def read_record(path: str | Path) -> dict[str, Any]:
    """The mapping of a YAML file, unchecked.

    Raises
    ------
    FormatError
        as :func:`telerank.yaml_files.read_yaml`; where it is no mapping.
    """
    record = read_yaml(path)
    if not isinstance(record, dict):
        raise FormatError(path, None, "a mapping with at least data: {collection: …}", repr(record))
    return record


def checked(record: Mapping[str, Any], kind: type[T], path: str | Path) -> T:
    """The settings of what was read from ``path``.

    Raises
    ------
    FormatError
        where it has an unknown key, or a value that cannot be.
    """
    try:
        return kind.model_validate(record)
    except ValidationError as error:
        raise FormatError(path, None, said(error)) from error


def write_settings(settings: Section, path: Path) -> None:
    """Write every setting, defaults among them, as :func:`read_settings` reads it."""
    path.write_text(_text(settings), encoding="utf-8")


def is_written(settings: Section, path: Path) -> bool:
    """Whether :func:`write_settings` wrote these."""
    return path.exists() and path.read_text(encoding="utf-8") == _text(settings)


def said(error: ValidationError) -> str:
    """What should be there instead of the first thing that is wrong, in one line."""
    first, more = error.errors()[0], error.error_count() - 1
    place = ".".join(str(part) for part in first["loc"])
    told = first["msg"].removeprefix("Value error, ")
    what = (
        f"known keys, not {place!r}"
        if first["type"] == "extra_forbidden"
        else f"{place or 'settings that fit together'}: {told}"
    )
    return f"{what} (and {more} more)" if more else what


def _text(settings: Section) -> str:
    return yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False)
