"""Statistics of a collection, as in section 5.3 of the Piaf report.

Question words (its table 3), lengths of questions and documents (figures 7 and 8), lengths of the inputs of a
cross-encoder (table 4) and the balance of classes (figure 9).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import accumulate, count, pairwise
from pathlib import Path
from textwrap import shorten
from typing import Any, TypeAlias

from telerank.corpus.collection import Collection
from telerank.corpus.ranking_sets.qa import WORDS, normalise
from telerank.errors import FormatError, MissingExtra
from telerank.show.report import Report
from telerank.show.tables import Table
from telerank.types import Progress, Query, silent

Counting: TypeAlias = Callable[[str], int]
"""The number of tokens of a text."""

QUANTILES = {"min": 0.0, "5 %": 0.05, "median": 0.5, "95 %": 0.95, "99 %": 0.99, "max": 1.0}
"""The quantiles of lengths that are shown, by name."""

SPECIALS = 3
"""Number of tokens that a cross-encoder adds: [CLS] question [SEP] document [SEP]."""
EDGES = (112, 212, 312, 412, 512)
"""Edges of the report's table 4: each is excluded from the bin below it, except the last."""
REACH = 3
"""Number of first words that may be the question word: "in what year", "de la part de qui"."""
OTHERS = "others"
_EXAMPLE = 44  # characters of a question
_BAR = 40  # cells of the longest bar
_EIGHTHS: tuple[str, ...] = ("", *"▏▎▍▌▋▊▉")

_QUE = "que qu quel quelle quels quelles lequel laquelle lesquels lesquelles auquel auxquels auxquelles"
QUESTION_WORDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "french": {"Que": (*_QUE.split(), "duquel", "desquels", "desquelles")}
    | {word: (word.lower(),) for word in ("Qui", "Combien", "Quand", "Où", "Comment", "Pourquoi", "quoi")},
    "english": {"What": ("what",), "Who": ("who", "whom", "whose"), "How many": ("how many", "how much")}
    | {word: (word.lower(),) for word in ("When", "Where", "How", "Why", "Which")},
}
"""For each language the rows of the table and their forms, case-folded.

"Que" includes the forms of quel and lequel: this gives half of the questions, as in the report.
"""


@dataclass(frozen=True, slots=True)
class QuestionWord:
    """The questions with one question word: their count, share (0 to 1) and the first as an example."""

    name: str
    count: int
    share: float
    example: str


@dataclass(frozen=True, eq=False)
class Lengths:
    """Number of texts by length in tokens, lengths ascending."""

    counts: Mapping[int, int]

    @classmethod
    def of(cls, lengths: Iterable[int]) -> Lengths:
        return cls(dict(sorted(Counter(lengths).items())))

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def mean(self) -> float:
        return sum(length * count for length, count in self.counts.items()) / (self.total or 1)

    def quantile(self, q: float) -> int:
        """The least length such that at least the share ``q`` of the texts is no longer; 0 without texts."""
        reached = zip(self.counts, accumulate(self.counts.values()), strict=True)
        return next((length for length, below in reached if below >= q * self.total), 0)

    def quantiles(self) -> dict[str, int]:
        """The :data:`QUANTILES` by name."""
        return {name: self.quantile(q) for name, q in QUANTILES.items()}

    def record(self) -> dict[str, Any]:
        """Count, mean, quantiles and histogram, ready for JSON."""
        return {
            "count": self.total,
            "mean": self.mean,
            "quantiles": self.quantiles(),
            "histogram": {str(length): count for length, count in self.counts.items()},
        }

    def bins(self, most: int = 20) -> list[tuple[int, int, int]]:
        """At most ``most`` bins of equal, round width: ``(low, high, count)``, ``high`` excluded.

        They range from the shortest to the 99th percentile; the last bin has all longer texts.
        """
        if not self.total:
            return []
        widths = (unit * 10**power for power in count() for unit in (1, 2, 5))
        low, high, longest = min(self.counts), self.quantile(0.99), max(self.counts)
        width = next(width for width in widths if high // width - low // width + 1 < most)
        edges = [*range(low // width * width, (high // width + 1) * width + 1, width)]
        edges += [longest + 1] if longest >= edges[-1] else []
        return [
            (low, high, sum(count for length, count in self.counts.items() if low <= length < high))
            for low, high in pairwise(edges)
        ]

    def table(self, what: str) -> Table:
        """The :meth:`bins` with a bar in eighths of a cell, at least one for a count above 0."""
        bins = self.bins()
        longest = max(texts for _, _, texts in bins)
        rows = []
        for low, high, texts in bins:
            eighths = round(8 * _BAR * texts / longest) or (texts > 0)
            bar = "█" * (eighths // 8) + _EIGHTHS[eighths % 8]
            rows.append([f"{low:,}" if high == low + 1 else f"{low:,}–{high - 1:,}", bar, f"{texts:,}"])
        return Table.of(("tokens", "", what), rows, caption=f"lengths of {what}", left=2)


@dataclass(frozen=True, slots=True)
class InputBin:
    """A column of table 4; ``cumulative`` is from 0 to 1."""

    name: str
    count: int
    cumulative: float


@dataclass(frozen=True, eq=False)
class CollectionStatistics(Report):
    """The statistics of a collection, or of some of its splits."""

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

    @property
    def title(self) -> str:
        return f"Statistics of {self.name}"

    def tables(self) -> list[Table]:
        """Lengths, question words, histograms of lengths and lengths of inputs, as far as there are any."""
        questions = [self._words_table(), self.questions.table("questions")] if self.questions.total else []
        documents = [self.documents.table("documents")] if self.documents.total else []
        inputs = [self._inputs_table()] if self.inputs.total else []
        return [self._lengths_table(), *questions, *documents, *inputs]

    def _lengths_table(self) -> Table:
        known = {"documents": self.documents, "questions": self.questions, "inputs": self.inputs}
        rows = [
            [what, f"{own.total:,}", f"{own.mean:,.1f}", *(f"{n:,}" for n in own.quantiles().values())]
            for what, own in known.items()
            if own.total
        ]
        notes = [f"{self.unique_questions:,} of {self.questions.total:,} questions differ in their words"]
        if pairs := self.positives + self.negatives:
            share = f"{self.positives:,} relevant ({100 * self.positives / pairs:.1f} %)"
            notes.append(f"{pairs:,} pairs of a question and a document: {share}, {self.negatives:,} not")
        if repaired := [f"{what.replace('_', ' ')} {n:,}" for what, n in self.notes.items() if n]:
            notes.append(f"notes of the reader: {', '.join(repaired)}")
        caption = f"{self.name}  splits: {', '.join(self.splits) or 'none'}"
        columns = ("lengths in tokens", "count", "mean", *QUANTILES)
        return Table.of(columns, rows, caption=caption, notes=notes[not self.questions.total :])

    def _words_table(self) -> Table:
        rows = [
            [word.name, example, f"{word.count:,}", f"{100 * word.share:.1f}"]
            for word in self.question_words
            for example in [shorten(word.example, _EXAMPLE, placeholder=" …")]
        ]
        caption = f"question words ({self.language})"
        return Table.of(("word", "example", "questions", "%"), rows, caption=caption, left=2)

    def _inputs_table(self) -> Table:
        bins = bin_inputs(self.inputs)
        frequency = ["frequency", *(f"{column.count:,}" for column in bins)]
        cumulative = ["cumulative", *(f"{column.cumulative:.3f}" for column in bins)]
        caption = f"lengths of inputs: question, document and {SPECIALS} special tokens"
        columns = ("tokens", *(column.name for column in bins))
        return Table.of(columns, [frequency, cumulative], caption=caption)

    def save_plots(self, folder: str | Path, *, format: str = "png") -> list[Path]:  # noqa: A002
        """Save every plot with data as png, svg or pdf; the files."""
        from telerank.corpus.statistics_plots import save_plots

        return save_plots(self, folder, format=format)

    def record(self) -> dict[str, Any]:
        words = [asdict(word) for word in self.question_words]
        bins = [asdict(column) for column in bin_inputs(self.inputs)]
        return {
            "name": self.name,
            "splits": self.splits,
            "documents": self.documents.record(),
            "questions": self.questions.record() | {"different": self.unique_questions},
            "question_words": {"language": self.language, "kinds": words},
            "inputs": self.inputs.record() | {"bins": bins},
            "pairs": {"relevant": self.positives, "not_relevant": self.negatives},
            "notes": dict(self.notes),
        }


def token_counter(analyzer: str = "standard", tokenizer: str | Path | None = None) -> Counting:
    """A function that counts the terms of an analyzer, or the tokens of a ``tokenizer.json``.

    Raises AnalyzerError or FormatError if it cannot be read, MissingExtra without the package ``tokenizers``.
    """
    if tokenizer is None:
        from telerank.text import Analyzer

        chain = Analyzer.parse(analyzer)
        return lambda text: len(chain(text))
    try:
        library = import_module("tokenizers")
    except ImportError as error:
        raise MissingExtra("tokenizers", "neural") from error
    try:
        pieces = library.Tokenizer.from_str(Path(tokenizer).read_text("utf-8"))
    except Exception as error:  # the library raises nothing narrower
        raise FormatError(tokenizer, None, f"a tokenizer.json ({error})") from error
    return lambda text: len(pieces.encode(text, add_special_tokens=False))


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
    length. ``language`` defaults to the one in which more question words are recognised.
    """
    names = collection.splits if splits is None else tuple(map(collection.resolve_split, splits))
    streams = (collection.queries.get(split, tuple) for split in names)
    queries: dict[str, Query] = {query.qid: query for stream in streams for query in stream()}
    question_lengths = {qid: count(query.text) for qid, query in queries.items()}
    pairs = read_pairs(collection, names)
    paired = {docno for docnos in pairs.values() for docno in docnos}
    texts: Counter[int] = Counter()
    lengths: dict[str, int] = {}
    for done, doc in enumerate(collection.docs()):
        length = count(doc.full_text)
        texts[length] += 1
        if doc.docno in paired:
            lengths[doc.docno] = length
        if done % 1000 == 0:
            progress("counting tokens", done, collection.size)
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
    )


def count_question_words(
    questions: Iterable[str], language: str | None = None
) -> tuple[tuple[QuestionWord, ...], str]:
    """Count questions by question word: the table and its language, by default the one that recognises more.

    The word of a question is the first of :data:`QUESTION_WORDS` among its first :data:`REACH` words.
    """
    texts = list(questions)
    if language is not None and language not in QUESTION_WORDS:
        raise ValueError(f"question words are known in {', '.join(QUESTION_WORDS)}, not in {language!r}")
    tables = [_table(texts, name) for name in ([language] if language else QUESTION_WORDS)]
    return min(tables, key=lambda table: table[0][-1].count)


def _table(texts: list[str], language: str) -> tuple[tuple[QuestionWord, ...], str]:
    forms = {form: name for name, forms in QUESTION_WORDS[language].items() for form in forms}
    questions: dict[str, list[str]] = {name: [] for name in (*QUESTION_WORDS[language], OTHERS)}
    for text in texts:
        questions[_find_question_word(text, forms)].append(text)
    rows = (
        QuestionWord(name, len(own), len(own) / len(texts) if texts else 0.0, own[0] if own else "")
        for name, own in questions.items()
    )
    return tuple(rows), language


def _find_question_word(text: str, forms: Mapping[str, str]) -> str:
    words = WORDS.findall(text.casefold())[: REACH + 1]
    for position, word in enumerate(words[:REACH]):
        name = forms.get(" ".join(words[position : position + 2])) or forms.get(word)
        if name:
            return name
    return OTHERS


def bin_inputs(inputs: Lengths) -> list[InputBin]:
    """The bins of table 4: ``[0,112[ … [412,512] +512``; models cut inputs longer than the last edge."""
    *halves, last = pairwise((0, *EDGES))
    names = [*(f"[{low},{high}[" for low, high in halves), f"[{last[0]},{last[1]}]", f"+{last[1]}"]
    longest = [*(high - 1 for _, high in halves), last[1]]
    below = [sum(n for length, n in inputs.counts.items() if length <= most) for most in longest]
    return [
        InputBin(name, high - low, high / (inputs.total or 1))
        for name, (low, high) in zip(names, pairwise((0, *below, inputs.total)), strict=True)
    ]


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
