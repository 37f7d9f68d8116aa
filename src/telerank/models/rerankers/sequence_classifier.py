"""A transformer with a classification layer, as ``AutoModelForSequenceClassification`` makes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForSequenceClassification

from telerank.errors import ModelError
from telerank.models.loading import first_line, read_config
from telerank.models.quiet import quiet


def read_classifier(folder: Path, dropout: float | None = None, *, whole: bool = False) -> Any:
    """In float32; what an encoder's folder lacks, the layer and perhaps a pooler, is drawn anew.

    ``whole`` says that nothing may be lacking: the folder is to be one of a classifier.

    Raises
    ------
    ModelError
        where it cannot be read, other weights are missing, or it has more than two labels.
    """
    config = read_config(folder, dropout)
    made = str((config.architectures or [""])[0])
    if not made.endswith("ForSequenceClassification"):
        config.num_labels = 1
    if config.num_labels > 2:
        raise ModelError(f"{folder}: expected one or two labels, got {config.num_labels}")
    try:
        with quiet():
            model, report = AutoModelForSequenceClassification.from_pretrained(
                folder, config=config, output_loading_info=True, dtype=torch.float32
            )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"{folder}: the model cannot be read: {first_line(error)}") from error
    own = f"{model.base_model_prefix}."
    lacking = sorted(
        one for one in report["missing_keys"] if whole or (one.startswith(own) and ".pooler." not in one)
    )
    if lacking:
        raise ModelError(f"{folder}: {len(lacking)} weights are missing, {lacking[0]} the first")
    return model
