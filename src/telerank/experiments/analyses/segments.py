"""Segment P@1 of systems that rank documents by their segments (BeST, table 2)."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from pydantic import Field

from telerank.corpus.collection import split_parts
from telerank.errors import count_noun
from telerank.evaluation.segments import (
    SegmentChoice,
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


def read_measured_pairs(bench: Bench) -> list[TruePair]:
    """The pairs of the queries that measure. Raises Unavailable if there are none."""
    if pairs := read_true_pairs(bench, bench.data.split, bench.judged.queries):
        return pairs
    raise Unavailable(f"no measured query of {bench.data.name} has known relevant text")


def draw_choices(
    bench: Bench,
    spec: SegmentPrecisionAnalysis,
    pairs: Sequence[TruePair],
    models: Mapping[str, MatchesSegments],
) -> dict[str, list[SegmentChoice]]:
    """The segments with the highest scores, by BM25 and by each model, of as many pairs as the settings say.

    The pairs are drawn by the seed of the experiment. BM25 chooses among the segments of the model that has
    most of a document.
    """
    if spec.pairs is not None and spec.pairs < len(pairs):
        pairs = random.Random(bench.seed).sample(pairs, spec.pairs)
    choices: dict[str, list[SegmentChoice]] = {name: [] for name in (BM25, *models)}
    most: dict[tuple[str, str], list[TextSpan]] = {}

    def choose(name: str, pair: TruePair, spans: Sequence[TextSpan], scores: Sequence[float]) -> None:
        key, top = (pair.query.qid, pair.docno), top_segment(scores)
        choices[name].append(choose_segment(key, pair.gold, spans, top, rule=spec.rule))

    for name, matcher in models.items():
        for done, pair in enumerate(pairs):
            bench.data.progress(f"segments of {name}", done, len(pairs))
            matches = sorted(matcher.match(pair.query, pair.docno), key=lambda match: match.number)
            spans = [(match.span[0], match.span[1]) for match in matches]
            key = pair.query.qid, pair.docno
            most[key] = max(most.get(key, []), spans, key=len)
            choose(name, pair, spans, [match.score for match in matches])
    cut = {docno: spans for (_, docno), spans in most.items()}
    docs = ((doc.docno, doc.text) for doc in bench.data.collection.docs() if doc.docno in cut)
    analyzer = Analyzer.parse(bench.data.spec.analyzer)
    terms = {docno: [Counter(analyzer(text[begin:end])) for begin, end in cut[docno]] for docno, text in docs}
    score = weigh_segments(terms)
    for pair in pairs:
        words = list(analyzer(pair.query.text))
        choose(BM25, pair, cut[pair.docno], [score(words, segment) for segment in terms[pair.docno]])
    return choices


def weigh_segments(
    terms: Mapping[str, Sequence[Counter[str]]],
) -> Callable[[Sequence[str], Counter[str]], float]:
    """BM25 of the words of a query in a segment, each of all these segments being a document."""
    every = [segment for segments in terms.values() for segment in segments]
    frequency = Counter(term for segment in every for term in segment)
    average = sum(map(Counter.total, every)) / max(len(every), 1) or 1.0

    def score(words: Sequence[str], segment: Counter[str]) -> float:
        total, length = 0.0, _K1 * (1 - _B + _B * segment.total() / average)
        for term in words:
            if term in segment:
                rarity = math.log1p((len(every) - frequency[term] + 0.5) / (frequency[term] + 0.5))
                total += rarity * segment[term] / (segment[term] + length)
        return total

    return score


class SegmentsAnalysis(SegmentPrecisionAnalysis):
    """Segment P@1: how often the best segment of a document holds the relevant text (BeST, table 2)."""

    kind: Literal["segments"]

    def analyse(self, bench: Bench) -> AnalysisResult:
        """Measure P@1 of each system that scores segments, and of choices that need no model."""
        pairs = read_measured_pairs(bench)
        matchers = {name: find_matcher(system) for name, system in bench.systems.items()}
        models = {name: matcher for name, matcher in matchers.items() if matcher is not None}
        if not models:
            raise Unavailable("no system with a stage ranks documents by their segments")
        choices = draw_choices(bench, self, pairs, models)
        rows = {name: measure_segments(chosen) for name, chosen in choices.items()}
        base = rows[BM25]
        facts: dict[str, dict[str, object]] = {
            RANDOM: {PRECISION: base.chance, INTERVAL: ""},
            FIRST: {PRECISION: base.first, INTERVAL: ""},
            **{
                name: {PRECISION: row.precision, INTERVAL: show_interval(row.low, row.high)}
                for name, row in rows.items()
            },
        }
        for name in bench.published:
            facts.setdefault(name, {PRECISION: None, INTERVAL: ""})
        needs = "at least half of" if self.rule == "most" else "all of"
        table = Table.pivot(
            beside_published(facts, bench.published),
            caption=self.title,
            notes=[
                (
                    f"P@1 over {count_noun(base.pairs, 'pair')} of a query and a relevant document: "
                    f"the best-scored "
                    f"segment holds {needs} a known relevant text. In {100 * base.reachable:.1f} % of the "
                    "pairs a segment does. Intervals are bootstrapped over the queries. A random choice, "
                    "the first segment and BM25 are among the segments of the system that has most of them."
                )
            ],
        )
        return AnalysisResult(
            (table,), {name: asdict(row) for name, row in rows.items()}, items={PRECISION: items_of(choices)}
        )


def items_of(choices: Mapping[str, Sequence[SegmentChoice]]) -> dict[str, dict[str, list[float]]]:
    """The values of each query by system, with those of a random choice and of the first segment."""
    base = choices[BM25]
    values: dict[str, list[float]] = {
        RANDOM: [choice.chance for choice in base],
        FIRST: [choice.first for choice in base],
        **{name: [choice.right for choice in chosen] for name, chosen in choices.items()},
    }
    rows: dict[str, dict[str, list[float]]] = {name: {} for name in values}
    for name, by_choice in values.items():
        for choice, value in zip(base, by_choice, strict=True):
            rows[name].setdefault(choice.qid, []).append(float(value))
    return rows
