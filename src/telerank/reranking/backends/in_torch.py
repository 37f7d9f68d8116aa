"""The back end ``torch``: the model itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from telerank.models.pairs.pair import PairBatch
from telerank.models.precision import device_of, precision
from telerank.models.rerankers.reranker import Reranker
from telerank.reranking.backends import BackEndSettings, Compute, Samples


def compute(reranker: Reranker, setting: BackEndSettings, _samples: Samples) -> Compute:
    """Compute on the GPU if there is one; the model is moved there.

    Raises ModelError if there is no such device, or precision on it.
    """
    device = device_of(setting.device or "auto")
    with threads(setting.threads):
        context = precision(setting.precision, device)
    model = reranker.model.to(device).eval()

    def compute_batch(batch: PairBatch) -> Tensor:
        with threads(setting.threads), torch.inference_mode(), context():
            logits: Tensor = model(batch.to(device))
        return logits.float().cpu()

    return compute_batch


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Let torch use ``count`` threads, which is a setting of the whole process."""
    before = torch.get_num_threads()
    if count is None or count == before:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
