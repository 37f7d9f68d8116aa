"""Statistics of data sets (BERT-DMN, table 1) and of ranking sets (Piaf report, sections 5.3 and 5.4)."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from telerank.corpus.collection import Collection
from telerank.corpus.derived.questions import PARTS, normalise
from telerank.corpus.lengths import SPECIALS, Lengths, bin_inputs, token_counter
from telerank.corpus.statistics import OTHERS, REACH, CollectionStatistics, describe, draw_plots, read_pairs
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analysis import Analysis, AnalysisResult, Published, Unavailable
from telerank.experiments.published import PAPER
from telerank.experiments.trained import find_encoder
from telerank.show.tables import Table, show_value

VALUE = "value"
"""The column of published values."""
_REPORTED = 10_000  # passages between two reports of progress


class StatisticsAnalysis(Analysis):
    """Numbers and mean lengths of queries and passages (BERT-DMN, table 1).

    Attributes
    ----------
    candidates
        The system whose lists are counted, over the queries that measure.
    train
        The split whose queries are counted as those of training.
    passages
        Whether all passages of the collection are counted and measured, or those that its qrels
        name.
    relevant_from
        The lowest grade that counts as relevant; None: that of the collection.
    """

    kind: Literal["statistics"]
    candidates: str
    train: str = "train"
    passages: Literal["all", "judged"] = "all"
    relevant_from: int | None = None

    named_by: ClassVar[tuple[str, ...]] = ("candidates",)

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


RankingSetPart: TypeAlias = Literal[
    "counts", "splits", "question-words", "question-lengths", "document-lengths", "input-lengths", "classes"
]
_PLOTS: Mapping[RankingSetPart, str] = {
    "question-words": "question-words",
    "question-lengths": "question-lengths",
    "document-lengths": "document-lengths",
    "input-lengths": "input-lengths",
    "classes": "class-balance",
}
_DIGITS = {"%": 1, "cumulative": 3, "share": 3}  # of a column; others have whole numbers


@dataclass(frozen=True, eq=False)
class SetStatistics:
    """The statistics of a collection, its ``splits`` by column, and whose ``tokens`` were counted."""

    all_splits: CollectionStatistics
    splits: Mapping[str, Mapping[str, float]]
    tokens: str

    def rows(self, part: RankingSetPart) -> dict[str, Mapping[str, float]]:
        """The values of a part: a row by name, with a value for each column."""
        statistics = self.all_splits
        pairs = {"relevant": statistics.positives, "not relevant": statistics.negatives}
        match part:
            case "splits":
                return dict(self.splits)
            case "question-words":
                words = statistics.question_words
                return {word.name: {"questions": word.count, "%": 100 * word.share} for word in words}
            case "input-lengths":
                bins = bin_inputs(statistics.inputs)
                return {each.name: {"pairs": each.count, "cumulative": each.cumulative} for each in bins}
            case "classes":
                total = sum(pairs.values()) or 1
                return {name: {"pairs": count, "share": count / total} for name, count in pairs.items()}
        lengths = {"question": statistics.questions, "document": statistics.documents}
        counts = {
            "unique questions": statistics.unique_questions,
            "unique documents": statistics.documents.total,
            "question-document pairs": sum(pairs.values()),
            **{f"tokens of the shortest {what}": own.quantile(0) for what, own in lengths.items()},
            **{f"tokens of the longest {what}": own.quantile(1) for what, own in lengths.items()},
        }
        return {name: {"count": count} for name, count in counts.items()}


class RankingSetAnalysis(Analysis):
    """Statistics of a ranking set (Piaf report, sections 5.3 and 5.4).

    Attributes
    ----------
    parts
        The tables, and with them the plots, that are shown.
    language
        The language of the question words.
    tokenizer
        Encoders; the tokens of the first that is available are counted, or else the analyzer's
        terms.
    """

    kind: Literal["ranking-set"]
    parts: Annotated[tuple[RankingSetPart, ...], Field(min_length=1)]
    language: Literal["french", "english"] = "french"
    tokenizer: Annotated[tuple[str, ...], Field(min_length=1)]
    needs_systems: ClassVar[bool] = False

    def analyse(self, bench: Bench) -> AnalysisResult:
        """Count what the parts show, beside the published values, and plot it."""
        statistics = read_statistics(bench, self)
        tables = tuple(_table(statistics, part, self, bench.published) for part in self.parts)
        record = {
            **statistics.all_splits.record(),
            "splits": statistics.splits,
            "tokens": statistics.tokens,
            "published": bench.published,
        }
        drawn = draw_plots(statistics.all_splits)
        plots = {name: drawn[name] for part in self.parts if (name := _PLOTS.get(part, "")) in drawn}
        return AnalysisResult(tables, record, plots, tuple(_notes(statistics, self)))


def read_statistics(bench: Bench, spec: RankingSetAnalysis) -> SetStatistics:
    """Read the collection of the bench; lengths are in tokens of the first encoder that is available."""
    tokens, tokenizer = f"terms of the analyzer {bench.data.spec.analyzer}", None
    try:
        from telerank.models.loading import locate

        folder = locate(find_encoder(spec.tokenizer, bench.runner.sources))
        tokens, tokenizer = f"tokens of {folder.name}", folder / "tokenizer.json"
    except Unavailable:
        pass
    counting = token_counter(bench.data.spec.analyzer, tokenizer)
    collection, progress = bench.data.collection, bench.data.progress
    statistics = describe(collection, count=counting, language=spec.language, progress=progress)
    names = dict.fromkeys((*(part for part in PARTS if part in collection.splits), *collection.splits))
    splits = {
        split: {
            "unique questions": len({normalise(query.text) for query in collection.split_queries(split)}),
            "question-document pairs": sum(map(len, read_pairs(collection, [split]).values())),
        }
        for split in names
    }
    return SetStatistics(statistics, splits, tokens)


def _table(
    statistics: SetStatistics, part: RankingSetPart, spec: RankingSetAnalysis, published: Published
) -> Table:
    """The values of a part with the published ones beside them; the lengths of texts as a histogram."""
    if part in ("question-lengths", "document-lengths"):
        whole = statistics.all_splits
        is_of_questions = part == "question-lengths"
        lengths = whole.questions if is_of_questions else whole.documents
        return lengths.table("questions" if is_of_questions else "documents")
    rows = statistics.rows(part)
    columns = list(next(iter(rows.values())))
    printed = {column for name in rows for column in published.get(name, {})}
    heads = [head for column in columns for head in ((column, PAPER) if column in printed else (column,))]
    cells = []
    for name, values in rows.items():
        row = [name]
        for column in columns:
            form = f",.{_DIGITS.get(column, 0)}f"
            row.append(f"{values[column]:{form}}")
            row += [show_value(published.get(name, {}).get(column), form)] if column in printed else []
        cells.append(row)
    caption = spec.title if len(spec.parts) == 1 else part.replace("-", " ")
    return Table.of(("", *heads), cells, caption=caption)


def _notes(statistics: SetStatistics, spec: RankingSetAnalysis) -> Iterator[str]:
    inputs = f"; an input has {SPECIALS} more than its question and document"
    yield f"Lengths are in {statistics.tokens}{inputs if 'input-lengths' in spec.parts else ''}."
    if "question-words" in spec.parts:
        yield (
            f"A question is of the first row whose word is among its first {REACH} words (que, quel and "
            f"lequel with their forms, also elided, are one row), or else of {OTHERS}."
        )
    if "splits" in spec.parts:
        shared = sum(row["unique questions"] for row in statistics.splits.values())
        twice = int(shared) - statistics.all_splits.unique_questions
        yield (
            f"{twice:,} questions stand in more than one split." if twice else "No question is in two splits."
        )
