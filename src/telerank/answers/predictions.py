"""Answers as files: SQuAD's predictions and scores of no answer, and lines with everything."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from telerank.answers.combine import answer_record
from telerank.stored import versions
from telerank.trec import open_to_write
from telerank.types import Answers

_HIGHEST = 1e9
"""Stands for infinity in a file for SQuAD's script, whose JSON has none."""


def answers_record(answers: Answers) -> dict[str, Any]:
    """The answers to a query as JSON has them; an infinite score of no answer is null."""
    no_answer = answers.no_answer if math.isfinite(answers.no_answer) else None
    return {
        "query-id": answers.query.qid,
        "query": answers.query.text,
        "no-answer": no_answer,
        "documents": answers.documents,
        "answers": [answer_record(answer) for answer in answers],
    }


@dataclass(eq=False)
class AnswerRun:
    """The answers to queries, computed each time they are read; ``settings`` say how, for the record.

    ``queries`` counts the queries of the last reading, ``unanswered`` has those without an answer, and
    ``unread`` those of them for which no document was found; ``describe`` are lines about it for a reader.
    """

    compute: Callable[[], Iterator[Answers]]
    settings: Callable[[], Mapping[str, Any]]
    describe: Callable[[], Sequence[str]] = tuple
    queries: int = field(default=0, init=False)
    unanswered: list[str] = field(default_factory=list, init=False)
    unread: list[str] = field(default_factory=list, init=False)

    def __iter__(self) -> Iterator[Answers]:
        self.queries, self.unanswered, self.unread = 0, [], []
        for answers in self.compute():
            self.queries += 1
            if not len(answers):
                self.unanswered.append(answers.query.qid)
            if not answers.documents:
                self.unread.append(answers.query.qid)
            yield answers

    @property
    def remarks(self) -> list[str]:
        """What a reader must know of the last reading, such as how many queries have no answer."""
        remarks = [*self.describe()]
        for qids, what in ((self.unanswered, "have no answer"), (self.unread, "found no document to read")):
            if qids:
                more = " …" if len(qids) > 5 else ""
                remarks.append(f"{len(qids)} of {self.queries} queries {what}: {', '.join(qids[:5])}{more}")
        return remarks

    def save(
        self,
        predictions: str | Path | None = None,
        *,
        lines: str | Path | None = None,
        no_answers: str | Path | None = None,
    ) -> None:
        """Read the answers once, and write them.

        ``predictions`` is ``{qid: text}`` as SQuAD's script reads it, with an empty text for no answer;
        ``no_answers`` is ``{qid: score of no answer}``, its file of null odds, in which 10^9 stands for
        infinity; ``lines`` has all answers of a query as an object on a line. The record of what was
        computed is written beside each, as ``FILE.json``; ``-`` is standard output, ``.gz`` packs.
        """
        texts: dict[str, str] = {}
        scores: dict[str, float] = {}
        with ExitStack() as stack:
            file = None if lines is None else stack.enter_context(open_to_write(lines, self.record))
            for answers in self:
                qid = answers.query.qid
                texts[qid], scores[qid] = answers.text, min(answers.no_answer, _HIGHEST)
                if file is not None:
                    file.write(f"{json.dumps(answers_record(answers), ensure_ascii=False)}\n")
        for path, values in ((predictions, texts), (no_answers, scores)):
            if path is not None:
                write_predictions(path, values, record=self.record)

    def record(self) -> dict[str, Any]:
        """The settings, and the versions that computed the answers."""
        return {**self.settings(), "versions": versions()}


def write_predictions(
    path: str | Path,
    values: Mapping[str, str] | Mapping[str, float],
    *,
    record: Callable[[], dict[str, Any]] | None = None,
) -> None:
    """Write a value for each query as one JSON object, as SQuAD's script reads it."""
    with open_to_write(path, record) as file:
        file.write(f"{json.dumps(values, ensure_ascii=False, indent=0)}\n")
