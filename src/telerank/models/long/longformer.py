"""Encoders and re-rankers of BERT's shape made into Longformers, which read long texts (Beltagy et al. 2020).

As the authors made theirs of RoBERTa (section 5): the table of positions is repeated until it is long enough,
and the projections of tokens with global attention begin as copies of the others. So on a text that fits into
half a window, which every token sees whole, the outputs are those of the original; on longer ones they are a
place to start from, and have to be trained.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import LongformerConfig, LongformerForSequenceClassification, LongformerModel

from telerank.drafts import draft_folder
from telerank.errors import ModelError
from telerank.models.loading import (
    architecture_of,
    check_sizes,
    quiet,
    read_config,
    read_encoder,
    read_tokenizer,
    save_weights,
)
from telerank.models.rerankers.kinds import Shape
from telerank.models.rerankers.monobert import read_classifier
from telerank.models.rerankers.reranker import SETTINGS, locate_reranker, read_shape, write_shape
from telerank.models.rerankers.transformer_ranker import HEAD

_SHAPES = ("bert", "roberta", "camembert", "xlm-roberta")
"""Types of models whose layers are named as BERT's, and compute as BERT's."""
_KEPT = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob", "type_vocab_size"),
    *("initializer_range", "layer_norm_eps"),
)
_HEADS = {"Model", "ForMaskedLM", "ForPreTraining", "ForSequenceClassification"}
_CLASSIFIER = "ForSequenceClassification"


def lengthen_model(
    name: str | Path,
    output: str | Path,
    *,
    max_length: int = 4096,
    window: int = 512,
    overwrite: bool = False,
) -> Path:
    """Write a model as a Longformer for ``max_length`` tokens into a folder; see
    :func:`telerank.verbs.train.lengthen`.
    """
    folder, target = locate_reranker(name), Path(output)
    if target.exists() and not target.is_dir():
        raise ModelError(f"{target} is no folder: name another one")
    if target.exists() and any(target.iterdir()) and not overwrite:
        raise ModelError(f"{target} is not empty: overwrite it (overwrite=True), or name another folder")
    if window < 2 or window % 2:
        raise ModelError(f"a window has an even number of tokens, half of them on each side: got {window}")
    if max_length < window:
        raise ModelError(f"expected max_length of a window's {window} tokens at least, got {max_length}")
    check_sizes({"max_position_embeddings": max_length}, f"a Longformer of {folder}")
    config = read_config(folder, None)
    ending = re.sub("^.*?(?=Model$|For[A-Z])", "", architecture_of(config) or "Model")
    if config.model_type not in _SHAPES or ending not in _HEADS:
        known = "an encoder or a re-ranker of the shape of " + ", ".join(_SHAPES)
        raise ModelError(f"{folder}: expected {known}, got {architecture_of(config) or config.model_type}")
    is_classifier = ending == _CLASSIFIER
    model = read_classifier(folder, None, whole=True) if is_classifier else read_encoder(folder, None)
    tokenizer, shape = read_tokenizer(folder), read_shape(folder)
    long = _build(model, tokenizer, max_length, window, is_classifier=is_classifier)
    target.parent.mkdir(parents=True, exist_ok=True)
    with draft_folder(target) as draft:
        save_weights(long, draft)
        own = deepcopy(tokenizer)
        own.model_max_length = max_length
        with quiet():
            own.save_pretrained(draft)
        if shape is not None:
            write_shape(replace(shape, max_length=max_length), draft)
            _copy_head(folder, draft, shape)
    return target


def _copy_head(folder: Path, draft: Path, shape: Shape) -> None:
    """Copy the head on an encoder. Raises ModelError if it depends on lengths."""
    if not (folder / SETTINGS).exists():
        return
    if shape.kind == "parade":
        raise ModelError(f"{folder}: a parade reads passages already")
    if (folder / HEAD).exists():
        shutil.copyfile(folder / HEAD, draft / HEAD)


def _build(model: Any, tokenizer: Any, max_length: int, window: int, *, is_classifier: bool) -> Any:
    """The Longformer with the weights of a model."""
    config, base = model.config, model.base_model
    own = tokenizer.pad_token_id  # that of texts; a configuration may say another
    pad = int(own if own is not None else config.pad_token_id or 0)
    settings = {name: getattr(config, name) for name in _KEPT}
    special = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "sep")}
    settings |= {name: number for name, number in special.items() if number is not None}
    settings |= {
        "pad_token_id": pad,
        "max_position_embeddings": max_length + pad + 1,  # counted from behind the padding's number
        "attention_window": [window] * config.num_hidden_layers,
        "num_labels": config.num_labels if is_classifier else 2,
    }
    long_config: Any = LongformerConfig(**settings)
    weights = _lengthen_weights(base.state_dict(), base.embeddings.position_embeddings, max_length, pad)
    long: Any
    if not is_classifier:
        has_pooler = base.pooler is not None
        long = LongformerModel(long_config, add_pooling_layer=has_pooler)
    else:
        long = LongformerForSequenceClassification(long_config)
        weights = {f"longformer.{name}": weight for name, weight in weights.items() if "pooler" not in name}
        weights |= _classifier_weights(model.state_dict())
    long.load_state_dict(weights)
    return long.eval()


def _lengthen_weights(
    weights: Mapping[str, Tensor], positions: torch.nn.Embedding, max_length: int, pad: int
) -> dict[str, Tensor]:
    """The weights of the base model: positions repeated, and copies for global attention."""
    result = {name: weight for name, weight in weights.items() if not name.endswith("_ids")}
    first = 0 if positions.padding_idx is None else positions.padding_idx + 1
    rows = positions.weight.detach()[first:]
    repeated = rows.repeat(-(-max_length // len(rows)), 1)[:max_length]
    unused = rows.new_zeros(pad + 1, rows.shape[1])
    result["embeddings.position_embeddings.weight"] = torch.cat([unused, repeated])
    for name, weight in weights.items():
        if match := re.fullmatch(r"(.*\.attention\.self\.(?:query|key|value))\.(weight|bias)", name):
            result[f"{match[1]}_global.{match[2]}"] = weight.clone()
    return result


def _classifier_weights(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The two layers of the classifier; of BERT the first one is its pooler."""
    if "classifier.out_proj.weight" in weights:
        return {name: weight for name, weight in weights.items() if name.startswith("classifier.")}
    names = {"bert.pooler.dense": "classifier.dense", "classifier": "classifier.out_proj"}
    return {
        f"{to}.{part}": weights[f"{at}.{part}"] for at, to in names.items() for part in ("weight", "bias")
    }
