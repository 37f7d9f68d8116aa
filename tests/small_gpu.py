"""A GPU of which only what is given to it is seen."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from telerank.models.pairs.pair import PairBatch
from telerank.reranking import scorer


class Gpu:
    """Computes on the processor what a GPU would be given, and keeps its batches; ``room`` is in tokens."""

    def __init__(self, room: int | None = None) -> None:
        self.batches: list[PairBatch] = []
        self.room, self.refused = room, 0

    def __call__(self, model, _setting, _samples):
        def compute(batch: PairBatch) -> torch.Tensor:
            if self.room is not None and batch.input_ids.numel() > self.room:
                self.refused += 1
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nmore")
            self.batches.append(batch)
            with torch.inference_mode():
                return model.network(batch)

        return compute


def on_gpu(monkeypatch: pytest.MonkeyPatch, module: ModuleType, room: int | None = None) -> Gpu:
    """A GPU that is chosen by default, and that ``module`` computes with: it has ``compute`` of back ends."""
    gpu = Gpu(room)
    monkeypatch.setattr(scorer, "device_for", lambda _: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    monkeypatch.setattr(module, "compute", gpu)
    return gpu
