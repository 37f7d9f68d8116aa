"""Lengths of texts in tokens, and where known relevant text stands in them, in words or tokens.

MS MARCO's document ranking was made of its passage ranking: a document is relevant to a query if it had a
relevant passage of the query when both were collected. Which one, and where, its files do not say. Here each
relevant passage of a query is sought in the query's relevant documents, so that its place becomes an answer
(:mod:`telerank.corpus.answers`): from these BERT (Gold P) learns, and P@1 of segments is measured (BeST,
section 4: "aligning relevant passages to documents dataset by query IDs and contents").

Texts are compared by their words, letters and digits in lower case: blanks, line ends and punctuation do not
count. A passage that stands in a document several times has an answer at each place. Documents have changed
since, and passages were cut out of them by a program, so that many are not found: BeST used 58 % of them.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import accumulate, chain, count, pairwise
from pathlib import Path
from typing import Any, TypeAlias

from telerank.corpus.collection import Collection
from telerank.errors import CollectionError, FormatError, MissingExtra
from telerank.show.tables import Table
from telerank.types import Answer, Doc, Progress, silent

# The number of tokens of a text.
Counting: TypeAlias = Callable[[str], int]

# The quantiles of lengths that are shown, by name.
QUANTILES = {"min": 0.0, "5 %": 0.05, "median": 0.5, "95 %": 0.95, "99 %": 0.99, "max": 1.0}

# Number of tokens that a cross-encoder adds: [CLS] question [SEP] document [SEP].
SPECIALS = 3
# Edges of the report's table 4: each is excluded from the bin below it, except the last.
EDGES = (112, 212, 312, 412, 512)
_BAR = 40  # cells of the longest bar
_EIGHTHS: tuple[str, ...] = ("", *"▏▎▍▌▋▊▉")


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


def token_counter(analyzer: str = "standard", tokenizer: str | Path | None = None) -> Counting:
    """A function that counts the terms of an analyzer, or the tokens of a ``tokenizer.json``.

    Raises AnalyzerError or FormatError if it cannot be read, MissingExtra without the package ``tokenizers``.
    """
    if tokenizer is None:
        from telerank.text import Analyzer

        chain = Analyzer.parse(analyzer)
        return lambda text: len(chain(text))
    pieces = load_tokenizer(Path(tokenizer))
    return lambda text: len(pieces.encode(text, add_special_tokens=False))


def load_tokenizer(path: Path) -> Any:
    """The tokenizer of a ``tokenizer.json``.

    Raises FormatError if it cannot be read, MissingExtra without the package ``tokenizers``.
    """
    try:
        library = import_module("tokenizers")
    except ImportError as error:
        raise MissingExtra("tokenizers", "neural") from error
    try:
        return library.Tokenizer.from_str(path.read_text("utf-8"))
    except Exception as error:  # the library raises nothing narrower
        raise FormatError(path, None, f"a tokenizer.json ({error})") from error


# The begin and the end of each token of a text, in characters, ascending.
TokenSpans: TypeAlias = Callable[[str], Sequence[tuple[int, int]]]
_WORD = re.compile(r"\S+")
_STEP = 100  # documents between two calls of progress


@dataclass(frozen=True, slots=True)
class RelevantPosition:
    """The first known relevant text of a pair: tokens ``before`` it, its ``end``, the document's ``length``.

    Of several answers it is the one that ends first; a model that reads the first ``end`` tokens reads it
    whole.
    """

    qid: str
    docno: str
    before: int
    end: int
    length: int


def word_spans(text: str) -> list[tuple[int, int]]:
    """The words of a text: what stands between blanks."""
    return [word.span() for word in _WORD.finditer(text)]


def tokenizer_spans(path: str | Path) -> TokenSpans:
    """The tokens of a ``tokenizer.json``, or of the one in a folder.

    Raises FormatError if it cannot be read, MissingExtra without the package ``tokenizers``.
    """
    tokenizer = load_tokenizer(Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: [tuple(span) for span in tokenizer.encode(text, add_special_tokens=False).offsets]


def find_positions(
    collection: Collection,
    splits: Sequence[str] | None = None,
    *,
    spans: TokenSpans = word_spans,
    progress: Progress = silent,
) -> Iterator[RelevantPosition]:
    """The position of each pair of a query and a document that has answers, document by document.

    ``splits`` default to all that have answers. Each document is tokenised once; memory holds the answers.

    Raises
    ------
    CollectionError
        If the splits have no answers, or a document does not exist or lacks an answer at its offset.
    """
    names = tuple(collection.answers) if splits is None else tuple(splits)
    answers: dict[str, dict[str, list[Answer]]] = {}
    for name in names:
        for answer in collection.answers.get(name, tuple)():
            answers.setdefault(answer.docno, {}).setdefault(answer.qid, []).append(answer)
    if not answers:
        raise CollectionError(f"{collection.name} has no answers in {', '.join(names) or 'any split'}")
    for doc in collection.read_docs("positions of answers", progress, _STEP):
        own = answers.pop(doc.docno, {})
        tokens = spans(doc.text) if own else ()
        begins, ends = [begin for begin, _ in tokens], [end for _, end in tokens]
        for qid, some in own.items():
            for answer in some:
                check_answer(answer, doc.text)
            first = min(some, key=lambda answer: answer.end)
            yield RelevantPosition(
                qid,
                doc.docno,
                bisect_left(ends, first.start + 1),  # tokens that end before it
                bisect_left(begins, first.end),  # tokens that begin before its end
                len(tokens),
            )
    if answers:
        raise CollectionError(
            f"{collection.name} has answers in {next(iter(answers))!r}, but no such document"
        )


def check_answer(answer: Answer, text: str) -> None:
    """Raise CollectionError if an answer does not stand at its offset in the document's text."""
    if not text.startswith(answer.text, answer.start):
        problem = f"does not have the answer of query {answer.qid} at character {answer.start:,}"
        raise CollectionError(f"document {answer.docno!r} {problem}: {answer.text[:60]!r}")


def share_beyond(positions: Iterable[RelevantPosition], limits: Iterable[int]) -> dict[int, float]:
    """For each limit the share of pairs whose relevant text is not whole within the first ``limit`` tokens.

    NaN without pairs.
    """
    ends = sorted(position.end for position in positions)
    return {limit: 1 - bisect_left(ends, limit + 1) / len(ends) if ends else float("nan") for limit in limits}


_LETTERS = re.compile(r"\w+")
_MANY = 10_000  # documents, or passages, between two calls of progress


@dataclass
class AlignedSplit:
    """Counts of a split: of its ``passages``, pairs of a query that has a relevant document and a relevant
    passage, ``missing`` have no text in the collection of passages, ``aligned`` are in a document.
    """

    passages: int = 0
    missing: int = 0
    aligned: int = 0

    @property
    def share(self) -> float | None:
        """The share that is aligned; None without passages."""
        return self.aligned / self.passages if self.passages else None


@dataclass
class AlignedPassages:
    """Aligns as ``answers`` are read, once; ``splits`` counts what became of each split until then.

    ``every`` is the number of relevant pairs in the collection of passages, of any query. ``answers`` are the
    places of the passages in the documents, in the order of the documents.
    """

    splits: Mapping[str, AlignedSplit]
    every: int
    answers: Callable[[], Iterator[Answer]]


def align_passages(
    documents: Collection,
    passages: Collection,
    splits: Sequence[str] = (),
    *,
    progress: Progress = silent,
) -> AlignedPassages:
    """Prepare the alignment of relevant passages with documents of ``splits``, by default of all with qrels.

    The two collections name queries alike; how they name splits does not matter. A query of several splits
    counts in the first one. In memory are the qrels and the words of the relevant passages of these queries;
    documents are read one by one.

    Raises
    ------
    CollectionError
        If no query of these splits has a relevant document and a relevant passage.
    """
    names = list(splits) or list(documents.qrels)
    relevant = {name: documents.relevant([name]) for name in names}
    homes = {qid: name for name, own in reversed(relevant.items()) for qid in own}
    of_passages = passages.relevant(passages.qrels)
    needed = {qid: pids for qid, pids in of_passages.items() if qid in homes}
    if not needed:
        raise CollectionError(
            f"{documents.name} and {passages.name}: no query has a relevant document and a relevant passage; "
            "are these the same queries?"
        )
    passage_ids = {*chain.from_iterable(needed.values())}
    texts = {
        doc.docno: _WordSequence.of(doc.text).joined.strip()
        for doc in passages.read_docs("reading passages", progress, _MANY)
        if doc.docno in passage_ids
    }
    of_splits = {name: AlignedSplit() for name in names}
    counts = {qid: of_splits[homes[qid]] for qid in needed}
    sought: dict[str, list[tuple[str, str]]] = {}
    for qid, pids in needed.items():
        count = counts[qid]
        count.passages += len(pids)
        count.missing += sum(pid not in texts for pid in pids)
        for docno in dict.fromkeys(chain.from_iterable(own.get(qid, ()) for own in relevant.values())):
            sought.setdefault(docno, []).extend((qid, pid) for pid in pids)
    docs = documents.read_docs("aligning passages", progress, _MANY)
    return AlignedPassages(
        of_splits, sum(map(len, of_passages.values())), partial(_align, docs, texts, sought, counts)
    )


def _align(
    docs: Iterable[Doc],
    texts: Mapping[str, str],
    sought: Mapping[str, Sequence[tuple[str, str]]],
    counts: Mapping[str, AlignedSplit],
) -> Iterator[Answer]:
    aligned: set[tuple[str, str]] = set()
    for doc in docs:
        if pairs := sought.get(doc.docno):
            text = _WordSequence.of(doc.text)
            for qid, pid in pairs:
                spans = list(text.find(texts.get(pid, "")))
                if spans and (qid, pid) not in aligned:
                    aligned.add((qid, pid))
                    counts[qid].aligned += 1
                for start, end in spans:
                    yield Answer(qid, doc.docno, doc.text[start:end], start)


@dataclass(frozen=True)
class _WordSequence:
    """A text as its words between blanks; ``spans`` are where they stand."""

    joined: str
    spans: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, text: str) -> _WordSequence:
        matches = list(_LETTERS.finditer(text))
        joined = " ".join(match[0].casefold() for match in matches)
        return cls(f" {joined} ", [match.span() for match in matches])

    def find(self, words: str) -> Iterator[tuple[int, int]]:
        """The spans of the text with these words, between blanks, one after the other; none of no words."""
        needle = f" {words} "
        at = self.joined.find(needle) if words else -1
        while at >= 0:
            first = self.joined.count(" ", 0, at)
            yield self.spans[first][0], self.spans[first + words.count(" ")][1]
            at = self.joined.find(needle, at + len(needle) - 1)
