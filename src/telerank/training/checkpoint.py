"""What training has reached, on disk: whole or not at all, so that it goes on after a ``kill -9``.

::

    OUTPUT/config.yaml versions.json log.jsonl tensorboard/
    OUTPUT/checkpoints/00001000/   the model as a folder of its own, training.pt, config.yaml, versions.json
    OUTPUT/model/                  the best weights by the dev measure; without one, the last
"""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

import torch

from telerank.errors import ModelError
from telerank.stored import DRAFT, remove, replace_folder, sweep_drafts
from telerank.training.settings import Training, checked, read_record, write_settings

CONFIG, VERSIONS, LOG, CHECKPOINTS, MODEL = (
    "config.yaml",
    "versions.json",
    "log.jsonl",
    "checkpoints",
    "model",
)
_STATE = "training.pt"
_PACKAGES = ("telerank", "torch", "transformers", "tokenizers", "numpy")
# no update differs by these, but for rounding and, by device and tokens, for the random numbers of dropout
_FREE = {"device", "keep", "log_every", "checkpoint_every", "tensorboard", "optimisation.tokens"}
Save: TypeAlias = Callable[[Path], None]
"""Writes a model into a folder."""


class State(TypedDict):
    """What a training needs to go on, besides its model; ``random`` has a record of each process."""

    optimiser: dict[str, Any]
    task: dict[str, Any]
    reached: dict[str, Any]
    random: list[dict[str, Any]]


def write_checkpoint(output: Path, step: int, config: Training, save: Save, state: State) -> Path:
    """Write a checkpoint beside its final name and rename it; then drop all but the last ``config.keep``."""
    final = output / CHECKPOINTS / f"{step:08d}"
    draft = final.with_name(final.name + DRAFT)
    _write_model(draft, config, save)
    torch.save(state, draft / _STATE)
    replace_folder(final, draft)
    for old in _all(output)[: -config.keep]:
        shutil.rmtree(old)
    return final


def write_model(output: Path, config: Training, save: Save) -> Path:
    """Write the model that the training is for; one that is there is replaced."""
    final = output / MODEL
    draft = final.with_name(final.name + DRAFT)
    _write_model(draft, config, save)
    replace_folder(final, draft)
    return final


def last_checkpoint(output: Path) -> Path | None:
    """The folder of the last whole checkpoint, if there is any."""
    found = _all(output)
    return found[-1] if found else None


def read_state(checkpoint: Path) -> State:
    """What :func:`write_checkpoint` was given.

    Raises
    ------
    ModelError
        where the file is damaged, or of another version.
    """
    try:
        found: State = torch.load(checkpoint / _STATE, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, ValueError) as error:
        raise ModelError(f"{checkpoint / _STATE}: this is no checkpoint, or a damaged one") from error
    if not isinstance(found, dict) or found.keys() != State.__required_keys__:
        raise ModelError(f"{checkpoint / _STATE}: another version of telerank wrote this checkpoint")
    return found


def check_same(config: Training, output: Path) -> None:
    """Refuse to go on with settings that make another training than that which was begun.

    Where it computes, what it writes and what is measured at the end may be others.

    Raises
    ------
    ModelError
        where a setting differs.
    """
    saved, now = read_record(output / CONFIG), config.model_dump(mode="json")
    parted = _parting(saved)
    if "test" in now:
        saved["test"] = now["test"]
    began = _flat(checked(saved, type(config), output / CONFIG).model_dump(mode="json")) | parted
    asked = _flat(now) | _parting(now)
    for name in sorted((began.keys() | asked.keys()) - _FREE):
        if began.get(name) != asked.get(name):
            was = (
                f"{name} is {asked.get(name)!r}, but the training in {output} began with {began.get(name)!r}"
            )
            raise ModelError(f"{was}: resume with the same settings, or begin in another folder")


def sweep(output: Path) -> None:
    """Remove what a killed training had begun to write, and put back what it was about to replace."""
    for folder in (output, output / CHECKPOINTS):
        sweep_drafts(folder)


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed as a package"
    return found


def write_record(config: Training, folder: Path) -> None:
    """The settings, each of them, and the versions."""
    write_settings(config, folder / CONFIG)
    (folder / VERSIONS).write_text(json.dumps(versions(), indent=2) + "\n", encoding="utf-8")


def _write_model(folder: Path, config: Training, save: Save) -> None:
    remove(folder)
    save(folder)
    write_record(config, folder)


def _all(output: Path) -> list[Path]:
    found = (output / CHECKPOINTS).glob("*")
    return sorted(path for path in found if path.name.isdigit())


def _parting(record: Mapping[str, Any]) -> dict[str, Any]:
    """Which queries of the splits that are learned from and looked at the test has for itself."""
    test = record.get("test") or {}
    own = [(record.get(part) or {}).get("split") for part in ("data", "dev")]
    wanted = test if test.get("split") in own else {}
    return {f"test.{name}": wanted.get(name) for name in ("split", "queries")}


def _flat(record: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in record.items():
        inner = _flat(value, f"{before}{name}.") if isinstance(value, dict) else {before + name: value}
        flat |= inner
    return flat
