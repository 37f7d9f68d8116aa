"""Small question-answering sets as collections in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from telerank.corpus.collection import Collection
from telerank.types import Answer, Doc, Qrel, Query

Asked = tuple[str, str, str]
"""Question, docno, answer (empty for none)."""


def qa_set(name: str, texts: Mapping[str, str], asked: Mapping[str, Iterable[Asked]], **more) -> Collection:
    """A collection of the documents ``texts`` and, by split, its questions; qids are ``q1``, ``q2``, …"""
    docs = [Doc(docno, text) for docno, text in texts.items()]
    queries: dict[str, list[Query]] = {}
    qrels: dict[str, list[Qrel]] = {}
    answers: dict[str, list[Answer]] = {}
    number = 0
    for split, ones in asked.items():
        queries[split], qrels[split], answers[split] = [], [], []
        for text, docno, answer in ones:
            number += 1
            queries[split].append(Query(f"q{number}", text))
            if docno:
                qrels[split].append(Qrel(f"q{number}", docno, 1))
            if answer:
                answers[split].append(Answer(f"q{number}", docno, answer, texts[docno].index(answer)))
    return Collection(
        name,
        "memory",
        lambda: iter(docs),
        {split: lambda own=own: iter(own) for split, own in queries.items()},
        {split: lambda own=own: iter(own) for split, own in qrels.items()},
        {split: lambda own=own: iter(own) for split, own in answers.items()},
        **more,
    )
