"""Statistics of a data set: numbers and mean lengths of queries and passages (BERT-DMN, table 1)."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from itertools import chain

from telerank.corpus.collection import Collection
from telerank.corpus.lengths import Lengths
from telerank.experiments.analyses.bench import AnalysisResult, Bench, Unavailable
from telerank.experiments.analyses.specs import StatisticsSpec
from telerank.experiments.published import PAPER
from telerank.show.tables import Table

VALUE = "value"
"""The column of published values."""
_REPORTED = 10_000  # passages between two reports of progress


def analyse_statistics(bench: Bench, spec: StatisticsSpec) -> AnalysisResult:
    """Count queries and passages, and measure them in words, which are what blanks separate.

    Queries and passages are those of the whole collection; lists and relevant passages are means over the
    queries that measure.
    """
    if spec.candidates not in bench.systems:
        raise Unavailable(f"it needs {spec.candidates}")
    collection, data = bench.data.collection, bench.data
    queries = chain.from_iterable(collection.split_queries(split) for split in collection.queries)
    # a split may be part of another, as MS MARCO's dev.small is of dev
    words = Lengths.of({query.qid: len(query.text.split()) for query in queries}.values())
    passages = _measure_passages(bench, spec)
    lists = [len(ranking) for ranking in bench.rankings(spec.candidates)]
    least = collection.relevant_from if spec.relevant_from is None else spec.relevant_from
    relevant = [sum(grade >= least for grade in grades.values()) for grades in data.judged.qrels.values()]
    values: dict[str, float] = {
        "train queries": _count(collection, spec.train),
        "test queries": _count(collection, data.split),
        "words of a query": words.mean,
        "passages": passages.total,
        "words of a passage": passages.mean,
        "passages of a test query": statistics.fmean(lists),
        "relevant passages of a test query": statistics.fmean(relevant),
    }
    printed = {name: bench.published.get(name, {}).get(VALUE) for name in values}
    rows = [
        [name, *(_format(number, whole=isinstance(value, int)) for number in (value, printed[name]))]
        for name, value in values.items()
    ]
    notes = [f"Means of a test query are over the {len(relevant):,} that are judged"]
    if spec.passages == "judged":
        notes.append("Passages are those that the qrels name")
    table = Table.of(("", data.name, PAPER), rows, caption=spec.title, notes=notes)
    return AnalysisResult((table,), {"values": values, "published": bench.published})


def _measure_passages(bench: Bench, spec: StatisticsSpec) -> Lengths:
    collection = bench.data.collection
    judged: set[str] | None = None
    if spec.passages == "judged":
        judged = {qrel.docno for split in collection.qrels for qrel in collection.split_qrels(split)}

    def lengths() -> Iterable[int]:
        for number, doc in enumerate(collection.docs()):
            if number % _REPORTED == 0:
                bench.data.progress("counting words", number, collection.size)
            if judged is None or doc.docno in judged:
                yield len(doc.full_text.split())

    return Lengths.of(lengths())


def _count(collection: Collection, split: str) -> int:
    return sum(1 for _ in collection.split_queries(split))


def _format(value: float | None, *, whole: bool) -> str:
    return "–" if value is None else f"{value:,.{0 if whole else 2}f}"
