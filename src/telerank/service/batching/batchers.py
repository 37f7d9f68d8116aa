"""The batchers of a process: one for each model, made when it is first used."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from telerank.service.batching.batcher import Batcher, BatchLimits
from telerank.service.batching.work import BatchObserver

if TYPE_CHECKING:
    from telerank.dense.encoder import TorchEncoder
    from telerank.reranking.scorer import Scorer
    from telerank.service.batching.tokens import PlainTokenizer
    from telerank.service.batching.work import PairsToScore, TextsToEncode


class Batchers:
    """Batchers by model; all compute in one thread, ``computing``, batch after batch."""

    def __init__(
        self, computing: Executor, limits: BatchLimits, observer: BatchObserver | None = None
    ) -> None:
        self._computing, self._limits, self._observer = computing, limits, observer
        self._batchers: dict[object, Batcher[Any]] = {}
        self._tokenizers: dict[object, PlainTokenizer] = {}

    def of_reranker(self, name: str, scorer: Scorer) -> Batcher[PairsToScore]:
        """The batcher of a re-ranker; ``name`` is for metrics."""
        from telerank.service.batching.pairs import BatchedReranker

        return self._batcher(name, scorer, lambda: BatchedReranker(scorer))

    def of_encoder(self, name: str, encoder: TorchEncoder) -> Batcher[TextsToEncode]:
        """The batcher of an encoder; ``name`` is for metrics."""
        from telerank.service.batching.vectors import BatchedEncoder

        return self._batcher(name, encoder, lambda: BatchedEncoder(encoder))

    def tokenizer_of(self, model: Scorer | TorchEncoder) -> PlainTokenizer:
        """A tokenizer of a model, apart from its batches; raises ModelError if it has none."""
        from telerank.service.batching.tokens import PlainTokenizer

        tokenizer = self._tokenizers.get(model)
        if tokenizer is None:
            tokenizer = self._tokenizers[model] = PlainTokenizer(model)
        return tokenizer

    async def aclose(self) -> None:
        """End all; requests that wait are not answered."""
        for batcher in self._batchers.values():
            await batcher.aclose()

    def _batcher(self, name: str, key: object, model: Callable[[], Any]) -> Batcher[Any]:
        batcher = self._batchers.get(key)
        if batcher is None:
            batcher = Batcher(name, model(), self._computing, self._limits, self._observer)
            self._batchers[key] = batcher
        return batcher
