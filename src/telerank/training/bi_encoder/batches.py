"""Pairs to batches; the batch of each number is a function of the seed, so that training resumes anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from telerank.training.bi_encoder.examples import Examples
from telerank.training.reranker.groups import shuffle_numbers


@dataclass(frozen=True, eq=False)
class EncoderBatch:
    """Texts of ``Q`` queries and of ``N`` different documents.

    ``relevant`` is (Q, N): which documents the qrels call relevant to which query, whether as that query's
    pair or as another's. ``positives`` is (Q,), the row of each query's own document. ``negatives`` is
    (pairs, 2), rows of queries and of the documents that were drawn as hard negatives for them.
    """

    queries: list[str]
    documents: list[str]
    relevant: Tensor
    positives: Tensor
    negatives: Tensor


@dataclass(frozen=True, eq=False)
class Batches:
    """EncoderBatch 0, 1, 2 …: one shuffled epoch after another, cut into ``size`` pairs each."""

    examples: Examples
    size: int
    seed: int
    per_query: int = 1

    def __getitem__(self, number: int) -> EncoderBatch:
        if number < 0:
            raise IndexError(number)
        total, first = len(self.examples.pairs), number * self.size
        drawn = []
        for position in range(first, first + self.size):
            epoch, within = divmod(position, total)
            pair = int(shuffle_numbers(total, self.seed, epoch)[within])
            drawn.append((self.examples.pairs[pair], self._draw_negatives(pair, epoch)))
        return self._assemble(drawn)

    def _draw_negatives(self, pair: int, epoch: int) -> list[str]:
        negatives = self.examples.negatives.get(self.examples.pairs[pair][0], ())
        if len(negatives) <= self.per_query:
            return list(negatives)
        random = np.random.default_rng([self.seed, epoch, pair + 1])
        chosen = random.choice(len(negatives), self.per_query, replace=False)
        return [negatives[row] for row in chosen.tolist()]

    def _assemble(self, drawn: list[tuple[tuple[str, str], list[str]]]) -> EncoderBatch:
        """The batch of these pairs, each with its hard negatives."""
        negatives = chain.from_iterable(docnos for _, docnos in drawn)
        documents = dict.fromkeys(chain((docno for (_, docno), _ in drawn), negatives))
        rows = {docno: row for row, docno in enumerate(documents)}
        relevant = torch.zeros((len(drawn), len(rows)), dtype=torch.bool)
        for row, ((qid, _), _) in enumerate(drawn):
            present = [rows[docno] for docno in self.examples.relevant[qid] if docno in rows]
            relevant[row, present] = True
        hard = [(row, rows[docno]) for row, (_, docnos) in enumerate(drawn) for docno in docnos]
        return EncoderBatch(
            [self.examples.queries[qid] for (qid, _), _ in drawn],
            [self.examples.documents[docno] for docno in rows],
            relevant,
            torch.tensor([rows[docno] for (_, docno), _ in drawn]),
            torch.tensor(hard, dtype=torch.int64).reshape(-1, 2),
        )
