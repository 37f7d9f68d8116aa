"""Splits into train, dev and test with no question, or no paragraph, in two parts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from telerank.corpus.ranking_sets.qa import MergedSet, Question
from telerank.errors import CollectionError

SHARES = {"train": 0.8, "dev": 0.1, "test": 0.1}
PARTS = tuple(SHARES)
Item = TypeVar("Item")


@dataclass(frozen=True, eq=False)
class Split:
    """Questions by part and, in a split by paragraph, the part of each document."""

    parts: Mapping[str, tuple[Question, ...]]
    homes: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Leak:
    """The documents that answer a part's questions, and how many of them answer a question of train too."""

    documents: int
    in_train: int


def split_by_question(merged: MergedSet, *, seed: int) -> Split:
    """Split the questions at random, 80/10/10 as in the Piaf report.

    Paragraphs leak: with five questions about a paragraph, nearly every paragraph of the test questions also
    occurs in train; :func:`count_leaks` counts them.
    """
    order = shuffle(merged.questions, lambda question: question.query.qid, seed=seed)
    dev, test = round(len(order) * SHARES["dev"]), round(len(order) * SHARES["test"])
    part = {one.query.qid: "dev" for one in order[:dev]}
    part |= {one.query.qid: "test" for one in order[dev : dev + test]}
    return Split(_group(merged.questions, lambda question: part.get(question.query.qid, "train")))


def split_by_paragraph(merged: MergedSet, *, seed: int) -> Split:
    """Split so that every document belongs to one part only.

    Documents that share a question stay together, with their questions. These groups are assigned in random
    order, each to the part that lacks most questions, so a part misses its share by less than one group.
    """
    homes = _deal_documents(merged.docs, merged.questions, SHARES, seed=seed)
    parts = _group(merged.questions, lambda question: homes[question.positives[0]])
    return Split(parts, homes)


def deal_questions(
    questions: Sequence[Question], names: Sequence[str], *, seed: int
) -> Mapping[str, tuple[Question, ...]]:
    """Questions in parts of about one size, so that no document answers questions of two parts.

    Raises CollectionError if a part has none.
    """
    docnos = dict.fromkeys(docno for question in questions for docno in question.positives)
    homes = _deal_documents(docnos, questions, dict.fromkeys(names, 1 / len(names)), seed=seed)
    parts = _group(questions, lambda question: homes[question.positives[0]], names)
    if not all(parts.values()):
        raise CollectionError(
            f"{len(docnos)} documents with questions cannot be dealt into {len(names)} parts"
        )
    return parts


def _deal_documents(
    docnos: Iterable[str], questions: Sequence[Question], shares: Mapping[str, float], *, seed: int
) -> dict[str, str]:
    """The part of each document, so that each part has about its share of the questions.

    Documents that share a question are in one part.
    """
    groups = _groups(docnos, questions)
    sizes = dict.fromkeys(groups.values(), 0)
    for question in questions:
        sizes[groups[question.positives[0]]] += 1
    lacks = {part: share * len(questions) for part, share in shares.items()}
    part_of_group: dict[str, str] = {}
    for group in shuffle(sizes, str, seed=seed):
        part = max(lacks, key=lacks.__getitem__)
        part_of_group[group] = part
        lacks[part] -= sizes[group]
    return {docno: part_of_group[group] for docno, group in groups.items()}


def count_leaks(split: Split) -> dict[str, Leak]:
    """The :class:`Leak` of dev and of test."""
    documents = {
        part: {docno for question in questions for docno in question.positives}
        for part, questions in split.parts.items()
    }
    train = documents["train"]
    return {part: Leak(len(own), len(own & train)) for part, own in documents.items() if part != "train"}


def shuffle(items: Iterable[Item], key: Callable[[Item], str], *, seed: int) -> list[Item]:
    """Sort by the SHA-256 of seed and key: independent of the order of ``items`` and of Python's version."""
    return sorted(items, key=lambda item: digest(seed, key(item)))


def digest(seed: int, key: str) -> bytes:
    """The SHA-256 of seed and key."""
    return hashlib.sha256(f"{seed}\n{key}".encode("utf-8", "surrogatepass")).digest()


def _group(
    questions: Sequence[Question], part_of: Callable[[Question], str], names: Sequence[str] = PARTS
) -> Mapping[str, tuple[Question, ...]]:
    parts: dict[str, list[Question]] = {name: [] for name in names}
    for question in questions:
        parts[part_of(question)].append(question)
    return {part: tuple(own) for part, own in parts.items()}


def _groups(docnos: Iterable[str], questions: Sequence[Question]) -> dict[str, str]:
    """For each document, a representative of the documents that questions connect it with."""
    parent = {docno: docno for docno in docnos}

    def root(docno: str) -> str:
        while parent[docno] != docno:
            parent[docno] = parent[parent[docno]]
            docno = parent[docno]
        return docno

    for question in questions:
        first = root(question.positives[0])
        for docno in question.positives[1:]:
            parent[root(docno)] = first
    return {docno: root(docno) for docno in parent}
