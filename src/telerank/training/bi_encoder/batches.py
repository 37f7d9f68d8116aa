"""Groups to batches: the texts of a batch, and which documents are relevant to which query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from telerank.training.examples.groups import Group, Groups


@dataclass(frozen=True, eq=False)
class EncoderBatch:
    """Texts of ``Q`` queries and of ``N`` different documents.

    ``relevant`` is (Q, N): which documents are known to be relevant to which query, whether as that query's
    pair or as another's. ``positives`` is (Q,), the row of each query's own document. ``negatives`` is
    (pairs, 2), rows of queries and of the documents in their groups that are not relevant to them.
    """

    queries: list[str]
    documents: list[str]
    relevant: Tensor
    positives: Tensor
    negatives: Tensor


@dataclass(frozen=True, eq=False)
class Batches:
    """EncoderBatch 0, 1, 2 …, of ``size`` groups each; groups decide it, so that training resumes anywhere.

    ``relevant`` has the documents that the qrels call relevant to a query, by qid.
    """

    groups: Groups
    size: int
    relevant: Mapping[str, Iterable[str]] = field(default_factory=dict)

    def __getitem__(self, number: int) -> EncoderBatch:
        first = number * self.size
        groups = [self.groups[position] for position in range(first, first + self.size)]
        return make_batch(groups, self.relevant)


def make_batch(groups: Sequence[Group], relevant: Mapping[str, Iterable[str]]) -> EncoderBatch:
    """The batch of these groups; a document of several groups is in it once.

    A document is relevant to a query if the qrels say so, or if it is the relevant one of any group of the
    same query (RepBERT, section 3.2).
    """
    texts = {
        docno: text for group in groups for docno, text in zip(group.docnos, group.documents, strict=True)
    }
    rows = {docno: row for row, docno in enumerate(texts)}
    positives = defaultdict[str, set[str]](set)
    for group in groups:
        positives[group.qid].add(group.docnos[0])
    table = torch.zeros((len(groups), len(rows)), dtype=torch.bool)
    for row, group in enumerate(groups):
        known = positives[group.qid].union(relevant.get(group.qid, ()))
        table[row, [rows[docno] for docno in known if docno in rows]] = True
    others = [(row, rows[docno]) for row, group in enumerate(groups) for docno in group.docnos[1:]]
    negatives = [pair for pair in others if not table[pair]]
    return EncoderBatch(
        [group.query for group in groups],
        list(texts.values()),
        table,
        torch.tensor([rows[group.docnos[0]] for group in groups]),
        torch.tensor(negatives, dtype=torch.int64).reshape(-1, 2),
    )
