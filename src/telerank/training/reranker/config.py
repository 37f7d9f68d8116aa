"""What a training of a re-ranker is asked to do: a YAML file; defaults are those of the paper of each kind.

What a file leaves out is filled in as it is read, from the record of its kind
(:mod:`telerank.models.rerankers.registry`), so that the configuration that is saved beside a model has every
value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, field_validator, model_validator

from telerank.models.rerankers.registry import KINDS, find_kind
from telerank.training import settings
from telerank.training.settings import (
    DevSettings,
    Interval,
    Section,
    Share,
    Training,
    TrainingData,
    check_measures,
)


class RerankerNegatives(Section):
    """Documents that are not relevant to a query, from one of three sources."""

    run: str | None = None
    """A run file with the queries of the training split."""
    pool: str | None = None
    """A pool that the collection gives for the split: `100` of InsuranceQA, `top1000` of MS MARCO."""
    random: bool = False
    """Any document of the collection."""
    depth: PositiveInt = 1000
    """The first so many of each list are drawn from (monoBERT: BM25's top 1000)."""
    per_positive: PositiveInt = 1
    """So many are drawn for each relevant document; a query with fewer has them drawn more than once."""
    resample: bool = False
    """Draw anew in each epoch; without it an epoch has the pairs of the first, which a store then holds."""

    @model_validator(mode="after")
    def _one_source(self) -> RerankerNegatives:
        _exactly_one(run=self.run, pool=self.pool, random=self.random)
        return self


class Triples(Section):
    """A file of `query, relevant, other`, tabs between, of ids or of texts, as MS MARCO ships them."""

    file: str
    """It is streamed, never held."""
    window: PositiveInt = 100_000
    """So many lines are shuffled at a time; in order they stand with 1."""


class RerankerData(TrainingData):
    """What is learned from: the relevant pairs of a split with negatives, or triples."""

    negatives: RerankerNegatives | None = None
    """Where they come from; either these or triples."""
    triples: Triples | None = None
    """Instead of qrels and negatives."""
    queries: PositiveInt | None = None
    """So many queries of the split alone, chosen by the seed; a smaller choice is a part of a larger one."""

    seed: NonNegativeInt | None = None
    """Of the choice of queries, of negatives and of their order; without it the training's. With it several
    seeds of a training differ in weights and dropout alone, and learn from the same pairs."""

    @model_validator(mode="after")
    def _one_source(self) -> RerankerData:
        _exactly_one(negatives=self.negatives, triples=self.triples)
        return self


class RerankerStart(Section):
    """The model that training begins with."""

    kind: str = "monobert"
    """monoBERT; an encoder with layers on its first token (BERT, the Piaf report's rankers); BERT-DMN; or one
    of the three on word vectors."""
    start: str
    """`minilm`, a folder, or a name on the hub; for the three a folder of word vectors."""
    frozen: bool = False
    """Leave the encoder as it is and store its outputs: BERT-lite, BERT-DMN-lite, Piaf's section 6.2."""
    max_query: PositiveInt = 64
    """Tokens of a query; the rest is cut (monoBERT)."""
    max_length: PositiveInt = 512
    """Tokens of a pair, special ones counted; the passage is cut."""
    language: Literal["en", "fr"] = "en"
    """By which sentences are split, where the kind reads them."""
    head: dict[str, Any] = Field(default_factory=dict)
    """Settings of the layers above the encoder, or of the model over word vectors, by name."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Probability of dropout, on all layers of an encoder that is trained."""

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        if kind not in KINDS:
            raise ValueError(f"no re-ranker is called {kind!r}; there are: {', '.join(KINDS)}")
        return kind

    @model_validator(mode="after")
    def _nothing_without_effect(self) -> RerankerStart:
        family = find_kind(self.kind).family
        if self.head and not family.takes_settings:
            raise ValueError(f"a {self.kind} has the transformer's own layer: no settings of a head")
        if family.over_words and self.dropout != type(self).model_fields["dropout"].default:
            raise ValueError(f"dropout is that of an encoder; a {self.kind} has head.dropout or none")
        return self


class RerankerLoss(Section):
    """What is to be small."""

    objective: Literal["pointwise", "margin", "ranknet", "softmax", "margin-mse"] = "pointwise"
    """Cross-entropy of each pair; hinge of each two; their logistic loss; cross-entropy of the group's
    relevant document; squared error of the difference that a teacher sees."""
    margin: float = Field(default=0.2, ge=0)
    """By how much a relevant document should be above another (objective `margin`): BERT-DMN's equation 4."""
    of: Literal["probability", "logit"] = "probability"
    """What the margin is a difference of: probabilities (BERT-DMN's equation 3), or what a model gives,
    the default of `qa-lstm` and `k-nrm`, whose scores lie between -1 and 1."""
    class_weights: bool = False
    """Weigh both classes alike, by the Piaf report's equation 17 (objective `pointwise`)."""
    teacher: str | None = None
    """A run file with a teacher's scores for the pairs learned from (objective `margin-mse`)."""

    @model_validator(mode="after")
    def _a_teacher_where_one_is_heard(self) -> RerankerLoss:
        if (self.objective == "margin-mse") != (self.teacher is not None):
            raise ValueError(
                "objective margin-mse needs a teacher, a run file; the other objectives take none"
            )
        if self.class_weights and self.objective != "pointwise":
            raise ValueError(f"class_weights go with objective pointwise, not with {self.objective}")
        return self


class RerankerOptimisation(settings.OptimisationSettings):
    """AdamW with a warm-up."""

    steps: PositiveInt = 400_000
    """Updates of the weights; of no account beside epochs, and then `null` in what is saved."""
    batch: PositiveInt = 32
    """Groups of a batch, those of all processes together: each a relevant document and its negatives."""
    tokens: PositiveInt = 16_384
    """Of what is in memory at a time, padding counted: a batch is taken in parts, with the same gradients but
    for the random numbers of dropout."""
    learning_rate: float = Field(default=3e-5, gt=0)
    """The highest, at the end of the warm-up."""
    warm_up: NonNegativeInt | Share = 1000
    """Updates during which the rate rises from 0, or, below 1, their share of all."""


class CandidateSettings(Section):
    """Lists that are re-ranked: the first documents of a run, or of a pool of the collection."""

    split: str
    """Their split, of the same collection."""
    run: str | None = None
    """A run file with its queries."""
    pool: str | None = None
    """A pool that the collection gives for the split."""
    depth: PositiveInt = 1000
    """The first so many of each list."""
    queries: PositiveInt | None = None
    """At most so many queries, the same ones in every training."""

    @model_validator(mode="after")
    def _one_source(self) -> CandidateSettings:
        _exactly_one(run=self.run, pool=self.pool)
        return self


class RerankerDev(CandidateSettings, DevSettings):
    """Queries that tell when to stop, and which weights to keep; they are not learned from."""

    measure: str = "AP"
    """As ir_measures writes it; higher is better."""
    every: Interval = 1000
    """Updates between two looks, or epochs: `0.5 epochs`."""
    patience: Interval = 10_000
    """Stop after so many updates without a better value, or epochs: `3 epochs`."""


class RerankerTest(CandidateSettings):
    """What is measured at the end, on queries that nothing was learned or chosen from."""

    measures: tuple[str, ...] = ("AP", "RR")
    """As ir_measures writes them; with none nothing is measured, but its queries are not learned from."""
    store: bool = False
    """Keep a frozen encoder's features of these pairs, too: trainings with other seeds then read them."""
    listed: bool = False
    """Count the queries that have candidates alone, where the run is of some of the split's queries; without
    it a query that lacks them counts as one that found nothing."""

    @field_validator("measures", mode="before")
    @classmethod
    def _apart(cls, said: Any) -> Any:
        return tuple(said.replace(",", " ").split()) if isinstance(said, str) else said

    @field_validator("measures")
    @classmethod
    def _known(cls, said: tuple[str, ...]) -> tuple[str, ...]:
        if said:
            check_measures(said)
        return said


class RerankerTraining(Training):
    """One training, or one of ``folds``."""

    data: RerankerData
    model: RerankerStart
    loss: RerankerLoss = RerankerLoss()
    optimisation: RerankerOptimisation = RerankerOptimisation()
    dev: RerankerDev | None = None
    """Without it the last weights are kept."""
    test: RerankerTest | None = None
    """Without it nothing is measured at the end."""
    folds: int | None = Field(default=None, ge=2)
    """Cross-validation: the queries in so many parts; each is the test of a training on the others."""
    held_out: int | None = Field(default=None, ge=0)
    """The fold that this training does not see; without it each is, one after the other."""

    @property
    def data_seed(self) -> int:
        """The seed of what is learned from."""
        return self.seed if self.data.seed is None else self.data.seed

    @model_validator(mode="before")
    @classmethod
    def _filled(cls, record: Any) -> Any:
        return filled(record) if isinstance(record, Mapping) else record

    @model_validator(mode="after")
    def _fits_together(self) -> RerankerTraining:
        if self.data.triples and self.folds:
            raise ValueError("folds are made of a split's queries: they do not go with triples")
        if self.folds and (self.test is None or self.test.split != self.data.split):
            raise ValueError(
                f"folds need a section test, with split: {self.data.split}, that which is learned from"
            )
        if self.loss.teacher and self.data.negatives and self.data.negatives.random:
            raise ValueError("a teacher has scores for the documents of lists, not for random ones")
        if self.test and self.test.store and not self.model.frozen:
            raise ValueError("test.store: only a frozen encoder's features are stored")
        if self.held_out is not None and self.held_out >= (self.folds or 0):
            numbered = f"are numbered 0 to {self.folds - 1}" if self.folds else "are not asked for"
            raise ValueError(f"held_out is {self.held_out}, but folds {numbered}")
        for name, one in (("dev", self.dev), ("test", self.test)):
            own = one is not None and one.split == self.data.split
            if own and one and one.queries is None and not (name == "test" and self.folds):
                raise ValueError(
                    f"{name} is of the split that is learned from: say how many queries it takes"
                )
        return self


def filled(record: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with the defaults of its kind wherever it says nothing."""
    model = record.get("model") or {}
    kind = model.get("kind", "monobert") if isinstance(model, Mapping) else None
    made = dict(record)
    usual = find_kind(kind).training if isinstance(kind, str) and kind in KINDS else {}
    for name, defaults in usual.items():
        said = made.get(name) or {}
        if isinstance(said, Mapping):
            made[name] = _under(defaults, said)
    return made


def _under(defaults: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """What is said, over the defaults; who says steps wants no default of epochs, nor the other way round."""
    other = {"steps": "epochs", "epochs": "steps"}
    kept = {name: one for name, one in defaults.items() if said.get(other.get(name, "")) is None}
    inner = {
        name: {**kept[name], **one}
        for name, one in said.items()
        if isinstance(one, Mapping) and isinstance(kept.get(name), Mapping)
    }
    return {**kept, **said, **inner}


def _exactly_one(**choices: object) -> None:
    chosen = [name for name, value in choices.items() if value not in (None, False)]
    if len(chosen) != 1:
        what = " and ".join(chosen) or "none"
        raise ValueError(f"expected one of {', '.join(choices)}, got {what}")
