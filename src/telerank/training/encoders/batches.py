"""Batches of queries and documents that an encoder learns from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from telerank.training.encoders.config import EncoderTraining
from telerank.training.examples.groups import Groups
from telerank.training.examples.reading import Reading, read_groups, relevant_pairs


@dataclass(frozen=True, eq=False)
class EncoderBatch:
    """Texts of ``Q`` queries and of ``N`` different documents.

    ``relevant`` is (Q, N): which documents are known to be relevant to which query, whether as that query's
    pair or as another's. ``members`` is (Q, G): the rows of the documents of each query's group, the relevant
    one first. ``negatives`` is (pairs, 2), rows of queries and of the documents in their groups that are not
    relevant to them. ``teacher`` is (Q, G), a teacher's scores of the members, if there is one.
    """

    queries: list[str]
    documents: list[str]
    relevant: Tensor
    members: Tensor
    negatives: Tensor
    teacher: Tensor | None = None

    @property
    def positives(self) -> Tensor:
        """(Q,): the row of each query's own document."""
        return self.members[:, 0]


@dataclass(frozen=True, eq=False)
class Batches:
    """EncoderBatch 0, 1, 2 …, of ``size`` groups each; groups decide it, so that training resumes anywhere.

    ``relevant`` has the documents that the qrels call relevant to a query, by qid.
    """

    groups: Groups
    size: int
    relevant: Mapping[str, Iterable[str]] = field(default_factory=dict)

    def __getitem__(self, number: int) -> EncoderBatch:
        """A batch, in which a document of several groups is once.

        A document is relevant to a query if the qrels say so, or if it is the relevant one of any group of
        the same query (RepBERT, section 3.2).
        """
        groups = [self.groups[position] for position in range(number * self.size, (number + 1) * self.size)]
        texts = {
            docno: text for group in groups for docno, text in zip(group.docnos, group.documents, strict=True)
        }
        rows = {docno: row for row, docno in enumerate(texts)}
        positives = defaultdict[str, set[str]](set)
        for group in groups:
            positives[group.qid].add(group.docnos[0])
        table = torch.zeros((len(groups), len(rows)), dtype=torch.bool)
        for row, group in enumerate(groups):
            known = positives[group.qid].union(self.relevant.get(group.qid, ()))
            table[row, [rows[docno] for docno in known if docno in rows]] = True
        members = [[rows[docno] for docno in group.docnos] for group in groups]
        others = [(row, column) for row, own in enumerate(members) for column in own[1:]]
        negatives = [pair for pair in others if not table[pair]]
        scores = [group.teacher for group in groups]
        return EncoderBatch(
            [group.query for group in groups],
            list(texts.values()),
            table,
            torch.tensor(members),
            torch.tensor(negatives, dtype=torch.int64).reshape(-1, 2),
            torch.tensor(scores) if all(scores) else None,
        )


def read_batches(config: EncoderTraining, reading: Reading, folder: Path) -> Batches:
    """The batches to learn from; the qrels of the split, if it has any, say what else is relevant."""
    groups, collection, split = read_groups(reading, folder), reading.collection, reading.data.split
    relevant = relevant_pairs(collection, split) if split in collection.qrels else {}
    return Batches(groups, config.optimisation.batch // config.data.group_size, relevant)
