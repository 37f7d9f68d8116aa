"""Synonyms of queries from a file that is changed without indexing anew.

The file is that of the analyzer's step ``synonyms(FILE)`` (:mod:`telerank.text.words`): ``cni, carte
d'identité`` stand for each other, ``auto => voiture`` replaces. Here it is read when a pipeline is, and its
entries pass through the analyzer of the index that is searched: its words find what they find in a query.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from weakref import WeakKeyDictionary

from telerank.columns.filters import Filter
from telerank.errors import ArgumentError
from telerank.expressions import call_text, quote
from telerank.sparse.index import SparseIndex
from telerank.sparse.retriever import SparseRetriever, count_terms
from telerank.stage import Stage, StageAround, change_stages, walk_stages
from telerank.text.words import Synonyms, read_lines
from telerank.types import Explanation, Phrase, Query, Ranking

SYNONYMS = "synonyms"
"""The name of the stage in pipelines."""


@dataclass(frozen=True, repr=False)
class SynonymTerms:
    """Gives queries the terms of their synonyms, too; ``lines`` are those of the file of this name."""

    file: str
    lines: tuple[str, ...]

    @classmethod
    def read(cls, file: str | Path) -> SynonymTerms:
        """The synonyms of a file; raises AnalyzerError if it cannot be read."""
        return cls(str(file), tuple(read_lines(Path(file), SYNONYMS)))

    def __call__(self, index: SparseIndex, queries: Sequence[str]) -> list[Mapping[str, int]]:
        synonyms = self.open(index)
        return [Counter(synonyms.of_query(index.analyzer.query(query))) for query in queries]

    def open(self, index: SparseIndex) -> Synonyms:
        """The synonyms as terms of an index; raises AnalyzerError, which names a line without words."""
        known = _opened.setdefault(index, {})
        if self not in known:
            known.clear()
            known[self] = Synonyms(self.file, self.lines, index.analyzer.query, is_indexed=False)
        return known[self]

    @property
    def origin(self) -> Phrase:
        """Where terms are from that a query has not itself, for explanations."""
        return Phrase("synonyms of the file {file}", file=Path(self.file).name)

    @property
    def checksum(self) -> str:
        """The SHA-256 of the lines."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()

    def expand(self, stage: Stage) -> Stage:
        """A pipeline whose searches of words have the synonyms; raises ArgumentError if there is none."""
        searches = [part for part in walk_stages(stage) if isinstance(part, SparseRetriever)]
        if not any(part.weigh is count_terms for part in searches):
            raise ArgumentError(f"{SYNONYMS}: {stage.text} searches no words")
        for part in searches:
            self.open(part.index)
        return change_stages(stage, self._change)

    def _change(self, part: Stage) -> Stage:
        is_search = isinstance(part, SparseRetriever) and part.weigh is count_terms
        return replace(part, weigh=self, origin=self.origin) if is_search else part  # type: ignore[type-var]

    def __repr__(self) -> str:
        return f"{SYNONYMS}({quote(self.file)})"


_opened: WeakKeyDictionary[SparseIndex, dict[SynonymTerms, Synonyms]] = WeakKeyDictionary()


@dataclass(frozen=True, repr=False)
class WithSynonyms(StageAround):
    """A pipeline whose searches of words have synonyms; models read queries as they are.

    Raises
    ------
    AnalyzerError
        If a line of the file has no words for the index.
    ArgumentError
        If the pipeline searches no words.
    """

    synonyms: SynonymTerms

    def __post_init__(self) -> None:
        self.expanded  # noqa: B018 — what is wrong is told when a pipeline is made

    @cached_property
    def expanded(self) -> Stage:
        """The pipeline with the synonyms."""
        return self.synonyms.expand(self.stage)

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return self.expanded(stream)

    def explanation(self, query: Query, docno: str) -> Explanation:
        return self.expanded.explanation(query, docno)

    def limit(self, k: int) -> Stage:
        return replace(self, stage=self.stage.limit(k))

    def after(self, first: Stage) -> Stage:
        return first >> self.expanded

    def filtered(self, chosen: Filter, *, fed: bool = False) -> Stage:
        return replace(self, stage=self.stage.filtered(chosen, fed=fed))

    @property
    def sources(self) -> Mapping[str, object]:
        facts = {
            "file": self.synonyms.file,
            "lines": len(self.synonyms.lines),
            "sha256": self.synonyms.checksum,
        }
        return {repr(self.synonyms): facts}

    @property
    def text(self) -> str:
        return call_text(SYNONYMS, self.stage.text, quote(self.synonyms.file))
