"""What every training is told, and how it stands in a YAML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    model_validator,
)

from telerank.errors import FormatError

Share: TypeAlias = Annotated[float, Field(gt=0, lt=1)]


class Part(BaseModel):
    """A group of settings; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Source(Part):
    """Where what is learned from stands."""

    collection: str
    """A folder, a file, or an ir_datasets id."""
    split: str = "train"
    """The split whose qrels are learned from."""
    format: str | None = None
    """The collection's format, if it is not recognised."""
    encoding: str = "utf-8"
    """Encoding of its texts."""


class Optimisation(Part):
    """The updates of the weights."""

    steps: PositiveInt
    """Updates of the weights."""
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


class Looks(Part):
    """When the dev measure is taken; it tells which weights to keep, and when to stop."""

    every: PositiveInt
    """Updates between two looks."""
    patience: PositiveInt
    """Stop after so many updates without a better value."""


class Training(Part):
    """What the loop is told; a task's settings add what it learns, and from what."""

    optimisation: Optimisation
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


T = TypeVar("T", bound=Part)


def read_settings(path: str | Path, kind: type[T]) -> T:
    """The settings of a YAML file.

    Raises
    ------
    FormatError
        where it is no YAML, has an unknown key, or a value that cannot be.
    """
    try:
        record: Any = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise FormatError(path, mark.line + 1 if mark else None, "YAML", str(error).split("\n")[0]) from error
    if not isinstance(record, dict):
        raise FormatError(path, None, "a mapping with at least data: {collection: …}", repr(record))
    try:
        return kind.model_validate(record)
    except ValidationError as error:
        raise FormatError(path, None, _said(error)) from error


def write_settings(settings: Part, path: Path) -> None:
    """Write every setting, defaults among them, as :func:`read_settings` reads it."""
    path.write_text(yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False), encoding="utf-8")


def _said(error: ValidationError) -> str:
    first, more = error.errors()[0], error.error_count() - 1
    place = ".".join(str(part) for part in first["loc"])
    said = first["msg"].removeprefix("Value error, ")
    what = (
        f"known keys, not {place!r}"
        if first["type"] == "extra_forbidden"
        else f"{place or 'settings that fit together'}: {said}"
    )
    return f"{what} (and {more} more)" if more else what
