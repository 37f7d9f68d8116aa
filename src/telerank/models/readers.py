"""An extractive reader: a transformer that marks the answer to a question in a text, and its folder on disk.

::

    config.json  model.safetensors  tokenizer.json …   as AutoModelForQuestionAnswering opens them
    reader.json                                        our settings: lengths, threshold, temperature

Any reader's folder of transformers, or its name on the hub, opens here, with the settings that fit the model.

A context that does not fit behind its question is read in several windows, which share ``stride`` tokens with
their neighbours, as in transformers' tokenizers. Most tokens are in several windows; each counts in the
one in which it has most context, the smaller of what is before and behind it (Devlin et al.'s run_squad).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from pydantic import with_config
from torch import Tensor, nn
from transformers import AutoModelForQuestionAnswering

from telerank.errors import ModelError
from telerank.models.fingerprints import hash_parts
from telerank.models.loading import architecture_of, locate, naming, read_config, read_weights
from telerank.models.pairs.pair import Pair, PairBatch, PairTokenizer, Passage
from telerank.models.precision import in_float32
from telerank.models.random_numbers import seeded
from telerank.models.rerankers.kinds import ModelParts
from telerank.models.rerankers.reranker import readable_lengths
from telerank.models.rerankers.transformer_ranker import (
    TwoStepModel,
    check_length,
    describe_windows,
    inputs_of,
    read_pair_tokenizer,
    save_model,
)
from telerank.records import read_record

_LAYER = "qa_outputs"
"""The name of the layer that gives the logits, in most architectures."""


class SpanModel(TwoStepModel):
    """The logits of starts and ends, (B, L, 2), from transformers' model ``reader``.

    Its last layer computes in float32, within ``bfloat16``, too.
    """

    pooled = False

    def __init__(self, reader: Any) -> None:
        super().__init__()
        self.reader = reader

    @property
    def last_layers(self) -> nn.Linear | None:
        layer = getattr(self.reader, _LAYER, None)
        return layer if isinstance(layer, nn.Linear) and layer.out_features == 2 else None

    def transformer(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        """Tokens of windows, each (B, L) -> what the last layer reads, (B, L, H).

        If an architecture names that layer otherwise: its logits, (B, L, 2).
        """
        inputs = inputs_of(self.reader, input_ids, attention_mask, token_type_ids)
        layer, read = self.last_layers, list[Tensor]()
        if layer is None:
            outputs = self.reader(**inputs)
            return torch.stack([outputs.start_logits, outputs.end_logits], dim=-1)

        exact = layer.weight.dtype  # which may be more exact than what comes before

        def take(_: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor]:
            read.append(given[0])
            return (given[0].to(exact),)

        hook = layer.register_forward_pre_hook(take)
        try:
            self.reader(**inputs)
        finally:
            hook.remove()
        return read[0]

    @in_float32
    def finish(self, outputs: Tensor, batch: PairBatch) -> Tensor:  # noqa: ARG002 — as of every model
        layer = self.last_layers
        logits: Tensor = outputs.float() if layer is None else layer(outputs.float())
        return logits


SETTINGS = "reader.json"
_HEAD = "ForQuestionAnswering"


@with_config(extra="forbid")
@dataclass(frozen=True)
class ReaderSettings:
    """Everything besides weights and vocabulary that decides an answer.

    All lengths count tokens: of a window with its question and the special ones, of what neighbouring windows
    share (``stride``), of the longest question and the longest answer. There is no answer if the score of
    none exceeds that of the best span by more than ``threshold``; a reader whose threshold is None always
    answers. ``temperature`` divides the scores that confidences are computed from; both are fitted on
    a dev set. ``language`` decides which answers are equal: those that differ only by its articles.

    Raises
    ------
    ModelError
        If a length is too small, the temperature is not above 0, or a number is not finite.
    """

    max_length: int = 384
    stride: int = 128
    max_question: int = 64
    max_answer: int = 30
    threshold: float | None = None
    temperature: float = 1.0
    language: Literal["en", "fr"] = "en"

    def __post_init__(self) -> None:
        for name, least in (("max_length", 1), ("stride", 0), ("max_question", 1), ("max_answer", 1)):
            if getattr(self, name) < least:
                raise ModelError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise ModelError(f"threshold must be a finite number, got {self.threshold}")
        if not 0 < self.temperature < math.inf:
            raise ModelError(f"temperature must be a finite number above 0, got {self.temperature}")


@dataclass(frozen=True, eq=False)
class Reader:
    """``model`` gives ``start_logits`` and ``end_logits``, (B, L); ``texts`` makes its pairs.

    ``model`` is what ``AutoModelForQuestionAnswering`` makes. The score of a span is the sum of the start's
    logit and the end's; that of no answer the same sum for the first token, ``[CLS]`` or ``<s>``.
    """

    model: Any
    texts: PairTokenizer
    settings: ReaderSettings

    label = "reader"

    @property
    def network(self) -> SpanModel:
        """What maps pairs to logits."""
        return SpanModel(self.model)

    @property
    def fingerprint(self) -> str:
        """64 hexadecimal digits that depend on everything that decides its logits."""
        return hash_parts({"kind": "reader", **self.texts.record()}, self.model)

    def refuses(self, backend: str) -> str:
        """Why that back end does not compute it; empty if it does."""
        if backend == "compiled":
            return "is not compiled"
        return "" if backend == "torch" else describe_windows(self.model)

    def with_settings(self, **changes: Any) -> Reader:
        """The same model with other settings, by name.

        Raises
        ------
        ModelError
            If the model has fewer positions, or a question and a stride leave a window no room.
        """
        settings = replace(self.settings, **changes)
        check_length(self.model, settings.max_length)
        texts = self.texts.with_lengths(settings.max_question, settings.max_length)
        _check_room(texts, settings)
        return Reader(self.model, texts, settings)


def fresh_reader(
    start: str | Path,
    settings: ReaderSettings | None = None,
    *,
    seed: int = 0,
    dropout: float | None = None,
) -> Reader:
    """The encoder of that name with a layer for starts and ends drawn by ``seed``.

    ``start`` is an encoder, a re-ranker or a bi-encoder, ours or any other of transformers: of a bi-encoder
    with two encoders it is that of queries. A reader keeps its layer. ``dropout`` overrides every
    probability of dropout.

    Raises
    ------
    ModelError
        If there is no such encoder, no such layer can be put on it, or it has fewer positions than the
        settings need.
    """
    folder = locate(start)
    config = read_config(folder, dropout)
    config.num_labels = 2  # a re-ranker's may be 1
    with seeded(seed):
        model = read_weights(AutoModelForQuestionAnswering, folder, config)
    return _reader_of(folder, model, settings or ReaderSettings())


def require_reader(name: str | Path) -> Path:
    """The folder of the reader of that name, of which only the settings are read.

    Raises
    ------
    ModelError
        If there is none, or the model is of another kind.
    """
    folder = locate(name)
    architecture = architecture_of(read_config(folder, None))
    if _HEAD not in architecture:
        raise ModelError(
            f"{folder}: expected a reader (…{_HEAD}), got "
            f"{architecture or 'a model without architecture'}: train a reader from it"
        )
    return folder


def load_reader(name: str | Path, *, dropout: float | None = None) -> Reader:
    """The reader of that name (a folder, a name on the hub), in evaluation mode on the processor.

    Raises
    ------
    ModelError
        If there is none, the model is no reader, its tokenizer gives no offsets, or its files are damaged.
    """
    folder = require_reader(name)
    config = read_config(folder, dropout)
    if config.num_labels != 2:
        raise ModelError(f"{folder}: expected two logits for a token, start and end, got {config.num_labels}")
    model = read_weights(AutoModelForQuestionAnswering, folder, config, whole=True)
    return _reader_of(folder, model, read_settings(folder))


def save_reader(reader: Reader, folder: str | Path) -> None:
    """Write the reader into ``folder``, which is made if it is not there."""
    save_model(folder, ModelParts(reader.model), reader.texts, SETTINGS, asdict(reader.settings))


def write_settings(folder: Path, settings: ReaderSettings) -> None:
    """Write or replace the settings of the reader in a folder, for example with a fitted threshold."""
    (folder / SETTINGS).write_text(f"{json.dumps(asdict(settings), indent=2)}\n", encoding="utf-8")


def read_settings(folder: Path) -> ReaderSettings:
    """The settings in a reader's folder; without a file of ours those that its model can read.

    Raises
    ------
    ModelError
        If the file is damaged.
    """
    if (folder / SETTINGS).exists():
        return read_record(folder / SETTINGS, ReaderSettings, ModelError)
    question, length = readable_lengths(folder)
    length = min(384, length)
    return ReaderSettings(max_length=length, stride=min(128, length // 3), max_question=question)


def _reader_of(folder: Path, model: Any, settings: ReaderSettings) -> Reader:
    with naming(folder):
        texts = read_pair_tokenizer(
            folder, SpanModel(model.eval()), settings.max_question, settings.max_length
        )
        _check_room(texts, settings)
    return Reader(model, texts, settings)


def _check_room(texts: PairTokenizer, settings: ReaderSettings) -> None:
    """Raise ModelError if windows behind the longest question do not advance."""
    room = settings.max_length - texts.frame.size - settings.max_question
    if room <= settings.stride:
        raise ModelError(
            f"windows of {settings.max_length} tokens: "
            f"{settings.max_question} tokens of a question and {texts.frame.size} special ones leave "
            f"{max(room, 0)} of a context, not more than the stride of {settings.stride}"
        )


@dataclass(frozen=True, eq=False)
class Context:
    """The ``T`` tokens of a context, not yet cut: ``ids``, (T,), and the characters of each.

    ``offsets`` (T, 2) has the first character of each token and the one after its last. They ascend, may
    overlap, if tokens are parts of a character, and may begin with a blank.
    """

    text: str
    ids: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class ContextWindow:
    """A question with ``count`` tokens of a context, beginning with its token number ``first``.

    They are the tokens ``begin`` to ``begin + count`` of ``pair``. ``counts`` (count,) says which of them
    have most context in this window.
    """

    pair: Pair
    first: int
    count: int
    begin: int
    counts: npt.NDArray[np.bool_]


def tokenize_contexts(texts: PairTokenizer, contexts: Sequence[str]) -> list[Context]:
    """The tokens of contexts, with the characters of each."""
    return [
        Context(text, np.array(encoding.ids, np.int32), np.array(encoding.offsets, np.int64).reshape(-1, 2))
        for text, encoding in zip(contexts, texts.encode(contexts), strict=True)
    ]


def cut_windows(
    texts: PairTokenizer, question: npt.NDArray[np.int32], context: Context, stride: int
) -> list[ContextWindow]:
    """The windows of a context, each as long as ``texts`` allows; none if the context has no token.

    ``question`` has its tokens, not yet cut: each window's pair counts those that were cut off.
    """
    room = texts.max_length - texts.frame.size - min(len(question), texts.longest_query)
    begin = len(texts.frame.before) + min(len(question), texts.longest_query) + len(texts.frame.between)
    length, step = len(context), room - stride
    # a window begins every ``step`` tokens, until one reaches the end
    starts = range(0, max(1, length - room + step), step) if length else range(0)
    # the number of the window in which each token has most context, the earlier one if several are equal
    owners, most = np.zeros(length, np.int64), np.full(length, -1, np.int64)
    for number, first in enumerate(starts):
        end = min(first + room, length)
        before = np.arange(end - first)
        around = np.minimum(before, before[::-1])
        better = around > most[first:end]
        owners[first:end][better] = number
        most[first:end][better] = around[better]
    windows = []
    for number, first in enumerate(starts):
        ids = context.ids[first : first + room]
        pair = texts.pair(question, Passage(ids, np.zeros(len(ids), np.int32)))
        windows.append(ContextWindow(pair, first, len(ids), begin, owners[first : first + room] == number))
    return windows


def find_tokens(context: Context, start: int, end: int) -> tuple[int, int] | None:
    """The first and the last token that have one of the characters from ``start`` to before ``end``.

    None if no token has any of them.
    """
    starts, ends = context.offsets.T
    inside = np.flatnonzero((ends > start) & (starts < end) & (ends > starts))
    return (int(inside[0]), int(inside[-1])) if len(inside) else None
