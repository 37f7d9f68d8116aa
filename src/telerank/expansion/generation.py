"""Queries that a sequence-to-sequence model predicts for documents (doc2query, docTTTTTquery).

Rodrigo Nogueira, Wei Yang, Jimmy Lin, Kyunghyun Cho: Document Expansion by Query Prediction (2019). Rodrigo
Nogueira, Jimmy Lin: From doc2query to docTTTTTquery (2019), which draws each piece from the ten likeliest.

The random numbers of a document are a function of the seed and its docno. Batches are cut from windows of
documents in the order of the collection, so that another call computes the same batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import LogitsProcessor

from telerank.batches import batch_by_length
from telerank.errors import ModelError
from telerank.expansion.sampling import Sampling
from telerank.models.precision import device_of
from telerank.models.seq2seq import Seq2Seq, load_seq2seq
from telerank.types import Doc

_MAX_LENGTH = 512  # docTTTTTquery's
_TOKENS, _TOKENS_OF_GPU = 16_384, 262_144  # of a batch: pieces of its documents times queries


@dataclass(frozen=True)
class Writing:
    """How many ``queries`` are written for a document and how; where texts and queries are cut, in pieces.

    Without a ``max_length`` texts are cut at 512 pieces, or at what the model reads if that is less.
    """

    queries: int
    sampling: Sampling
    seed: int = 0
    max_length: int | None = None
    max_query: int = 64
    batch_tokens: int | None = None


@dataclass(frozen=True, eq=False)
class QueryWriter:
    """The model of that ``name`` and how it writes queries; ModelError if there is none."""

    name: str
    writing: Writing
    device: str | None = None

    @property
    def settings(self) -> dict[str, object]:
        """Everything that decides the queries of a document."""
        own = self.writing
        return {
            "model": self.name,
            "fingerprint": self._model.fingerprint,
            "queries": own.queries,
            "sampling": str(own.sampling),
            "seed": own.seed,
            "max_length": self._max_length,
            "max_query": own.max_query,
            "batch_tokens": self._budget,
            "device": self._device.type,
        }

    def predict(self, docs: Sequence[Doc]) -> tuple[list[list[str]], int]:
        """The queries of each document of a window, and how many documents were cut.

        A document without a text gets none.
        """
        model, own = self._model, self.writing
        kept = [row for row, doc in enumerate(docs) if doc.full_text.strip()]
        texts, cut = model.read_texts([docs[row].full_text for row in kept], self._max_length)
        queries: list[list[str]] = [[] for _ in docs]
        lengths = np.array(list(map(len, texts)), np.int64)
        for batch in batch_by_length(lengths * own.queries, self._budget):
            rows = [kept[number] for number in batch]
            written = self._write([texts[number] for number in batch], [docs[row].docno for row in rows])
            for row, each in zip(rows, written, strict=True):
                queries[row] = [query for query in each if query]
        return queries, cut

    def _write(self, texts: Sequence[Sequence[int]], docnos: Sequence[str]) -> list[list[str]]:
        model, own = self._model, self.writing
        width = max(map(len, texts))
        ids = torch.full((len(texts), width), model.pad_id)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = torch.tensor(text)
        mask = (torch.arange(width) < torch.tensor([len(text) for text in texts])[:, None]).long()
        choose: LogitsProcessor | int = int(own.sampling.value) or own.queries
        if own.sampling.kind != "beam":
            shape = (own.queries, own.max_query)
            drawn = [_draw(own.seed, docno).random(shape) for docno in docnos]
            choose = _Choice(own.sampling, torch.from_numpy(np.concatenate(drawn)).to(self._device))
        given = (ids.to(self._device), mask.to(self._device))
        return model.write(*given, own.queries, own.max_query, choose)

    @cached_property
    def _device(self) -> torch.device:
        name = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        return device_of(name)

    @property
    def _budget(self) -> int:
        return self.writing.batch_tokens or (_TOKENS if self._device.type == "cpu" else _TOKENS_OF_GPU)

    @property
    def _max_length(self) -> int:
        return self.writing.max_length or min(_MAX_LENGTH, self._model.longest or _MAX_LENGTH)

    @cached_property
    def _model(self) -> Seq2Seq:
        model, own = load_seq2seq(self.name), self.writing
        longest = model.longest
        for name, length in (("max_length", own.max_length), ("max_query", own.max_query)):
            if longest is not None and length is not None and length > longest:
                raise ModelError(f"{self.name}: {name} is {length}, but it has {longest} positions")
        model.model.to(self._device)
        return model


class _Choice(LogitsProcessor):
    """Leaves the one piece that is drawn, by numbers from 0 to 1 for each row and step, (rows, steps)."""

    def __init__(self, sampling: Sampling, numbers: Tensor) -> None:
        self._sampling, self._numbers, self._step = sampling, numbers, 0

    def __call__(self, _: Any, scores: Tensor) -> Tensor:
        most = int(self._sampling.value) if self._sampling.kind == "top-k" else scores.shape[1]
        most = 1 if self._sampling.kind == "greedy" else min(most, scores.shape[1])
        values, pieces = scores.topk(most)  # the likeliest first
        shares = values.double().softmax(1)
        if self._sampling.kind == "top-p":  # those before which less than p lies
            shares = shares * (shares.cumsum(1) - shares < self._sampling.value)
        # by number: pieces whose scores differ by rounding alone, as in another batch, must not change places
        pieces, order = pieces.sort(1)
        sums = shares.gather(1, order).cumsum(1)
        targets = self._numbers[:, self._step, None] * sums[:, -1:]
        chosen = (sums <= targets).sum(1, keepdim=True).clamp(max=most - 1)
        self._step += 1
        return torch.full_like(scores, -torch.inf).scatter_(1, pieces.gather(1, chosen), 0.0)


def _draw(seed: int, docno: str) -> np.random.Generator:
    """The random numbers of a document."""
    digest = sha256(docno.encode("utf-8", "surrogatepass")).digest()
    return np.random.default_rng([seed, *np.frombuffer(digest, np.uint32).tolist()])
