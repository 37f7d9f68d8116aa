"""Scores and vectors for a request: the model's name, the limits, the batcher, and headers that say how."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request, Response

from telerank.service.batching.work import BatchedReply, PairsToScore, TextsToEncode
from telerank.service.depends import CurrentServed, CurrentSnapshot
from telerank.service.errors import TooLarge, Unprocessable
from telerank.service.logs import note


@dataclass(frozen=True, eq=False)
class ModelCalls:
    """Calls of models for one request; the headers are those of text-embeddings-inference, milliseconds."""

    request: Request
    response: Response
    served: CurrentServed
    snapshot: CurrentSnapshot

    async def score(
        self, model: str | None, pairs: PairsToScore, *, may_cut: bool
    ) -> tuple[str, BatchedReply]:
        """The name of the re-ranker and the logits of pairs; ``model`` None: the first.

        Raises
        ------
        ServiceError
            If there is no such re-ranker, or there are too many or too long texts, or as the batcher raises.
        """
        scorer = self.snapshot.reranker(model)
        name = model or self.snapshot.models.rerankers.names[0]
        texts = list(dict.fromkeys(query for query, _ in pairs.pairs)) + [text for _, text in pairs.pairs]
        self._check(len(pairs), texts)
        batcher = self.served.batchers.of_reranker(name, scorer)
        return name, await self._reply(batcher.submit(pairs, may_cut=may_cut), texts)

    async def encode(
        self, model: str | None, texts: TextsToEncode, *, dimensions: int | None = None, may_cut: bool
    ) -> tuple[str, BatchedReply]:
        """The name of the encoder and the vectors of texts; raises as :meth:`score` does.

        Vectors have all their dimensions: ``dimensions`` is only checked.
        """
        encoder = self.snapshot.encoder(model)
        name = model or self.snapshot.models.encoders.names[0]
        self._check(len(texts), texts.texts)
        if dimensions is not None and dimensions > encoder.dimension:
            raise Unprocessable(f"dimensions: {name} has {encoder.dimension}, got {dimensions}")
        batcher = self.served.batchers.of_encoder(name, encoder)
        return name, await self._reply(batcher.submit(texts, may_cut=may_cut), texts.texts)

    async def _reply(self, work: Coroutine[Any, Any, BatchedReply], texts: Sequence[str]) -> BatchedReply:
        reply = await work
        timings, cut = reply.timings, int(reply.cut.sum())
        note(texts=len(texts), tokens=reply.tokens, truncated=cut)
        self.response.headers.update(
            {
                "x-compute-tokens": str(reply.tokens),
                "x-compute-characters": str(sum(map(len, texts))),
                "x-truncated-texts": str(cut),
                "x-queue-time": _milliseconds(timings.queue),
                "x-tokenization-time": _milliseconds(timings.tokenise),
                "x-inference-time": _milliseconds(timings.infer),
                "x-total-time": _milliseconds(timings.total),
            }
        )
        return reply

    def _check(self, count: int, texts: Sequence[str]) -> None:
        limits = self.served.settings.limits
        if count > limits.texts:
            raise TooLarge(f"{count:,} texts, at most {limits.texts:,}")
        longest = max(map(len, texts), default=0)
        if longest > limits.text_characters:
            raise TooLarge(f"a text of {longest:,} characters, at most {limits.text_characters:,}")


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.1f}"


async def model_calls(
    request: Request, response: Response, served: CurrentServed, snapshot: CurrentSnapshot
) -> ModelCalls:
    """The calls of a request; a coroutine, as all of :mod:`telerank.service.depends`."""
    return ModelCalls(request, response, served, snapshot)


Calls = Annotated[ModelCalls, Depends(model_calls)]
