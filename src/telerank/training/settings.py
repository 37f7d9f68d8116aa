"""The settings that every training has, and how they are read from and written to a YAML file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias, TypeVar

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
LOSS = "loss"
"""The name of the dev loss, where a measure is named."""
Share: TypeAlias = Annotated[float, Field(gt=0, lt=1)]
"""A share of all updates: more than 0, less than 1."""
OFF = BeforeValidator(lambda value: None if value == "none" else value)
"""A limit that may be off: `null`, or `none` where `null` removes a key, as in an experiment's models."""


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


class CheckedSection(Section):
    """A section whose settings have to fit together."""

    def problems(self) -> Iterator[tuple[object, str]]:
        """What would not fit together: whether it is so, and how it is said; the first one is an error."""
        yield from ()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for holds, problem in self.problems():
            if holds:
                raise ValueError(problem)
        return self


def exactly_one(**choices: object) -> tuple[bool, str]:
    """The problem that several of the settings are set, or none."""
    chosen = [name for name, value in choices.items() if value not in (None, False)]
    what = " and ".join(chosen) or "none"
    return len(chosen) != 1, f"expected one of {', '.join(choices)}, got {what}"


class ListSettings(CheckedSection):
    """Lists of documents, from a run or a pool."""

    run: str | None = None
    """A run file for the queries of the split."""
    pool: str | None = None
    """A pool of the split that the collection ships: `100` of InsuranceQA, `top1000` of MS MARCO."""
    depth: PositiveInt = 10
    """The first `depth` documents of each list (monoBERT on TREC-CAR: BM25's top 10)."""

    def problems(self) -> Iterator[tuple[object, str]]:
        yield exactly_one(run=self.run, pool=self.pool)
        yield from super().problems()


class NegativeSettings(ListSettings):
    """Documents that are not relevant to a query, from exactly one of four sources."""

    random: bool = False
    """Draw from all documents of the collection."""
    judged: bool = False
    """Draw from the documents judged for the query, those of a lower grade; and learn from each judged
    document that has such, relevant or not (BERT-DMN: one is "more relevant" than the other)."""
    depth: PositiveInt = 1000
    """Negatives are drawn from the first `depth` documents of each list (BM25's top 1000 in MS MARCO's
    triples, from which monoBERT and RepBERT learn)."""
    per_positive: PositiveInt = 1
    """Negatives for each relevant document; a query with fewer has some of them more than once."""
    per_group: PositiveInt | None = None
    """Negatives in a group, an item of the loss; by default all `per_positive` together. With 1 each negative
    is an item of its own with the relevant document (the Piaf report's equation 18)."""
    resample: bool = False
    """Draw new negatives in each epoch. By default all epochs have the same pairs, and features."""
    only: Literal["unjudged", "not-relevant", "relevant-elsewhere"] | None = None
    """Of a list, draw only documents without a judgment (BeST on TREC DL 2019), only those judged not
    relevant, or only those relevant to another query of the split; by default any that is not relevant. If
    parts are folds by document, the documents of other folds are never relevant here: as negatives they teach
    a model which documents to avoid, not which match."""
    relevant: Literal["listed"] | None = None
    """`listed`: learn only from relevant documents that are in the list, too (BeST: "only the top-100
    documents … are used for training"); by default from all of a query's."""

    def problems(self) -> Iterator[tuple[object, str]]:
        yield exactly_one(run=self.run, pool=self.pool, random=self.random, judged=self.judged)
        for name in ("only", "relevant"):
            listed = getattr(self, name) is None or not (self.random or self.judged)
            yield not listed, f"{name}: says which documents of a run or a pool are learned from"
        numbers = f"per_positive ({self.per_positive}) must be a multiple of per_group ({self.per_group})"
        whole = self.per_group is None or self.per_positive % self.per_group == 0
        yield not whole, f"{numbers}: all groups have the same size"

    def allows(self, grade: int | None) -> bool:
        """Whether a document of a list that is not relevant may be drawn; ``grade`` None: it is unjudged."""
        return self.only in (None, "relevant-elsewhere") or (grade is None) == (self.only == "unjudged")


class Triples(Section):
    """A file of triples `query, relevant, other`, separated by tabs, of ids or of texts, as in MS MARCO."""

    file: str
    """The file; it is streamed, never read into memory as a whole."""
    window: PositiveInt = 100_000
    """Lines that are shuffled together; 1 keeps the order of the file."""


class CollectionSettings(CheckedSection):
    """A collection, and how it is read."""

    collection: str
    """A folder, a file, or an ir_datasets id."""
    format: str | None = None
    """The collection's format, if it is not recognised."""
    encoding: str = "utf-8"
    """The encoding of the collection's texts."""


class DataSettings(CheckedSection):
    """What is learned from."""

    seed: Seed | None = None
    """Seed of the choice of queries or questions, of negatives and unrelated texts, and of their order; by
    default the training's seed. If it is set, trainings with different seeds learn from the same examples,
    and differ in weights and dropout."""


class TrainingData(CollectionSettings, DataSettings):
    """The relevant pairs of a split of a collection with negatives, or triples."""

    split: str = "train"
    """The split whose queries and qrels the model learns from."""
    negatives: NegativeSettings | None = None
    """Negatives for the relevant pairs; set either these or `triples`."""
    triples: Triples | None = None
    """Triples, instead of qrels and negatives."""
    listed: ListSettings | None = None
    """Documents of lists, each with its own label, instead of groups of a relevant document and others. Only
    the lists of queries with a relevant document are read."""
    queries: PositiveInt | None = None
    """Learn from only this many queries, drawn by the seed; a smaller choice is part of a larger one."""
    pairs: PositiveInt | None = None
    """Learn from only this many pairs of a query and a document, relevant or not, in whole groups; a smaller
    choice is part of a larger one. An epoch is then of these."""


class OptimisationSettings(CheckedSection):
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
    max_gradient_norm: Annotated[float | None, Field(gt=0), OFF] = None
    """Longer gradients are scaled down to this norm; `null` leaves them. The papers do not mention it; it is
    1.0 where the authors' program has it: BERT's own optimiser (monoBERT) and RepBERT's."""

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


class WindowOptimisation(OptimisationSettings):
    """AdamW with a warm-up and linear decay to 0; `batch` counts windows of texts."""

    steps: PositiveInt = 10_000
    batch: PositiveInt = 32
    warm_up: NonNegativeInt | Share = 0.1
    max_gradient_norm: Annotated[float | None, Field(gt=0), OFF] = 1.0


class DevSettings(CheckedSection):
    """When the dev measure is computed; it decides which weights are kept, and when training stops early."""

    measures: str = "AP"
    """A measure by its name in ir_measures, higher is better; or `loss`, the dev loss, lower is better."""
    every: Interval
    """Updates between two dev measures, or epochs: `0.5 epochs`."""
    patience: Interval
    """Stop after this many updates without a better dev measure, or epochs: `3 epochs`."""
    at_start: bool = False
    """Also measure the model before its first update, which is kept if no update is better."""

    @property
    def by_loss(self) -> bool:
        """Whether the dev loss decides."""
        return self.measures == LOSS

    @property
    def lower_is_better(self) -> bool:
        """Whether the lower of two dev values is the better one."""
        return self.by_loss

    @classmethod
    def parse(cls, measures: str) -> tuple[str, ...]:
        """The names of measures in a text. Raises MeasureError if one is unknown, or there is none."""
        return parse_measures(measures)

    @field_validator("measures")
    @classmethod
    def _one_measure(cls, measures: str) -> str:
        if measures == LOSS:
            return measures
        try:
            names = cls.parse(measures)
        except MeasureError as error:
            raise ValueError(str(error)) from error
        if len(names) > 1:
            raise ValueError(f"expected one measure, got {', '.join(names)}")
        return names[0]

    def problems(self) -> Iterator[tuple[object, str]]:
        if type(self.every) is type(self.patience):  # else it depends on the length of an epoch
            self.intervals(lambda epochs: epochs)
        yield from super().problems()

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


class PerplexityDev(DevSettings):
    """A dev set whose perplexity decides: the exponential of the mean loss of a piece, without dropout."""

    measures: str = "perplexity"
    """`perplexity`, or `loss`, its logarithm; lower is better."""

    @classmethod
    def parse(cls, measures: str) -> tuple[str, ...]:
        if measures != "perplexity":
            raise MeasureError(f"expected perplexity or loss, got {measures!r}")
        return (measures,)

    @property
    def lower_is_better(self) -> bool:
        return True


class Training(CheckedSection):
    """The settings of the loop; a task's settings add the model, its data and its loss."""

    data: DataSettings = DataSettings()
    """What is learned from."""
    optimisation: OptimisationSettings
    """How long the training is, and how it updates the weights."""
    dev: DevSettings | None = None
    """Dev queries or questions; without them the last weights are kept."""
    precision: Literal["auto", "float32", "float32-fast", "tf32", "bfloat16", "float16"] = "auto"
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
    deterministic: bool = False
    """Only algorithms that give the same numbers each time: needed on a GPU, and slower there, for a resumed
    training to have the same losses. A processor has no others."""
    compile: bool = False
    """Let torch compile the encoder for a GPU: the first updates take longer; later ones are not measured."""
    recompute: bool = False
    """Keep only the inputs of the encoder's layers, and compute each layer again for its gradient: less
    memory, for about a third more time."""

    @property
    def data_seed(self) -> int:
        """The seed of what is learned from, and of its order."""
        return self.seed if self.data.seed is None else self.data.seed

    @property
    def smaller_batch(self) -> str:
        """The settings that make batches smaller in memory."""
        return f"optimisation.batch to less than {self.optimisation.batch}, and accumulation to more"

    def problems(self) -> Iterator[tuple[object, str]]:
        steps, warm_up = self.optimisation.steps, self.optimisation.warm_up
        is_long = self.optimisation.epochs is None and warm_up >= steps
        yield is_long, f"warm_up ({warm_up}) must be less than steps ({steps})"


T = TypeVar("T", bound=Section)
SettingsSource: TypeAlias = str | Path | Mapping[str, Any]
"""A YAML file, or what it would hold."""


def read_settings(path: SettingsSource, kind: type[T], changes: Mapping[str, object] | None = None) -> T:
    """The settings of a YAML file, or of a mapping, with ``changes`` instead of some of them.

    Raises FormatError if it is not YAML, has an unknown key, or an invalid value.
    """
    return validate_settings({**read_mapping(path), **(changes or {})}, kind, path)


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


def set_dotted(record: dict[str, Any], changes: Mapping[str, Any], separator: str = ".") -> dict[str, Any]:
    """Nested settings, in which those at joined names have got other values."""
    for name, value in changes.items():
        *sections, last = name.split(separator)
        section = record
        for part in sections:
            if not isinstance(section.get(part), dict):
                section[part] = {}
            section = section[part]
        section[last] = value
    return record
