"""The stages that score documents by their segments: FirstP, MaxP, …, Birch, Piaf's equation 21."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from itertools import tee
from typing import Annotated, Any

import numpy as np

from telerank.corpus.docstore import read_candidates, read_doc
from telerank.errors import ArgumentError, ArgumentTypeError, ExpressionError, ModelError, count_noun
from telerank.expressions import call_text
from telerank.fusion.lists import scale_scores
from telerank.models.inference import compute_each
from telerank.parameters import Check, FieldsOf
from telerank.reranking.stage import CrossReranker, explain_score
from telerank.segments.scorer import Candidate, SegmentScorer
from telerank.segments.settings import NAMED, Aggregate, SegmentSettings, Unit, convert, window_segments
from telerank.segments.split import Segments
from telerank.stage import Stage, walk_stages
from telerank.text.sentences import Span
from telerank.types import Explanation, Phrase, Query, Ranking, Scores

_SHOWN = 10  # segments of a document that an explanation names
_WIDTH = 80  # characters of a segment that it shows


@dataclass(frozen=True)
class SegmentMatch:
    """Segment ``number`` (from 0) of ``count``, its characters in the document's text, and its score."""

    number: int
    count: int
    span: Span
    text: str
    score: float
    weight: float


def match_segments(aggregate: Aggregate, segments: Segments, scores: Scores) -> list[SegmentMatch]:
    """The segments of a document, by their weight in its score, then their own score, then position."""
    weights = aggregate.weigh(scores)
    order = np.lexsort((np.arange(len(scores)), -scores, -np.abs(weights)))
    return [
        SegmentMatch(
            number,
            len(segments),
            segments.span(number),
            segments.text(number),
            scores[number].item(),
            weights[number].item(),
        )
        for number in order.tolist()
    ]


def explain_document(
    reranker: CrossReranker, aggregate: Aggregate, query: str, segments: Segments, scores: Scores
) -> Explanation:
    """The score of a document, its winning segment with what each sentence of that adds, and the others."""
    scorer = reranker.scorer
    matches = match_segments(aggregate, segments, scores)
    title = segments.kept_title
    winner = matches[0]
    inner = explain_score(scorer, query, f"{title} {winner.text}" if title else winner.text)
    parts = [Explanation(winner.score, _describe(winner, ", which counts most"), inner.parts)]
    parts += [Explanation(match.score, _describe(match)) for match in matches[1:_SHOWN]]
    if rest := matches[_SHOWN:]:
        best = max(match.score for match in rest)
        parts.append(Explanation(best, Phrase("the best of {n} more segments", n=len(rest))))
    best_of = len(aggregate.weights) if aggregate.kind == "best" else aggregate.k
    model = reranker.name or scorer.name
    if reranker.fields:
        model += f" ({', '.join(reranker.fields)})"
    facts = {"k": best_of, "n": len(matches), "model": model}
    plural = "s" if len(matches) != 1 else ""
    what = Phrase(_NAMES[aggregate.kind] + " {n} segment{plural} by {model}", plural=plural, **facts)
    return Explanation(aggregate(scores), what, tuple(parts))


def _describe(match: SegmentMatch, more: str = "") -> Phrase:
    line = " ".join(match.text[: 4 * _WIDTH].split())
    shown = line if len(line) <= _WIDTH else f"{line[:_WIDTH]}…"
    weight = "" if match.weight in (0, 1) else f", times {match.weight:.4g}"
    facts = {"n": match.number + 1, "of": match.count, "text": shown, "weight": weight}
    template = "segment {n} of {of}, characters {span.start:,} to {span.end:,}{weight}: “{text}”"
    return Phrase(template + more, span=match.span, **facts)


_NAMES = {
    "first": "the first of",
    "max": "the greatest of",
    "mean": "the mean of",
    "sum": "the sum of",
    "kmax": "the mean of the {k} best of",
    "best": "the weighted sum of the {k} best of",
}


@dataclass(frozen=True, repr=False)
class SegmentReranker(Stage):
    """Score each document by its segments: the ``aggregate`` of what the scorer of ``reranker`` gives them.

    Documents are cut as ``settings`` say. ``of`` decides what is aggregated. The ranking of ``reranker`` is
    not used, only its model, its documents and their names; it must not be cut.

    Raises
    ------
    ValueError
        If the re-ranker keeps only ``k`` documents: cut the ranking of this stage instead.
    CollectionError
        When a ranking names a document that the re-ranker's documents lack.
    ModelError
        With the first document, if the segments do not fit into the model.
    """

    reranker: CrossReranker
    aggregate: Aggregate
    settings: SegmentSettings = NAMED["whole"]
    of: Unit = "logit"
    role = "segments"

    reorders = True

    def __post_init__(self) -> None:
        if not isinstance(self.reranker, CrossReranker):
            raise ArgumentTypeError(f"expected a re-ranker, rerank(MODEL), got {self.reranker!r}")
        if self.reranker.k is not None:
            raise ArgumentError(f"{self.reranker!r} must not be cut: cut the ranking by segments")
        if (first := self.aggregate.reads) is not None:
            object.__setattr__(self, "settings", self.settings.model_copy(update={"first": first}))

    @cached_property
    def scorer(self) -> SegmentScorer:
        return SegmentScorer(self.reranker.scorer, self.settings)

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        def candidates(ranking: Ranking) -> Iterator[Candidate]:
            return ((ranking.query.text, doc) for doc in read_candidates(ranking, self.reranker.texts))

        for ranking, logits in compute_each(stream, candidates, self.scorer.stream):
            scores = [self.aggregate(convert(of_document, self.of)) for of_document in logits]
            yield Ranking.ranked(ranking.query, ranking.docnos, scores)

    def explanation(self, query: Query, docno: str) -> Explanation:
        """The score, the winning segment with what its sentences add, and the scores of the others."""
        return explain_document(self.reranker, self.aggregate, query.text, *self._score(query, docno))

    @property
    def matches_texts(self) -> bool:
        """Whether the characters of segments are those of documents' texts, and not of other fields."""
        return not self.reranker.fields

    def match(self, query: Query, docno: str) -> list[SegmentMatch]:
        """The segments of a document, the one that counts most first, then by score.

        Their characters are those of the text that is read, which other fields may make.

        Raises
        ------
        KeyError
            If there is no such document.
        """
        return match_segments(self.aggregate, *self._score(query, docno))

    def _score(self, query: Query, docno: str) -> tuple[Segments, Scores]:
        segments, logits = self.scorer.score(query.text, read_doc(self.reranker.texts, docno))
        return segments, convert(logits, self.of)

    @property
    def text(self) -> str:
        kind = self.aggregate.kind
        values = {"kmax": self.aggregate.k} if kind == "kmax" else {}
        name = (
            "<best>" if kind == "best" else f"{kind}p"
        )  # the function of pipelines; best needs a first stage
        return call_text(name, self.reranker.text, **values, **self.changed)

    @property
    def changed(self) -> dict[str, Any]:
        """The settings as arguments of the function of pipelines: a name, or those that differ."""
        ignored = {} if self.aggregate.reads is None else {"first": None}
        own = self.settings.model_copy(update=ignored)
        name = next((name for name, settings in NAMED.items() if settings == own), None)
        of = {} if self.of == "logit" else {"of": self.of}
        if name is not None:
            return {**({} if name == "whole" else {"window": name}), **of}
        record = own.model_dump(exclude_defaults=True)
        return {**{"window" if key == "length" else key: value for key, value in record.items()}, **of}

    @property
    def remarks(self) -> Sequence[str]:
        counts, lines = self.scorer.counts, []
        if counts.cut_titles:
            lines.append(
                f"{self.text}: {counts.cut_titles:,} title{'s' if counts.cut_titles != 1 else ''} "
                "longer than half of a segment: cut there"
            )
        if counts.left_out:
            kept = f"{self.settings.first} segment{'s' if self.settings.first != 1 else ''}"
            lines.append(
                f"{self.text}: {counts.left_out:,} of {count_noun(counts.documents, 'document')} "
                f"longer than {kept}: "
                f"cut there, {count_noun(counts.left_out_tokens, 'token')} were not read"
            )
        return lines

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))


@dataclass(frozen=True, repr=False)
class SegmentSum(Stage):
    """``alpha`` times the first stage's score, plus ``beta`` times the score by segments, of its documents.

    With ``scaled`` the first stage's scores are scaled to [0, 1] over its ranking (equation 20). ``name`` is
    the function of pipelines: ``passages`` is equation 21 of the Piaf report, ``birch`` its equation 10.

    Raises
    ------
    ValueError
        If a weight is not a finite number.
    """

    first: Stage
    segments: SegmentReranker
    alpha: float
    beta: float
    scaled: bool
    name: str
    role = "segments"

    reorders = True

    def __post_init__(self) -> None:
        for weight in (self.alpha, self.beta):
            if not math.isfinite(weight):
                raise ArgumentError(f"a weight must be a finite number, got {weight!r}")

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        candidates, copies = tee(self.first(stream))
        for ranking, by_segments in zip(candidates, self.segments(copies), strict=True):
            before, segments = dict(self._scale(ranking)), dict(by_segments)
            scores = [self.alpha * before[docno] + self.beta * segments[docno] for docno in ranking.docnos]
            yield Ranking.ranked(ranking.query, ranking.docnos, scores)

    def _scale(self, ranking: Ranking) -> Ranking:
        return scale_scores(ranking) if self.scaled else ranking

    def after(self, first: Stage) -> Stage:
        return replace(self, first=self.first.after(first))

    def explanation(self, query: Query, docno: str) -> Explanation:
        before = dict(self._scale(self.first.search(query)))[docno]
        own = self.first.explain(query, docno)
        by_segments = self.segments.explain(query, docno)
        scaled = "scaled to [0, 1] over the ranking" if self.scaled else "of the first stage"
        parts = (
            Explanation(
                self.alpha * before,
                Phrase("{weight:g} times {value:.6g}, " + scaled, weight=self.alpha, value=before),
                (own,),
            ),
            Explanation(
                self.beta * by_segments.value, Phrase("{weight:g} times", weight=self.beta), (by_segments,)
            ),
        )
        return Explanation(parts[0].value + parts[1].value, "sum of", parts)

    @property
    def text(self) -> str:
        values: dict[str, Any] = {"alpha": self.alpha}
        if self.name == "birch":
            values["weights"] = " ".join(f"{weight:g}" for weight in self.segments.aggregate.weights)
        else:
            values["beta"] = self.beta
        changed = {**self.segments.changed, "of": self.segments.of}
        whole = {} if len(changed) > 1 else {"window": "whole"}
        return call_text(
            self.name, self.first.text, self.segments.reranker.text, **values, **whole, **changed
        )


def _check_uncut(stage: Stage) -> None:
    if not isinstance(stage, CrossReranker) or stage.k is not None:
        raise ArgumentError(f"expected rerank(MODEL), uncut, got {stage!r}")


Reranking = Annotated[CrossReranker, Check(_check_uncut)]
Window = int | str | None
Cutting = Annotated[Any, FieldsOf(SegmentSettings, ("length",))]


def _cut(default: str, window: Window, cutting: Mapping[str, Any]) -> SegmentSettings:
    """The named settings of ``default``, or those that a text gives."""
    if window is None and not cutting:
        return NAMED[default]
    try:
        return window_segments("whole" if window is None else window, **cutting)
    except ModelError as error:
        raise ExpressionError(str(error)) from error


def by_segments(
    kind: str, reranker: Reranking, window: Window = None, *, of: Unit = "logit", **cutting: Cutting
) -> SegmentReranker:
    """Score each document by the first, the best, the mean or the sum of its segments."""
    return SegmentReranker(reranker, Aggregate(kind), _cut("whole", window, cutting), of)


firstp, maxp, meanp, sump = (partial(by_segments, kind) for kind in ("first", "max", "mean", "sum"))


def kmaxp(
    reranker: Reranking, kmax: int, window: Window = None, *, of: Unit = "logit", **cutting: Cutting
) -> SegmentReranker:
    """Score each document by the mean of its ``kmax`` best segments."""
    return SegmentReranker(reranker, Aggregate("kmax", kmax), _cut("whole", window, cutting), of)


def passages(
    stage: Stage,
    reranker: Reranking,
    alpha: float,
    beta: float,
    window: Window = None,
    *,
    of: Unit = "probability",
    **cutting: Cutting,
) -> SegmentSum:
    """Equation 21 of the Piaf report: alpha * BM25 + beta * the mean over a document's passages.

    BM25 is scaled to [0, 1] over the ranking (equation 20), the passages have probabilities (equation 15).
    The report re-ranks the first 10: ``passages(bm25 % 10, rerank(m), alpha=0.5, beta=0.5)``.
    """
    mean = SegmentReranker(reranker, Aggregate("mean"), _cut("piaf", window, cutting), of)
    return SegmentSum(stage, mean, alpha, beta, scaled=True, name="passages")


def birch(
    stage: Stage,
    reranker: Reranking,
    alpha: float,
    weights: tuple[float, ...] = (1.0,),
    window: Window = None,
    *,
    of: Unit = "probability",
    **cutting: Cutting,
) -> SegmentSum:
    """Birch (equation 10 of the Piaf report): alpha * s_d + (1 - alpha) * sum over i of w_i * s_i.

    s_d is the first stage's score as it is, s_i the i-th best sentence's (Yilmaz et al. 2019).
    """
    best = Aggregate("best", weights=weights)
    by_sentences = SegmentReranker(reranker, best, _cut("birch", window, cutting), of)
    return SegmentSum(stage, by_sentences, alpha, 1.0 - alpha, scaled=False, name="birch")


def find_segments(stage: Stage) -> SegmentReranker:
    """The first part of a pipeline that scores documents by their segments.

    Raises
    ------
    ExpressionError
        If there is none.
    """
    for part in walk_stages(stage):
        if isinstance(part, SegmentReranker):
            return part
    raise ExpressionError(f"{stage.text}: no stage of it scores segments, such as maxp(rerank(MODEL))")
