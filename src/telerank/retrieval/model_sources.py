"""Where the models are that pipelines and vectors name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from telerank.model_names import find_folder
from telerank.sparse.index import MODELS


def locate_model(
    name: str, *, models: Mapping[str, str | Path] | None = None, index: Path | None = None
) -> str:
    """The path of a model, or the name itself, which is then a path or a name on the hub.

    The first of these that exists: a model of the experiment (``models``), a model kept with the ``index``,
    a folder of ``TELERANK_MODELS``.
    """
    if models is not None and name in models:
        return str(models[name])
    if index is not None and (index / MODELS / name).exists():
        return str(index / MODELS / name)
    return str(find_folder(name) or name)
