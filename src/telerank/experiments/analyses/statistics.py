"""Statistics of data sets (BERT-DMN, table 1) and of ranking sets (Piaf report, sections 5.3 and 5.4)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from telerank.corpus.derived.questions import PARTS, normalise
from telerank.corpus.lengths import SPECIALS, Lengths, bin_inputs, token_counter
from telerank.corpus.statistics import OTHERS, REACH, CollectionStatistics, describe, draw_plots, read_pairs
from telerank.errors import agree, count_noun
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analysis import Analysis, AnalysisResult, Published, Unavailable
from telerank.experiments.published import PAPER, paper_table
from telerank.experiments.trained import find_encoder
from telerank.show.tables import Table, show_value

# The column of published values.
VALUE = "value"
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
        queries = {  # by qid: a split may be part of another, as MS MARCO's dev.small is of dev
            query.qid: len(query.text.split())
            for split in collection.queries
            for query in collection.split_queries(split)
        }
        words = Lengths.of(queries.values())
        judged: set[str] | None = None
        if self.passages == "judged":
            judged = {qrel.docno for split in collection.qrels for qrel in collection.split_qrels(split)}
        docs = collection.read_docs("counting words", data.progress, _REPORTED)
        passages = Lengths.of(
            len(doc.full_text.split()) for doc in docs if judged is None or doc.docno in judged
        )
        least = collection.relevant_from if self.relevant_from is None else self.relevant_from
        relevant = [sum(grade >= least for grade in grades.values()) for grades in data.judged.qrels.values()]
        values: dict[str, float] = {
            "train queries": sum(1 for _ in collection.split_queries(self.train)),
            "test queries": sum(1 for _ in collection.split_queries(data.split)),
            "words of a query": words.mean,
            "passages": passages.total,
            "words of a passage": passages.mean,
            "passages of a test query": fmean(map(len, bench.rankings(self.candidates))),
            "relevant passages of a test query": fmean(relevant),
        }
        rows = []
        for name, value in values.items():
            form = ",.0f" if isinstance(value, int) else ",.2f"
            rows.append((name, value, show_value(bench.published.get(name, {}).get(VALUE), form)))
        notes = [f"Means of a test query are over the {len(relevant):,} that are judged"]
        notes += ["Passages are those that the qrels name"] * (self.passages == "judged")
        return AnalysisResult(
            (Table.of(("", data.name, PAPER), rows, caption=self.title, notes=notes, form=",.2f"),),
            {"values": values, "published": bench.published},
        )


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
        """Count what the parts show, beside the published values, and plot it.

        Lengths are in tokens of the first encoder that is available.
        """
        tokens, tokenizer = self._find_tokenizer(bench)
        collection, progress = bench.data.collection, bench.data.progress
        statistics = describe(
            collection,
            count=token_counter(bench.data.spec.analyzer, tokenizer),
            language=self.language,
            progress=progress,
        )
        splits = {
            split: {
                "unique questions": len({normalise(query.text) for query in collection.split_queries(split)}),
                "question-document pairs": sum(map(len, read_pairs(collection, [split]).values())),
            }
            for split in dict.fromkeys((*filter(collection.splits.__contains__, PARTS), *collection.splits))
        }
        record = {**statistics.record(), "splits": splits, "tokens": tokens, "published": bench.published}
        drawn = draw_plots(statistics)
        plots = {name: drawn[name] for part in self.parts if (name := _PLOTS.get(part, "")) in drawn}
        notes = [f"Lengths are in {tokens}."]
        if "input-lengths" in self.parts:
            notes = [f"Lengths are in {tokens}; an input has {SPECIALS} more than its question and document."]
        if "question-words" in self.parts:
            notes.append(
                f"A question is of the first row whose word is among its first "
                f"{count_noun(REACH, 'word')} (que, quel and "
                f"lequel with their forms, also elided, are one row), or else of {OTHERS}."
            )
        if "splits" in self.parts:
            twice = sum(row["unique questions"] for row in splits.values()) - statistics.unique_questions
            several = (
                f"{count_noun(twice, 'question')} {agree(twice, 'stands', 'stand')} in more than one split."
            )
            notes.append(several if twice else "No question is in two splits.")
        return AnalysisResult(
            tuple(self._table(part, statistics, splits, bench.published) for part in self.parts),
            record,
            plots,
            tuple(notes),
        )

    def _find_tokenizer(self, bench: Bench) -> tuple[str, Path | None]:
        """What lengths are counted in, and the file of the tokenizer."""
        from telerank.models.loading import locate

        try:
            folder = locate(find_encoder(self.tokenizer, bench.runner.sources))
        except Unavailable:
            return f"terms of the analyzer {bench.data.spec.analyzer}", None
        return f"tokens of {folder.name}", folder / "tokenizer.json"

    def _table(
        self,
        part: RankingSetPart,
        statistics: CollectionStatistics,
        splits: Mapping[str, Mapping[str, int]],
        published: Published,
    ) -> Table:
        """The values of a part with the published ones beside them; the lengths of texts as a histogram."""
        if part in ("question-lengths", "document-lengths"):
            is_of_questions = part == "question-lengths"
            lengths = statistics.questions if is_of_questions else statistics.documents
            return lengths.table("questions" if is_of_questions else "documents")
        rows: Mapping[str, Mapping[str, float]] = splits if part == "splits" else _rows(part, statistics)

        def show(value: float | None, column: str) -> str:
            return show_value(value, f",.{_DIGITS.get(column, 0)}f")

        columns = list(next(iter(rows.values())))
        cells = {name: {key: show(value, key) for key, value in row.items()} for name, row in rows.items()}
        printed = {
            name: {column: value for column, value in values.items() if column in columns}
            for name, values in published.items()
            if name in rows
        }
        return paper_table(
            cells,
            ["", *columns],
            printed,
            show,
            caption=self.title if len(self.parts) == 1 else part.replace("-", " "),
        )


def _rows(part: RankingSetPart, statistics: CollectionStatistics) -> dict[str, Mapping[str, float]]:
    """The values of a part: a row by name, with a value for each column."""
    pairs = {"relevant": statistics.positives, "not relevant": statistics.negatives}
    total = sum(pairs.values())
    match part:
        case "question-words":
            return {
                word.name: {"questions": word.count, "%": 100 * word.share}
                for word in statistics.question_words
            }
        case "input-lengths":
            return {
                each.name: {"pairs": each.count, "cumulative": each.cumulative}
                for each in bin_inputs(statistics.inputs)
            }
        case "classes":
            return {name: {"pairs": count, "share": count / (total or 1)} for name, count in pairs.items()}
    lengths = {"question": statistics.questions, "document": statistics.documents}
    counts = {
        "unique questions": statistics.unique_questions,
        "unique documents": statistics.documents.total,
        "question-document pairs": total,
        **{f"tokens of the shortest {what}": own.quantile(0) for what, own in lengths.items()},
        **{f"tokens of the longest {what}": own.quantile(1) for what, own in lengths.items()},
    }
    return {name: {"count": count} for name, count in counts.items()}
