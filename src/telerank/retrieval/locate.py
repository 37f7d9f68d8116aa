"""Where a model is that a pipeline names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from telerank.sparse.manifest import MODELS as FOLDER_OF_INDEX

MODELS = "TELERANK_MODELS"
"""The environment variable with folders of models and word vectors, separated as in PATH."""


def locate_model(
    name: str, *, models: Mapping[str, str | Path] | None = None, index: Path | None = None
) -> str:
    """The place of a model: a path, or the name itself, which is then a path or a name on the hub.

    The first of these that is there: a model of the experiment (``models``), a model kept with the ``index``,
    a folder of ``TELERANK_MODELS``.
    """
    if models is not None and name in models:
        return str(models[name])
    folders = [] if index is None else [index / FOLDER_OF_INDEX]
    folders += [Path(folder) for folder in os.environ.get(MODELS, "").split(os.pathsep) if folder]
    return next((str(folder / name) for folder in folders if (folder / name).exists()), name)
