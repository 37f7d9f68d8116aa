"""The files of a training; each is written whole or not at all, so that it resumes after a ``kill -9``.

::

    OUTPUT/config.yaml versions.json log.jsonl tensorboard/
    OUTPUT/checkpoints/00001000/   the model as a folder of its own, config.yaml, versions.json;
                                   training.safetensors and manifest.json, to resume
    OUTPUT/model/                  the best weights by the dev measure; the last, if there is none
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from safetensors.torch import load_file, save_file

from telerank.drafts import DRAFT, remove, remove_folder, replace_file, replace_folder, sweep_drafts
from telerank.errors import ModelError
from telerank.stored import MANIFEST, Manifest, StoredFiles, record_files, verify_files
from telerank.training.settings import (
    Training,
    read_mapping,
    set_dotted,
    validate_settings,
    write_settings,
)
from telerank.training.trained import CHECKPOINTS, CONFIG, VERSIONS, collect_versions

_TENSORS, _SEPARATOR = "training.safetensors", "/"
# these change no update, except for rounding and, with device and tokens, the random numbers of dropout
_FREE = {"device", "keep", "log_every", "checkpoint_every", "tensorboard", "optimisation.tokens"} | {
    "deterministic",
    "compile",
    "recompute",
}
Save: TypeAlias = Callable[[Path], None]
"""Writes a model into a folder."""


class CheckpointState(NamedTuple):
    """What a training needs to resume, besides its model.

    ``record`` is JSON: the settings of the optimiser, and how far the training has come. ``tensors`` are
    those of the optimiser, of the task, and the states of random numbers, nested by name. They were read from
    ``folder``.
    """

    record: Mapping[str, Any]
    tensors: Mapping[str, Any]
    folder: Path | None = None


@dataclass(frozen=True)
class _CheckpointManifest(Manifest):
    """A checkpoint's ``manifest.json``: the ``record`` of its state, and all other files with checksums."""

    record: Mapping[str, Any]
    files: StoredFiles
    kind: str = "checkpoint"
    format: int = 1


def write_checkpoint(output: Path, step: int, config: Training, save: Save, state: CheckpointState) -> None:
    """Write a checkpoint; then drop all but the last ``config.keep``."""
    write_model(output / CHECKPOINTS / f"{step:08d}", config, save, state)
    drop_old(output, config.keep)


def write_model(folder: Path, config: Training, save: Save, state: CheckpointState | None = None) -> None:
    """Write a model beside its final name, with the state of a checkpoint, and rename it."""
    draft = folder.with_name(folder.name + DRAFT)
    remove(draft)
    save(draft)
    write_record(config, draft)
    if state is not None:
        tensors = {name: tensor.contiguous() for name, tensor in _flat(state.tensors, _SEPARATOR).items()}
        save_file(tensors, draft / _TENSORS)
        _CheckpointManifest(state.record, record_files(draft)).write(draft)
    replace_folder(folder, draft)


def drop_old(output: Path, keep: int) -> None:
    """Drop all but the last ``keep`` checkpoints."""
    for old in list_checkpoints(output)[:-keep]:
        remove_folder(old)


def list_checkpoints(output: Path) -> list[Path]:
    """The folders of the checkpoints, the last one last."""
    return sorted(path for path in (output / CHECKPOINTS).glob("*") if path.name.isdigit())


def read_state(checkpoint: Path) -> CheckpointState:
    """Read the state that :func:`write_checkpoint` has written, and check all files of the checkpoint.

    Raises ModelError if another version wrote it; IndexDamaged if a file is missing or differs.
    """
    if not (checkpoint / MANIFEST).exists():
        raise ModelError(f"{checkpoint}: no {MANIFEST}: another version of telerank wrote this checkpoint")
    manifest = _CheckpointManifest.read(checkpoint)
    verify_files(checkpoint, manifest.files, "checking the checkpoint")
    tensors = set_dotted({}, load_file(checkpoint / _TENSORS), _SEPARATOR)
    return CheckpointState(manifest.record, tensors, checkpoint)


def check_same(config: Training, output: Path) -> None:
    """Refuse to resume with settings that would make a different training.

    The device, what is logged and kept, and what the test measures may change. Raises ModelError if another
    setting differs.
    """
    saved, now = read_mapping(output / CONFIG), config.model_dump(mode="json")
    queries = _test_queries(saved)
    if "test" in now:
        saved["test"] = now["test"]
    before = _flat(validate_settings(saved, type(config), output / CONFIG).model_dump(mode="json")) | queries
    after = _flat(now) | _test_queries(now)
    for name in sorted((before.keys() | after.keys()) - _FREE):
        if before.get(name) != after.get(name):
            began = f"the training in {output} began with {before.get(name)!r}"
            says = f"{name} is {after.get(name)!r}, but {began}"
            raise ModelError(f"{says}: resume with the same settings, or begin in another folder")


def check_output(config: Training, output: Path, *, resume: bool) -> None:
    """Refuse a folder with a training that is not resumed, or has other settings. Raises ModelError."""
    if (output / CONFIG).exists():
        if not resume:
            raise ModelError(f"{output} holds a training: resume it (resume=True), or name another folder")
        check_same(config, output)


def sweep_output(output: Path) -> None:
    """Remove what a killed training was writing, and put back what it was replacing."""
    for folder in (output, output / CHECKPOINTS):
        sweep_drafts(folder)


def write_record(config: Training, folder: Path) -> None:
    """Write all settings, and the versions."""
    write_settings(config, folder / CONFIG)
    replace_file(folder / VERSIONS, f"{json.dumps(collect_versions(), indent=2)}\n".encode())


def _test_queries(record: Mapping[str, Any]) -> dict[str, Any]:
    """The test's split and number of queries, if they decide which queries are left for training or dev."""
    sections = (record.get(name) for name in ("test", "data", "dev"))
    test, data, dev = (section if isinstance(section, Mapping) else {} for section in sections)
    settings = test if test.get("split") in (data.get("split"), dev.get("split")) else {}
    return {f"test.{name}": settings.get(name) for name in ("split", "queries")}


def _flat(record: Mapping[str, Any], separator: str = ".", prefix: str = "") -> dict[str, Any]:
    """The values of nested mappings by joined names."""
    flat: dict[str, Any] = {}
    for name, value in record.items():
        whole = f"{prefix}{name}"
        flat |= _flat(value, separator, whole + separator) if isinstance(value, Mapping) else {whole: value}
    return flat
