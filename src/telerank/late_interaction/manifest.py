"""``manifest.json`` of a folder of vectors of tokens: the model that made them, and the parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from telerank.errors import count_noun
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
    """The parts of a folder, and the model that made them.

    ``cut`` counts the documents that were longer than the model reads.
    """

    dimension: int
    model: str
    fingerprint: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[TokenPart, ...] = ()
    cut: int = 0
    kind: str = "token vectors"
    format: int = 1

    @property
    def cut_note(self) -> str:
        """How many documents were cut, and where; empty if none was."""
        length = self.settings["document"]["max_length"]
        documents = count_noun(self.cut, "document")
        return f"{documents} longer than {length} tokens: cut there" if self.cut else ""

    @property
    def files(self) -> dict[str, StoredFile]:
        return dict(chain.from_iterable(part.files.items() for part in self.parts))


def has_tokens(folder: Path) -> bool:
    """Whether a folder holds vectors of tokens."""
    return (folder / MANIFEST).is_file()
