"""The settings of analyses in the YAML file of an experiment; an unknown key is an error."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from telerank.errors import MeasureError, ModelError
from telerank.evaluation.measures import expand_measures, parse_measures
from telerank.experiments.analysis_base import AnalysisBase, Published
from telerank.experiments.answers.specs import AnswerSizesSpec, AnswersSpec, EndToEndSpec
from telerank.records import Section
from telerank.sparse.similarities.families import parse_similarity

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

MeasureNames: TypeAlias = Annotated[tuple[str, ...], Field(min_length=1)]
"""Names of measures without a cutoff: ``R``, ``Success``."""
FAMILIES = ("bm25", "lm_dirichlet", "lm_jelinek_mercer", "dfr", "dfi")


class PairedTests(Section):
    """Paired t-tests of every two systems, as a paper reports them (BeST: p < 0.01, not corrected)."""

    level: float = Field(0.01, gt=0, lt=1)
    """A difference is significant if its p is below."""
    corrected: bool = False
    """Whether p is corrected by Holm's method for the superscripts; a table has both in any case."""


class QualitySpec(AnalysisBase):
    """Measures of each system, and milliseconds per query."""

    kind: Literal["quality"]
    measures: Measures
    latency_queries: int = Field(100, ge=0)
    """Number of queries that are timed, drawn by the seed of the experiment; 0: none."""
    baseline: str | None = None
    """The system that the others are compared with; significant differences are marked."""
    tests: PairedTests | None = None
    """Compare every two systems instead: superscripts are the numbers of the systems that differ."""
    queries_of: str | None = None
    """Measure only the queries that this system's run answers."""

    @property
    def system_names(self) -> tuple[str, ...]:
        return (*super().system_names, *filter(None, (self.baseline, self.queries_of)))

    @model_validator(mode="after")
    def _check_tests(self) -> Self:
        if self.tests and self.baseline:
            raise ValueError("tests of every two systems have no baseline: leave out `baseline` or `tests`")
        return self


class RecallSpec(AnalysisBase):
    """Recall by depth."""

    kind: Literal["recall"]
    depths: Depths


class RerankingSpec(AnalysisBase):
    """A measure of the first n documents of each system after re-ranking, by n."""

    kind: Literal["reranking"]
    measure: Measure
    depths: Depths
    rerankers: dict[str, str] = Field(min_length=1)
    """Pipelines by name; the first that is available scores the candidates."""


class ConsistencySpec(AnalysisBase):
    """The share of each system's first n documents that are candidates of a reference, by n."""

    kind: Literal["consistency"]
    depths: Depths
    references: tuple[str, ...] = Field(min_length=1)
    """Systems; the first that is available is the reference."""
    reference_depth: int = Field(1000, ge=1)

    @property
    def system_names(self) -> tuple[str, ...]:
        return (*super().system_names, *self.references)


class CombinationSpec(AnalysisBase):
    """All ordered pairs of systems, fused."""

    kind: Literal["combination"]
    measure: Measure
    method: Literal["interleave", "linear", "rrf"] = "interleave"
    keep: int | None = Field(None, ge=1)
    """Documents of a combination that are kept; None: as many as of a ranking (equation 6 of RepBERT)."""
    published_measure: Measure | None = None
    """The measure of the published values, if it is another one, as in a small copy."""


class TuningSpec(AnalysisBase):
    """Families of sparse models under several analyzers, at their defaults and tuned."""

    kind: Literal["tuning"]
    objective: Measure
    """The measure that settings are chosen by."""
    measures: Measures
    families: Annotated[tuple[SimilarityText, ...], Field(min_length=1)] = FAMILIES
    """The grid of each is searched; the first, at its defaults under the first analyzer, is the baseline."""
    analyzers: tuple[str, ...] | None = None
    """None: that of the data, and ``none``."""
    depths: tuple[Annotated[int, Field(ge=1)], ...] = ()
    """Depths at which the tuned models are measured; without them there are no tables by depth."""
    depth_measures: MeasureNames = ("R", "AP")
    """The measures by depth; the Piaf report's Recall@k is Success@k."""
    every_analyzer: bool = False
    """Show the tables by depth for every analyzer, and not for the first alone."""
    given: tuple[SimilarityText, ...] = ()
    """Settings that are measured as they are."""
    folds: int | None = Field(5, ge=2)
    """Folds of the cross-validation if the experiment has no ``dev`` queries; None: the queries that measure
    choose, too, so that the values are those of the best of the grid (Piaf report)."""
    needs_systems: ClassVar[bool] = False

    @property
    def by_depth(self) -> dict[str, tuple[str, ...]]:
        """The names of the measures by depth at the depths."""
        return expand_measures(self.depth_measures, self.depths) if self.depths else {}

    @property
    def all_measures(self) -> tuple[str, ...]:
        """The measures, those by depth, and the objective."""
        names = (*self.measures, *itertools.chain(*self.by_depth.values()), self.objective)
        return tuple(dict.fromkeys(names))

    @model_validator(mode="after")
    def _check_systems(self) -> Self:
        if self.systems is not None:
            raise ValueError("tuning has systems of its own: leave out `systems`")
        return self

    @model_validator(mode="after")
    def _check_depth_measures(self) -> Self:
        try:
            expand_measures(self.depth_measures, self.depths or (1,))
        except MeasureError as error:
            raise ValueError(f"depth_measures: {error}") from error
        return self


RankingSetPart: TypeAlias = Literal[
    "counts", "splits", "question-words", "question-lengths", "document-lengths", "input-lengths", "classes"
]


class RankingSetSpec(AnalysisBase):
    """Statistics of a ranking set (Piaf report, sections 5.3 and 5.4)."""

    kind: Literal["ranking-set"]
    parts: Annotated[tuple[RankingSetPart, ...], Field(min_length=1)]
    """The tables, and with them the plots, that are shown."""
    language: Literal["french", "english"] = "french"
    """The language of the question words."""
    tokenizer: Annotated[tuple[str, ...], Field(min_length=1)]
    """Encoders; the tokens of the first that is available are counted, or else the analyzer's terms."""
    needs_systems: ClassVar[bool] = False


class LossesSpec(AnalysisBase):
    """Training and dev loss by update of the re-rankers that systems train (Piaf report, figures 11, 12)."""

    kind: Literal["losses"]


class EmbeddingsSpec(AnalysisBase):
    """Maps of relevant and other pairs before and after a training (Piaf report, figures 14 and 15)."""

    kind: Literal["embeddings"]
    before: str | None = None
    """A re-ranker that the experiment trains: the encoder that its training starts from."""
    after: str | None = None
    """A system ``CANDIDATES >> rerank(MODEL)``: the encoder as it has trained it."""
    pool: str = "negatives"
    """The pool of the split whose pairs are the other class."""
    pairs: int = Field(250, ge=1)
    """Number of pairs of each class, drawn by the seed of the experiment."""
    perplexity: float = Field(30.0, gt=0)
    """Of t-SNE: about the number of neighbours that it considers."""
    needs_systems: ClassVar[bool] = False

    @property
    def system_names(self) -> tuple[str, ...]:
        return (*super().system_names, *filter(None, (self.after,)))

    @model_validator(mode="after")
    def _has_a_moment(self) -> Self:
        if self.before is None and self.after is None:
            raise ValueError("expected before, after or both, got none")
        return self


class _OfSystem(AnalysisBase):
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


class SizesSpec(_OfSystem):
    """A measure of a re-ranker by the number of pairs that it learns from (monoBERT, figure 1)."""

    kind: Literal["sizes"]
    measure: Measure
    pairs: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    """Numbers of pairs to learn from."""
    changes: dict[str, Any] = Field(default_factory=dict)
    """Settings of the trainings that differ from the model's."""


class StatisticsSpec(AnalysisBase):
    """Numbers and mean lengths of queries and passages (BERT-DMN, table 1)."""

    kind: Literal["statistics"]
    candidates: str
    """The system whose lists are counted, over the queries that measure."""
    train: str = "train"
    """The split whose queries are counted as those of training."""
    passages: Literal["all", "judged"] = "all"
    """Whether all passages of the collection are counted and measured, or those that its qrels name."""
    relevant_from: int | None = None
    """The lowest grade that counts as relevant; None: that of the collection."""

    @property
    def system_names(self) -> tuple[str, ...]:
        return (*super().system_names, self.candidates)


class ThroughputSpec(AnalysisBase):
    """Updates a second of trainings, with a frozen encoder in the first and in later epochs (table 3)."""

    kind: Literal["throughput"]
    models: Annotated[tuple[str, ...], Field(min_length=1)]
    """Re-rankers that the experiment can train; the pace of the others is compared with the first one's."""
    batch: int = Field(16, ge=1)
    """Groups in a batch."""
    queries: int = Field(100, ge=1)
    """Number of queries that a round learns from, drawn by its number."""
    epochs: int = Field(3, ge=2)
    """Epochs of a round with a frozen encoder; a round of any other has one."""
    rounds: int = Field(3, ge=1)
    """Number of rounds that count, in each of which the models take turns; one before them does not count."""
    needs_systems: ClassVar[bool] = False


class DiffusionSpec(AnalysisBase):
    """Cosines of the outputs of a pair's tokens, of several re-rankers (BERT-DMN, figure 3)."""

    kind: Literal["diffusion"]
    models: Annotated[tuple[str, ...], Field(min_length=1)]
    """Re-rankers of the experiment; one with a frozen encoder need not be trained."""
    pool: str
    """The pool of the split, of all of its queries, from which pairs are drawn by the experiment's seed."""
    share: float = Field(0.1, gt=0, le=1)
    """The share of the pairs that is drawn."""
    rising: tuple[str, ...] = ()
    """The models in the order in which a paper says that their cosines rise; the results compare."""


class PositionsSpec(AnalysisBase):
    """A measure of each system by where the known relevant text of a query begins."""

    kind: Literal["positions"]
    measure: Measure
    edges: Depths
    """The tokens before the relevant text at which ranges begin, ascending; the first range begins at 0."""
    tokenizer: tuple[str, ...] = ()
    """Encoders; the tokens of the first that is available are counted. Without any, words are."""

    @model_validator(mode="after")
    def _check_edges(self) -> Self:
        if list(self.edges) != sorted({*self.edges}):
            raise ValueError("edges must rise")
        return self


class BehindFirstSpec(AnalysisBase):
    """The difference of two systems where the known relevant text begins behind the first segment."""

    kind: Literal["behind-first"]
    measures: Measures
    system: str = "BeST"
    baseline: str
    """A system that reads segments; it decides where the first one ends."""

    @property
    def system_names(self) -> tuple[str, ...]:
        return (*super().system_names, self.system, self.baseline)


class _SegmentPrecisionSpec(AnalysisBase):
    rule: Literal["most", "whole"] = "whole"
    """What a segment must have of the relevant text; see `telerank.evaluation.segments`."""
    pairs: int | None = Field(None, ge=1)
    """Number of pairs of a query and a relevant document, drawn by the seed of the experiment; None: all."""


class SegmentsSpec(_SegmentPrecisionSpec):
    """Segment P@1: how often the best segment of a document holds the relevant text (BeST, table 2)."""

    kind: Literal["segments"]


class IterationsSpec(_SegmentPrecisionSpec):
    """Segment P@1 by iteration, on the queries learned from, on dev and on the split (BeST, table 2)."""

    kind: Literal["iterations"]
    model: str = "BeST"
    """A re-ranker that is trained in iterations; a system ranks by its segments."""


AnalysisSpec: TypeAlias = Annotated[
    QualitySpec
    | RecallSpec
    | RerankingSpec
    | ConsistencySpec
    | CombinationSpec
    | TuningSpec
    | RankingSetSpec
    | LossesSpec
    | EmbeddingsSpec
    | GridSpec
    | SizesSpec
    | StatisticsSpec
    | ThroughputSpec
    | DiffusionSpec
    | PositionsSpec
    | BehindFirstSpec
    | SegmentsSpec
    | IterationsSpec
    | AnswersSpec
    | AnswerSizesSpec
    | EndToEndSpec,
    Field(discriminator="kind"),
]


def select_published(published: Mapping[str, Published], data: str) -> Published:
    """The values printed for a data set; if there are none, those of the first data set, as a rough guide."""
    return published.get(data) or next(iter(published.values()), {})
