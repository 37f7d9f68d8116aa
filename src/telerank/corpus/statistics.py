"""Statistics of a collection, as in section 5.3 of the Piaf report.

Question words (its table 3), lengths of questions and documents (figures 7 and 8), lengths of the inputs of a
cross-encoder (table 4) and the balance of classes (figure 9). Beside them, what tells relevant documents from
others without their texts (:mod:`telerank.corpus.confounds`).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from telerank.columns.kinds import SchemaBuilder
from telerank.corpus.collection import Collection
from telerank.corpus.confounds import Confounds, DocumentFacts, find_confounds
from telerank.corpus.derived.questions import WORDS, normalise
from telerank.corpus.lengths import QUANTILES, SPECIALS, Counting, Lengths, bin_inputs
from telerank.errors import ArgumentError, count_noun
from telerank.show.plots import COLOURS, STYLE
from telerank.show.report import Report
from telerank.show.tables import Table
from telerank.types import Progress, Query, silent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Number of first words that may be the question word: "in what year", "de la part de qui".
REACH = 3
OTHERS = "others"
_BLUE, _ORANGE = COLOURS[:2]
_GREY = "#5b6670"
_EXAMPLE = 44  # characters of a question

_QUE = "que qu quel quelle quels quelles lequel laquelle lesquels lesquelles auquel auxquels auxquelles"
# For each language the rows of the table and their forms, case-folded.
#
# "Que" includes the forms of quel and lequel: this gives half of the questions, as in the report.
QUESTION_WORDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "french": {"Que": (*_QUE.split(), "duquel", "desquels", "desquelles")}
    | {word: (word.lower(),) for word in ("Qui", "Combien", "Quand", "Où", "Comment", "Pourquoi", "quoi")},
    "english": {"What": ("what",), "Who": ("who", "whom", "whose"), "How many": ("how many", "how much")}
    | {word: (word.lower(),) for word in ("When", "Where", "How", "Why", "Which")},
}


@dataclass(frozen=True, slots=True)
class QuestionWord:
    """The questions with one question word: their count, share (0 to 1) and the first as an example."""

    name: str
    count: int
    share: float
    example: str


@dataclass(frozen=True, eq=False)
class CollectionStatistics(Report):
    """The statistics of a collection, or of some of its splits.

    ``confounds`` is None without documents or relevant ones.
    """

    name: str
    splits: tuple[str, ...]
    documents: Lengths
    questions: Lengths
    unique_questions: int
    language: str
    question_words: tuple[QuestionWord, ...]
    inputs: Lengths
    positives: int
    negatives: int
    notes: Mapping[str, int]
    confounds: Confounds | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"Statistics of {self.name}"

    def tables(self) -> list[Table]:
        """Lengths, question words, histograms, lengths of inputs and confounds, as far as there are any."""
        tables = [self._lengths_table()]
        if self.questions.total:
            words = [
                [word.name, example, f"{word.count:,}", f"{100 * word.share:.1f}"]
                for word in self.question_words
                for example in [shorten(word.example, _EXAMPLE, placeholder=" …")]
            ]
            caption = f"question words ({self.language})"
            tables.append(Table.of(("word", "example", "questions", "%"), words, caption=caption, left=2))
            tables.append(self.questions.table("questions"))
        if self.documents.total:
            tables.append(self.documents.table("documents"))
        if self.columns:
            tables.append(
                Table.of(("column", "kind"), [*map(list, self.columns.items())], caption="columns", left=2)
            )
        if self.inputs.total:
            bins = bin_inputs(self.inputs)
            frequency = ["frequency", *(f"{column.count:,}" for column in bins)]
            cumulative = ["cumulative", *(f"{column.cumulative:.3f}" for column in bins)]
            caption = f"lengths of inputs: question, document and {SPECIALS} special tokens"
            names = ("tokens", *(column.name for column in bins))
            tables.append(Table.of(names, [frequency, cumulative], caption=caption))
        if self.confounds is not None:
            tables.append(self.confounds.table())
        return tables

    @property
    def remarks(self) -> list[str]:
        return [] if self.confounds is None else self.confounds.warnings()

    def _lengths_table(self) -> Table:
        known = {"documents": self.documents, "questions": self.questions, "inputs": self.inputs}
        rows = [
            [what, f"{own.total:,}", f"{own.mean:,.1f}", *(f"{n:,}" for n in own.quantiles().values())]
            for what, own in known.items()
            if own.total
        ]
        questions = count_noun(self.questions.total, "question")
        notes = [f"{self.unique_questions:,} of {questions} differ in their words"]
        if pairs := self.positives + self.negatives:
            share = f"{self.positives:,} relevant ({100 * self.positives / pairs:.1f} %)"
            notes.append(
                f"{count_noun(pairs, 'pair')} of a question and a document: {share}, {self.negatives:,} not"
            )
        if repaired := [f"{what.replace('_', ' ')} {n:,}" for what, n in self.notes.items() if n]:
            notes.append(f"notes of the reader: {', '.join(repaired)}")
        caption = f"{self.name}  splits: {', '.join(self.splits) or 'none'}"
        return Table.of(
            ("lengths in tokens", "count", "mean", *QUANTILES),
            rows,
            caption=caption,
            notes=notes[not self.questions.total :],
        )

    def save_plots(self, folder: str | Path, *, format: str = "png") -> list[Path]:  # noqa: A002
        """Save every plot with data as png, svg or pdf; the files. The same data give the same bytes."""
        from telerank.show.plots import save_plot

        Path(folder).mkdir(parents=True, exist_ok=True)
        plots = {Path(folder, f"{name}.{format}"): figure for name, figure in draw_plots(self).items()}
        for file, figure in plots.items():
            save_plot(figure, file)
        return [*plots]

    def record(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "splits": self.splits,
            "documents": self.documents.record(),
            "questions": self.questions.record() | {"different": self.unique_questions},
            "question_words": {
                "language": self.language,
                "kinds": [asdict(word) for word in self.question_words],
            },
            "inputs": self.inputs.record() | {"bins": [asdict(column) for column in bin_inputs(self.inputs)]},
            "pairs": {"relevant": self.positives, "not_relevant": self.negatives},
            "notes": dict(self.notes),
            "columns": dict(self.columns),
            "confounds": None if self.confounds is None else self.confounds.record(),
        }


def describe(
    collection: Collection,
    *,
    count: Counting,
    splits: Iterable[str] | None = None,
    language: str | None = None,
    progress: Progress = silent,
) -> CollectionStatistics:
    """Compute the statistics of a collection, or of some of its splits; ``count`` gives the length of a text.

    Pairs of a question and a document are those of the qrels and the pools, each counted once; a pair is
    positive from the grade ``relevant_from`` on. Pairs with documents that the collection lacks have no input
    length. Relevant documents are those of these splits. ``columns`` are inferred. ``language`` defaults to
    the one in which more question words are recognised.
    """
    names = collection.splits if splits is None else tuple(map(collection.resolve_split, splits))
    streams = (collection.queries.get(split, tuple) for split in names)
    queries: dict[str, Query] = {query.qid: query for stream in streams for query in stream()}
    question_lengths = {qid: count(query.text) for qid, query in queries.items()}
    pairs = read_pairs(collection, names)
    paired = {docno for docnos in pairs.values() for docno in docnos}
    texts: Counter[int] = Counter()
    lengths: dict[str, int] = {}
    schema = SchemaBuilder({})
    facts, rows = DocumentFacts(), dict[str, int]()
    for doc in collection.read_docs("counting tokens", progress) if collection.size != 0 else ():
        schema.add(doc)
        texts[length := count(doc.full_text)] += 1
        if doc.docno in paired:
            lengths[doc.docno], rows[doc.docno] = length, len(facts)
        of_title = count(doc.title) if doc.title else 0
        facts.add(doc, length - of_title, of_title)
    words, language = count_question_words((query.text for query in queries.values()), language)
    positives = sum(sum(docnos.values()) for docnos in pairs.values())
    return CollectionStatistics(
        name=collection.name,
        splits=names,
        documents=Lengths.of(texts),
        questions=Lengths.of(question_lengths.values()),
        unique_questions=len({normalise(query.text) for query in queries.values()}),
        language=language,
        question_words=words,
        inputs=Lengths.of(
            question_lengths[qid] + lengths[docno] + SPECIALS
            for qid, docnos in pairs.items()
            if qid in question_lengths
            for docno in docnos
            if docno in lengths
        ),
        positives=positives,
        negatives=sum(map(len, pairs.values())) - positives,
        notes=collection.notes(),
        columns=schema.finish(),
        confounds=find_confounds(facts, rows, pairs),
    )


def count_question_words(
    questions: Iterable[str], language: str | None = None
) -> tuple[tuple[QuestionWord, ...], str]:
    """Count questions by question word: the table and its language, by default the one that recognises more.

    The word of a question is the first of :data:`QUESTION_WORDS` among its first :data:`REACH` words.
    """
    texts = list(questions)
    if language is not None and language not in QUESTION_WORDS:
        raise ArgumentError(f"question words are known in {', '.join(QUESTION_WORDS)}, not in {language!r}")
    tables = []
    for name in [language] if language else QUESTION_WORDS:
        forms = {form: word for word, own in QUESTION_WORDS[name].items() for form in own}
        groups: dict[str, list[str]] = {word: [] for word in (*QUESTION_WORDS[name], OTHERS)}
        for text in texts:
            groups[_find_question_word(text, forms)].append(text)
        rows = (
            QuestionWord(word, len(own), len(own) / (len(texts) or 1), next(iter(own), ""))
            for word, own in groups.items()
        )
        tables.append((tuple(rows), name))
    return min(tables, key=lambda table: table[0][-1].count)


def _find_question_word(text: str, forms: Mapping[str, str]) -> str:
    words = WORDS.findall(text.casefold())[: REACH + 1]
    for position, word in enumerate(words[:REACH]):
        if name := forms.get(" ".join(words[position : position + 2])) or forms.get(word):
            return name
    return OTHERS


def read_pairs(collection: Collection, splits: Iterable[str]) -> dict[str, dict[str, bool]]:
    """The pairs of the qrels and the pools: ``pairs[qid][docno]``, whether the document is relevant."""
    splits = tuple(splits)
    pairs: dict[str, dict[str, bool]] = {}
    for name, pool in collection.pools.items():
        if name.partition("/")[0] in splits:
            for ranking in pool():
                pairs.setdefault(ranking.query.qid, {}).update(
                    dict.fromkeys(map(sys.intern, ranking.docnos), False)
                )
    for split in splits:
        for qrel in collection.qrels.get(split, tuple)():
            pairs.setdefault(qrel.qid, {})[qrel.docno] = qrel.grade >= collection.relevant_from
    return pairs


def draw_plots(statistics: CollectionStatistics) -> dict[str, Figure]:
    """Every plot with data, by its name."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    draw: dict[str, tuple[object, Callable[[Axes], None]]] = {
        "question-words": (statistics.questions.total, partial(_draw_question_words, statistics)),
        "question-lengths": (
            statistics.questions.total,
            partial(
                _draw_histogram, statistics.questions, f"Question lengths of {statistics.name}", "questions"
            ),
        ),
        "document-lengths": (
            statistics.documents.total,
            partial(
                _draw_histogram, statistics.documents, f"Document lengths of {statistics.name}", "documents"
            ),
        ),
        "input-lengths": (statistics.inputs.total, partial(_draw_input_lengths, statistics)),
        "class-balance": (statistics.negatives, partial(_draw_class_balance, statistics)),
    }
    plots = {}
    for name, draw_axes in ((name, draw_axes) for name, (has_data, draw_axes) in draw.items() if has_data):
        with rc_context(STYLE | {"axes.grid": False, "font.size": 9, "axes.titlelocation": "left"}):
            plots[name] = Figure(figsize=(6.4, 3.6), layout="constrained")
            axes = plots[name].add_subplot()
            draw_axes(axes)
            if name != "question-words":
                axes.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
                axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
            if name in ("question-lengths", "document-lengths"):
                axes.xaxis.set_major_locator(MaxNLocator(nbins=9, integer=True))
    return plots


def _draw_question_words(statistics: CollectionStatistics, axes: Axes) -> None:
    words = list(reversed(statistics.question_words))
    bars = axes.barh([one.name for one in words], [100 * one.share for one in words], color=_BLUE, height=0.7)
    axes.bar_label(bars, [f"{100 * one.share:.1f} %" for one in words], padding=4, color=_GREY)
    axes.set_xlim(0, max(1.0, 112 * max(one.share for one in words)))
    axes.set(title=f"Question words of {statistics.name}", xlabel="share of the questions [%]")
    axes.tick_params(axis="y", length=0)


def _draw_histogram(lengths: Lengths, title: str, what: str, axes: Axes) -> None:
    bins = lengths.bins(30)
    width = bins[0][1] - bins[0][0]
    heights = [count for _, _, count in bins]
    colours = [_BLUE if high - low == width else _ORANGE for low, high, _ in bins]
    lefts = [low - 0.5 for low, _, _ in bins]  # centres the bar of a length on it
    axes.bar(lefts, heights, width=0.94 * width, align="edge", color=colours)
    last = bins[-1]
    if last[1] - last[0] != width and last[2]:
        axes.annotate(
            f"{last[2]:,} of {last[0]:,} to {last[1] - 1:,}",
            (last[0] - 0.5 + width, max(heights[-7:])), xytext=(-2, 6), textcoords="offset points",
            ha="right", color=_ORANGE,
        )  # fmt: skip
    half = lengths.quantile(0.5)
    axes.axvline(half, color=_GREY, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.annotate(
        f"median {half:,}", (half, 0.985), xycoords=("data", "axes fraction"), xytext=(4, 0),
        textcoords="offset points", color=_GREY, va="top",
    )  # fmt: skip
    axes.set(title=title, xlabel="tokens", ylabel=what, ylim=(0, 1.16 * max(heights)))


def _draw_input_lengths(statistics: CollectionStatistics, axes: Axes) -> None:
    bins = bin_inputs(statistics.inputs)
    names = [one.name for one in bins]
    bars = axes.bar(
        names, [one.count for one in bins], color=[*[_BLUE] * (len(bins) - 1), _ORANGE], width=0.75
    )
    axes.bar_label(bars, [f"{one.cumulative:.3f}" for one in bins], padding=3, color=_GREY)
    axes.margins(y=0.12)
    axes.set(
        title=f"Input lengths of {statistics.name}, with their cumulative share",
        xlabel="tokens of question and document and three more", ylabel="pairs",
    )  # fmt: skip


def _draw_class_balance(statistics: CollectionStatistics, axes: Axes) -> None:
    counts = {"relevant": statistics.positives, "not relevant": statistics.negatives}
    total = sum(counts.values())
    bars = axes.bar(list(counts), list(counts.values()), color=[_ORANGE, _BLUE], width=0.5)
    axes.bar_label(
        bars, [f"{n:,} ({100 * n / total:.1f} %)" for n in counts.values()], padding=3, color=_GREY
    )
    axes.margins(x=0.3, y=0.12)
    axes.set(title=f"Pairs of a question and a document in {statistics.name}", ylabel="pairs")
    axes.tick_params(axis="x", length=0)
