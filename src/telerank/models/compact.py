"""Compact models: what a reader or a re-ranker has learned beyond the encoder of a package.

::

    compact.json         settings, encoder, licence and training, and the checksums of all files
    compact.safetensors  what was learned

Word embeddings are not among it: they are those of the encoder. Tensors are named as in the files that they
become, ``model.safetensors/bert.encoder…``. One of bytes whose last dimension is 18 has four bits a number
(:mod:`telerank_e5.blocks`), and is added to the encoder's tensor; others are in float16 or float32, and
stand in place of it. When such a model is first opened, its folder is made in the user's cache.

All of it is foreign input: nothing is run, every size is compared with that of a file before anything is
allocated, and the sizes that settings name are checked where a model's folder is opened.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import with_config
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from telerank.drafts import share_weights
from telerank.errors import MissingExtra, ModelError
from telerank.model_names import COMPACT, PACKAGED
from telerank.records import read_record
from telerank.stored import file_checksum
from telerank_e5.blocks import BLOCK, BLOCK_BYTES, Floats, unpack_blocks

MANIFEST, LEARNED = COMPACT, "compact.safetensors"
FORMAT: Literal[1] = 1
MODEL_FILE, HEAD_FILE = "model.safetensors", "head.safetensors"
WORDS = "embeddings.word_embeddings.weight"
SETTINGS = {"reader": "reader.json", "reranker": "reranker.json"}
"""The file of the settings of each kind."""
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
_LARGEST_MANIFEST, _MOST_TENSORS = 1 << 20, 10_000
_NUMBERS = ("F16", "F32")


@with_config(extra="forbid")
@dataclass(frozen=True)
class EncoderRecord:
    """The encoder by its name, and the package whose weights file has this SHA-256."""

    name: str
    package: str
    version: str
    sha256: str

    def check(self, folder: Path) -> None:
        """Raise ModelError if the installed package has other weights, MissingExtra if there is none."""
        packaged = PACKAGED.get(self.name)
        if packaged is None:
            raise ModelError(f"{folder / MANIFEST}: no extra of telerank has the encoder {self.name!r}")
        if packaged.folder is None:
            raise MissingExtra(packaged.package, packaged.extra)
        if not packaged.weights_file.is_file() or file_checksum(packaged.weights_file) != self.sha256:
            raise ModelError(
                f"{folder}: made for the weights of {self.package} {self.version}, and those that are "
                f"installed are others: install {self.package}=={self.version}"
            )


@with_config(extra="forbid")
@dataclass(frozen=True)
class CompactManifest:
    """The content of ``compact.json``.

    ``prefix`` is what the encoder's tensors have before their names in the model. ``config`` is its
    ``config.json``, ``settings`` is ours. ``sha256`` is that of ``compact.safetensors``, and ``checksum``
    that of this record without it.
    """

    format: Literal[1]
    kind: Literal["reader", "reranker"]
    encoder: EncoderRecord
    prefix: str
    config: Mapping[str, Any]
    settings: Mapping[str, Any]
    licence: str
    training: Mapping[str, Any]
    sha256: str
    bytes: int
    checksum: str = ""

    @property
    def own_checksum(self) -> str:
        """The SHA-256 of the record without its checksum."""
        record = asdict(self) | {"checksum": ""}
        return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def is_compact(folder: Path) -> bool:
    """Whether a folder holds a compact model."""
    return (folder / MANIFEST).is_file()


def read_manifest(folder: Path) -> CompactManifest:
    """The manifest of a compact model, whose files are as they were written.

    Raises
    ------
    ModelError
        If it cannot be read, or a file was changed.
    """
    file, learned = folder / MANIFEST, folder / LEARNED
    if file.stat().st_size > _LARGEST_MANIFEST:
        raise ModelError(f"{file}: expected at most {_LARGEST_MANIFEST:,} bytes, got {file.stat().st_size:,}")
    manifest = read_record(file, CompactManifest, ModelError)
    if manifest.checksum != manifest.own_checksum:
        raise ModelError(f"{file}: damaged (its checksum differs)")
    if not learned.is_file():
        raise ModelError(f"{learned}: missing")
    if learned.stat().st_size != manifest.bytes or file_checksum(learned) != manifest.sha256:
        raise ModelError(f"{learned}: damaged (its checksum differs)")
    return manifest


def unpack(folder: Path, manifest: CompactManifest, encoder: Path, target: Path) -> None:
    """Write the model's folder, as :func:`.readers.load_reader` opens it; ``encoder`` is its encoder's.

    Raises
    ------
    ModelError
        If what was learned does not fit the encoder, or has a number that is not finite.
    """
    try:
        files = _read_files(folder, manifest.prefix, load_file(encoder / MODEL_FILE))
    except (OSError, SafetensorError, ValueError) as error:
        raise ModelError(f"{folder / LEARNED}: damaged ({error})") from error
    for name, arrays in files.items():
        save_file(arrays, target / name, metadata={"format": "pt"})
    share_weights(target)
    for name, record in (("config.json", manifest.config), (SETTINGS[manifest.kind], manifest.settings)):
        (target / name).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    for name in TOKENIZER_FILES:
        if (encoder / name).is_file():
            shutil.copyfile(encoder / name, target / name)


def _read_files(folder: Path, prefix: str, encoder: Mapping[str, Floats]) -> dict[str, dict[str, Floats]]:
    """The tensors of each file of the model, by name."""
    files: dict[str, dict[str, Floats]] = {MODEL_FILE: {prefix + WORDS: encoder[WORDS]}}
    for name, numbers, is_difference in _read_tensors(folder / LEARNED):
        file, _, own = name.partition("/")
        if file not in (MODEL_FILE, HEAD_FILE) or own in files.get(file, {}):
            raise ModelError(f"{folder / LEARNED}: expected no tensor {name!r}")
        if is_difference:
            theirs = encoder.get(own.removeprefix(prefix)) if own.startswith(prefix) else None
            if theirs is None or theirs.shape != numbers.shape:
                raise ModelError(f"{folder / LEARNED}: {own} is no change of a tensor of the encoder")
            numbers += theirs
        if not np.isfinite(numbers).all():
            raise ModelError(f"{folder / LEARNED}: {own} has a number that is not finite")
        files.setdefault(file, {})[own] = numbers
    return files


def _read_tensors(file: Path) -> Iterator[tuple[str, Floats, bool]]:
    """Each tensor in float32, with its name, and whether it is a difference."""
    with safe_open(file, "np") as tensors:
        names = tensors.keys()
        if len(names) > _MOST_TENSORS:
            raise ModelError(f"{file}: expected at most {_MOST_TENSORS:,} tensors, got {len(names):,}")
        for name in names:
            kind, shape = tensors.get_slice(name).get_dtype(), tensors.get_slice(name).get_shape()
            in_blocks = kind == "U8" and len(shape) > 1 and shape[-1] == BLOCK_BYTES
            if not in_blocks and kind not in _NUMBERS:
                raise ModelError(f"{file}: {name}: expected blocks, float16 or float32, got {kind} {shape}")
            stored = tensors.get_tensor(name)
            if in_blocks:
                whole = (*shape[:-2], shape[-2] * BLOCK)
                yield name, unpack_blocks(stored.reshape(-1, BLOCK_BYTES)).reshape(whole), True
            else:
                yield name, stored.astype(np.float32), False
