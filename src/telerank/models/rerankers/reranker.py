"""A re-ranker: a model that scores pairs, what makes its pairs of texts, and its folder on disk.

::

    config.json  model.safetensors  tokenizer.json …   the transformer; for word vectors vocab.txt and weights
    head.safetensors                                   the head on its outputs, if it has one
    reranker.json                                      our settings: the kind, lengths, the head's sizes

A folder of kind ``monobert`` opens in ``sentence_transformers.CrossEncoder(path)`` with the same scores; and
any cross-encoder of one or two labels, from a folder or the hub, opens here as ``monobert``.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import torch
from torch import nn

from telerank.errors import ModelError
from telerank.models.fingerprints import hash_parts
from telerank.models.loading import (
    architecture_of,
    draw_encoder,
    locate,
    naming,
    read_config,
    read_tokenizer,
)
from telerank.models.pairs.pair import PairTexts
from telerank.models.random_numbers import seeded
from telerank.models.rerankers.kinds import ModelParts, RerankerKind, Shape, find_kind
from telerank.models.rerankers.transformer_ranker import (
    EncoderRanker,
    TransformerRanker,
    check_length,
    describe_windows,
    positions,
    save_model,
)
from telerank.records import read_record

SETTINGS = "reranker.json"


@dataclass(frozen=True, eq=False)
class Reranker:
    """``model`` maps a :class:`~telerank.models.pairs.pair.PairBatch` to logits, (B,); ``texts`` makes it."""

    model: nn.Module
    texts: PairTexts
    shape: Shape

    @property
    def kind(self) -> RerankerKind:
        return find_kind(self.shape.kind)

    @property
    def parts(self) -> ModelParts:
        return self.kind.parts(self.model)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def label(self) -> str:
        """Its kind, for messages."""
        return self.shape.kind

    @property
    def network(self) -> nn.Module:
        """What maps pairs to logits."""
        return self.model

    @property
    def fingerprint(self) -> str:
        """64 hexadecimal digits that depend on everything that decides its scores."""
        parts = self.parts
        return hash_parts(self.shape.record(), parts.transformer, parts.layers, self.texts.record())

    @property
    def encoder_fingerprint(self) -> str:
        """64 hexadecimal digits that depend on what decides its features: encoder and tokens of pairs.

        Raises
        ------
        ModelError
            If it is not an encoder with a head.
        """
        texts = {"language": self.shape.language, **self.texts.record()}
        return hash_parts(texts, self.encoder_ranker.encoder)

    def refuses(self, backend: str) -> str:
        """Why that back end does not compute it; empty if it does."""
        if self.kind.over_words and backend != "torch":
            return "has no transformer"
        if backend in ("torch", "compiled"):
            return ""
        return self.kind.no_graph or describe_windows(self.parts.transformer)

    @property
    def transformer(self) -> TransformerRanker:
        """The model, if it has a transformer.

        Raises
        ------
        ModelError
            If it has none.
        """
        if self.kind.over_words:
            raise ModelError(f"a {self.shape.kind} has no transformer")
        return cast("TransformerRanker", self.model)

    @property
    def encoder_ranker(self) -> EncoderRanker:
        """The model, if it is an encoder with a head.

        Raises
        ------
        ModelError
            If it is not.
        """
        if not self.kind.has_head:
            raise ModelError(f"a {self.shape.kind} has no encoder apart from its head")
        return cast("EncoderRanker", self.model)

    def with_lengths(self, max_query: int | None, max_length: int | None) -> Reranker:
        """The same model on pairs that are cut at other lengths; None keeps a length.

        Raises
        ------
        ModelError
            If the model has fewer positions, or a query leaves no room for a passage.
        """
        query = self.shape.max_query if max_query is None else max_query
        length = self.shape.max_length if max_length is None else max_length
        if (query, length) == (self.shape.max_query, self.shape.max_length):
            return self
        check_length(self.model, length)
        shape = replace(self.shape, max_query=query, max_length=length)
        return Reranker(self.model, self.texts.with_lengths(query, length), shape)


def fresh_reranker(
    start: str | Path,
    shape: Shape,
    *,
    seed: int = 0,
    dropout: float | None = None,
    keep: Collection[str] | None = None,
    fresh: bool = False,
) -> Reranker:
    """The encoder of that name (``minilm``, a folder, a name on the hub) with a head drawn by ``seed``.

    Of a ``fresh`` one only the shape and the vocabulary are those of the encoder: ``seed`` draws its weights.

    ``dropout`` overrides every probability of dropout in the encoder. For the kinds over word vectors
    ``start`` is their folder or file (:func:`telerank.models.pairs.words.load_vectors`), and ``keep``
    the words that are kept of them.

    Raises
    ------
    ModelError
        If there is no such encoder, it has fewer positions than the lengths need, or the head cannot be made.
    """
    kind = find_kind(shape.kind)
    folder = Path(start) if kind.over_words else locate(start)
    with seeded(seed):
        model, texts = kind.create(folder, shape, dropout, keep)
        transformer = kind.parts(model).transformer
        if fresh and transformer is not None:
            transformer.load_state_dict(type(transformer)(transformer.config).state_dict())
    return Reranker(model.eval(), texts, shape)


def load_reranker(name: str | Path, *, dropout: float | None = None) -> Reranker:
    """The re-ranker of that name, in evaluation mode on the processor.

    Raises
    ------
    ModelError
        If there is none, or its files are damaged.
    """
    folder = locate_reranker(name)
    shape = read_shape(folder)
    if shape is None:
        raise _expected_reranker(folder)
    with naming(folder):
        model, texts = find_kind(shape.kind).load(folder, shape, dropout)
    return Reranker(model.eval(), texts, shape)


def save_reranker(reranker: Reranker, folder: str | Path) -> None:
    """Write the re-ranker into ``folder``, which is made if it is not there."""
    save_model(folder, reranker.parts, reranker.texts, SETTINGS, reranker.shape.record())


def locate_reranker(name: str | Path) -> Path:
    """The folder of a re-ranker of ours, which may lack a ``config.json``, or of any other model."""
    return Path(name) if (Path(name) / SETTINGS).exists() else locate(name)


def require_reranker(name: str | Path) -> Path:
    """The folder of the re-ranker of that name, of which only the settings are read.

    Raises
    ------
    ModelError
        If there is none, or the model is of another kind.
    """
    folder = locate_reranker(name)
    if not (folder / SETTINGS).exists() and not _is_cross_encoder(folder):
        raise _expected_reranker(folder)
    return folder


def _is_cross_encoder(folder: Path) -> bool:
    return architecture_of(read_config(folder, None)).endswith("ForSequenceClassification")


def _expected_reranker(folder: Path) -> ModelError:
    architecture = architecture_of(read_config(folder, None)) or "nothing"
    return ModelError(f"{folder}: expected a re-ranker, got {architecture} and no {SETTINGS}")


def write_shape(shape: Shape, folder: Path) -> None:
    """Write or replace the settings of the re-ranker in a folder."""
    (folder / SETTINGS).write_text(f"{json.dumps(shape.record(), indent=2)}\n", encoding="utf-8")


def read_shape(folder: Path) -> Shape | None:
    """The shape of the re-ranker in a folder; None if its model is an encoder alone.

    The pairs of a cross-encoder that is not ours are as long as it can read. Raises ModelError if the
    settings are not those of a re-ranker.
    """
    file = folder / SETTINGS
    if not file.exists():
        if not _is_cross_encoder(folder):
            return None
        query, length = readable_lengths(folder)
        return Shape("monobert", max_query=query, max_length=length)
    return read_record(file, Shape, ModelError)


def readable_lengths(folder: Path) -> tuple[int, int]:
    """How many tokens of a query, and of a pair, the transformer of a folder reads: 64 and 512 at most."""
    config = read_config(folder, None)
    with torch.device("meta"):  # for its shapes alone: nothing is drawn or read
        longest = positions(draw_encoder(folder, None))
    longest = getattr(config, "max_position_embeddings", None) if longest is None else longest
    known = longest, read_tokenizer(folder).model_max_length  # 10^30 if it knows no bound
    length = min(512, *(length for length in known if isinstance(length, int)))
    return min(64, length // 2), length
