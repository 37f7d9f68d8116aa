"""Gradient caching (Gao et al., 2021): the gradients of a large batch in the memory of a small one.

A contrastive loss couples all texts of a batch, but only through their vectors. So the vectors are computed
first, chunk by chunk, without a graph; the loss gives the gradient of each vector; then each chunk is
encoded again, with the same random numbers, and the gradient is passed on to the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import pad

from telerank.models.random_numbers import RandomNumbers

Encode: TypeAlias = Callable[[], Tensor]
"""Encodes one chunk, ``() -> (chunk, H)``, or (chunk, L, H) of tokens, each time it is called."""
Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""The loss of all queries' vectors and all documents', as :func:`join_chunks` joins them."""


def join_chunks(chunks: Sequence[Tensor]) -> Tensor:
    """The vectors of all chunks, (texts, H), or (texts, L, H), where zeros fill up to the longest text."""
    if chunks[0].ndim > 2:
        longest = max(chunk.shape[1] for chunk in chunks)
        chunks = [pad(chunk, (0, 0, 0, longest - chunk.shape[1])) for chunk in chunks]
    return torch.cat(list(chunks))


def backward(
    queries: Sequence[Encode],
    documents: Sequence[Encode],
    loss: Loss,
    device: torch.device,
    last: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Tensor:
    """Add the gradients of ``loss`` to the parameters, and return it. Only one chunk's graph is in memory.

    The ``device`` is that of the vectors, where dropout draws; ``last`` opens the context of the last
    backward pass, in which the last chunk is encoded again.
    """
    chunks, boundary = [*queries, *documents], len(queries)
    states, vectors = [], []
    with torch.no_grad():
        for encode in chunks:
            states.append(RandomNumbers(device))
            vectors.append(encode().requires_grad_())
    with torch.enable_grad():
        value = loss(join_chunks(vectors[:boundary]), join_chunks(vectors[boundary:]))
    value.backward()  # type: ignore[no-untyped-call]
    after = RandomNumbers(device)
    for number, (encode, state, vector) in enumerate(zip(chunks, states, vectors, strict=True), 1):
        state.restore()
        with last() if number == len(chunks) else nullcontext():
            encoded = encode()
            if encoded.requires_grad:  # weights of queries may be fixed
                encoded.backward(vector.grad)  # type: ignore[no-untyped-call]
    after.restore()
    return value.detach()


def backward_at_once(
    queries: Sequence[Encode],
    documents: Sequence[Encode],
    loss: Loss,
    last: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Tensor:
    """The same with the graph of the whole batch in memory: one encoding less."""
    value = loss(
        join_chunks([encode() for encode in queries]), join_chunks([encode() for encode in documents])
    )
    with last():
        value.backward()  # type: ignore[no-untyped-call]
    return value.detach()
