"""A model of sparse vectors by its name, and documents weighed by it while they are indexed."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from telerank.corpus.docstore import Docstore
from telerank.errors import LongTexts, MissingExtra, ModelError, count_noun
from telerank.sparse.weights.entry import WeightsEntry
from telerank.sparse.weights.writing import Take
from telerank.text import Analyzer
from telerank.text.analyzer import locate_terms
from telerank.types import Doc, Progress

if TYPE_CHECKING:
    from telerank.models.encoders.sparse import SparseEncoding, SparseVector
    from telerank.models.encoders.word_weights import WordWeigher

_WINDOW = 1024  # documents that are sorted by length


@dataclass(frozen=True)
class TermEncoder:
    """A model such as SPLADE or DeepCT by its name: a folder, or a name on the hub.

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
    def has_words(self) -> bool:
        """Whether its terms are words, by an analyzer, and not pieces of its vocabulary."""
        return self._loaded.has_words

    @property
    def longest(self) -> int:
        """The number of tokens at which a document is cut."""
        return self._loaded.longest

    @property
    def computes_on(self) -> str:
        """The kind of its device, which decides the last digits of a weight: ``cpu``, ``cuda``."""
        return self._loaded.device.type

    def require_analyzer(self, analyzer: Analyzer | None) -> Analyzer:
        """The analyzer whose words the model weighs; raises ModelError if there is none."""
        if analyzer is None:
            raise ModelError(f"{self.model}: weighs the words of an index: give an index of the documents")
        return analyzer

    @property
    def entry(self) -> WeightsEntry:
        """What the manifest of an index says of its weights."""
        return WeightsEntry(self.model, self.fingerprint)

    def weigh_queries(self, texts: Sequence[str], analyzer: Analyzer) -> list[Mapping[str, float]]:
        """The weights above 0 of each query's terms: pieces of the vocabulary, or terms of the analyzer."""
        words = self._words
        if words is None:
            return [self._pieces.weigh_pieces(vector) for vector in self.encode(texts, queries=True)]
        counted: list[Mapping[str, float]] = [Counter(analyzer.query(text)) for text in texts]
        return [dict.fromkeys(terms, 1) for terms in counted] if words.settings.queries == "ones" else counted

    def warm(self) -> None:
        """Load the model, and let it compute once."""
        if self._words is not None:
            self._words.weigh(["a"], [[("a", 0, 1)]])
        else:
            self.encode(["a"], queries=True)

    def encode(self, texts: Sequence[str], *, queries: bool) -> list[SparseVector]:
        """The vectors of queries, or of documents, by numbers of pieces.

        Raises
        ------
        ModelError
            If the model has weights of words, which have no numbers.
        """
        return self._pieces.encode(texts, queries=queries)

    def weigh(self, docs: Docstore, analyzer: Analyzer, take: Take, progress: Progress) -> None:
        """Give ``take`` the vectors of all documents; a warning (LongTexts) counts those that were cut."""
        row, cut, stream = 0, 0, iter(docs)
        while window := list(islice(stream, _WINDOW)):
            for weights, is_cut in self.weigh_documents(window, analyzer):
                take(row, weights)
                row, cut = row + 1, cut + is_cut
            progress("weighing", row, len(docs))
        if cut:
            documents = count_noun(cut, "document")
            note = f"{documents} longer than {self.longest} tokens: {self.model} weighs the terms before"
            warnings.warn(note, LongTexts, stacklevel=2)

    def weigh_documents(
        self, docs: Sequence[Doc], analyzer: Analyzer
    ) -> Iterator[tuple[Mapping[str, float], bool]]:
        """The weights of the terms of each document, and whether it was cut."""
        texts, words = [doc.full_text for doc in docs], self._words
        if words is None:
            for vector in self.encode(texts, queries=False):
                yield self._pieces.weigh_pieces(vector), vector.is_cut
            return
        # of several languages the terms are those that the index counts
        spans = [locate_terms(analyzer, doc.full_text, set(analyzer(analyzer.mark(doc)))) for doc in docs]
        yield from words.weigh(texts, spans)

    @property
    def _words(self) -> WordWeigher | None:
        """The model, if it weighs words."""
        return self._loaded if self.has_words else None  # type: ignore[return-value]

    @property
    def _pieces(self) -> SparseEncoding:
        """The model, if it weighs pieces."""
        if self.has_words:
            raise ModelError(f"{self.model}: has weights of words, which have no numbers as pieces have")
        return self._loaded  # type: ignore[return-value]

    @cached_property
    def _loaded(self) -> SparseEncoding | WordWeigher:
        try:
            import_module("torch")
            from telerank.models.encoders.sparse import load_sparse_encoder
        except ModuleNotFoundError as error:
            raise MissingExtra(error.name or "torch", "neural") from error
        name = folder if (folder := Path(self.model)).is_dir() else self.model
        return load_sparse_encoder(name, self.device or "auto")

    def __reduce__(self) -> tuple[type[TermEncoder], tuple[str, str | None]]:
        return TermEncoder, (self.model, self.device)
