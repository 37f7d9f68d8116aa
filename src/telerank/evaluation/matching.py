"""Whether judgments and rankings name the same documents: docnos of the one that the other has not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from telerank.errors import agree, count_noun
from telerank.types import PASSAGE, Qrels, whole_docno

_NAMED = 3
_ADVICE = 'judge passages, or index the files whole (format="whole-documents")'


@dataclass(frozen=True, slots=True)
class RelevantDocuments:
    """How many of the relevant documents of some queries a run has, and of how many it has passages alone.

    ``first`` is a relevant document, ``passage`` one of the passages.
    """

    total: int = 0
    retrieved: int = 0
    only_passages: int = 0
    first: str = ""
    passage: str = ""

    @classmethod
    def count(cls, qrels: Qrels, run: Mapping[str, Mapping[str, float]]) -> RelevantDocuments:
        """Count the relevant documents of the queries of ``run[qid][docno]``."""
        counts = cls()
        for qid, scores in run.items():
            relevant = {docno for docno, grade in qrels[qid].items() if grade > 0}
            lacking = relevant - scores.keys()
            passages = {whole_docno(docno): docno for docno in scores if PASSAGE in docno} if lacking else {}
            cut = lacking & passages.keys()
            passage = passages[min(cut)] if cut else ""
            counts += cls(
                len(relevant), len(relevant) - len(lacking), len(cut), min(relevant, default=""), passage
            )
        return counts

    def __add__(self, other: RelevantDocuments) -> RelevantDocuments:
        return RelevantDocuments(
            self.total + other.total,
            self.retrieved + other.retrieved,
            self.only_passages + other.only_passages,
            self.first or other.first,
            self.passage or other.passage,
        )

    def describe(self) -> list[str]:
        """A line if none is in the run, and one if passages count as not relevant."""
        lines = []
        if self.total and not self.retrieved:
            lines.append(f"has none of the {self.total:,} relevant documents (the first is {self.first})")
        if self.only_passages:
            has = f"has only passages of {self.only_passages:,} relevant documents, such as {self.passage}"
            lines.append(f"{has}: they count as not relevant; {_ADVICE}")
        return lines


def describe_unmatched(
    judged: Iterable[str], has: Callable[[str], bool], source: str, where: str
) -> list[str]:
    """A line that counts the judged docnos that no document has, and names the first; none if all have one.

    ``source`` judges them; ``has`` tells whether the documents at ``where`` have a docno.
    """
    names = dict.fromkeys(judged)
    lacking = [docno for docno in names if not has(docno)]
    if not lacking:
        return []
    some = f"{', '.join(lacking[:_NAMED])}{' …' if len(lacking) > _NAMED else ''}"
    line = (
        f"{len(lacking):,} of {count_noun(len(names), 'document')} that {source} judges "
        f"{agree(len(lacking), 'is', 'are')} not in {where}: {some}"
    )
    passages = (f"{docno}{PASSAGE}1" for docno in lacking)
    if passage := next((name for name in passages if has(name)), ""):
        line += f"; it has passages of them, such as {passage}: {_ADVICE}"
    return [line]
