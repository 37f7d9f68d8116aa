"""A re-ranker: a model that scores pairs, what makes its pairs of texts, and its folder on disk.

::

    config.json  model.safetensors  tokenizer.json …   the transformer; for word vectors vocab.txt and weights
    head.safetensors                                   the head on its outputs, where it has one
    reranker.json                                      our settings: the kind, lengths, the head's sizes

A folder of kind ``monobert`` opens in ``sentence_transformers.CrossEncoder(path)`` with the same scores; and
any cross-encoder of one or two labels, from a folder or the hub, opens here as ``monobert``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoModel

from telerank.errors import ModelError
from telerank.models.loading import first_line, locate, read_config, read_encoder, read_tokenizer
from telerank.models.pairs.pair import PairTexts, PairTokenizer
from telerank.models.pairs.words import Words
from telerank.models.positions import positions
from telerank.models.quiet import quiet
from telerank.models.rerankers.bert import ClsMlp
from telerank.models.rerankers.bert_dmn import DmnHead
from telerank.models.rerankers.encoder_ranker import EncoderRanker
from telerank.models.rerankers.monobert import MonoBert
from telerank.models.rerankers.sequence_classifier import read_classifier
from telerank.models.rerankers.word_rankers import (
    WORD_KINDS,
    fresh_word_ranker,
    load_word_ranker,
    save_word_ranker,
)

SETTINGS = "reranker.json"
HEAD = "head.safetensors"
HEADS: Mapping[str, type[nn.Module]] = {"bert": ClsMlp, "bert-dmn": DmnHead}
"""The head of each kind that has an encoder: made from the encoder's width and :attr:`Shape.head`."""
KINDS = ("monobert", *HEADS, *WORD_KINDS)


@dataclass(frozen=True)
class Shape:
    """Everything besides weights and vocabulary that decides a score.

    ``frozen`` is whether the encoder is left as it is in training. ``max_query`` and ``max_length`` count
    tokens (monoBERT, section 2); ``language`` tells how sentences are split, for the kinds that read them;
    ``head`` has the settings of the head, or of a model over word vectors, by the names of its arguments.
    """

    kind: str = "monobert"
    frozen: bool = False
    max_query: int = 64
    max_length: int = 512
    language: str = "en"
    head: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ModelError(f"no re-ranker is called {self.kind!r}; there are: {', '.join(KINDS)}")
        if self.kind == "monobert" and self.head:
            raise ModelError(f"a monobert has no settings of a head, got {', '.join(self.head)}")
        if self.frozen and self.kind not in HEADS:
            raise ModelError(f"a {self.kind} has no head on a frozen encoder; these have: {', '.join(HEADS)}")

    @property
    def needs_sentences(self) -> bool:
        """Whether passages must be given with the spans of their sentences."""
        return self.kind in ("bert-dmn", "dmn")

    def record(self) -> dict[str, Any]:
        return {**asdict(self), "head": dict(self.head)}

    @classmethod
    def of(cls, record: Any) -> Shape:
        """The shape that :meth:`record` wrote.

        Raises
        ------
        ModelError
            where it holds anything else.
        """
        try:
            return cls(**record)
        except TypeError as error:
            raise ModelError(f"these are no settings of a re-ranker: {error}") from error


@dataclass(frozen=True, eq=False)
class Reranker:
    """``model`` maps a :class:`~telerank.models.pairs.pair.PairBatch` to logits, (B,); ``texts`` makes it."""

    model: nn.Module
    texts: PairTexts
    shape: Shape

    @property
    def needs_sentences(self) -> bool:
        return self.shape.needs_sentences


def fresh_reranker(
    start: str | Path,
    shape: Shape,
    *,
    seed: int = 0,
    dropout: float | None = None,
    keep: Collection[str] | None = None,
) -> Reranker:
    """The encoder of that name (``minilm``, a folder, a name on the hub) with a head drawn by ``seed``.

    ``dropout`` overrides every probability of dropout in the encoder. For the kinds over word vectors
    ``start`` is where those are (:func:`telerank.models.pairs.word_vectors.load_vectors`), and ``keep`` the
    words that are kept of them.

    Raises
    ------
    ModelError
        where there is no such encoder, the lengths pass its positions, or the head cannot be made.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if shape.kind in WORD_KINDS:
            return _over_words(*fresh_word_ranker(shape.kind, start, shape.head, keep), shape)
        folder = locate(start)
        if shape.kind == "monobert":
            model: nn.Module = MonoBert(read_classifier(folder, dropout))
        else:
            encoder = read_encoder(folder, dropout)
            model = EncoderRanker(encoder, _head(shape, encoder.config.hidden_size), frozen=shape.frozen)
    return _ready(model, folder, shape)


def load_reranker(name: str | Path, *, dropout: float | None = None) -> Reranker:
    """The re-ranker of that name, in evaluation mode on the processor.

    Raises
    ------
    ModelError
        where there is none, or its files are damaged.
    """
    folder = Path(name) if (Path(name) / SETTINGS).exists() else locate(name)
    shape = _read_shape(folder)
    if shape.kind in WORD_KINDS:
        return _over_words(*load_word_ranker(shape.kind, folder, shape.head), shape)
    if shape.kind == "monobert":
        return _ready(MonoBert(read_classifier(folder, dropout, whole=True)), folder, shape)
    encoder = read_encoder(folder, dropout)
    head = _head(shape, encoder.config.hidden_size)
    try:
        head.load_state_dict(load_file(folder / HEAD))
    except (OSError, RuntimeError, ValueError, SafetensorError) as error:
        raise ModelError(f"{folder / HEAD}: this is not the head of a {shape.kind}, or damaged") from error
    return _ready(EncoderRanker(encoder, head, frozen=shape.frozen), folder, shape)


def save_reranker(reranker: Reranker, folder: str | Path) -> None:
    """Write the re-ranker into ``folder``, which is made if it is not there."""
    root, model = Path(folder), reranker.model
    root.mkdir(parents=True, exist_ok=True)
    if isinstance(model, EncoderRanker):
        _save_transformer(model.encoder, root)
        save_file({name: one.contiguous() for name, one in model.head.state_dict().items()}, root / HEAD)
    elif isinstance(model, MonoBert):
        # that of CrossEncoder would be a sigmoid
        _score_elsewhere(model.classifier)
        _save_transformer(model.classifier, root)
    if isinstance(reranker.texts, PairTokenizer):
        _save_tokenizer(reranker.texts, root)
    elif isinstance(reranker.texts, Words):
        save_word_ranker(model, reranker.texts.vocabulary, root)
    text = json.dumps(reranker.shape.record(), indent=2)
    (root / SETTINGS).write_text(f"{text}\n", encoding="utf-8")


def _head(shape: Shape, width: int) -> nn.Module:
    try:
        return HEADS[shape.kind](width, **shape.head)
    except (TypeError, ValueError, RuntimeError) as error:
        what = f"these are no settings of a head of {shape.kind}: {first_line(error)}"
        raise ModelError(what) from error


def _ready(model: nn.Module, folder: Path, shape: Shape) -> Reranker:
    longest = positions(model)
    if longest is not None and shape.max_length > longest:
        raise ModelError(
            f"{folder}: pairs of {shape.max_length} tokens, but the model has {longest} positions"
        )
    texts = PairTokenizer(read_tokenizer(folder), max_query=shape.max_query, max_length=shape.max_length)
    return Reranker(model.eval(), texts, shape)


def _over_words(model: nn.Module, vocabulary: Sequence[str], shape: Shape) -> Reranker:
    texts = Words(vocabulary, max_query=shape.max_query, max_length=shape.max_length)
    return Reranker(model.eval(), texts, shape)


def _read_shape(folder: Path) -> Shape:
    file = folder / SETTINGS
    if not file.exists():
        return _cross_encoder(folder)
    try:
        return Shape.of(json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, ModelError) as error:
        raise ModelError(f"{file}: these are no settings of a re-ranker") from error


def _cross_encoder(folder: Path) -> Shape:
    """The shape of a cross-encoder that is not ours: its pairs are as long as it can read."""
    made = str((read_config(folder, None).architectures or ["nothing"])[0])
    if not made.endswith("ForSequenceClassification"):
        raise ModelError(f"{folder}: expected a re-ranker, got {made} and no {SETTINGS}")
    length = readable(folder)
    return Shape("monobert", max_query=min(64, length // 2), max_length=length)


def readable(folder: Path) -> int:
    """How many tokens the transformer of a folder reads, its special ones among them: 512 at most."""
    config = read_config(folder, None)
    model: Any = AutoModel
    with quiet(), torch.device("meta"):  # for its shapes alone: nothing is drawn or read
        longest = positions(model.from_config(config))
    known = (
        getattr(config, "max_position_embeddings", None) if longest is None else longest,
        read_tokenizer(folder).model_max_length,  # 10^30 where it knows no bound
    )
    return min(512, *(one for one in known if isinstance(one, int)))


def _score_elsewhere(classifier: Any) -> None:
    """Let CrossEncoder, whose own choice is a sigmoid, give the logit."""
    classifier.config.sentence_transformers = {"activation_fn": "torch.nn.modules.linear.Identity"}


def _save_transformer(transformer: Any, folder: Path) -> None:
    with quiet():
        transformer.save_pretrained(folder)


def _save_tokenizer(texts: PairTokenizer, folder: Path) -> None:
    tokenizer = deepcopy(texts.tokenizer)
    tokenizer.model_max_length = texts.max_length
    tokenizer.save_pretrained(folder)
