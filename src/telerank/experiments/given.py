"""What a user gives in the place of a system."""

from __future__ import annotations

import json
from pathlib import Path

from telerank.dense.manifest import is_vectors
from telerank.errors import ModelError


def recognise_folder(folder: Path) -> str:
    """``a bi-encoder``, ``a re-ranker``, ``an index``, ``vectors``; raises ModelError if it is none of these.

    A cross-encoder of any library is a re-ranker; an encoder without a head of its own is a bi-encoder.
    """
    if is_vectors(folder):
        return "vectors"
    if (folder / "segments").is_dir():
        return "an index"
    if (folder / "reranker.json").is_file():
        return "a re-ranker"
    if any((folder / name).is_file() for name in ("bi_encoder.json", "modules.json")):
        return "a bi-encoder"
    try:
        architectures = json.loads((folder / "config.json").read_text(encoding="utf-8"))["architectures"]
        first = str(architectures[0])
    except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise ModelError(f"{folder}: holds no model that is known (expected a config.json)") from error
    return "a re-ranker" if first.endswith("ForSequenceClassification") else "a bi-encoder"
