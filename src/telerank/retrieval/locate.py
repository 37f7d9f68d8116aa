"""Where a model is that a pipeline names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
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
    for folder in _model_folders(index):
        if (folder / name).exists():
            return str(folder / name)
    return name


def known_models(index: Path | None = None) -> list[str]:
    """The names of the models kept with an index and in the folders of ``TELERANK_MODELS``."""
    folders = [folder for folder in _model_folders(index) if folder.is_dir()]
    return sorted({path.name for folder in folders for path in folder.iterdir() if path.is_dir()})


def _model_folders(index: Path | None) -> Iterator[Path]:
    if index is not None:
        yield index / FOLDER_OF_INDEX
    yield from (Path(folder) for folder in os.environ.get(MODELS, "").split(os.pathsep) if folder)
