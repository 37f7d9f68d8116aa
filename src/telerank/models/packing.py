"""Make compact models (:mod:`telerank.models.compact`) of what a training has left."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from telerank.drafts import draft_folder
from telerank.errors import ModelError, known_names
from telerank.model_names import PACKAGED
from telerank.models.compact import (
    FORMAT,
    HEAD_FILE,
    LEARNED,
    MANIFEST,
    MODEL_FILE,
    SETTINGS,
    WORDS,
    CompactManifest,
    EncoderRecord,
)
from telerank.models.loading import locate_packaged
from telerank.stored import file_checksum
from telerank.yaml_files import read_yaml
from telerank_e5.blocks import BLOCK, BLOCK_BYTES, Floats, pack_blocks, unpack_blocks

_OF_TRAINING = ("config.yaml", "data.json", "fit.json", "versions.json")
_UNKNOWN = "of an unknown version"
_FEW = 4096  # numbers that are not worth rounding


@dataclass(frozen=True)
class PackedModel:
    """A compact model: its folder, the bytes of its weights, and the squared error of what was learned, as a
    share of it.
    """

    folder: Path
    bytes: int
    error: float


def pack_model(
    folder: Path, target: Path, encoder: str = "e5-small", *, licence: str = "", overwrite: bool = False
) -> PackedModel:
    """Write what the model in ``folder`` has learned since it started from ``encoder``, as a compact model.

    ``folder`` is that of a training, or its ``model``; ``encoder`` the name of an encoder that a package
    holds. Other files in ``target`` stay: a card, a licence.

    Raises
    ------
    ModelError
        If there is no such model or encoder, the model's word embeddings or tokenizer are not the encoder's,
        or there is a model in ``target``.
    """
    source = folder / "model" if (folder / "model").is_dir() else folder
    kind = next((kind for kind, file in SETTINGS.items() if (source / file).is_file()), None)
    if kind is None:
        expected = " or ".join(SETTINGS.values())
        raise ModelError(f"{folder}: expected a reader or a re-ranker that was trained here, with {expected}")
    if (target / MANIFEST).exists() and not overwrite:
        raise ModelError(f"{target}: already holds a model; replace it with overwrite")
    if encoder not in PACKAGED:
        raise ModelError(f"no package holds an encoder {encoder!r}; {known_names(PACKAGED, encoder)}")
    start = locate_packaged(encoder)
    check_tokenizer(source, start)
    learned = Learned.of(source, load_file(start / MODEL_FILE))
    content = save(dict(learned.tensors))
    packaged = PACKAGED[encoder]
    number = _UNKNOWN
    with suppress(PackageNotFoundError):
        number = version(packaged.package)
    record = EncoderRecord(encoder, packaged.package, number, file_checksum(packaged.weights_file))
    manifest = CompactManifest(
        FORMAT,
        kind,  # type: ignore[arg-type]
        record,
        learned.prefix,
        json.loads((source / "config.json").read_text(encoding="utf-8")),
        json.loads((source / SETTINGS[kind]).read_text(encoding="utf-8")),
        licence,
        read_training(source.parent),
        hashlib.sha256(content).hexdigest(),
        len(content),
    )
    written = json.dumps(asdict(replace(manifest, checksum=manifest.own_checksum)), indent=1)
    kept = {file: file.read_bytes() for file in target.glob("*") if file.name not in (MANIFEST, LEARNED)}
    with draft_folder(target) as draft:
        for file, other in kept.items():
            (draft / file.name).write_bytes(other)
        (draft / LEARNED).write_bytes(content)
        (draft / MANIFEST).write_text(written + "\n", encoding="utf-8")
    return PackedModel(target, len(content), learned.error)


def check_tokenizer(source: Path, start: Path) -> None:
    """Raise ModelError if the model in a folder reads other tokens than the encoder that it started from."""
    records = []
    for folder in (source, start):
        record = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        records.append({name: own for name, own in record.items() if name not in ("truncation", "padding")})
    if records[0] != records[1]:
        raise ModelError(f"{source}: its tokenizer is not that of the encoder in {start}")


@dataclass(frozen=True, eq=False)
class Learned:
    """The tensors to store, and the squared error of what is in blocks, as a share of its squares."""

    tensors: Mapping[str, np.ndarray[Any, Any]]
    prefix: str
    error: float

    @classmethod
    def of(cls, source: Path, encoder: Mapping[str, Floats]) -> Learned:
        """What the model in a folder has learned beyond the encoder with these tensors."""
        try:
            files = {n: load_file(source / n) for n in (MODEL_FILE, HEAD_FILE) if (source / n).is_file()}
        except (OSError, SafetensorError) as error:
            raise ModelError(f"{source}: its weights cannot be read: {error}") from error
        words = next((name for name in files.get(MODEL_FILE, {}) if name.endswith(WORDS)), None)
        if words is None:
            raise ModelError(f"{source}: expected {MODEL_FILE} with word embeddings, {WORDS}")
        if not np.array_equal(files[MODEL_FILE].pop(words), encoder[WORDS]):
            raise ModelError(
                f"{source}: its word embeddings are not those of the encoder: train it with "
                "model: {frozen_embeddings: true}"
            )
        prefix, tensors, missed, squares = words.removesuffix(WORDS), {}, 0.0, 0.0
        for file, arrays in files.items():
            for name, numbers in arrays.items():
                theirs = encoder.get(name.removeprefix(prefix)) if name.startswith(prefix) else None
                if theirs is None or theirs.shape != numbers.shape or not _fits_blocks(numbers):
                    small = np.float32 if numbers.ndim < 2 or numbers.size < _FEW else np.float16
                    tensors[f"{file}/{name}"] = numbers.astype(small)
                    continue
                change = (numbers - theirs).reshape(-1, BLOCK)
                blocks = pack_blocks(change)
                missed += float(((unpack_blocks(blocks) - change) ** 2).sum())
                squares += float((change**2).sum())
                shape = (*numbers.shape[:-1], numbers.shape[-1] // BLOCK, BLOCK_BYTES)
                tensors[f"{file}/{name}"] = blocks.reshape(shape)
        return cls(tensors, prefix, missed / squares if squares else 0.0)


def _fits_blocks(numbers: Floats) -> bool:
    """Whether a tensor is worth storing in blocks: not a bias, a layer norm or a small last layer."""
    return numbers.ndim > 1 and numbers.shape[-1] % BLOCK == 0 and len(numbers) >= BLOCK


def read_training(folder: Path) -> dict[str, Any]:
    """What a training's folder says of it: settings, counts, what was fitted, versions."""
    files = [folder / name for name in _OF_TRAINING if (folder / name).is_file()]
    records = {file.stem: read_yaml(file) for file in files}  # JSON is YAML
    return {name: drop_curves(own) for name, own in records.items()}


def drop_curves(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record without curves of confidences, which have a number for each dev question."""
    return {
        name: drop_curves(own) if isinstance(own, dict) else own
        for name, own in record.items()
        if name not in ("coverage", "risk")
    }
