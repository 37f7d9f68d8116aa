"""Where known relevant text stands in documents, in words or tokens, and finding it by aligned passages.

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from telerank.corpus.collection import Collection
from telerank.corpus.lengths import load_tokenizer
from telerank.errors import CollectionError
from telerank.types import Answer, Doc, Progress, silent

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
    splits = {name: AlignedSplit() for name in names}
    counts = {qid: splits[homes[qid]] for qid in needed}
    sought: dict[str, list[tuple[str, str]]] = {}
    for qid, pids in needed.items():
        count = counts[qid]
        count.passages += len(pids)
        count.missing += sum(pid not in texts for pid in pids)
        for docno in dict.fromkeys(chain.from_iterable(own.get(qid, ()) for own in relevant.values())):
            sought.setdefault(docno, []).extend((qid, pid) for pid in pids)
    docs = documents.read_docs("aligning passages", progress, _MANY)
    return AlignedPassages(
        splits, sum(map(len, of_passages.values())), partial(_align, docs, texts, sought, counts)
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
