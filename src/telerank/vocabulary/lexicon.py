"""The words and titles of an index as they are written, with the documents that have them.

The terms of an index are stems; what is offered to people is taken from its texts. They are read when words
are first needed, once for each segment, which never changes; the result is kept in the user's cache. A folder
``words`` and a folder ``titles`` have each:

===============  ==================================================================================
``terms.*``      the entries in order: without accents and case, a NUL, as it is written
``begins.npy``   int64 (entries + 1,): where the rows of each entry begin
``rows.npy``     int32 (n,): the documents that have it, ascending
===============  ==================================================================================

An entry counts the documents that are searched: one that only deleted documents have is not offered. Whoever
hides further documents gives their marks to :class:`Lexicon`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from telerank.drafts import cached_folder
from telerank.sparse.index import SegmentEntry, SparseIndex
from telerank.sparse.inverted.terms import Terms, write_terms
from telerank.sparse.segment import Segment
from telerank.stored import map_npy
from telerank.text.steps import fold_accents
from telerank.types import Progress, silent

# Characters of a segment whose words are read, in documents that are spread evenly over it; documents whose
# titles are.
CHARACTERS, TITLES = 1 << 24, 1 << 20
LONGEST_WORD, LONGEST_TITLE = 40, 120  # characters; longer ones are left out
WORD = re.compile(r"[^\W\d_]+")
_FORMAT = 1
_APOSTROPHES = str.maketrans("’ʼ", "''")

Marks = npt.NDArray[np.bool_]


def fold(text: str) -> str:
    """A text without accents, case, typographic apostrophes, and blanks that are more than one."""
    bare = fold_accents(unicodedata.normalize("NFC", text).casefold())
    return " ".join(bare.translate(_APOSTROPHES).split())


def split_words(text: str) -> Iterator[re.Match[str]]:
    """The words of a text: runs of letters."""
    return WORD.finditer(text)


class Entry(NamedTuple):
    """A word or a title, and how many documents have it."""

    text: str
    documents: int


class Entries:
    """The words, or the titles, of one segment; ``live`` (documents,) marks the documents that count."""

    def __init__(self, folder: Path, live: Marks) -> None:
        self._terms = Terms(folder)
        self._begins, self._rows = map_npy(folder / "begins.npy", "q"), map_npy(folder / "rows.npy", "i")
        self._live = live

    @cached_property
    def counts(self) -> npt.NDArray[np.int64]:
        """How many documents that count have each entry."""
        sums = np.concatenate([[0], np.cumsum(self._live[self._rows])])
        return np.asarray(np.diff(sums[self._begins]))

    def starting(self, prefix: str, most: int) -> list[Entry]:
        """The entries that start with a folded prefix, those of most documents first, then the shortest."""
        first, last = (bisect_left(self._terms, key) for key in (prefix, f"{prefix}\U0010ffff"))
        counts = self.counts[first:last]
        best = np.argsort(-counts, kind="stable")[:most].tolist()
        return [self._entry(first + n) for n in best if counts[n]]

    def _entry(self, number: int) -> Entry:
        return Entry(self._terms[number].partition("\0")[2], int(self.counts[number]))

    def __iter__(self) -> Iterator[Entry]:
        return (self._entry(number) for number in np.flatnonzero(self.counts).tolist())


class Lexicon:
    """The words and titles of an index, of the documents that are searched.

    ``hidden`` marks further documents of each segment whose words are not offered.
    """

    def __init__(
        self, index: SparseIndex, hidden: Sequence[Marks] | None = None, progress: Progress = silent
    ) -> None:
        self._words, self._titles = [], []
        for number, (segment, entry) in enumerate(zip(index.segments, index.manifest.segments, strict=True)):
            live = np.ones(len(segment), np.bool_)
            for marks in (segment.deleted, *([] if hidden is None else [hidden[number]])):
                if len(marks):
                    live &= ~marks
            folder = cached_folder("words", _key(entry), partial(_write, segment=segment, progress=progress))
            self._words.append(Entries(folder / "words", live))
            self._titles.append(Entries(folder / "titles", live))

    def words_starting(self, prefix: str, most: int) -> list[Entry]:
        """The words that start with a folded prefix, the most frequent first."""
        return _join(each.starting(prefix, most) for each in self._words)[:most]

    def titles_starting(self, prefix: str, most: int) -> list[Entry]:
        """The titles that start with a folded prefix, those of most documents first."""
        return _join(each.starting(prefix, most) for each in self._titles)[:most]

    @cached_property
    def words(self) -> dict[str, int]:
        """How many documents have each word."""
        counts: dict[str, int] = defaultdict(int)
        for word, documents in (entry for each in self._words for entry in each):
            counts[word] += documents
        return dict(counts)

    @cached_property
    def forms(self) -> dict[int, dict[str, list[str]]]:
        """The words by what they are without accents, by the length of that."""
        forms: dict[int, dict[str, list[str]]] = defaultdict(dict)
        for word in self.words:
            bare = fold(word)
            forms[len(bare)].setdefault(bare, []).append(word)
        return dict(forms)


_lexicons: WeakKeyDictionary[SparseIndex, Lexicon] = WeakKeyDictionary()


def open_lexicon(index: SparseIndex, progress: Progress = silent) -> Lexicon:
    """The words and titles of an index, which are read once."""
    if index not in _lexicons:
        _lexicons[index] = Lexicon(index, progress=progress)
    return _lexicons[index]


def _join(lists: Iterable[list[Entry]]) -> list[Entry]:
    """The entries of all segments, those of most documents first; of as many the shortest."""
    counts: dict[str, int] = defaultdict(int)
    for text, documents in (entry for entries in lists for entry in entries):
        counts[text] += documents
    return sorted(
        (Entry(*pair) for pair in counts.items()), key=lambda e: (-e.documents, len(e.text), e.text)
    )


def _key(entry: SegmentEntry) -> str:
    """Names the documents of a segment, and how they are read."""
    marks = (entry.deleted, entry.copies)  # which change
    files = sorted((name, file.crc32) for name, file in entry.files.items() if name not in marks)
    record = json.dumps([_FORMAT, CHARACTERS, TITLES, entry.documents, files])
    return blake2b(record.encode(), digest_size=16).hexdigest()


def _write(folder: Path, segment: Segment, progress: Progress) -> None:
    words: dict[str, list[int]] = defaultdict(list)
    titles: dict[str, list[int]] = defaultdict(list)
    documents = len(segment)
    texts = _spread(segment, documents)
    step = max(-(-documents // TITLES), 1)
    for row in range(0, documents, step):
        title = " ".join(segment.docs.get_row(row).title.split())
        if title and len(title) <= LONGEST_TITLE:
            titles[title].append(row)
        if row % 10_000 == 0:
            progress("reading titles", row, documents)
    for row in texts:
        text = unicodedata.normalize("NFC", segment.docs.get_row(row).full_text[:CHARACTERS]).casefold()
        for word in {match[0] for match in split_words(text)}:
            if len(word) <= LONGEST_WORD:
                words[word].append(row)
        if row % 1000 == 0:
            progress("reading words", row, documents)
    for name, entries in (("words", words), ("titles", titles)):
        (folder / name).mkdir()
        _write_entries(folder / name, entries)


def _spread(segment: Segment, documents: int) -> range:
    """The rows whose words are read: all, or as many as have about :data:`CHARACTERS` characters."""
    if not documents:
        return range(0)
    probes = range(0, documents, max(documents // 200, 1))
    mean = sum(len(segment.docs.get_row(row).full_text) for row in probes) / len(probes)
    return range(0, documents, max(int(-(-mean * documents // CHARACTERS)), 1))


def _write_entries(folder: Path, entries: dict[str, list[int]]) -> None:
    ordered = sorted((f"{fold(text)}\0{text}", text) for text in entries)
    write_terms(folder, (key for key, _ in ordered))
    rows = [entries[text] for _, text in ordered]
    np.save(folder / "begins.npy", np.cumsum([0, *map(len, rows)], dtype=np.int64))
    np.save(folder / "rows.npy", np.array([row for each in rows for row in each], np.int32))
