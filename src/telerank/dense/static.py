"""Static encoders: a text's vector is the mean of its pieces' vectors, which a table has. No torch is needed.

They are folders of Model2Vec and of sentence-transformers (``StaticEmbedding``)::

    model.safetensors    embeddings (R, D), perhaps mapping (V,) and weights (V,); or embedding.weight (V, D)
    tokenizer.json       pieces by number, 0 to V - 1
    config.json          Model2Vec: normalize, max_length
    modules.json         sentence-transformers: StaticEmbedding, perhaps Normalize

The vector of piece ``v`` is ``weights[v] * embeddings[mapping[v]]``. Model2Vec leaves out unknown pieces, and
cuts texts at ``max_length`` pieces, by default 512, or as many times the median length of a piece in
characters; sentence-transformers does neither. A folder of Model2Vec is read as Model2Vec reads it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, PositiveInt

from telerank.dense.kinds import Floats
from telerank.dense.vectors import Encoded
from telerank.errors import MissingExtra, ModelError
from telerank.model_names import seek_folder
from telerank.sentence_folders import MODEL, ModelFile, read_modules, read_part
from telerank.types import Progress, silent

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from telerank.dense.unfinished import UnfinishedShard

WEIGHTS, TOKENIZER, CONFIG = "model.safetensors", "tokenizer.json", "config.json"
MODULE = "StaticEmbedding"
_TOGETHER = 4096  # texts whose pieces are counted at once
_BATCH = 1 << 20  # pieces; nothing depends on it
_WIDEST = 1 << 16  # dimensions
_FLOATS = ("F64", "F32", "F16")


class _ConfigFile(BaseModel):
    """The part of Model2Vec's ``config.json`` that decides a vector."""

    model_type: str | None = None
    normalize: bool = False
    max_length: PositiveInt | None = 512


@dataclass(frozen=True)
class StaticSettings:
    """Everything besides table and tokenizer that decides a vector.

    ``max_length`` None cuts no text; ``unknown`` says whether unknown pieces count; ``query`` and
    ``document`` are put before texts.
    """

    normalise: bool = False
    max_length: int | None = None
    unknown: bool = True
    query: str = ""
    document: str = ""


@dataclass(frozen=True, eq=False)
class StaticModel:
    """A ``table`` (R, D) float32; the row ``rows`` (V,) and the weight ``weights`` (V,) of each piece.

    Without ``rows`` pieces are rows; without ``weights`` each counts as 1.
    """

    table: Floats
    tokenizer: Tokenizer
    settings: StaticSettings
    rows: npt.NDArray[np.int64] | None = None
    weights: Floats | None = None

    @property
    def pieces(self) -> int:
        """``V``: how many pieces have a vector."""
        return len(self.table if self.rows is None else self.rows)

    def mean(self, tokens: Sequence[Sequence[int]], *, normalise: bool | None = None) -> Floats:
        """The vectors (N, D) of texts by their pieces; of a text without a piece it is 0."""
        from scipy.sparse import csr_array

        lengths = np.array([len(ids) for ids in tokens], np.int64)
        pieces = np.fromiter(chain.from_iterable(tokens), np.int64, int(lengths.sum()))
        counts = np.ones(len(pieces), np.float32) if self.weights is None else self.weights[pieces]
        columns = pieces if self.rows is None else self.rows[pieces]
        begins = np.concatenate([[0], np.cumsum(lengths)])
        shape = len(tokens), len(self.table)
        vectors = csr_array((counts, columns, begins), shape=shape) @ self.table
        vectors /= np.maximum(lengths, 1)[:, None].astype(np.float32)
        if self.settings.normalise if normalise is None else normalise:
            norms = np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64))
            vectors /= np.where(norms > 0, norms, 1)[:, None].astype(np.float32)
        return np.ascontiguousarray(vectors, np.float32)


@dataclass(frozen=True, eq=False)
class PlainPieces:
    """A tokenizer as transformers hold it, for what shows the pieces of texts."""

    backend_tokenizer: Tokenizer


@dataclass(frozen=True, eq=False)
class StaticTokenizer:
    """The tokenizer of one side, queries or documents; ``prompt`` is put before each text."""

    model: StaticModel
    prompt: str = ""

    @cached_property
    def _characters(self) -> int | None:
        """How many characters of a text are read, as Model2Vec has it; None: all."""
        if (most := self.model.settings.max_length) is None:
            return None
        return most * int(np.median([len(piece) for piece in self.model.tokenizer.get_vocab()]))

    @cached_property
    def _unknown(self) -> int | None:
        """The number of the unknown piece, if it is left out."""
        return None if self.model.settings.unknown else _unknown_piece(self.model.tokenizer)

    @property
    def tokenizer(self) -> PlainPieces:
        return PlainPieces(self.model.tokenizer)

    def ids_and_cut(self, texts: Sequence[str]) -> tuple[list[list[int]], list[bool]]:
        """The pieces of each text, and whether it was cut."""
        read = [(self.prompt + text)[: self._characters] for text in texts]
        encodings = self.model.tokenizer.encode_batch_fast(read, add_special_tokens=False)
        whole = zip(texts, read, encodings, strict=True)
        cut = [
            len(self.prompt) + len(text) > len(part) or bool(encoding.overflowing)
            for text, part, encoding in whole
        ]
        ids = [encoding.ids for encoding in encodings]
        if (unknown := self._unknown) is not None:
            ids = [[piece for piece in each if piece != unknown] for each in ids]
        return ids, cut


@dataclass(frozen=True)
class StaticTokenizers:
    """The tokenizers of both sides."""

    queries: StaticTokenizer
    documents: StaticTokenizer


@dataclass(frozen=True)
class StaticEncoder:
    """A static encoder by its name, a folder or a name on the hub, which is loaded when it is first used.

    It pickles as its name, and computes in float32 on the processor. If the first use finds no such model, it
    raises ModelError; without tokenizers or safetensors, MissingExtra.
    """

    model: str

    @property
    def name(self) -> str:
        return self.model

    @cached_property
    def fingerprint(self) -> str:
        """64 hexadecimal digits of table, pieces and settings."""
        model = self._loaded
        record = json.loads(model.tokenizer.to_str())
        for name in ("padding", "post_processor"):
            record.pop(name, None)
        digest = hashlib.sha256(json.dumps([record, self._record], sort_keys=True).encode())
        for array in (model.table, model.rows, model.weights):
            if array is not None:
                digest.update(f"{array.shape}{array.dtype}".encode())
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    @property
    def dimension(self) -> int:
        return int(self._loaded.table.shape[1])

    @property
    def settings(self) -> Mapping[str, Any]:
        return {"model": self._record, "precision": "float32"}

    @property
    def device_name(self) -> str:
        return "cpu"

    @property
    def batch_tokens(self) -> int:
        return _BATCH

    def encode_queries(self, texts: Sequence[str]) -> Encoded:
        tokens, _ = self._tokenizers.queries.ids_and_cut(texts)
        return Encoded(self._loaded.mean(tokens), self.fingerprint)

    def tokenize(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        tokens, cut = self._tokenizers.documents.ids_and_cut(texts)
        return tokens, sum(cut)

    def encode_tokens(
        self,
        tokens: Sequence[Sequence[int]],
        budget: int | None = None,  # noqa: ARG002
        progress: Progress = silent,
        unfinished: UnfinishedShard | None = None,  # noqa: ARG002 — a shard takes a second
    ) -> Floats:
        vectors = np.empty((len(tokens), self.dimension), np.float32)
        for begin in range(0, len(tokens), _TOGETHER):
            part = tokens[begin : begin + _TOGETHER]
            vectors[begin : begin + len(part)] = self._loaded.mean(part)
            progress("encoding", begin + len(part), None)
        return vectors

    def encode_batch(
        self,
        tokens: Sequence[Sequence[int]],
        *,
        queries: bool,  # noqa: ARG002 — one table for both sides
        normalise: bool = True,
    ) -> Floats:
        """The vectors (N, D) of tokenized texts; without ``normalise`` they keep their lengths."""
        return self._loaded.mean(tokens, normalise=None if normalise else False)

    def copy_tokenizers(self) -> StaticTokenizers:
        """Its tokenizers, which threads may share."""
        return self._tokenizers

    def describe_memory(self) -> str:
        return ""

    def __reduce__(self) -> tuple[Any, ...]:
        return StaticEncoder, (self.model,)

    @property
    def _record(self) -> dict[str, Any]:
        settings = self._loaded.settings
        query, document = ({"max_length": settings.max_length, "prompt": p} for p in self._prompts)
        sides = {"query": query, "document": document}
        return {"pooling": "mean", "normalise": settings.normalise, "unknown": settings.unknown, **sides}

    @property
    def _prompts(self) -> tuple[str, str]:
        return self._loaded.settings.query, self._loaded.settings.document

    @cached_property
    def _tokenizers(self) -> StaticTokenizers:
        return StaticTokenizers(*(StaticTokenizer(self._loaded, prompt) for prompt in self._prompts))

    @cached_property
    def _loaded(self) -> StaticModel:
        folder = find_static(self.model)
        if folder is None:
            raise ModelError(f"{self.model}: expected a static encoder")
        return load_static(folder)


def find_static(name: str) -> Path | None:
    """The folder of the static encoder of that name, fetched if it is on the hub; None if it is none.

    The names are those of :func:`telerank.models.loading.locate`; whether there is such a model is not said.

    Raises
    ------
    ModelError
        If the folder's description of its modules cannot be read.
    """
    folder = seek_folder(name)
    return folder if folder is not None and is_static(folder) else None


def is_static(folder: Path) -> bool:
    """Whether a folder is that of a static encoder, as it says itself."""
    if not (folder / WEIGHTS).exists() and not (folder / f"0_{MODULE}" / WEIGHTS).exists():
        return False
    if (modules := read_modules(folder)) and modules[0].kind == MODULE:
        return True
    with suppress(ModelError):  # of another model
        return not modules and _read_config(folder).model_type == "model2vec"
    return False


def load_static(folder: Path) -> StaticModel:
    """The static encoder of a folder.

    Raises
    ------
    ModelError
        If a file cannot be read, or they do not fit together.
    MissingExtra
        If tokenizers or safetensors is not installed.
    """
    for package in ("tokenizers", "safetensors"):
        if find_spec(package) is None:
            raise MissingExtra(package, "static")
    modules = read_modules(folder)
    kinds = [module.kind for module in modules]
    if kinds not in ([], [MODULE], [MODULE, "Normalize"]):
        raise ModelError(f"{folder}: expected {MODULE} and perhaps Normalize, got {', '.join(kinds)}")
    part = folder / modules[0].path if modules else folder
    said = read_part(folder / MODEL, ModelFile)
    query, document = said.sides
    settings = StaticSettings(said.divides(kinds, folder), query=query, document=document)
    if (config := _read_config(folder)).model_type == "model2vec":
        settings = replace(settings, normalise=config.normalize, max_length=config.max_length, unknown=False)
    table, rows, weights = _read_tables(part / WEIGHTS)
    tokenizer = _read_pieces(part / TOKENIZER)
    if config.model_type == "model2vec":
        tokenizer.no_truncation()
        if settings.max_length is not None:
            tokenizer.enable_truncation(settings.max_length)
    model = StaticModel(table, tokenizer, settings, rows, weights)
    last = max(tokenizer.get_vocab().values(), default=0)
    if last >= model.pieces:
        raise ModelError(
            f"{part}: {TOKENIZER} has pieces up to number {last:,}, "
            f"but {WEIGHTS} has vectors of {model.pieces:,}"
        )
    return model


def _read_config(folder: Path) -> _ConfigFile:
    return read_part(folder / CONFIG, _ConfigFile)


def _read_pieces(file: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    with _reading(file):
        tokenizer: Tokenizer = Tokenizer.from_file(str(file))
        tokenizer.no_padding()
    return tokenizer


def _read_tables(file: Path) -> tuple[Floats, npt.NDArray[np.int64] | None, Floats | None]:
    """The vectors (R, D), the row (V,) of each piece, and its weight (V,)."""
    from safetensors import safe_open

    with _reading(file), safe_open(file, "numpy") as tensors:
        names = set(tensors.keys())
        name = next((known for known in ("embeddings", "embedding.weight") if known in names), None)
        if name is None:
            raise ModelError(f"expected embeddings, got {', '.join(sorted(names)[:3]) or 'nothing'}")
        shape = tensors.get_slice(name).get_shape()
        if len(shape) != 2 or not 0 < shape[1] <= _WIDEST or not shape[0]:
            raise ModelError(f"expected vectors, got {name} of shape {tuple(shape)}")
        table = _finite(tensors, name, (*_FLOATS, "I8"))
        rows = tensors.get_tensor("mapping") if "mapping" in names else None
        if rows is not None:
            if rows.ndim != 1 or rows.dtype.kind not in "iu":
                raise ModelError(f"expected rows of pieces, got mapping of shape {rows.shape}, {rows.dtype}")
            if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(table):
                raise ModelError(f"mapping names a row beyond {len(table):,} vectors")
            rows = rows.astype(np.int64)
        weights = _finite(tensors, "weights", _FLOATS) if "weights" in names else None
        if weights is not None and weights.shape != (len(table if rows is None else rows),):
            raise ModelError(f"expected a weight for each piece, got weights of shape {weights.shape}")
    return table, rows, weights


def _finite(tensors: Any, name: str, types: Sequence[str]) -> Floats:
    """A tensor in float32."""
    kind = tensors.get_slice(name).get_dtype()
    if kind not in types:
        raise ModelError(f"expected numbers of type {', '.join(types)}, got {name} of {kind}")
    with np.errstate(over="ignore"):
        values: Floats = tensors.get_tensor(name).astype(np.float32)
    if not np.isfinite(values).all():
        raise ModelError(f"a number of {name} is not finite")
    return values


def _unknown_piece(tokenizer: Tokenizer) -> int | None:
    """The number of the unknown piece of a tokenizer, if it has one."""
    model = json.loads(tokenizer.to_str())["model"]
    piece = model.get("unk_token")
    return tokenizer.token_to_id(piece) if piece is not None else model.get("unk_id")


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    """Name the file in what a library raises of it, as ModelError."""
    try:
        yield
    except Exception as error:  # tokenizers and safetensors have no types for it
        what = " ".join(str(error).split())[:300] or type(error).__name__
        raise ModelError(f"{file}: {what}") from error
