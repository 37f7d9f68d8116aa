"""Train, dev and test: a split with no question in two parts, or with no paragraph in two parts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from telerank.corpus.ranking_sets.qa import MergedSet, Question

PARTS = ("train", "dev", "test")
SHARES = (0.8, 0.1, 0.1)
Item = TypeVar("Item")


@dataclass(frozen=True, eq=False)
class Split:
    """Questions by part, and, where paragraphs are split too, the part that each document belongs to."""

    parts: Mapping[str, tuple[Question, ...]]
    homes: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Leak:
    """Of the documents that answer a part's questions, how many answer a question of train as well."""

    documents: int
    in_train: int


def split_by_question(merged: MergedSet, *, seed: int, shares: Sequence[float] = SHARES) -> Split:
    """The report's split: 80/10/10 of the questions at random, none in two parts.

    Paragraphs leak: with five questions on a paragraph, nearly every paragraph of the test questions
    has also been trained on; :func:`count_leaks` counts them.
    """
    _check(shares)
    order = shuffle(merged.questions, lambda one: one.query.qid, seed=seed)
    dev, test = round(len(order) * shares[1]), round(len(order) * shares[2])
    part = {one.query.qid: "dev" for one in order[:dev]}
    part |= {one.query.qid: "test" for one in order[dev : dev + test]}
    return Split(_parts(merged.questions, lambda one: part.get(one.query.qid, "train")))


def split_by_paragraph(merged: MergedSet, *, seed: int, shares: Sequence[float] = SHARES) -> Split:
    """As :func:`split_by_question`, and every document belongs to one part alone.

    Documents that a question has in common go together, and so do their questions. Groups of them
    are given, in random order, each to the part that lacks most questions: a part misses its share by
    less than one group.
    """
    _check(shares)
    groups = _groups(merged)
    sizes = dict.fromkeys(groups.values(), 0)
    for one in merged.questions:
        sizes[groups[one.positives[0]]] += 1
    lacks = {part: share * len(merged.questions) for part, share in zip(PARTS, shares, strict=True)}
    part_of_group: dict[str, str] = {}
    for group in shuffle(sizes, str, seed=seed):
        part = max(PARTS, key=lacks.__getitem__)
        part_of_group[group] = part
        lacks[part] -= sizes[group]
    homes = {docno: part_of_group[group] for docno, group in groups.items()}
    return Split(_parts(merged.questions, lambda one: homes[one.positives[0]]), MappingProxyType(homes))


def count_leaks(split: Split) -> dict[str, Leak]:
    """The :class:`Leak` of dev and of test."""
    documents = {
        part: {docno for one in ones for docno in one.positives} for part, ones in split.parts.items()
    }
    train = documents["train"]
    return {part: Leak(len(own), len(own & train)) for part, own in documents.items() if part != "train"}


def shuffle(items: Iterable[Item], key: Callable[[Item], str], *, seed: int) -> list[Item]:
    """In the order of the SHA-256 of seed and key: whatever order they came in, with every Python."""
    return sorted(items, key=lambda item: digest(seed, key(item)))


def digest(seed: int, key: str) -> bytes:
    return hashlib.sha256(f"{seed}\n{key}".encode("utf-8", "surrogatepass")).digest()


def _check(shares: Sequence[float]) -> None:
    if len(shares) != len(PARTS) or min(shares) < 0 or abs(sum(shares) - 1) > 1e-9:
        raise ValueError(f"shares of {', '.join(PARTS)} must be three that sum to 1, got {tuple(shares)}")


def _parts(
    questions: Sequence[Question], part_of: Callable[[Question], str]
) -> Mapping[str, tuple[Question, ...]]:
    parts: dict[str, list[Question]] = {part: [] for part in PARTS}
    for one in questions:
        parts[part_of(one)].append(one)
    return MappingProxyType({part: tuple(ones) for part, ones in parts.items()})


def _groups(merged: MergedSet) -> dict[str, str]:
    """For every document the first of those that questions bind it to, itself where none does."""
    parent = {docno: docno for docno in merged.docs}

    def root(docno: str) -> str:
        while parent[docno] != docno:
            parent[docno] = parent[parent[docno]]
            docno = parent[docno]
        return docno

    for one in merged.questions:
        first = root(one.positives[0])
        for docno in one.positives[1:]:
            parent[root(docno)] = first
    return {docno: root(docno) for docno in merged.docs}
