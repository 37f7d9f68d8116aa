"""The settings of a re-ranker's training, a YAML file; the defaults of each kind are those of its paper.

Missing settings are filled in when a file is read, from the record of its kind
(:mod:`telerank.models.rerankers.kinds`), so that the configuration that is saved beside a model is
complete.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, field_validator, model_validator

from telerank.errors import MeasureError, ModelError
from telerank.evaluation.measures import parse_measures
from telerank.models.rerankers.kinds import KINDS, find_kind
from telerank.segments.settings import Aggregate, SegmentSettings, named_segments
from telerank.training import settings


class SegmentTraining(settings.CheckedSection):
    """Learn from segments: each has the label of its document."""

    select: Literal["first", "all", "gold", "random", "best"]
    """`first`: the first segment of each document (FirstP and MaxP). `all`: the first always, another with
    the probability `others` (Dai and Callan 2019). `gold`: the segment with the known relevant passage, of
    other documents one at random (GoldP). `random`: one at random. `best`: BeST, the segment that a model
    chooses, in iterations."""
    window: SegmentSettings = SegmentSettings(sentences=True)
    """How documents are cut: a name (`best`, `dai-callan`, `parade`, `piaf`, `whole`), or the settings."""
    leading: PositiveInt | None = 4
    """Learn only from this many leading segments (BeST: up to four); `null`: from all. A known passage may be
    in any. All segments are read where documents are ranked, unless `aggregate` is `first`."""
    random_lengths: bool = False
    """Draw the lengths of the segments that are learned from, so that a length says nothing (BeST). They
    are a function of the seed of the data, the docno and these settings."""
    others: float = Field(default=0.1, gt=0, le=1)
    """Probability of each segment but the first (select `all`)."""
    aggregate: Literal["first", "max", "mean", "sum"] = "max"
    """The score of a document of dev and test: that of its first segment (FirstP), or the maximum, mean or
    sum over all of them."""
    answers: str | None = None
    """A file with known relevant passages as answers, of the training split and the dev split; by default the
    answers of the collection. `gold` needs them; `best` measures its selections by them if there are any."""
    iterations: PositiveInt = 4
    """Iterations of `best`; the dev measure decides which one is the model."""
    patience: PositiveInt | None = None
    """Stop after this many iterations without a better dev measure; by default all are trained."""

    @field_validator("window", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return named_segments(value)
        except ModelError as error:
            raise ValueError(str(error)) from error

    def problems(self) -> Iterator[tuple[object, str]]:
        window, fields = self.window, type(self).model_fields
        is_set = window.first is not None or window.seed is not None
        yield is_set, "window.first and window.seed: set leading and random_lengths instead"
        overlaps = self.random_lengths and window.stride is not None
        yield overlaps, "segments of random lengths do not overlap: no window.stride"
        for name, select in (("others", "all"), ("iterations", "best"), ("patience", "best")):
            is_set = self.select != select and getattr(self, name) != fields[name].default
            yield is_set, f"{name} goes with select {select}, not with {self.select}"

    def learned(self, seed: int, *, whole: bool = False) -> SegmentSettings:
        """The segments to learn from; with ``whole`` all of a document, of which the leading ones are a part.

        ``seed`` is that of the data.
        """
        first = None if whole else 1 if self.select == "first" else self.leading
        return self.window.model_copy(update={"first": first, "seed": seed if self.random_lengths else None})

    @property
    def ranked(self) -> SegmentSettings:
        """The segments that decide the score of a document of dev or test."""
        return self.window.model_copy(update={"first": self.score.reads})

    @property
    def score(self) -> Aggregate:
        """The score of a document from those of its segments."""
        return Aggregate(self.aggregate)


class MadeSet(settings.CheckedSection):
    """A ranking set that is made of several sets before the training, as `data make-ranking-set` does."""

    sets: Annotated[tuple[str, ...], Field(min_length=1)]
    """Question-answering sets; duplicate questions and paragraphs are one."""
    model: str = "bm25"
    """The pipeline whose first documents without the answer are negatives; documents are encoded for its
    `dense(ENCODER)`. In turns, `interleave(bm25, dense(e5-small))`, half of them come from each."""
    analyzer: str = "standard"
    """The analyzer of its index."""
    depth: PositiveInt = 10
    """Negatives of each question: the pool `negatives`."""
    split_by: Literal["question", "paragraph", "article"] = "article"
    """What no two of train, dev and test share; articles are in the parts that a reader's `articles` have
    with the same seed."""
    seed: settings.Seed = 0
    """The seed of the parts."""
    titles: bool = True
    """Whether documents keep the titles of their articles, which are read with them."""


class RerankerData(settings.TrainingData):
    """The relevant pairs of a split with negatives, or triples, or lists of documents with their labels."""

    collection: str = ""
    """A folder, a file, or an ir_datasets id."""
    made_of: MadeSet | None = None
    """A set that is made before the training, in OUTPUT/ranking-set, instead of a `collection`."""
    segments: SegmentTraining | None = None
    """Learn from segments of documents, and rank documents by their segments; by default a document is cut
    off where the model's input ends."""

    def problems(self) -> Iterator[tuple[object, str]]:
        negatives, segments = self.negatives, self.segments
        yield settings.exactly_one(collection=self.collection or None, made_of=self.made_of)
        yield settings.exactly_one(negatives=negatives, triples=self.triples, listed=self.listed)
        lacking = segments and negatives is None
        yield lacking, "segments are of the documents of qrels and negatives: set negatives"
        resamples = segments and segments.select == "all" and negatives and negatives.resample
        yield resamples, "segments.select all has the same pairs in each epoch: no negatives.resample"


class RerankerStart(settings.CheckedSection):
    """The model that training starts from."""

    kind: str = "monobert"
    """`monobert`; `bert`, layers on an encoder's first token (as the Piaf report's rankers); `bert-dmn`;
    `parade`; `qds`, on a Longformer; or `dmn`, `qa-lstm`, `k-nrm`, `conv-knrm`, `co-pacrr`, `drmm` or `tkl`,
    over word vectors."""
    start: str
    """An encoder: `minilm`, `e5-small`, a folder, or a name on the hub, also that of a reader or a
    bi-encoder; for the last seven kinds, a folder of word vectors."""
    # what it is not is not written, so that folders of trainings keep their names
    fresh: bool = Field(default=False, exclude_if=operator.not_)
    """Use only the shape and the vocabulary of `start`; the seed draws new weights (BeST, section 3)."""
    frozen: bool = False
    """Train only the head, on stored outputs of the encoder: BERT-lite, BERT-DMN-lite, Piaf's section 6.2."""
    frozen_embeddings: bool = False
    """Whether word embeddings stay as they are: of `e5-small` they are four fifths of all weights, and a
    processor's updates are faster without them."""
    max_query: Annotated[PositiveInt | None, settings.OFF] = 64
    """Most tokens of a query; the rest is cut off (monoBERT). `null` or `none`: no query is cut as long as a
    token of the passage fits beside it."""
    max_length: PositiveInt = 512
    """Most tokens of a pair, including special ones; the end of the passage is cut off."""
    language: Literal["en", "fr"] = "en"
    """The language by whose rules sentences are split, if the kind reads sentences."""
    head: dict[str, Any] = Field(default_factory=dict)
    """Settings of the layers above the encoder, or of the model over word vectors, by name."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Probability of dropout, in all layers of an encoder that is trained."""

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        if kind not in KINDS:
            raise ValueError(f"no re-ranker is called {kind!r}; there are: {', '.join(KINDS)}")
        return kind

    def problems(self) -> Iterator[tuple[object, str]]:
        kind, default = find_kind(self.kind), type(self).model_fields["dropout"].default
        without = self.head and not kind.takes_settings
        yield without, f"a {self.kind} has the transformer's own layer: no settings of a head"
        yield self.fresh and kind.over_words, f"fresh is of an encoder; a {self.kind} has word vectors"
        yield self.fresh and self.frozen, "a frozen encoder learns nothing: fresh is of one that is trained"
        drawn = self.fresh and self.frozen_embeddings
        yield drawn, "fresh draws word embeddings, which frozen_embeddings would keep as they are drawn"
        without = kind.over_words and self.dropout != default
        yield without, f"dropout is that of an encoder; a {self.kind} has head.dropout or none"
        without = self.frozen_embeddings and (kind.over_words or self.frozen)
        trained = "has no encoder" if kind.over_words else "with frozen: true trains nothing of its encoder"
        yield without, f"frozen_embeddings are those of an encoder that is trained; a {self.kind} {trained}"


class RerankerLoss(settings.CheckedSection):
    """The loss to minimise."""

    objective: Literal["pointwise", "margin", "ranknet", "softmax", "margin-mse"] = "pointwise"
    """`pointwise`: cross-entropy of each pair. `margin`, `ranknet`: hinge or logistic loss of a relevant
    document and another. `softmax`: cross-entropy of the relevant document among its negatives. `margin-mse`:
    squared error of the difference between two scores, as a teacher has it."""
    margin: float = Field(default=0.2, ge=0)
    """How much higher a relevant document should score (objective `margin`; BERT-DMN's equation 4). 0 is the
    Piaf report's equation 18 as printed: equal scores satisfy it."""
    of: Literal["probability", "logit"] = "probability"
    """Whether the margin is a difference of probabilities (BERT-DMN's equation 3) or of the model's outputs,
    the default of `qa-lstm`, `k-nrm` and `conv-knrm`, whose outputs lie between -1 and 1."""
    class_weights: bool = False
    """Give both classes the same weight in all (objective `pointwise`; the Piaf report's equation 17)."""
    teacher: str | None = None
    """A run file with a teacher's scores of the pairs to learn from (objective `margin-mse`)."""

    def problems(self) -> Iterator[tuple[object, str]]:
        differs = (self.objective == "margin-mse") != (self.teacher is not None)
        yield differs, "objective margin-mse needs a teacher, a run file; the other objectives take none"
        weighs = self.class_weights and self.objective != "pointwise"
        yield weighs, f"class_weights go with objective pointwise, not with {self.objective}"


class RerankerOptimisation(settings.OptimisationSettings):
    """AdamW with a warm-up."""

    steps: PositiveInt = 400_000
    batch: PositiveInt = 32
    """Groups in a batch, over all processes together; a group is a relevant document with its negatives. With
    objective `pointwise` each document of a group is a sample of the loss."""
    tokens: PositiveInt = 16_384
    """Most tokens in memory at a time, padding included: a larger batch is cut into parts. This does not
    change the gradients, except for dropout's random numbers."""
    learning_rate: float = Field(default=3e-5, gt=0)
    warm_up: NonNegativeInt | settings.Share = 1000


class CandidateSettings(settings.ListSettings):
    """Lists to re-rank."""

    split: str
    """The split of the queries, in the same collection."""
    depth: PositiveInt = 1000
    """Re-rank the first `depth` documents of each list."""
    queries: PositiveInt | None = None
    """Use at most this many queries, the same in every training."""


class RerankerDev(CandidateSettings, settings.DevSettings):
    """Queries that decide which weights to keep, and when to stop; they are not learned from."""

    every: settings.Interval = 1000
    patience: settings.Interval = 10_000


class RerankerTest(CandidateSettings):
    """The final test, on queries that were used neither for training nor for dev."""

    measures: tuple[str, ...] = ("AP", "RR")
    """Measures by their names in ir_measures. With none, the queries are only kept back."""
    store: bool = False
    """Also store a frozen encoder's features of the test pairs, for trainings with other seeds to read."""
    listed: bool = False
    """Measure only the queries that have candidates, for a run of some of the split's queries. By default a
    query without candidates counts 0."""

    @field_validator("measures", mode="before")
    @classmethod
    def _split_names(cls, value: Any) -> Any:
        return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value

    @field_validator("measures")
    @classmethod
    def _known(cls, measures: tuple[str, ...]) -> tuple[str, ...]:
        try:
            parse_measures(measures or "AP")
        except MeasureError as error:
            raise ValueError(str(error)) from error
        return measures


class RerankerTraining(settings.Training):
    """The settings of a training, or of one of its ``folds``."""

    data: RerankerData
    model: RerankerStart
    loss: RerankerLoss = RerankerLoss()
    optimisation: RerankerOptimisation = RerankerOptimisation()
    dev: RerankerDev | None = None
    test: RerankerTest | None = None
    """The final test; without it nothing is measured."""
    folds: int | None = Field(default=None, ge=2)
    """Number of folds of a cross-validation: each fold is the test of a training on the others."""
    held_out: int | None = Field(default=None, ge=0)
    """Train without this fold only, and test on it; by default each fold is held out in turn."""

    repetition: int | None = Field(default=None, ge=0)
    """Number of a repeated cross-validation: its folds are drawn anew; by default they are those of 0."""

    @property
    def smaller_batch(self) -> str:
        tokens = f"optimisation.tokens to less than {self.optimisation.tokens}"
        return super().smaller_batch if self.model.frozen else tokens

    @model_validator(mode="before")
    @classmethod
    def _with_defaults(cls, record: Any) -> Any:
        """The record with the defaults of its kind for all settings that it lacks."""
        if not isinstance(record, Mapping):
            return record
        model = record.get("model") or {}
        kind = model.get("kind", "monobert") if isinstance(model, Mapping) else None
        filled = dict(record)
        defaults = find_kind(kind).training if isinstance(kind, str) and kind in KINDS else {}
        for name, section_defaults in defaults.items():
            section = filled.get(name) or {}
            if isinstance(section, Mapping):
                filled[name] = _fill_section(section_defaults, section)
        return filled

    def problems(self) -> Iterator[tuple[object, str]]:
        yield from super().problems()
        data, dev, test, loss, folds = self.data, self.dev, self.test, self.loss, self.folds
        if data.segments is not None:
            yield from self._problems_of_segments(data.segments)
        alone = self.repetition is not None and folds is None
        yield alone, "a repetition has folds of its own: set folds"
        others = data.listed and (loss.objective != "pointwise" or loss.class_weights)
        yield others, "listed documents have labels of their own: objective pointwise, no class_weights"
        both = data.triples and folds
        yield both, "folds are made of a split's queries: they cannot be used with triples"
        elsewhere = folds and (test is None or test.split != data.split)
        yield elsewhere, f"folds need a section test with the training split, split: {data.split}"
        drawn = data.negatives and (data.negatives.random or data.negatives.judged)
        teaches = loss.teacher and drawn
        yield teaches, "a teacher has scores for the documents of lists, not for random or judged ones"
        stores = test and test.store and not self.model.frozen
        yield stores, "test.store: only a frozen encoder's features are stored"
        numbers = f"are numbered 0 to {folds - 1}" if folds else "are not set"
        beyond = self.held_out is not None and self.held_out >= (folds or 0)
        yield beyond, f"held_out is {self.held_out}, but folds {numbers}"
        for name, part in (("dev", dev), ("test", test)):
            shares_split = part is not None and part.split == data.split and part.queries is None
            takes_all = shares_split and not (name == "test" and folds)
            yield takes_all, f"{name} has the training split: set {name}.queries, how many it takes"

    def _problems_of_segments(self, segments: SegmentTraining) -> Iterator[tuple[object, str]]:
        is_best, model = segments.select == "best", self.model
        yield model.kind == "parade", "a parade reads a document by its passages already: no data.segments"
        unlimited = model.max_query is None
        yield unlimited, "segments leave room for the longest query: model.max_query must be a number"
        lacking = is_best and self.dev is None
        yield lacking, "segments.select best: the dev measure decides when to stop: add the section dev"
        by_loss = is_best and self.dev and self.dev.by_loss
        yield by_loss, "segments.select best compares iterations by a measure, not by the dev loss"
        yield self.loss.teacher, "a teacher has scored documents, not segments"


def _fill_section(defaults: Mapping[str, Any], section: Mapping[str, Any]) -> dict[str, Any]:
    """The section over its defaults; a section with steps has no default of epochs, and vice versa."""
    other = {"steps": "epochs", "epochs": "steps"}
    kept = {name: value for name, value in defaults.items() if section.get(other.get(name, "")) is None}
    inner = {
        name: {**kept[name], **value}
        for name, value in section.items()
        if isinstance(value, Mapping) and isinstance(kept.get(name), Mapping)
    }
    return {**kept, **section, **inner}
