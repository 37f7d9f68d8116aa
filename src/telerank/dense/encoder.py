"""The protocol of encoders, which make vectors of texts, and the encoder that is a bi-encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from telerank.dense.kinds import Floats
from telerank.dense.vectors import Encoded
from telerank.errors import MissingExtra, ModelError
from telerank.types import Progress, silent

if TYPE_CHECKING:
    from telerank.dense.computed import ComputedEncoder
    from telerank.dense.static import StaticEncoder
    from telerank.dense.unfinished import UnfinishedShard
    from telerank.models.encoders.bi_encoder import BiEncoder, Tokenizers
    from telerank.models.inference import Room

PRECISIONS = ("auto", "float32", "tf32", "bfloat16")
_BATCH, _BATCH_OF_GPU = 4096, 65_536  # tokens


class Encoder(Protocol):
    """Encodes texts; a value, equal and hashed by what decides the vectors."""

    @property
    def name(self) -> str: ...

    @property
    def fingerprint(self) -> str:
        """Identifies everything that decides a vector."""

    @property
    def dimension(self) -> int: ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """A description of the model, which is stored beside the vectors, as JSON."""

    @property
    def batch_tokens(self) -> int:
        """The number of tokens of a batch that suits the device."""

    def encode_queries(self, texts: Sequence[str]) -> Encoded:
        """The vectors (Q, D) of queries."""

    def tokenize(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        """The tokens of documents, and the number of documents that were longer than the model reads."""

    def encode_tokens(
        self,
        tokens: Sequence[Sequence[int]],
        budget: int | None = None,
        progress: Progress = silent,
        unfinished: UnfinishedShard | None = None,
    ) -> Floats:
        """The vectors (N, D) of tokenized documents, in their order.

        A batch has at most ``budget`` tokens, padding included; None leaves it to the encoder. What
        ``unfinished`` has need not be computed again, and it may be given what is computed meanwhile.
        """


def open_encoder(
    model: str, device: str | None = None, precision: str = "auto"
) -> TorchEncoder | StaticEncoder:
    """The encoder of a name: a static one (:mod:`.static`), or a bi-encoder in torch.

    Raises
    ------
    ModelError
        If the precision is unknown, or a folder's description of its modules cannot be read.
    """
    from telerank.dense.static import StaticEncoder, find_static

    encoder = TorchEncoder(model, device, precision)
    return encoder if find_static(model) is None else StaticEncoder(model)


@dataclass(frozen=True)
class TorchEncoder:
    """A bi-encoder by its name: ``minilm``, a folder, or a name on the hub.

    ``device`` None is the GPU if there is one; ``precision`` is that of matrix products, ``auto`` bfloat16 on
    a GPU that computes in it, else float32. A GPU whose memory is too small gets smaller batches
    (:meth:`describe_memory`). The model is loaded when it is first used, and pickles as its name. If the
    first use finds no such model or device, it raises ModelError; without torch, MissingExtra.
    """

    model: str
    device: str | None = None
    precision: str = "auto"

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise ModelError(
                f"precision must be {', '.join(PRECISIONS[:-1])} or {PRECISIONS[-1]}, got {self.precision!r}"
            )

    @property
    def name(self) -> str:
        return self.model

    @cached_property
    def fingerprint(self) -> str:
        from telerank.models.fingerprints import fingerprint

        return fingerprint(*self._loaded)

    @property
    def dimension(self) -> int:
        return self._loaded[0].width

    @property
    def settings(self) -> Mapping[str, Any]:
        return {"model": self._loaded[0].settings.record(), "precision": self._computed.precision}

    @property
    def device_name(self) -> str:
        """The device that it computes on, such as ``cuda:1``."""
        return str(self._computed.device)

    @property
    def batch_tokens(self) -> int:
        """The tokens of a batch that suit the device: larger ones leave the cache of a processor."""
        return _BATCH if self._computed.device.type == "cpu" else _BATCH_OF_GPU

    def encode_queries(self, texts: Sequence[str]) -> Encoded:
        tokens = self._loaded[1].queries.ids(list(texts))
        return Encoded(self.encode_batch(tokens, queries=True), self.fingerprint)

    def tokenize(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        side = self._loaded[1].documents
        tokens = side.ids(list(texts))
        most = side.side.max_length
        full = [text for text, ids in zip(texts, tokens, strict=True) if len(ids) >= most]
        longer = replace(side, side=replace(side.side, max_length=most + 1))
        return tokens, sum(len(ids) > most for ids in longer.ids(full))

    def encode_tokens(
        self,
        tokens: Sequence[Sequence[int]],
        budget: int | None = None,
        progress: Progress = silent,
        unfinished: UnfinishedShard | None = None,
    ) -> Floats:
        computed, budget = self._computed, self.batch_tokens if budget is None else budget
        side, encode = self._loaded[1].documents, computed.model.encode_documents
        return computed.encode(side, tokens, encode, budget, progress, unfinished=unfinished)

    def copy_tokenizers(self) -> Tokenizers:
        """Its tokenizers, for another thread: two threads cannot use one at a time."""
        return deepcopy(self._loaded[1])

    def encode_batch(
        self, tokens: Sequence[Sequence[int]], *, queries: bool, normalise: bool = True
    ) -> Floats:
        """The vectors (N, D) of tokenized texts of a side, as one batch.

        Without ``normalise`` they keep their lengths, if the model divides by them.
        """
        tokenizers, computed = self._loaded[1], self._computed
        model = computed.model if normalise else computed.model.without_normalising()
        side = tokenizers.queries if queries else tokenizers.documents
        return computed.encode(side, tokens, model.encode_queries if queries else model.encode_documents)

    @property
    def room(self) -> Room:
        """How large batches may be, if one did not fit into memory."""
        return self._computed.room

    def describe_memory(self) -> str:
        """How large batches are, if a larger one did not fit into memory; else empty."""
        return self.room.describe()

    def __reduce__(self) -> tuple[Any, ...]:
        return TorchEncoder, (self.model, self.device, self.precision)

    @cached_property
    def _loaded(self) -> tuple[BiEncoder, Tokenizers]:
        """The model as it is stored, on the processor."""
        try:
            import_module("torch")
            from telerank.models.encoders.folders import check_makes_vectors, load_bi_encoder
        except ModuleNotFoundError as error:
            raise MissingExtra(error.name or "torch", "neural") from error
        name = folder if (folder := Path(self.model)).is_dir() else self.model
        check_makes_vectors(name)
        return load_bi_encoder(name)

    @cached_property
    def _computed(self) -> ComputedEncoder:
        model, _ = self._loaded
        from telerank.dense.computed import ComputedEncoder

        return ComputedEncoder.of(model, self.device or "auto", self.precision)
