"""Statistics of a ranking set beside those that a paper prints (Piaf report, sections 5.3 and 5.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from telerank.corpus.derived.questions import PARTS, normalise
from telerank.corpus.lengths import SPECIALS, bin_inputs, token_counter
from telerank.corpus.statistics import OTHERS, REACH, CollectionStatistics, describe, draw_plots, read_pairs
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analysis import Analysis, AnalysisResult, Published, Unavailable
from telerank.experiments.published import PAPER
from telerank.experiments.trained import find_encoder
from telerank.show.tables import Table, show_value

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
    """Statistics of a ranking set (Piaf report, sections 5.3 and 5.4)."""

    kind: Literal["ranking-set"]
    parts: Annotated[tuple[RankingSetPart, ...], Field(min_length=1)]
    """The tables, and with them the plots, that are shown."""
    language: Literal["french", "english"] = "french"
    """The language of the question words."""
    tokenizer: Annotated[tuple[str, ...], Field(min_length=1)]
    """Encoders; the tokens of the first that is available are counted, or else the analyzer's terms."""
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
