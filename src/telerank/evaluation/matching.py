"""Whether judgments and rankings name the same documents; judgments of files that are cut into passages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from telerank.errors import agree, count_noun, nearest_docno
from telerank.types import PASSAGE, Ranking, whole_docno

_NAMED = 3


def rank_files(ranking: Ranking, grades: Mapping[str, int]) -> Ranking:
    """The ranking with each file once, at the rank and score of its best passage, if files are judged.

    Files are judged if one of the docnos of ``grades`` is not that of a passage. A passage that is judged
    itself stays beside its file. Otherwise the ranking is returned as it is.
    """
    if not any(PASSAGE in docno for docno in ranking.docnos) or all(map(_is_passage, grades)):
        return ranking
    names = (docno if docno in grades else whole_docno(docno) for docno in ranking.docnos)
    best: dict[str, int] = {}
    for rank, name in enumerate(names):
        best.setdefault(name, rank)
    return Ranking.presorted(ranking.query, tuple(best), ranking.scores[[*best.values()]])


def _is_passage(docno: str) -> bool:
    return whole_docno(docno) != docno


@dataclass(frozen=True, slots=True)
class RelevantDocuments:
    """How many of the relevant documents of some queries a run has, and how many judgments are of files.

    ``first`` is a relevant document, and ``docnos`` are those of its query in the run. ``of_files`` counts
    the judgments that count for a passage of it; ``file`` is one of these files, ``passage`` the passage.
    """

    total: int = 0
    retrieved: int = 0
    first: str = ""
    of_files: int = 0
    file: str = ""
    passage: str = ""
    docnos: tuple[str, ...] = ()

    @classmethod
    def count(cls, grades: Mapping[str, int], ranking: Ranking, of_files: Ranking) -> RelevantDocuments:
        """Count the documents of a query; ``of_files`` is the ranking as :func:`rank_files` returns it."""
        relevant = {docno for docno, grade in grades.items() if grade > 0}
        retrieved = len(relevant.intersection(of_files.docnos))
        files: set[str] = set()
        if of_files is not ranking:
            files = (grades.keys() & {*of_files.docnos}) - {*ranking.docnos}
        file = min(files, default="")
        passage = next((docno for docno in ranking.docnos if files and whole_docno(docno) == file), "")
        first = min(relevant, default="")
        return cls(len(relevant), retrieved, first, len(files), file, passage, of_files.docnos)

    def __add__(self, other: RelevantDocuments) -> RelevantDocuments:
        named = self if self.file else other
        return RelevantDocuments(
            self.total + other.total,
            self.retrieved + other.retrieved,
            self.first or other.first,
            self.of_files + other.of_files,
            named.file,
            named.passage,
            self.docnos if self.first else other.docnos,
        )

    def describe(self) -> list[str]:
        """A line if none is in the run, and one if judgments of files count for passages."""
        if self.total and not self.retrieved:
            near = nearest_docno(self.first, self.docnos)
            first = f"the first is {self.first}{f'; the run has {near}' if near else ''}"
            return [f"has none of the {self.total:,} relevant documents ({first})", *self.describe_files()]
        return self.describe_files()

    def describe_files(self) -> list[str]:
        """A line if judgments of files count for passages."""
        lines = []
        if self.of_files:
            judgments = (
                "1 judgment is of a file"
                if self.of_files == 1
                else f"{self.of_files:,} judgments are of files"
            )
            lines.append(
                f"{judgments}, each counted once, at its best passage: {self.file} at {self.passage}"
            )
        return lines


class KnownDocuments(Protocol):
    """The docnos of an index or of a docstore."""

    def __contains__(self, docno: str, /) -> bool: ...

    def of_file(self, docno: str, /) -> Sequence[str]:
        """The document of a docno, or the passages of a file; none if there are none."""

    def files_and_docnos(self) -> Iterator[str]:
        """All docnos, and those of the files that passages are of."""


def describe_unmatched(judged: Iterable[str], docs: KnownDocuments, source: str, where: str) -> list[str]:
    """A line on the judged docnos that no document and no file has, and one on those that are files.

    ``source`` judges them; ``docs`` are those at ``where``. Three of those that are missing are named, with
    the nearest docno or file.
    """
    names = dict.fromkeys(judged)
    files = {docno: docs.of_file(docno) for docno in names if docno not in docs}
    lacking = [docno for docno, passages in files.items() if not passages]
    lines = []
    if lacking:
        some = f"{', '.join(_with_nearest(docno, docs) for docno in lacking[:_NAMED])}"
        more = " …" if len(lacking) > _NAMED else ""
        count = f"{len(lacking):,} of {count_noun(len(names), 'document')} judged in {source}"
        lines.append(f"{count} {agree(len(lacking), 'is', 'are')} not in {where}: {some}{more}")
    if judged_files := [docno for docno, passages in files.items() if passages]:
        first = judged_files[0]
        count = f"{len(judged_files):,} of {count_noun(len(names), 'document')} judged in {source}"
        kind = agree(len(judged_files), "is a file", "are files, each")
        example = f"{first} for passages such as {files[first][0]}"
        lines.append(f"{count} {kind} counted once, at its best passage: {example}")
    return lines


def _with_nearest(docno: str, docs: KnownDocuments) -> str:
    near = nearest_docno(docno, docs.files_and_docnos())
    return f"{docno} (did you mean {near}?)" if near else docno
