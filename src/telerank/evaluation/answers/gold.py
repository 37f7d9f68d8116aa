"""Gold answers: what answers are measured against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from telerank.types import Answer, Query


@dataclass(frozen=True)
class GoldAnswers:
    """Questions by id, and the texts of their answers, of which a prediction may equal any.

    A question without answers is unanswerable: no answer is right. ``paragraphs`` names, of some questions,
    the documents that hold an answer.
    """

    questions: Mapping[str, str]
    answers: Mapping[str, tuple[str, ...]]
    paragraphs: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for qid in self.answers:
            if qid not in self.questions:
                raise ValueError(f"answers of {qid}, which is no question")

    @classmethod
    def of(cls, queries: Iterable[Query], answers: Iterable[Answer]) -> GoldAnswers:
        """The gold answers of these queries; answers of others are left out, equal texts stay as often as
        given.

        Raises ValueError if there is no query.
        """
        questions = {query.qid: query.text for query in queries}
        if not questions:
            raise ValueError("there is no question")
        texts: dict[str, list[str]] = {qid: [] for qid in questions}
        paragraphs: dict[str, set[str]] = {}
        for answer in answers:
            if answer.qid in texts:
                texts[answer.qid].append(answer.text)
                paragraphs.setdefault(answer.qid, set()).add(answer.docno)
        return cls(
            questions,
            {qid: tuple(own) for qid, own in texts.items()},
            {qid: frozenset(own) for qid, own in paragraphs.items()},
        )

    @property
    def answerable(self) -> tuple[str, ...]:
        """The questions that have an answer."""
        return tuple(qid for qid in self.questions if self.answers.get(qid))

    @property
    def unanswerable(self) -> tuple[str, ...]:
        """The questions without an answer."""
        return tuple(qid for qid in self.questions if not self.answers.get(qid))

    def select(self, qids: Iterable[str]) -> GoldAnswers:
        """Some of the questions, in the given order. Raises KeyError if one is not there."""
        kept = {qid: self.questions[qid] for qid in qids}
        answers = {qid: self.answers[qid] for qid in kept if qid in self.answers}
        return GoldAnswers(
            kept, answers, {qid: self.paragraphs[qid] for qid in kept if qid in self.paragraphs}
        )
