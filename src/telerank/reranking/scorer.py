"""Score pairs of texts: tokenised once, sorted by length, computed in batches of bounded tokens.

:class:`ComputedModel` is what scoring pairs and reading texts share: a model, and how it is computed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from telerank.batches import WindowLimits
from telerank.computing import Computing, PairComputing
from telerank.errors import count_noun
from telerank.models.inference import Batching, Outputs, Room, batch_widths, pin, stream_groups
from telerank.models.pairs.pair import Pair, PairBatch
from telerank.models.precision import resolve_precision
from telerank.models.rerankers.reranker import Reranker, load_reranker, require_reranker
from telerank.reranking.backends import Compute, PairModel, check_computing, compute, device_for
from telerank.reranking.texts import TextPair, TokenizedPairs, batch_pairs, make_pairs, tokenize_for
from telerank.stored import folder_checksum
from telerank.types import Progress, Scores, silent

CPU_TOKENS, GPU_TOKENS = 2048, 65_536  # of a batch; larger ones do not fit a processor's cache
Report: TypeAlias = Callable[[int], object]
"""Progress callback: how many pairs are computed."""


@dataclass(frozen=True, eq=False, repr=False)
class ComputedModel(Computing, ABC):
    """A model, by its name or loaded, and the settings of its computation: a value.

    ``precision`` ``auto`` is bfloat16 on a GPU that computes in it, else float32 (:attr:`computes_in`).
    ``tokens`` bounds a batch, padding included; None leaves it to the device. A GPU whose memory is too small
    gets smaller batches (:meth:`describe_memory`). ``samples`` are texts to calibrate int8 on.

    Raises
    ------
    ModelError
        If there is no such back end or precision, or ``tokens`` is less than 1.
    """

    model: Any
    samples: tuple[TextPair, ...] = field(default=(), kw_only=True)
    room: Room = field(default_factory=Room, init=False)
    """How large batches may be, if one did not fit into memory."""

    def __post_init__(self) -> None:
        check_computing(self)

    @cached_property
    def name(self) -> str:
        """The given name of the model, or its kind and fingerprint."""
        if self._is_named:
            return str(self.model)
        return f"{self.model.label} {self.model.fingerprint[:12]}"

    @cached_property
    def budget(self) -> int:
        """The tokens of a batch at most, padding included; a longer text has a batch of its own."""
        if self.tokens is not None:
            return self.tokens
        return CPU_TOKENS if self._device.type == "cpu" else GPU_TOKENS

    @property
    def computes_in(self) -> str:
        """The precision, which is never ``auto``; raises ModelError if there is no such device."""
        return resolve_precision(self.precision, device_for(self))

    @property
    def changed(self) -> dict[str, Any]:
        """The settings that differ from their defaults, by name, without ``samples``."""
        settings = [s for s in fields(self) if s.init and s.name not in ("model", "samples")]
        values = {s.name: (getattr(self, s.name), s.default) for s in settings}
        return {name: value for name, (value, default) in values.items() if value != default}

    @property
    def checksum(self) -> str:
        """A hash of the model: of the files in its folder, or of its weights."""
        if self._is_named and Path(self.model).is_dir():
            return folder_checksum(Path(self.model))
        return self.loaded.fingerprint

    @property
    def source(self) -> dict[str, object]:
        """What was computed, for the record of a run."""
        source: dict[str, object] = {"model": self.name, "sha256": self.checksum}
        if self.computes_in not in ("float32", self.precision):  # chosen by the device
            source["precision"] = self.computes_in
        return source

    @property
    def remarks(self) -> list[str]:
        """What was cut, or did not fit into memory, so far."""
        return [line for line in (self.describe_cut(), self.describe_memory()) if line]

    @abstractmethod
    def describe_cut(self) -> str:
        """How much was cut, and where; empty if nothing was."""

    def describe_memory(self) -> str:
        """How large batches are, if a larger one did not fit into memory; else empty."""
        return self.room.describe()

    @property
    @abstractmethod
    def loaded(self) -> PairModel:
        """The model, with the settings that are given here; it is loaded when it is first used."""

    def _open(self, load: Callable[[str | Path], Any]) -> Any:
        """The model as it was given or, by its name, as ``load`` finds it; a folder is taken as such."""
        if not self._is_named:
            return self.model
        return load(Path(self.model) if Path(self.model).is_dir() else self.model)

    @abstractmethod
    def _sample_pairs(self) -> Sequence[Pair]:
        """The tokens of ``samples``."""

    @property
    def _is_named(self) -> bool:
        return isinstance(self.model, str | Path)

    @cached_property
    def _device(self) -> torch.device:
        return device_for(self)

    @cached_property
    def _compute(self) -> Compute:
        return compute(self.loaded, self, self._sample_batches)

    def _sample_batches(self) -> list[PairBatch]:
        pad_id = self.loaded.texts.pad_id
        return [batch for _, batch in batch_pairs(self._sample_pairs(), pad_id, CPU_TOKENS // 2)]

    def _compute_block(self, block: Tensor) -> Tensor:
        return self._compute(PairBatch.of_block(pin(block, self._device)))

    def _compute_rows(
        self, lengths: npt.NDArray[np.int64], join: Callable[[Sequence[int], int], Tensor], report: Report
    ) -> Outputs:
        """The logits of pairs of these lengths; ``join`` makes tensors of rows, padded to a width."""
        batching = Batching(self._device, self.loaded.texts.max_length, self.budget, self.room)
        return batching.compute(lengths, lambda rows, width: self._compute_block(join(rows, width)), report)

    @property
    def _arguments(self) -> dict[str, Any]:
        return {setting.name: getattr(self, setting.name) for setting in fields(self) if setting.init}

    @property
    def _identity(self) -> tuple[object, ...]:
        return type(self), self._is_named, *{**self._arguments, "model": self.name}.items()

    def __eq__(self, other: object) -> bool:
        return self._identity == other._identity if isinstance(other, ComputedModel) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        settings = (f"{name}={value!r}" for name, value in self.changed.items())
        return f"{type(self).__name__}({', '.join((repr(self.name), *settings))})"

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **self._arguments), ()


_WINDOW = 4096  # pairs that are sorted together, and whose tokens are in memory
_GROUPS = 1024  # of a window at most, so that the first results come early
_TOKENS_OF_PAIR = 4  # of a batch, for each pair of its window: a batch of 65,536 has windows of 16,384 pairs


@dataclass
class ScoringCounts:
    """What a scorer has scored so far: ``cut`` counts the tokens that were cut off, in ``cut_pairs``."""

    pairs: int = 0
    cut: int = 0
    cut_pairs: int = 0

    def add(self, pairs: TokenizedPairs) -> None:
        cut = pairs.cut.sum(1)
        self.pairs += len(pairs)
        self.cut += int(cut.sum())
        self.cut_pairs += int((cut > 0).sum())


@dataclass(frozen=True, eq=False, repr=False)
class Scorer(ComputedModel, PairComputing):
    """A re-ranker, by its name or loaded, and the settings of its computation: a value.

    ``precision`` ``auto`` is bfloat16 on a GPU that computes in it, else float32 (:attr:`computes_in`).
    ``tokens`` bounds a batch: its pairs times the tokens of the longest; None leaves it to the device. A GPU
    whose memory is too small gets smaller batches (:meth:`describe_memory`). In float32 a score is the same
    in any batch, to 1e-5. ``samples`` are pairs to calibrate int8 on, similar to those that will be scored,
    but not the same. A query is cut at ``max_query`` tokens and a pair at ``max_length``; None leaves them to
    the model. A named model has to exist, or is fetched from the hub, and is loaded with the first pair.

    Raises
    ------
    ModelError
        If there is no such re-ranker, back end or precision; with the first pair, if it does not read pairs
        of these lengths.
    MissingExtra
        With the first pair, if the back end's package is not installed.
    """

    model: Reranker | str | Path
    counts: ScoringCounts = field(default_factory=ScoringCounts, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.model, Reranker):
            require_reranker(self.model)

    @cached_property
    def reranker(self) -> Reranker:
        reranker: Reranker = self._open(load_reranker)
        return reranker.with_lengths(self.max_query, self.max_length)

    @property
    def loaded(self) -> Reranker:
        return self.reranker

    def _sample_pairs(self) -> Sequence[Pair]:
        return make_pairs(self.reranker, self.samples)

    def score(self, pairs: Iterable[TextPair], *, progress: Progress = silent) -> Scores:
        """The logits of pairs, in their order."""
        return next(self.stream([pairs], progress=progress))

    def stream(
        self,
        groups: Iterable[Iterable[TextPair]],
        *,
        progress: Progress = silent,
        window: int | None = None,
    ) -> Iterator[Scores]:
        """The logits of each group of pairs, for example a query's candidates, lazily and in order.

        A few thousand pairs are in memory (of a GPU's larger windows, tens of thousands), for any number of
        groups and of pairs in a group. While pairs are computed, the next pairs are read and tokenised.
        ``window`` pairs are sorted together, 4,096 if it is None; a GPU begins with them.
        """
        first, on_gpu = window or _WINDOW, self._device.type != "cpu"
        most = self.budget // _TOKENS_OF_PAIR if on_gpu else first
        parts = stream_groups(
            WindowLimits(math.inf, first, _GROUPS, most).cut(groups, lambda _: 0),
            lambda texts: tokenize_for(self.reranker, texts),  # opened when the first texts have come
            lambda pairs: self._launch(pairs, progress),
            on_gpu=on_gpu,
        )
        yield from map(np.concatenate, parts)

    def score_pairs(self, pairs: TokenizedPairs, progress: Progress = silent) -> Scores:
        """The logits of pairs of tokens in their order; all of them are in memory."""
        return self._launch(pairs, progress)()

    def score_batch(self, parts: Sequence[tuple[TokenizedPairs, Sequence[int]]]) -> Scores:
        """The logits of one batch: of the rows of each of several lists of pairs, one list after the other.

        It is computed in smaller batches if it does not fit into memory. Nothing is counted.
        """
        lengths = np.concatenate([pairs.lengths[list(rows)] for pairs, rows in parts])
        width = int(batch_widths(lengths, self._device, self.reranker.shape.max_length).max(initial=0))
        blocks = [pairs.join(rows, width, self._fields) for pairs, rows in parts]
        block = torch.cat(blocks, 1)  # (fields, B, width)
        rows = range(block.shape[1])
        logits = self.room.compute(rows, width, lambda some, _: self._compute_block(block[:, list(some)]))
        return torch.cat(logits).double().cpu().numpy()

    def _launch(self, pairs: TokenizedPairs, progress: Progress) -> Callable[[], Scores]:
        """Begin to compute pairs; the function waits for their logits, in their order."""
        before, fields = self.counts.pairs, self._fields
        outputs = self._compute_rows(
            pairs.lengths,
            lambda rows, width: pairs.join(rows, width, fields),
            lambda done: progress("scoring", before + done, None),
        )
        self.counts.add(pairs)
        return lambda: outputs.fetch().astype(np.float64)

    @property
    def _fields(self) -> int:
        """How many tensors of a batch the model reads."""
        return 5 if self.reranker.kind.reads_parts else 3

    @property
    def uncounted(self) -> Scorer:
        """The same model, loaded once, with counts of its own: for what is explained and not ranked."""
        _ = self.reranker, self._compute, self._device  # both have the same
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, counts=ScoringCounts())
        return other

    def describe_cut(self) -> str:
        """How many of the scored pairs were cut, and where; empty if none was."""
        counts = self.counts
        if not counts.cut_pairs:
            return ""
        return (
            f"{counts.cut_pairs:,} pair{'s' if counts.cut_pairs != 1 else ''} longer than "
            f"{count_noun(self.reranker.shape.max_length, 'token')}: cut there, "
            f"{count_noun(counts.cut, 'token')} were not read"
        )
