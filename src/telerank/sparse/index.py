"""An inverted index for reading: opened once, searched with any similarity, unaffected by later changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from telerank.errors import AnalyzerError, IndexDamaged
from telerank.sparse.manifest import IndexManifest
from telerank.sparse.segment import Impacts, Segment
from telerank.sparse.similarities.base import Similarity, Statistics
from telerank.stored import FolderReader, check_files, verify_files
from telerank.text import Analyzer
from telerank.types import Doc, Progress, silent

_SIMILARITIES_KEPT = 4  # whose contributions stay in memory
_TERMS_KEPT = 1 << 17


class Term(NamedTuple):
    """A term's number in each segment (-1: absent), and its frequencies in all of them together."""

    numbers: tuple[int, ...]
    df: int
    cf: int


class SparseIndex(FolderReader):
    """The segments of an index as they were when it was opened.

    Raises IndexFault if there is no index, IndexDamaged naming a missing or damaged file, AnalyzerError if
    the analyzer makes other terms here than where the index was built.

    ``term`` finds a :class:`Term`, ``impacts`` the contributions under a similarity, per segment; those of
    the last few similarities are kept.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()
        self.manifest, self.segments = _open(self.folder)
        self._contents = self.manifest
        self.analyzer = Analyzer.parse(self.manifest.analyzer)
        if self.manifest.fingerprint != self.analyzer.fingerprint():
            versions = ", ".join(f"{name} {version}" for name, version in self.manifest.built_with.items())
            raise AnalyzerError(
                f"{self.folder}: was built where {self.analyzer} made other terms ({versions}); "
                "build it again"
            )
        self.term = lru_cache(_TERMS_KEPT)(partial(_find_term, self.segments))
        self.impacts = lru_cache(_SIMILARITIES_KEPT)(partial(_open_impacts, self.segments, self.statistics))

    @property
    def docs(self) -> IndexDocs:
        """The documents by docno."""
        return IndexDocs(self)

    @property
    def statistics(self) -> Statistics:
        """Statistics of all segments; a deleted document counts until segments are merged."""
        entries = self.manifest.segments
        return Statistics(sum(entry.nonempty for entry in entries), sum(entry.tokens for entry in entries))

    @property
    def state(self) -> str:
        """The names of the segments and of their marks of deletion: they decide which documents there are."""
        return " ".join(f"{entry.name}/{entry.deleted or ''}" for entry in self.manifest.segments)

    @property
    def identity(self) -> dict[str, object]:
        """Folder, analyzer, and the checksums of the files of each segment."""
        crc32 = [{name: file.crc32 for name, file in entry.files.items()} for entry in self.manifest.segments]
        return {"folder": str(self.folder), "analyzer": str(self.analyzer), "crc32": crc32}

    def require(self, analyzer: Analyzer) -> None:
        """Raise AnalyzerError if an analyzer differs from the index's own."""
        if analyzer != self.analyzer:
            raise AnalyzerError(f"{self.folder}: was built with the analyzer {self.analyzer}, not {analyzer}")

    def verify(self, progress: Progress = silent) -> None:
        """Read every file and compare its checksum; if a writer replaces files, the new ones are read."""
        manifest = self.manifest
        while damage := _damage(self.folder, manifest, progress):
            current = IndexManifest.read(self.folder)
            if current == manifest:
                raise damage
            manifest = current

    def __len__(self) -> int:
        return len(self.docs)


def _find_term(segments: tuple[Segment, ...], term: str) -> Term:
    """The numbers and frequencies of a term, which no document needs to hold."""
    numbers = tuple(segment.terms.find(term) for segment in segments)
    holding = [(s, n) for s, n in zip(segments, numbers, strict=True) if n >= 0]
    return Term(numbers, sum(s.df(n) for s, n in holding), sum(int(s.occurrences[n]) for s, n in holding))


def _open_impacts(
    segments: tuple[Segment, ...], collection: Statistics, similarity: Similarity
) -> tuple[Impacts, ...]:
    return tuple(Impacts(segment, similarity, collection) for segment in segments)


@dataclass(frozen=True, repr=False)
class IndexDocs:
    """The documents of an index by docno, without deleted ones."""

    index: SparseIndex

    def locate(self, docno: str) -> tuple[int, int]:
        """The number of a document's segment, and its row there; raises KeyError if there is no document."""
        for number, segment in enumerate(self.index.segments):
            try:
                row = segment.docnos.row(docno)
            except KeyError:
                continue
            if not segment.is_deleted(row):
                return number, row
        raise KeyError(docno)

    def __getitem__(self, docno: str) -> Doc:
        number, row = self.locate(docno)
        return self.index.segments[number].docs.get_row(row)

    def __contains__(self, docno: str) -> bool:
        try:
            self.locate(docno)
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[Doc]:
        for segment in self.index.segments:
            for row, doc in enumerate(segment.docs):
                if not segment.is_deleted(row):
                    yield doc

    def __len__(self) -> int:
        return sum(len(segment) - int(segment.deleted.sum()) for segment in self.index.segments)

    def __repr__(self) -> str:
        return f"{self.index!r}.docs"


def _open(folder: Path) -> tuple[IndexManifest, tuple[Segment, ...]]:
    """The manifest and its segments, read again if a writer has replaced them meanwhile."""
    while True:
        manifest = IndexManifest.read(folder)
        try:
            for entry in manifest.segments:
                check_files(folder / "segments" / entry.name, entry.files)
            return manifest, tuple(
                Segment(folder / "segments" / entry.name, entry.deleted) for entry in manifest.segments
            )
        except Exception as error:  # damaged bytes may raise anything
            damage = _damage(folder, manifest)
            if IndexManifest.read(folder) != manifest:
                continue
            if damage:
                raise damage from error
            raise


def _damage(folder: Path, manifest: IndexManifest, progress: Progress = silent) -> IndexDamaged | None:
    """The error that names the first file that is missing or damaged."""
    try:
        for entry in manifest.segments:
            verify_files(folder / "segments" / entry.name, entry.files, f"verifying {entry.name}", progress)
    except IndexDamaged as damage:
        return damage
    except FileNotFoundError as error:  # removed meanwhile
        return IndexDamaged(f"{error.filename}: missing")
    return None
