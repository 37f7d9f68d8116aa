"""The texts of a collection by docno from the disk, where any may be asked for at any time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from telerank.corpus.collection import Collection
from telerank.corpus.docstore import Docstore, DocstoreWriter
from telerank.stored import DRAFT, remove, replace_folder
from telerank.types import Progress, silent


@dataclass(frozen=True, eq=False)
class StoredTexts:
    docs: Docstore

    def __getitem__(self, docno: str) -> str:
        return self.docs[docno].full_text


def stored_texts(collection: Collection, folder: Path, progress: Progress = silent) -> StoredTexts:
    """The collection's texts from a docstore in ``folder``, which is written where it is not there whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(
        folder.with_name(f".{folder.name}.lock")
    ):  # of several processes one writes, the others wait
        if not folder.exists():
            _write(collection, folder, progress)
    return StoredTexts(Docstore.open(folder))


def _write(collection: Collection, folder: Path, progress: Progress) -> None:
    draft = folder.with_name(folder.name + DRAFT)
    remove(draft)
    with DocstoreWriter(draft) as writer:
        for number, doc in enumerate(collection.docs(), 1):
            writer.add(doc)
            if number % 10_000 == 0:
                progress("storing documents", number, collection.size)
    replace_folder(folder, draft)
