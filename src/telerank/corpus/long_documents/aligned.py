"""Known relevant text of documents from a collection of passages, aligned by query and content.

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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from telerank.corpus.collection import Collection
from telerank.errors import CollectionError
from telerank.types import Answer, Progress, silent

_WORD = re.compile(r"\w+")
_STEP = 10_000  # documents between two calls of progress


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
    """Aligns as :attr:`answers` are read, once; ``splits`` counts what became of each split until then.

    ``every`` is the number of relevant pairs in the collection of passages, of any query.
    """

    splits: Mapping[str, AlignedSplit]
    every: int
    _documents: Collection
    _texts: Mapping[str, str]
    _sought: Mapping[str, Sequence[tuple[str, str]]]
    _homes: Mapping[str, str]
    _progress: Progress = silent
    _aligned: set[tuple[str, str]] = field(default_factory=set)

    def answers(self) -> Iterator[Answer]:
        """The places of the passages in the documents, in the order of the documents."""
        for number, doc in enumerate(self._documents.docs(), 1):
            if number % _STEP == 0:
                self._progress("aligning passages", number, self._documents.size)
            if sought := self._sought.get(doc.docno):
                text = _WordSequence.of(doc.text)
                for qid, pid in sought:
                    spans = list(text.find(self._texts.get(pid, "")))
                    if spans and (qid, pid) not in self._aligned:
                        self._aligned.add((qid, pid))
                        self.splits[self._homes[qid]].aligned += 1
                    for start, end in spans:
                        yield Answer(qid, doc.docno, doc.text[start:end], start)


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
    relevant = {name: _relevant(documents, [name]) for name in names}
    homes = {qid: name for name, own in reversed(relevant.items()) for qid in own}
    of_passages = _relevant(passages, list(passages.qrels))
    needed = {qid: pids for qid, pids in of_passages.items() if qid in homes}
    if not needed:
        raise CollectionError(
            f"{documents.name} and {passages.name}: no query has a relevant document and a relevant passage; "
            "are these the same queries?"
        )
    texts = _read_words(passages, set(chain.from_iterable(needed.values())), progress)
    counts = {name: AlignedSplit() for name in names}
    sought: dict[str, list[tuple[str, str]]] = {}
    for qid, pids in needed.items():
        count = counts[homes[qid]]
        count.passages += len(pids)
        count.missing += sum(pid not in texts for pid in pids)
        docnos = dict.fromkeys(chain.from_iterable(own.get(qid, ()) for own in relevant.values()))
        for docno in docnos:
            sought.setdefault(docno, []).extend((qid, pid) for pid in pids)
    every = sum(map(len, of_passages.values()))
    return AlignedPassages(counts, every, documents, texts, sought, homes, progress)


def _relevant(collection: Collection, splits: Iterable[str]) -> dict[str, list[str]]:
    """The relevant documents of each query of these splits, each once."""
    relevant: dict[str, dict[str, None]] = {}
    for split in splits:
        for qrel in collection.split_qrels(split):
            if qrel.grade >= collection.relevant_from:
                relevant.setdefault(qrel.qid, {})[qrel.docno] = None
    return {qid: list(docnos) for qid, docnos in relevant.items()}


def _read_words(passages: Collection, needed: set[str], progress: Progress) -> dict[str, str]:
    texts = {}
    for number, doc in enumerate(passages.docs(), 1):
        if number % _STEP == 0:
            progress("reading passages", number, passages.size)
        if doc.docno in needed:
            texts[doc.docno] = _WordSequence.of(doc.text).joined.strip()
    return texts


@dataclass(frozen=True)
class _WordSequence:
    """A text as its words between blanks; ``spans`` are where they stand."""

    joined: str
    spans: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, text: str) -> _WordSequence:
        matches = list(_WORD.finditer(text))
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
