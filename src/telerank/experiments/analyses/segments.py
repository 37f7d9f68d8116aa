"""Segment P@1 of systems that rank documents by their segments (BeST, table 2)."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from pydantic import Field

from telerank.corpus.collection import split_parts
from telerank.evaluation.segments import (
    HoldRule,
    SegmentChoice,
    SegmentPrecision,
    TextSpan,
    choose_segment,
    measure_segments,
    top_segment,
)
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analysis import Analysis, AnalysisResult, Unavailable
from telerank.experiments.published import beside_published
from telerank.experiments.systems import SystemRuns
from telerank.show.tables import Table, show_interval
from telerank.stage import walk_stages
from telerank.text import Analyzer
from telerank.types import Query

RANDOM, FIRST, BM25 = "Random", "first segment", "BM25 per segment"
PRECISION, INTERVAL = "P@1", "95% interval"
_K1, _B = 0.9, 0.4


class SegmentPrecisionAnalysis(Analysis):
    """Segment P@1 over pairs of a query and a relevant document whose relevant text is known.

    Attributes
    ----------
    rule
        What a segment must have of the relevant text; see `telerank.evaluation.segments`.
    pairs
        Number of pairs of a query and a relevant document, drawn by the seed of the experiment; None: all.
    """

    rule: Literal["most", "whole"] = "whole"
    pairs: int | None = Field(None, ge=1)


@runtime_checkable
class MatchesSegments(Protocol):
    """A stage that scores the segments of a document; a match has ``number``, ``span`` and ``score``."""

    def match(self, query: Query, docno: str) -> Sequence[Any]: ...


@dataclass(frozen=True, slots=True)
class TruePair:
    """A query, a document relevant to it, and the spans of that which answer it."""

    query: Query
    docno: str
    gold: tuple[TextSpan, ...]


def find_matcher(system: SystemRuns) -> MatchesSegments | None:
    """The stage within a system that scores segments, if there is one; its candidates may be a run alone."""
    stage = system.ran or system.stage
    parts = () if stage is None else walk_stages(stage)
    return next((inner for inner in parts if isinstance(inner, MatchesSegments)), None)


def read_true_pairs(bench: Bench, split: str, queries: Iterable[Query]) -> list[TruePair]:
    """The pairs of these queries of a split and a document with known relevant text."""
    by_qid = {query.qid: query for query in queries}
    gold: dict[tuple[str, str], dict[TextSpan, None]] = {}
    for part in split_parts(split):
        for answer in bench.data.collection.answers.get(part, tuple)():
            if answer.qid in by_qid:
                spans = gold.setdefault((answer.qid, answer.docno), {})
                spans[answer.start, answer.end] = None
    return [TruePair(by_qid[qid], docno, tuple(spans)) for (qid, docno), spans in gold.items()]


def draw_pairs(pairs: Sequence[TruePair], bench: Bench, spec: SegmentPrecisionAnalysis) -> list[TruePair]:
    """As many of the pairs as the settings say, drawn by the seed of the experiment."""
    if spec.pairs is None or spec.pairs >= len(pairs):
        return list(pairs)
    return random.Random(bench.seed).sample(pairs, spec.pairs)


@dataclass(eq=False)
class Chooser:
    """Chooses a segment of each of ``pairs``; of all models, the most segments of a document are kept."""

    bench: Bench
    pairs: Sequence[TruePair]
    rule: HoldRule
    spans: dict[tuple[str, str], list[TextSpan]] = field(default_factory=dict, init=False)

    def by_model(self, name: str, matcher: MatchesSegments) -> list[SegmentChoice]:
        """The segments with the highest scores."""
        choices = []
        for done, pair in enumerate(self.pairs):
            self.bench.data.progress(f"segments of {name}", done, len(self.pairs))
            matches = sorted(matcher.match(pair.query, pair.docno), key=lambda match: match.number)
            own = [(match.span[0], match.span[1]) for match in matches]
            key = pair.query.qid, pair.docno
            if len(own) > len(self.spans.get(key, ())):
                self.spans[key] = own
            top = top_segment([match.score for match in matches])
            choices.append(choose_segment(key, pair.gold, own, top, rule=self.rule))
        return choices

    def choose(self, models: Mapping[str, MatchesSegments]) -> dict[str, list[SegmentChoice]]:
        """The segments of BM25 and of each model, by name."""
        by_model = {name: self.by_model(name, matcher) for name, matcher in models.items()}
        return {BM25: self.by_words(), **by_model}

    def by_words(self) -> list[SegmentChoice]:
        """Those of BM25 over the segments of all these documents, each segment as a document."""
        needed = {pair.docno: self.spans[pair.query.qid, pair.docno] for pair in self.pairs}
        analyzer = Analyzer.parse(self.bench.data.spec.analyzer)
        index = _SegmentTerms.of(analyzer, self._texts(needed))
        choices = []
        for pair in self.pairs:
            scores = index.score(analyzer(pair.query.text), pair.docno)
            key = pair.query.qid, pair.docno
            own = needed[pair.docno]
            choices.append(choose_segment(key, pair.gold, own, top_segment(scores), rule=self.rule))
        return choices

    def _texts(self, needed: Mapping[str, Sequence[TextSpan]]) -> Iterator[tuple[str, list[str]]]:
        for doc in self.bench.data.collection.docs():
            if doc.docno in needed:
                yield doc.docno, [doc.text[begin:end] for begin, end in needed[doc.docno]]


@dataclass(frozen=True)
class _SegmentTerms:
    """The terms of segments by docno, and how many segments have each."""

    terms: Mapping[str, Sequence[Counter[str]]]
    frequency: Counter[str]
    count: int
    average: float

    @classmethod
    def of(cls, analyzer: Analyzer, texts: Iterable[tuple[str, list[str]]]) -> _SegmentTerms:
        terms = {docno: [Counter(analyzer(text)) for text in own] for docno, own in texts}
        every = [segment for own in terms.values() for segment in own]
        average = sum(map(Counter.total, every)) / max(len(every), 1) or 1.0
        return cls(terms, Counter(term for segment in every for term in segment), len(every), average)

    def score(self, query: Iterable[str], docno: str) -> list[float]:
        """BM25 of each segment of a document."""
        words = list(query)
        return [sum(self._weigh(term, own) for term in words if term in own) for own in self.terms[docno]]

    def _weigh(self, term: str, segment: Counter[str]) -> float:
        have = self.frequency[term]
        length = _K1 * (1 - _B + _B * segment.total() / self.average)
        return math.log1p((self.count - have + 0.5) / (have + 0.5)) * segment[term] / (segment[term] + length)


class SegmentsAnalysis(SegmentPrecisionAnalysis):
    """Segment P@1: how often the best segment of a document holds the relevant text (BeST, table 2)."""

    kind: Literal["segments"]

    def analyse(self, bench: Bench) -> AnalysisResult:
        """Measure P@1 of each system that scores segments, and of choices that need no model."""
        pairs = draw_pairs(read_true_pairs(bench, bench.data.split, bench.judged.queries), bench, self)
        if not pairs:
            raise Unavailable(f"no measured query of {bench.data.name} has known relevant text")
        matchers = {name: find_matcher(system) for name, system in bench.systems.items()}
        models = {name: matcher for name, matcher in matchers.items() if matcher is not None}
        if not models:
            raise Unavailable("no system with a stage ranks documents by their segments")
        choices = Chooser(bench, pairs, self.rule).choose(models)
        rows = {name: measure_segments(own) for name, own in choices.items()}
        record = {name: row.record() for name, row in rows.items()}
        return AnalysisResult((_table(rows, bench, self),), record, items={PRECISION: items_of(choices)})


def items_of(choices: Mapping[str, Sequence[SegmentChoice]]) -> dict[str, dict[str, list[float]]]:
    """The values of each query by system, with those of a random choice and of the first segment."""
    base = choices[BM25]
    values: dict[str, list[float]] = {
        RANDOM: [choice.chance for choice in base],
        FIRST: [choice.first for choice in base],
    }
    values |= {name: [choice.right for choice in chosen] for name, chosen in choices.items()}
    rows: dict[str, dict[str, list[float]]] = {name: {} for name in values}
    for name, by_choice in values.items():
        for choice, value in zip(choices.get(name, base), by_choice, strict=True):
            rows[name].setdefault(choice.qid, []).append(float(value))
    return rows


def _table(rows: Mapping[str, SegmentPrecision], bench: Bench, spec: SegmentsAnalysis) -> Table:
    base = rows[BM25]
    facts: dict[str, dict[str, object]] = {
        RANDOM: {PRECISION: base.chance, INTERVAL: ""},
        FIRST: {PRECISION: base.first, INTERVAL: ""},
    }
    for name, row in rows.items():
        facts[name] = {PRECISION: row.precision, INTERVAL: show_interval(row.low, row.high)}
    for name in bench.published:
        facts.setdefault(name, {PRECISION: None, INTERVAL: ""})
    needs = "at least half of" if spec.rule == "most" else "all of"
    note = (
        f"P@1 over {base.pairs:,} pairs of a query and a relevant document: the best-scored segment holds "
        f"{needs} a known relevant text. In {100 * base.reachable:.1f} % of the pairs a segment does. "
        "Intervals are bootstrapped over the queries. A random choice, the first segment and BM25 are among "
        "the segments of the system that has most of them."
    )
    return Table.pivot(beside_published(facts, bench.published), caption=spec.title, notes=[note])
