"""Sparse encoders to train, and what is saved of them: folders that ``SparseEncoder(path)`` opens.

::

    config.json  model.safetensors …  1_SpladePooling/         one encoder for both sides
    router_config.json  query/  query_pooling/  document/ …    an encoder for each side
    router_config.json  query/config.json  model.safetensors   queries with one weight for each piece

Module names are those that every release of sentence-transformers with sparse encoders reads.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from transformers import AutoModelForMaskedLM

from telerank.errors import ModelError
from telerank.models.encoders.bi_encoder import Side, SideTokenizer
from telerank.models.encoders.sparse import SparseSide, SpladeEncoder, StaticPieces, read_sides
from telerank.models.loading import (
    architecture_of,
    check_encodes,
    locate,
    naming,
    read_config,
    read_tokenizer,
    read_weights,
    save_weights,
)
from telerank.models.random_numbers import seeded
from telerank.models.rerankers.transformer_ranker import positions
from telerank.sentence_folders import MODEL, MODULES, ModelFile, read_modules, read_part

ROUTER = "router_config.json"
_SPARSE = "sentence_transformers.sparse_encoder.models."
_WITH_HEAD = ("ForMaskedLM", "ForPreTraining")
_KINDS = {"Router", "SpladePooling", "SparseStaticEmbedding"}
_POOLING = "1_SpladePooling"


def start_sparse(
    name: str | Path, max_length: int, *, seed: int = 0, dropout: float | None = None, fresh: bool = False
) -> tuple[SparseSide, SparseSide]:
    """The sides of the model of that name, queries and documents, to train.

    It is a sparse encoder, a masked language model, or any encoder, whose head for masks is then drawn by
    ``seed``, with its table of word embeddings as its last layer; of a ``fresh`` one all weights are drawn.
    ``dropout`` overrides every probability of dropout. A text has at most ``max_length`` tokens.

    Raises
    ------
    ModelError
        If there is no such model, it has no head for masks and can get none, or it reads fewer tokens.
    """
    folder = locate(name)
    with naming(folder):
        if _KINDS & {module.kind for module in read_modules(folder)}:
            if fresh:
                raise ModelError("fresh takes the shape of one encoder, not of a sparse encoder's modules")
            query, document = read_sides(folder, dropout)
        else:
            config = read_config(folder, dropout)
            if not architecture_of(config).endswith(_WITH_HEAD):
                config.tie_word_embeddings = True
            with seeded(seed):
                model = read_weights(AutoModelForMaskedLM, folder, config)
                if fresh:
                    model.load_state_dict(type(model)(model.config).state_dict())
            prompts = read_part(folder / MODEL, ModelFile).sides
            tokenizer, encoder = read_tokenizer(folder), SpladeEncoder(model.eval())
            query, document = (
                SparseSide(encoder, SideTokenizer(tokenizer, Side(max_length, prompt=prompt)))
                for prompt in prompts
            )
        for side in (query, document):
            check_length(side, max_length)
            check_encodes(folder, side.tokenizer.tokenizer, side.model)
        return with_length(query, max_length), with_length(document, max_length)


def check_length(side: SparseSide, length: int) -> None:
    """Raise ModelError if the encoder of a side has fewer positions than ``length``."""
    model: Any = side.model
    longest = positions(model.model) if isinstance(model, SpladeEncoder) else None
    if longest is not None and length > longest:
        raise ModelError(f"texts of {length} tokens, but the model has {longest} positions")


def vocabulary_size(side: SparseSide) -> int:
    """The number of pieces that an encoder weighs, ``V``."""
    encoder: Any = side.model
    return int(encoder.model.get_output_embeddings().weight.shape[0])


def with_length(side: SparseSide, length: int) -> SparseSide:
    """The side, whose texts have at most ``length`` tokens."""
    own = Side(length, prompt=side.tokenizer.side.prompt)
    return SparseSide(side.model, SideTokenizer(side.tokenizer.tokenizer, own), side.framed)


def save_sparse(queries: SparseSide, documents: SparseSide, folder: Path) -> None:
    """Write the model into a folder, which is made if there is none.

    Raises
    ------
    ModelError
        If one encoder is to cut queries and documents to different lengths.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sides = {"query": queries, "document": documents}
    if queries.model is documents.model:
        if queries.tokenizer.side.max_length != documents.tokenizer.side.max_length:
            raise ModelError("one encoder cuts queries and documents to the same length")
        modules = _save_side(documents, folder, ("", _POOLING))
    else:
        routed = {side: _save_side(own, folder, (side, f"{side}_pooling")) for side, own in sides.items()}
        types = {path: kind for own in routed.values() for path, kind in own}
        structure = {side: [path for path, _ in own] for side, own in routed.items()}
        parameters = {"default_route": "document", "allow_empty_key": True}
        _write(folder / ROUTER, {"types": types, "structure": structure, "parameters": parameters})
        modules = [("", "sentence_transformers.models.Router")]
    records = [
        {"idx": n, "name": str(n), "path": path, "type": kind} for n, (path, kind) in enumerate(modules)
    ]
    _write(folder / MODULES, records)
    prompts = {side: own.tokenizer.side.prompt for side, own in sides.items()}
    kind = {"model_type": "SparseEncoder", "similarity_fn_name": "dot"}
    _write(folder / MODEL, {**kind, "prompts": prompts, "default_prompt_name": None})


def _save_side(side: SparseSide, root: Path, names: Sequence[str]) -> list[tuple[str, str]]:
    """Write a side, and return its modules: folders below ``root``, and types."""
    folder = root / names[0]
    folder.mkdir(exist_ok=True)
    tokenizer: Any = deepcopy(side.tokenizer.tokenizer)
    tokenizer.model_max_length = side.tokenizer.side.max_length
    tokenizer.save_pretrained(folder)
    if isinstance(side.model, StaticPieces):
        save_file({"weight": side.model.weight.detach().contiguous()}, folder / "model.safetensors")
        _write(folder / "config.json", {"frozen": False})
        return [(names[0], f"{_SPARSE}SparseStaticEmbedding")]
    if not isinstance(side.model, SpladeEncoder):
        raise ModelError(f"expected a SPLADE encoder or weights of pieces, got {type(side.model).__name__}")
    save_weights(side.model.model, folder)
    length = side.tokenizer.side.max_length
    _write(folder / "sentence_bert_config.json", {"max_seq_length": length, "do_lower_case": False})
    pooling = root / names[1]
    pooling.mkdir(exist_ok=True)
    function = "log1p_relu" if side.model.twice else "relu"
    chosen = {"pooling_strategy": side.model.pooling, "activation_function": function}
    _write(pooling / "config.json", {**chosen, "word_embedding_dimension": None})
    return [(names[0], f"{_SPARSE}MLMTransformer"), (names[1], f"{_SPARSE}SpladePooling")]


def _write(file: Path, record: object) -> None:
    file.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
