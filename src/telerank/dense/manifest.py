"""``manifest.json`` of a folder of vectors: what made them, and the shards with their checksums."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Self

from telerank.errors import ArgumentError, IndexFault
from telerank.stored import MANIFEST, Manifest, StoredFile

FIELDS = "fields"
"""The setting of a manifest that has the fields of documents that were encoded."""


@dataclass(frozen=True)
class VectorShardEntry:
    """Consecutive rows; ``texts`` is the checksum of the encoded documents.

    If they follow an index, ``segments`` are the names of its segments that they belong to; the file ``rows``
    has for each vector the number of its segment among these, -1 for none, and its row there.
    """

    rows: int
    texts: int
    files: Mapping[str, StoredFile]
    segments: tuple[str, ...] = ()

    @property
    def file_names(self) -> Mapping[str, str]:
        """The names of the files by what they hold, such as ``vectors``."""
        return {name.partition(".")[0]: name for name in self.files}

    @property
    def number(self) -> int:
        """The number in the names of the files."""
        return int(next(iter(self.files)).split(".")[1])


@dataclass(frozen=True)
class VectorManifest(Manifest):
    """A folder of vectors at one moment; ``finished`` if it has all documents.

    ``fingerprint`` identifies everything that decides the model's vectors; ``settings`` describe the model.
    ``source`` is the state of the index whose documents these are, if they belong to an index that they do
    not follow by segment. ``cut`` counts the documents that were longer than the model reads.
    """

    dimension: int
    dtype: str
    model: str
    fingerprint: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    collection: str = ""
    source: str = ""
    shards: tuple[VectorShardEntry, ...] = ()
    docnos: Mapping[str, StoredFile] = field(default_factory=dict)
    cut: int = 0
    finished: bool = False
    kind: str = "vectors"
    format: int = 1

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of documents that were encoded; empty for title and text."""
        return tuple(self.settings.get(FIELDS, ()))

    @property
    def rows(self) -> int:
        return sum(shard.rows for shard in self.shards)

    @property
    def follows(self) -> bool:
        """Whether each vector belongs to a row of a segment of an index."""
        return not self.docnos and self.finished

    @property
    def files(self) -> dict[str, StoredFile]:
        """The files of all shards and of the docnos."""
        return dict(chain(*(shard.files.items() for shard in self.shards), self.docnos.items()))

    @property
    def cut_note(self) -> str:
        """How many documents were cut, and where; empty if none was."""
        if not self.cut:
            return ""
        documents = "1 document" if self.cut == 1 else f"{self.cut:,} documents"
        return f"{documents} longer than {self.settings['model']['document']['max_length']} tokens: cut there"

    @classmethod
    def read(cls, folder: Path) -> Self:
        if not is_vectors(folder):
            raise IndexFault(f"{folder}: no vectors here (make them: telerank encode)")
        return super().read(folder)


def folder_name(model: str) -> str:
    """The name of the folder of a model's vectors inside an index."""
    return re.sub(r"[^\w.-]+", "-", Path(model).resolve().name if Path(model).is_dir() else model)


def check_name(name: str) -> str:
    """The name for vectors of an index, if it can be one of a folder.

    Raises
    ------
    ArgumentError
        If it cannot.
    """
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise ArgumentError(f"the name of vectors has letters, digits, '.', '_' and '-', got {name!r:.60}")
    return name


def is_vectors(folder: Path) -> bool:
    """Whether a folder's manifest says that it holds vectors, even if it is damaged."""
    try:
        return b'"kind": "vectors"' in (folder / MANIFEST).read_bytes()
    except OSError:
        return False
