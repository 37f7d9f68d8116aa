"""``manifest.json`` of a folder of vectors of tokens: the model that made them, and the parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from telerank.stored import MANIFEST, Manifest, StoredFile


@dataclass(frozen=True)
class TokenPart:
    """Some documents of a segment, and how many tokens they have."""

    segment: str
    rows: int
    tokens: int
    files: Mapping[str, StoredFile]

    @property
    def number(self) -> int:
        return int(next(iter(self.files)).split(".")[1])


@dataclass(frozen=True)
class TokenManifest(Manifest):
    """The parts of a folder, and the model that made them."""

    dimension: int
    model: str
    fingerprint: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[TokenPart, ...] = ()
    kind: str = "token vectors"
    format: int = 1

    @property
    def files(self) -> dict[str, StoredFile]:
        return dict(chain.from_iterable(part.files.items() for part in self.parts))


def has_tokens(folder: Path) -> bool:
    """Whether a folder holds vectors of tokens."""
    return (folder / MANIFEST).is_file()
