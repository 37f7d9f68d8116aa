"""What folders of sentence-transformers say of a model: its modules, and what begins a text."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, PositiveInt

from telerank.errors import ModelError
from telerank.records import read_record

T = TypeVar("T")
MODULES = "modules.json"
MODEL = "config_sentence_transformers.json"
PREFIX = "sentence_transformers.models."
_PATH = re.compile(r"\.?|\w[\w.-]*")  # within the folder


class ModuleEntry(BaseModel):
    """A module in ``modules.json``."""

    type: str
    path: str

    @property
    def kind(self) -> str:
        """The last word of the name of a class of sentence-transformers; the whole name of any other."""
        package, _, kind = self.type.rpartition(".")
        return kind if package.partition(".")[0] in ("", "sentence_transformers", "pylate") else self.type


class ModelFile(BaseModel, extra="allow"):
    """The part of ``config_sentence_transformers.json`` with prompts and the similarity."""

    prompts: dict[str, str | None] | None = None
    default_prompt_name: str | None = None
    similarity_fn_name: str | None = None
    max_active_dims: PositiveInt | None = None  # of a sparse encoder: the largest weights are kept

    @property
    def sides(self) -> tuple[str, str]:
        """What is put before queries, and before documents."""
        prompts = self.prompts or {}
        default = prompts.get(self.default_prompt_name or "") or ""
        names = ("document", "passage", "corpus")
        document = next((text for name in names if (text := prompts.get(name))), default)
        return prompts.get("query") or default, document

    def divides(self, modules: Collection[str], folder: Path) -> bool:
        """Whether vectors are divided by their lengths: by a module of these, or since cosines compare them.

        Sentence-transformers then leaves the vectors as they are, and compares them by their cosine.

        Raises
        ------
        ModelError
            If they are compared by a distance.
        """
        if self.similarity_fn_name not in (None, "cosine", "dot"):
            kind = f"its similarity is {self.similarity_fn_name:.40}"
            raise ModelError(f"{folder / MODEL}: {kind}: expected dot or cosine")
        return "Normalize" in modules or self.similarity_fn_name == "cosine"


def read_modules(folder: Path) -> list[ModuleEntry]:
    """The modules of a folder; none if it does not list any.

    Raises
    ------
    ModelError
        If the list cannot be read, or a module is not within the folder.
    """
    file = folder / MODULES
    if not file.exists():
        return []
    modules = read_record(file, list[ModuleEntry], ModelError)
    for module in modules:
        if not _PATH.fullmatch(module.path):
            raise ModelError(f"{file}: expected the name of a folder beside it, got {module.path!r:.80}")
    return modules


def read_part(file: Path, kind: type[T]) -> T:
    """A record of a file, or an empty one without the file."""
    return read_record(file, kind, ModelError) if file.exists() else kind()


def late_kind(folder: Path) -> str | None:
    """``modules`` or ``colbert`` if a folder is that of a model with vectors of tokens; else None.

    Raises
    ------
    ModelError
        If its lists of modules cannot be read.
    """
    if modules := read_modules(folder):
        kinds = [module.kind for module in modules]
        is_late = "MultiVectorMask" in kinds or (kinds[0] == "Transformer" and set(kinds[1:]) == {"Dense"})
        return "modules" if is_late else None
    if not (folder / "config.json").exists():
        return None
    named = read_part(folder / "config.json", dict[str, Any]).get("architectures")
    return "colbert" if isinstance(named, list) and "HF_ColBERT" in named else None
