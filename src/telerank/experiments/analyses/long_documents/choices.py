"""Which segments of relevant documents are chosen: by a model, by BM25, at random."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from telerank.corpus.collection import split_parts
from telerank.evaluation.segments import HoldRule, SegmentChoice, TextSpan, choose_segment, top_segment
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analyses.specs import IterationsSpec, SegmentsSpec
from telerank.experiments.systems import SystemRuns
from telerank.stage import walk_stages
from telerank.text import Analyzer
from telerank.types import Query

RANDOM, FIRST, BM25 = "Random", "first segment", "BM25 per segment"
_K1, _B = 0.9, 0.4


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


def draw_pairs(
    pairs: Sequence[TruePair], bench: Bench, spec: SegmentsSpec | IterationsSpec
) -> list[TruePair]:
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
