"""A bi-encoder on its device: batches of similar lengths, whose vectors are fetched all at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from torch import Tensor

from telerank.dense.kinds import Floats
from telerank.models.encoders.bi_encoder import BiEncoder, SideTokenizer
from telerank.models.inference import Batching, Room, pin, prepare_inference
from telerank.models.precision import Precision, device_of, resolve_precision
from telerank.models.precision import precision as open_precision
from telerank.types import Progress, silent

if TYPE_CHECKING:
    from telerank.dense.unfinished import UnfinishedShard

# ``input_ids`` and ``attention_mask``, both (B, L) -> vectors, (B, D).
Encode: TypeAlias = Callable[[Mapping[str, Tensor]], Tensor]


@dataclass(frozen=True, eq=False)
class ComputedEncoder:
    """``model`` on ``device``, where it computes in ``precision``, which is never ``auto``."""

    model: BiEncoder
    device: torch.device
    precision: str
    context: Precision
    room: Room = field(default_factory=Room)

    @classmethod
    def of(cls, model: BiEncoder, device: str, precision: str) -> ComputedEncoder:
        """A GPU gets a copy, whose weights may be rounded; raises ModelError if there is no such device."""
        chosen = device_of(device)
        name = resolve_precision(precision, chosen)
        if chosen.type != "cuda":
            return cls(model.to(chosen), chosen, name, open_precision(name, chosen))
        rounded = name == "bfloat16"
        copied = prepare_inference(model, chosen, torch.bfloat16 if rounded else torch.float32)
        return cls(copied, chosen, name, open_precision("float32" if rounded else name, chosen))

    def encode(
        self,
        side: SideTokenizer,
        tokens: Sequence[Sequence[int]],
        encode: Encode,
        budget: int | None = None,
        progress: Progress = silent,
        *,
        unfinished: UnfinishedShard | None = None,
    ) -> Floats:
        """The vectors (N, D) of texts, by a method of the model, in batches of at most ``budget`` tokens.

        Without a budget there is one batch, in the texts' order. A GPU is given one batch after the other,
        and waited for at the end, and when vectors of an ``unfinished`` shard are saved.
        """
        if not tokens:
            return np.empty((0, self.model.width), np.float32)

        def compute(rows: Sequence[int], width: int) -> Tensor:
            batch = {
                name: pin(tensor, self.device).to(self.device, non_blocking=True)
                for name, tensor in side.pad([tokens[row] for row in rows], width).items()
            }
            with torch.inference_mode(), self.context():
                vectors = encode(batch).float()
            if unfinished is not None:
                unsaved.append(vectors)
            return vectors

        def report(done: int) -> None:
            progress("encoding", done, None)
            if unfinished is not None and unfinished.is_due and unsaved:
                unfinished.save(torch.cat(unsaved).cpu().numpy())
                unsaved.clear()

        unsaved: list[Tensor] = []
        before = None
        if unfinished is not None and len(unfinished.vectors):
            before = torch.tensor(unfinished.vectors).to(self.device)
        lengths = np.array([len(ids) for ids in tokens], np.int64)
        batching = Batching(self.device, side.side.max_length, budget, self.room)
        return batching.compute(lengths, compute, report, before).fetch()
