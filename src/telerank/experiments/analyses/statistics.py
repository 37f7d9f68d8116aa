"""Statistics of a data set: numbers and mean lengths of queries and passages (BERT-DMN, table 1)."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from itertools import chain
from typing import Literal

from telerank.corpus.collection import Collection
from telerank.corpus.lengths import Lengths
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analysis import Analysis, AnalysisResult, Unavailable
from telerank.experiments.published import PAPER
from telerank.show.tables import Table, show_value

VALUE = "value"
"""The column of published values."""
_REPORTED = 10_000  # passages between two reports of progress


class StatisticsAnalysis(Analysis):
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

    def analyse(self, bench: Bench) -> AnalysisResult:
        """Count queries and passages, and measure them in words, which are what blanks separate.

        Queries and passages are those of the whole collection; lists and relevant passages are means over the
        queries that measure.
        """
        if self.candidates not in bench.systems:
            raise Unavailable(f"it needs {self.candidates}")
        collection, data = bench.data.collection, bench.data
        queries = chain.from_iterable(collection.split_queries(split) for split in collection.queries)
        # a split may be part of another, as MS MARCO's dev.small is of dev
        words = Lengths.of({query.qid: len(query.text.split()) for query in queries}.values())
        passages = _measure_passages(bench, self)
        lists = [len(ranking) for ranking in bench.rankings(self.candidates)]
        least = collection.relevant_from if self.relevant_from is None else self.relevant_from
        relevant = [sum(grade >= least for grade in grades.values()) for grades in data.judged.qrels.values()]
        values: dict[str, float] = {
            "train queries": _count(collection, self.train),
            "test queries": _count(collection, data.split),
            "words of a query": words.mean,
            "passages": passages.total,
            "words of a passage": passages.mean,
            "passages of a test query": statistics.fmean(lists),
            "relevant passages of a test query": statistics.fmean(relevant),
        }
        printed = {name: bench.published.get(name, {}).get(VALUE) for name in values}
        rows = [
            (name, value, show_value(printed[name], ",.0f" if isinstance(value, int) else ",.2f"))
            for name, value in values.items()
        ]
        notes = [f"Means of a test query are over the {len(relevant):,} that are judged"]
        if self.passages == "judged":
            notes.append("Passages are those that the qrels name")
        table = Table.of(("", data.name, PAPER), rows, caption=self.title, notes=notes, form=",.2f")
        return AnalysisResult((table,), {"values": values, "published": bench.published})


def _measure_passages(bench: Bench, spec: StatisticsAnalysis) -> Lengths:
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
