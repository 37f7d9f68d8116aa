"""A model of sparse vectors by its name, and documents weighed by it while they are indexed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from telerank.corpus.docstore import Docstore
from telerank.errors import LongTexts, MissingExtra, count_noun
from telerank.sparse.weights.entry import WeightsEntry
from telerank.sparse.weights.writing import Take
from telerank.types import Progress

if TYPE_CHECKING:
    from telerank.models.encoders.sparse import SparseEncoding, SparseVector

_WINDOW = 1024  # documents that are sorted by length


@dataclass(frozen=True)
class TermEncoder:
    """A model such as SPLADE by its name: a folder, or a name on the hub.

    It is loaded when it is first used. If that finds no such model or device, it raises ModelError; without
    torch, MissingExtra.
    """

    model: str
    device: str | None = None

    @property
    def fingerprint(self) -> str:
        """Identifies everything that decides a vector."""
        return self._loaded.fingerprint

    @property
    def entry(self) -> WeightsEntry:
        """What the manifest of an index says of its weights."""
        return WeightsEntry(self.model, self.fingerprint)

    def encode_queries(self, texts: Sequence[str]) -> list[dict[str, float]]:
        """The weights above 0 of the pieces of the vocabulary, for each query."""
        return [self._loaded.weigh_pieces(vector) for vector in self.encode(texts, queries=True)]

    def encode(self, texts: Sequence[str], *, queries: bool) -> list[SparseVector]:
        """The vectors of queries, or of documents."""
        return self._loaded.encode(texts, queries=queries)

    def weigh(self, docs: Docstore, take: Take, progress: Progress) -> None:
        """Give ``take`` the vectors of all documents; a warning (LongTexts) counts those that were cut."""
        row, cut, stream = 0, 0, iter(docs)
        while window := list(islice(stream, _WINDOW)):
            for vector in self.encode([doc.full_text for doc in window], queries=False):
                take(row, self._loaded.weigh_pieces(vector))
                row, cut = row + 1, cut + vector.is_cut
            progress("weighing", row, len(docs))
        if cut:
            length = self._loaded.documents.tokenizer.side.max_length
            documents = count_noun(cut, "document")
            note = f"{documents} longer than {length} tokens: {self.model} weighs the terms before"
            warnings.warn(note, LongTexts, stacklevel=2)

    @cached_property
    def _loaded(self) -> SparseEncoding:
        try:
            import_module("torch")
            from telerank.models.encoders.sparse import load_sparse_encoder
        except ModuleNotFoundError as error:
            raise MissingExtra(error.name or "torch", "neural") from error
        name = folder if (folder := Path(self.model)).is_dir() else self.model
        return load_sparse_encoder(name, self.device or "auto")

    def __reduce__(self) -> tuple[type[TermEncoder], tuple[str, str | None]]:
        return TermEncoder, (self.model, self.device)
