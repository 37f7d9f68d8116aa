"""Models of sparse vectors: SPLADE, of one encoder or two, and queries without an encoder.

A masked language model gives each token of a text a logit for each piece of its vocabulary; the weight of a
piece is ln(1 + max(logit, 0)), of which a text has the largest over its tokens (SPLADE++; Formal, Lassance,
Piwowarski and Clinchant 2022) or the sum (SPLADE; Formal, Piwowarski and Clinchant 2021). Queries may have an
encoder of their own, or a table of one weight a piece (Geng, Ru and Yang 2024).

Folders are those of sentence-transformers' ``SparseEncoder``, or of a masked language model alone, which is
then pooled by the largest, as it does; or of a model that weighs the tokens of a text
(:mod:`.term_weight_folders`).

=====  ==============================================
``B``  texts
``L``  tokens of a text, special ones among them
``V``  pieces of the vocabulary
=====  ==============================================
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from pydantic import BaseModel
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import linear
from transformers import AutoModelForMaskedLM

from telerank.errors import ModelError
from telerank.models.encoders.bi_encoder import Side, SideTokenizer, rules_of
from telerank.models.encoders.folders import SideFile, longest_text
from telerank.models.encoders.largest_logits import LargestLogits, pieces_at_a_time
from telerank.models.encoders.term_weight_folders import load_term_weights, read_term_weight_settings
from telerank.models.encoders.term_weights import (
    PieceWeights,
    TermWeightSettings,
    TokenWeigher,
    make_piece_weights,
)
from telerank.models.encoders.word_weights import WordWeigher, document_side
from telerank.models.fingerprints import hash_parts
from telerank.models.inference import Batching, Room
from telerank.models.loading import (
    architecture_of,
    check_encodes,
    locate,
    naming,
    read_config,
    read_tokenizer,
    read_weights,
    reading,
)
from telerank.models.precision import device_of
from telerank.records import read_record
from telerank.sentence_folders import MODEL, ModelFile, ModuleEntry, read_modules, read_part

_ROUTER = "router_config.json"
_TOKENS = 1024  # of a batch: a logit for each piece of the vocabulary takes 4 bytes
_TOKENS_OF_GPU = 16_384
_TRANSFORMERS = ("MLMTransformer", "Transformer")


class _SpladeFile(BaseModel):
    """The configuration of a ``SpladePooling``."""

    pooling_strategy: Literal["max", "sum"] = "max"
    activation_function: Literal["relu", "log1p_relu"] = "relu"


class _RouterFile(BaseModel):
    """The configuration of a ``Router``: the types of its modules, and those of each side in their order."""

    types: dict[str, str]
    structure: dict[str, list[str]]


class _StaticFile(BaseModel):
    """The configuration of a ``SparseStaticEmbedding``."""

    path: str | None = None


class SpladeEncoder(nn.Module):
    """A masked language model whose logits are pooled to weights of pieces.

    ``pooling`` is ``max`` or ``sum``; with ``twice`` the logarithm is taken twice (``log1p_relu``).
    """

    def __init__(self, model: nn.Module, pooling: str = "max", *, twice: bool = False) -> None:
        super().__init__()
        self.model, self.pooling, self.twice = model, pooling, twice

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Tokens and their mask, both (B, L) -> weights of at least 0, (B, V).

        The logits are pooled for some pieces after others, but for those of a sum with gradients: all of them
        fit no processor's cache, and hardly a GPU's memory.
        """
        mask = attention_mask.unsqueeze(-1)
        is_learned, is_sum = torch.is_grad_enabled(), self.pooling == "sum"
        body = None if is_learned and is_sum else self._body
        if body is None:
            logits = self.model(input_ids=input_ids, attention_mask=attention_mask).logits  # (B, L, V)
            return self._pool(logits * mask.to(logits.dtype))
        body.train(self.training)
        hidden = body(input_ids=input_ids, attention_mask=attention_mask).logits  # (B, L, H)
        decoder = self._decoder
        weight, bias = decoder.weight, decoder.bias
        bias = weight.new_zeros(len(weight)) if bias is None else bias
        if is_learned:
            return self._weigh(LargestLogits.apply(hidden, weight, bias, mask))  # type: ignore[no-untyped-call]
        parts = (linear(hidden, weight[part], bias[part]) for part in pieces_at_a_time(hidden, len(weight)))
        return torch.cat([self._pool(logits.mul_(mask.to(logits.dtype))) for logits in parts], dim=1)

    def _pool(self, logits: Tensor) -> Tensor:
        if self.pooling == "max":  # both functions grow: the largest weight is that of the largest logit
            return self._weigh(logits.amax(1))
        return self._weigh(logits).sum(1)

    def _weigh(self, logits: Tensor) -> Tensor:
        weights = torch.log1p(torch.relu(logits))
        return torch.log1p(weights) if self.twice else weights

    @property
    def _decoder(self) -> nn.Linear:
        decoder: nn.Linear = self.model.get_output_embeddings()  # type: ignore[operator]
        return decoder

    @cached_property
    def _body(self) -> nn.Module | None:
        """The model up to the layer that gives logits, or None if it computes something behind that layer."""
        own: Any = self.model  # weights and configuration are its own
        was = own.training
        kept = {id(each): each for each in (*own.parameters(), *own.buffers(), getattr(own, "config", None))}
        body = copy.deepcopy(own, kept | {id(self._decoder): nn.Identity()})
        ids = torch.arange(8, device=self._decoder.weight.device).unsqueeze(0)
        given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        try:
            with torch.no_grad():
                same = torch.allclose(self._decoder(body.eval()(**given).logits), own.eval()(**given).logits)
        except (AttributeError, RuntimeError):  # it reads that layer's weights itself, or changes their shape
            same = False
        finally:
            own.train(was)
        return body if same else None


class StaticPieces(nn.Module):
    """A weight for each piece, ``weight`` (V,): a text has those of its own pieces."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Tokens and their mask, both (B, L) -> weights (B, V)."""
        return hold_pieces(input_ids, attention_mask, len(self.weight)) * self.weight


def hold_pieces(input_ids: Tensor, attention_mask: Tensor, size: int) -> Tensor:
    """Tokens and their mask, both (B, L) -> 1 for each of the ``size`` pieces that a text has, (B, V)."""
    held = torch.zeros(len(input_ids), size, device=input_ids.device)
    return held.scatter_reduce_(1, input_ids, attention_mask.to(held.dtype), "amax")


@dataclass(frozen=True, eq=False)
class SparseSide:
    """What makes the vectors of queries, or of documents; ``framed`` if texts get special tokens."""

    model: nn.Module
    tokenizer: SideTokenizer
    framed: bool = True

    def tokenize(self, texts: Sequence[str]) -> tuple[list[list[int]], list[bool]]:
        """The tokens of each text, cut to the side's length, and whether it was cut."""
        if self.framed or not texts:
            return self.tokenizer.ids_and_cut(texts)
        side, tokenize = self.tokenizer.side, self.tokenizer.tokenizer
        prompted = [side.prompt + text for text in texts]
        cut = {"truncation": True, "max_length": side.max_length, "add_special_tokens": False}
        encoded = tokenize(prompted, **cut)
        return list(encoded["input_ids"]), [bool(encoding.overflowing) for encoding in encoded.encodings]

    @property
    def record(self) -> dict[str, Any]:
        """What decides its vectors besides weights, for a fingerprint."""
        own = vars(self.tokenizer.side) | {"framed": self.framed, "rules": rules_of(self.tokenizer.tokenizer)}
        example, _ = self.tokenize(["a b"])
        if isinstance(self.model, SpladeEncoder):
            own |= {"pooling": self.model.pooling, "twice": self.model.twice}
        elif isinstance(self.model, PieceWeights):
            own |= self.model.record()
        return {**own, "example": example}


class SparseVector(NamedTuple):
    """The numbers (P,) in the vocabulary and the weights (P,) above 0 of the pieces of a text.

    ``is_cut``: the text has more tokens than the model reads.
    """

    numbers: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float32]
    is_cut: bool


@dataclass(frozen=True, eq=False)
class SparseEncoding:
    """A model of sparse vectors on its device; ``queries`` and ``documents`` may be the same.

    Of each vector the ``most`` largest weights are kept; None: all. With ``normalise`` it has the length 1
    then, so that products are cosines.
    """

    queries: SparseSide
    documents: SparseSide
    device: torch.device
    most: int | None = None
    normalise: bool = False
    room: Room = field(default_factory=Room)
    has_words: ClassVar = False

    @cached_property
    def fingerprint(self) -> str:
        """64 hexadecimal digits that depend on weights, vocabulary and settings."""
        models = [self.queries.model, self.documents.model]
        parts = models[1:] if models[0] is models[1] else models
        kept: list[dict[str, Any]] = [] if self.most is None else [{"max_active_dims": self.most}]
        kept += [{"normalise": True}] if self.normalise else []
        return hash_parts(*parts, self.queries.record, self.documents.record, *kept)

    @cached_property
    def pieces(self) -> list[str]:
        """The pieces of the vocabulary by number, (V,); what the tokenizer does not name is ``<n>``."""
        tokenizer = self.documents.tokenizer.tokenizer
        known = {number: piece for piece, number in tokenizer.get_vocab().items()}
        size = max(max(known) + 1, self.width)
        return [known.get(number, f"<{number}>") for number in range(size)]

    @property
    def longest(self) -> int:
        """Most tokens of a document that are read, special ones among them."""
        return self.documents.tokenizer.side.max_length

    @property
    def width(self) -> int:
        """``V``."""
        model: Any = self.documents.model
        if isinstance(model, PieceWeights):
            return model.width
        if isinstance(model, StaticPieces):
            return len(model.weight)
        return int(model.model.get_output_embeddings().weight.shape[0])

    def weigh_pieces(self, vector: SparseVector) -> dict[str, float]:
        """The weights of a vector by piece."""
        names = map(self.pieces.__getitem__, vector.numbers.tolist())
        return dict(zip(names, vector.weights.tolist(), strict=True))

    def encode(self, texts: Sequence[str], *, queries: bool) -> list[SparseVector]:
        """The vectors of queries, or of documents."""
        side = self.queries if queries else self.documents
        tokens, cut = side.tokenize(texts)
        nothing = np.empty(0, np.int64), np.empty(0, np.float32)
        results = [SparseVector(*nothing, is_cut) for is_cut in cut]

        def compute(rows: Sequence[int], width: int) -> Tensor:
            batch = side.tokenizer.pad([tokens[row] for row in rows], width)
            with torch.inference_mode():
                weights = side.model(**{name: each.to(self.device) for name, each in batch.items()}).float()
                is_held = weights > 0
                numbers, held = is_held.nonzero()[:, 1].cpu().numpy(), weights[is_held].cpu().numpy()
                ends = is_held.sum(1).cumsum(0).cpu().numpy()[:-1]
            vectors = zip(np.split(numbers, ends), np.split(held, ends), strict=True)
            for row, (pieces, values) in zip(rows, vectors, strict=True):
                if self.most is not None:
                    largest = np.sort(np.argsort(-values, kind="stable")[: self.most])
                    pieces, values = pieces[largest], values[largest]
                if self.normalise and len(values):
                    values = values / np.linalg.norm(values)
                results[row] = SparseVector(pieces, values, cut[row])
            return torch.empty(0)

        filled = [row for row, ids in enumerate(tokens) if ids]
        lengths = np.array([len(tokens[row]) for row in filled], np.int64)
        budget = _TOKENS if self.device.type == "cpu" else _TOKENS_OF_GPU
        batching = Batching(self.device, side.tokenizer.side.max_length, budget, self.room)
        for rows, width in batching.cut(lengths):
            self.room.compute([filled[row] for row in rows], width, compute)
        return results


def load_sparse_encoder(name: str | Path, device: str = "auto") -> SparseEncoding | WordWeigher:
    """The model of that name, in evaluation mode.

    Raises
    ------
    ModelError
        If there is no such model or device, or it gives no sparse vectors.
    """
    chosen, folder = device_of(device), locate(name)
    with naming(folder):
        settings = read_term_weight_settings(folder)
        if settings is not None and settings.has_words:
            weigher, tokenizer, _ = load_term_weights(folder, settings)
            weigher.requires_grad_(requires_grad=False).to(chosen)
            words = document_side(tokenizer, settings)
            check_encodes(folder, tokenizer, lambda ids, mask: weigher(ids.to(chosen), mask.to(chosen)))
            return WordWeigher(weigher, words, settings, chosen)
        queries, documents = read_sides(folder)
        for side in (queries, documents):
            side.model.eval().requires_grad_(requires_grad=False).to(chosen)
        said = read_part(folder / MODEL, ModelFile)
        normalise = said.divides((), folder)
        encoding = SparseEncoding(queries, documents, chosen, said.max_active_dims, normalise)
        with reading(f"{folder}: the model cannot be used"):
            widths = {
                side.model(**{k: v.to(chosen) for k, v in side.tokenizer(["a"]).items()}).shape[1]
                for side in (queries, documents)
            }
    if len(widths) > 1:
        raise ModelError(f"{folder}: its sides have vocabularies of {' and '.join(map(str, widths))} pieces")
    return encoding


def read_sides(folder: Path, dropout: float | None = None) -> tuple[SparseSide, SparseSide]:
    """The sides of a folder: queries and documents; ``dropout`` overrides every probability of dropout.

    Raises
    ------
    ModelError
        If it gives no sparse vectors.
    """
    settings = read_term_weight_settings(folder)
    if settings is not None:
        return _piece_sides(folder, settings, dropout)
    prompts = read_part(folder / MODEL, ModelFile).sides
    modules = read_modules(folder)
    if not modules:
        return _pair(_read_splade(folder, _SpladeFile(), dropout), prompts)
    kinds = [module.kind for module in modules]
    if kinds == ["Router"]:
        root = _inside(folder, modules[0].path)
        router = read_record(root / _ROUTER, _RouterFile, ModelError)
        if not {"query", "document"} <= router.structure.keys():
            raise ModelError(f"{root / _ROUTER}: expected the routes query and document")
        opened = dict[tuple[str, ...], SparseSide]()
        for names in (router.structure["query"], router.structure["document"]):
            if tuple(names) not in opened:
                own = [
                    (ModuleEntry(type=router.types.get(name, ""), path=name).kind, _inside(root, name))
                    for name in names
                ]
                opened[tuple(names)] = _read_side(folder, own, dropout)
        query, document = (opened[tuple(router.structure[side])] for side in ("query", "document"))
        return _with_prompt(query, prompts[0]), _with_prompt(document, prompts[1])
    parts = [(kind, _inside(folder, each.path)) for kind, each in zip(kinds, modules, strict=True)]
    return _pair(_read_side(folder, parts, dropout), prompts)


def _read_side(folder: Path, modules: Sequence[tuple[str, Path]], dropout: float | None) -> SparseSide:
    """The side of a sequence of modules, by kind and folder."""
    kinds = [kind for kind, _ in modules]
    if kinds == ["SparseStaticEmbedding"]:
        return _read_static(modules[0][1])
    if len(kinds) == 2 and kinds[0] in _TRANSFORMERS and kinds[1] == "SpladePooling":
        pooling = read_part(modules[1][1] / "config.json", _SpladeFile)
        return _read_splade(modules[0][1], pooling, dropout)
    expected = "expected a masked language model with SpladePooling, or SparseStaticEmbedding"
    raise ModelError(f"{folder}: {expected}, got {', '.join(kinds) or 'nothing'}")


def _piece_sides(
    folder: Path, settings: TermWeightSettings, dropout: float | None
) -> tuple[SparseSide, SparseSide]:
    """The sides of a model that weighs pieces; raises ModelError if it weighs words."""
    if settings.has_words:
        raise ModelError(f"{folder}: expected weights of pieces, got those of words")
    weigher, tokenizer, _ = load_term_weights(folder, settings, dropout=dropout)
    return make_piece_sides(weigher, tokenizer, settings)


def make_piece_sides(
    weigher: TokenWeigher, tokenizer: Any, settings: TermWeightSettings
) -> tuple[SparseSide, SparseSide]:
    """The sides of a model that weighs pieces: queries and documents."""
    queries, documents = make_piece_weights(weigher, tokenizer, settings)
    sides = (Side(settings.query_length), Side(settings.document_length))
    first, second = (SideTokenizer(tokenizer, side) for side in sides)
    return SparseSide(queries, first), SparseSide(documents, second)


def _read_splade(folder: Path, pooling: _SpladeFile, dropout: float | None) -> SparseSide:
    config = read_config(folder, dropout)
    if not architecture_of(config).endswith(("ForMaskedLM", "ForPreTraining")):
        got = architecture_of(config) or "none"
        raise ModelError(f"{folder}: expected a masked language model for sparse vectors, got {got}")
    model = read_weights(AutoModelForMaskedLM, folder, config)
    tokenizer, side = read_tokenizer(folder), read_part(folder / "sentence_bert_config.json", SideFile)
    if side.do_lower_case:
        raise ModelError(f"{folder}: do_lower_case is not supported; let the tokenizer lower its case")
    length = side.max_seq_length or longest_text(folder)
    encoder = SpladeEncoder(
        model, pooling.pooling_strategy, twice=pooling.activation_function == "log1p_relu"
    )
    return SparseSide(encoder, SideTokenizer(tokenizer, Side(length)))


def _read_static(folder: Path) -> SparseSide:
    tokenizer, stored = read_tokenizer(folder), read_part(folder / "config.json", _StaticFile)
    size = max(tokenizer.get_vocab().values()) + 1
    if stored.path is not None and stored.path.endswith(".json"):
        table = read_record(_inside(folder, stored.path), dict[str, float], ModelError)
        weight = torch.zeros(size)
        for piece, value in table.items():
            weight[tokenizer.convert_tokens_to_ids(piece)] = value
    else:
        with reading(f"{folder}: the weights cannot be read"):
            weight = _read_weight(folder)
    if weight.ndim != 1:
        raise ModelError(f"{folder}: expected one weight for each piece, got the shape {tuple(weight.shape)}")
    if not bool(torch.isfinite(weight).all()) or bool((weight < 0).any()):
        raise ModelError(f"{folder}: expected finite weights of at least 0")
    longest = min(int(min(tokenizer.model_max_length, 10**9)), 10**9)
    return SparseSide(StaticPieces(weight.float()), SideTokenizer(tokenizer, Side(longest)), framed=False)


def _read_weight(folder: Path) -> Tensor:
    file = folder / "model.safetensors"
    if file.exists():
        return load_file(file)["weight"]
    weights: Mapping[str, Tensor] = torch.load(
        folder / "pytorch_model.bin", map_location="cpu", weights_only=True
    )
    return weights["weight"]


def _pair(side: SparseSide, prompts: tuple[str, str]) -> tuple[SparseSide, SparseSide]:
    query, document = (_with_prompt(side, prompt) for prompt in prompts)
    return query, document


def _with_prompt(side: SparseSide, prompt: str) -> SparseSide:
    tokenizer = side.tokenizer
    own = SideTokenizer(tokenizer.tokenizer, Side(tokenizer.side.max_length, prompt=prompt))
    return SparseSide(side.model, own, side.framed)


def _inside(folder: Path, name: str) -> Path:
    """A folder or file within another."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ModelError(f"{folder}: the path {name!r:.80} leads out of it")
    return folder / path
