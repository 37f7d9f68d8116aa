"""Score pairs of texts: tokenised once, sorted by length, computed in batches of bounded tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from telerank.errors import ModelError
from telerank.models.fingerprints import reranker_fingerprint
from telerank.models.pairs.pair import Pair, PairBatch
from telerank.models.rerankers.reranker import Reranker, load_reranker
from telerank.reranking.backends import BackEndSettings, Compute, compute
from telerank.reranking.texts import TextPair, batch_pairs, make_pairs
from telerank.stored import folder_checksum
from telerank.types import Progress, Scores, silent

_WINDOW = 4096  # pairs that are sorted together, and whose tokens are in memory
_GROUPS = 1024  # of a window at most, so that the first results come early
_TOKENS, _TOKENS_OF_GPU = 2048, 65_536  # of a batch; larger ones do not fit a processor's cache


@dataclass
class ScoringCounts:
    """What a scorer has scored so far: ``cut`` counts the tokens that were cut off, in ``cut_pairs``."""

    pairs: int = 0
    cut: int = 0
    cut_pairs: int = 0

    def add(self, pairs: Sequence[Pair]) -> None:
        self.pairs += len(pairs)
        self.cut += sum(pair.cut for pair in pairs)
        self.cut_pairs += sum(pair.cut > 0 for pair in pairs)


@dataclass(frozen=True, eq=False, repr=False)
class Scorer:
    """A re-ranker, by its name or loaded, and the settings of its computation: a value.

    ``tokens`` bounds a batch: its pairs times the tokens of the longest; None leaves it to the device. In
    float32 a score is the same in any batch, to 1e-5. ``samples`` are pairs to calibrate int8 on, similar to
    those that will be scored, but not the same. A query is cut at ``max_query`` tokens and a pair at
    ``max_length``; None leaves them to the model. A named model is loaded with the first pair.

    Raises
    ------
    ModelError
        If there is no such back end or precision; with the first pair, if there is no such model, or it does
        not read pairs of these lengths.
    MissingExtra
        With the first pair, if the back end's package is not installed.
    """

    model: Reranker | str | Path
    backend: str = "torch"
    precision: str = "float32"
    threads: int | None = None
    tokens: int | None = None
    device: str | None = None
    samples: tuple[TextPair, ...] = ()
    max_query: int | None = None
    max_length: int | None = None
    counts: ScoringCounts = field(default_factory=ScoringCounts, init=False)

    def __post_init__(self) -> None:
        if self.tokens is not None and self.tokens < 1:
            raise ModelError(f"tokens of a batch must be at least 1, got {self.tokens}")
        _ = self._setting

    @cached_property
    def _setting(self) -> BackEndSettings:
        return BackEndSettings(self.backend, self.precision, self.threads, self.device)

    @property
    def changed(self) -> dict[str, Any]:
        """The settings that differ from their defaults, by name, without ``samples``."""
        settings = [field for field in fields(self) if field.init and field.name not in ("model", "samples")]
        values = {field.name: getattr(self, field.name) for field in settings}
        return {field.name: values[field.name] for field in settings if values[field.name] != field.default}

    @cached_property
    def reranker(self) -> Reranker:
        model = self.model
        if not isinstance(model, Reranker):
            model = load_reranker(Path(model) if Path(model).is_dir() else model)
        return model.with_lengths(self.max_query, self.max_length)

    @cached_property
    def name(self) -> str:
        """The given name of the model, or its kind and fingerprint."""
        if isinstance(self.model, Reranker):
            return f"{self.model.shape.kind} {reranker_fingerprint(self.model)[:12]}"
        return str(self.model)

    @property
    def checksum(self) -> str:
        """A hash of the model: of the files in its folder, or of its weights."""
        folder = Path(str(self.model))
        return folder_checksum(folder) if folder.is_dir() else reranker_fingerprint(self.reranker)

    def score(self, pairs: Iterable[TextPair], *, progress: Progress = silent) -> Scores:
        """The logits of pairs, in their order."""
        return next(self.stream([pairs], progress=progress))

    def stream(
        self, groups: Iterable[Iterable[TextPair]], *, progress: Progress = silent
    ) -> Iterator[Scores]:
        """The logits of each group of pairs, for example a query's candidates, lazily and in order.

        A few thousand pairs are in memory, for any number of groups and of pairs in a group. While pairs are
        computed, the next pairs are read and tokenised.
        """
        parts: list[Scores] = []
        for ends, scores in self._windows(groups, progress):
            begin = 0
            for end in ends:
                yield np.concatenate([*parts, scores[begin:end]])
                parts, begin = [], end
            parts.append(scores[begin:])

    def _windows(
        self, groups: Iterable[Iterable[TextPair]], progress: Progress
    ) -> Iterator[tuple[list[int], Scores]]:
        """The scores of each window, and the ends of the groups in it."""
        with ThreadPoolExecutor(1, thread_name_prefix="tokenising") as pool:
            windows = (
                (ends, pool.submit(make_pairs, self.reranker, texts)) for texts, ends in _windows(groups)
            )
            waiting = next(windows, None)
            while waiting is not None:
                (ends, pairs), waiting = waiting, next(windows, None)
                yield ends, self._score_pairs(pairs.result(), progress)

    def _score_pairs(self, pairs: Sequence[Pair], progress: Progress) -> Scores:
        scores, done = np.empty(len(pairs)), self.counts.pairs
        for rows, batch in batch_pairs(pairs, self.reranker.texts.pad_id, self._budget):
            scores[rows] = self._compute(batch).numpy()
            done += len(rows)
            progress("scoring", done, None)
        self.counts.add(pairs)
        return scores

    @cached_property
    def _compute(self) -> Compute:
        return compute(self.reranker, self._setting, self._sample_batches)

    def _sample_batches(self) -> list[PairBatch]:
        pairs = make_pairs(self.reranker, self.samples)
        return [batch for _, batch in batch_pairs(pairs, self.reranker.texts.pad_id, _TOKENS // 2)]

    @cached_property
    def _budget(self) -> int:
        if self.tokens is not None:
            return self.tokens
        import torch

        on_gpu = self.backend == "torch" and self.device != "cpu" and torch.cuda.is_available()
        return _TOKENS_OF_GPU if on_gpu else _TOKENS

    @property
    def _arguments(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name) for field in fields(self) if field.init)

    @property
    def _identity(self) -> tuple[object, ...]:
        return isinstance(self.model, Reranker), self.name, *self._arguments[1:]

    def __eq__(self, other: object) -> bool:
        return self._identity == other._identity if isinstance(other, Scorer) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        settings = (f"{name}={value!r}" for name, value in self.changed.items())
        return f"Scorer({', '.join((repr(self.name), *settings))})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Scorer, self._arguments


def _windows(groups: Iterable[Iterable[TextPair]]) -> Iterator[tuple[list[TextPair], list[int]]]:
    """Pairs in windows, and the ends of the groups in each; a group may continue in the next window."""
    texts: list[TextPair] = []
    ends: list[int] = []
    for group in groups:
        for pair in group:
            texts.append(pair)
            if len(texts) == _WINDOW:
                yield texts, ends
                texts, ends = [], []
        ends.append(len(texts))
        if len(ends) == _GROUPS:
            yield texts, ends
            texts, ends = [], []
    if ends:
        yield texts, ends
