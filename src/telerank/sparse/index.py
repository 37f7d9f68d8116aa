"""An index as its readers see it: open once, then searched under any model; it never changes under them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from telerank.errors import AnalyzerError, IndexDamaged
from telerank.sparse import manifest as manifests
from telerank.sparse.impacts import Impacts
from telerank.sparse.manifest import IndexManifest
from telerank.sparse.segment import Segment
from telerank.sparse.similarities import Similarity, Statistics
from telerank.text import Analyzer
from telerank.types import Doc, Progress, silent

_MODELS_KEPT = 4  # whose contributions stay in memory
_TERMS_KEPT = 1 << 17


class Term(NamedTuple):
    """A term's numbers in the segments (-1: absent), and its frequencies in all of them together."""

    numbers: tuple[int, ...]
    df: int
    cf: int


class SparseIndex:
    """The segments that a manifest names, as they were when it was opened.

    Two are equal where folder and generation are; it pickles as its folder, and opens again as that is then.

    Raises
    ------
    IndexFault
        where there is no index.
    IndexDamaged
        naming the file that is missing or is not what was written.
    AnalyzerError
        where the index's analyzer makes other terms here than where the index was built.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()
        self.manifest, self.segments = _opened(self.folder)
        self.analyzer = Analyzer.parse(self.manifest.analyzer)
        self._require_same_terms()
        self.docs = IndexDocs(self.folder, self.state, self.segments)
        self._terms: dict[str, Term] = {}
        self._impacts: OrderedDict[Similarity, tuple[Impacts, ...]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def statistics(self) -> Statistics:
        """Of all segments; a deleted document counts until segments are merged."""
        entries = self.manifest.segments
        return Statistics(sum(entry.nonempty for entry in entries), sum(entry.tokens for entry in entries))

    @property
    def state(self) -> str:
        """What names its documents as they are: segments, and what is deleted of them."""
        return " ".join(f"{entry.name}/{entry.deleted or ''}" for entry in self.manifest.segments)

    @property
    def identity(self) -> dict[str, object]:
        """Folder, analyzer, and the checksums of the files of each segment."""
        crc32 = [{name: file.crc32 for name, file in entry.files.items()} for entry in self.manifest.segments]
        return {"folder": str(self.folder), "analyzer": str(self.analyzer), "crc32": crc32}

    def require(self, analyzer: Analyzer) -> None:
        """Refuse an analyzer that is not the index's own.

        Raises
        ------
        AnalyzerError
            where queries would be analysed otherwise than the documents were.
        """
        if analyzer != self.analyzer:
            raise AnalyzerError(f"{self.folder}: was built with the analyzer {self.analyzer}, not {analyzer}")

    def _require_same_terms(self) -> None:
        """Refuse an index whose analyzer, by the same name, now makes other terms."""
        if self.manifest.fingerprint != self.analyzer.fingerprint():
            there = ", ".join(f"{name} {version}" for name, version in self.manifest.built_with.items())
            raise AnalyzerError(
                f"{self.folder}: was built where {self.analyzer} made other terms ({there}); build it again"
            )

    def verify(self, progress: Progress = silent) -> None:
        """Read every file and compare its checksum; where a writer replaces them meanwhile, the new ones'.

        Raises
        ------
        IndexDamaged
            naming the file.
        """
        manifest = self.manifest
        while damage := _damage(self.folder, manifest, progress):
            there = IndexManifest.read(self.folder)
            if there == manifest:
                raise damage
            manifest = there

    def term(self, term: str) -> Term:
        found = self._terms.get(term)
        if found is None:
            if len(self._terms) >= _TERMS_KEPT:
                self._terms = {}
            numbers = tuple(segment.terms.number(term) for segment in self.segments)
            there = [(s, n) for s, n in zip(self.segments, numbers, strict=True) if n >= 0]
            df, cf = sum(s.df(n) for s, n in there), sum(int(s.occurrences[n]) for s, n in there)
            found = self._terms[term] = Term(numbers, df, cf)
        return found

    def impacts(self, similarity: Similarity) -> tuple[Impacts, ...]:
        """The contributions under a model, a segment each; the last few models' are kept."""
        with self._lock:
            kept = self._impacts.get(similarity)
            if kept is None:
                kept = tuple(Impacts(segment, similarity, self.statistics) for segment in self.segments)
                self._impacts[similarity] = kept
            self._impacts.move_to_end(similarity)
            while len(self._impacts) > _MODELS_KEPT:
                self._impacts.popitem(last=False)
            return kept

    def __len__(self) -> int:
        return len(self.docs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SparseIndex):
            return NotImplemented
        return self.folder == other.folder and self.manifest == other.manifest

    def __hash__(self) -> int:
        return hash((self.folder, self.manifest.generation))

    def __repr__(self) -> str:
        return f"SparseIndex({str(self.folder)!r})"

    def __reduce__(self) -> tuple[type[SparseIndex], tuple[Path]]:
        return SparseIndex, (self.folder,)


class IndexDocs:
    """The documents of an index by docno, deleted ones not among them; pickled as the index is."""

    def __init__(self, folder: Path, state: str, segments: tuple[Segment, ...]) -> None:
        self.folder, self.state = folder, state
        self._segments = segments

    def place(self, docno: str) -> tuple[int, int]:
        """The segment's number and the row of a docno.

        Raises
        ------
        KeyError
            where there is no such document.
        """
        for number, segment in enumerate(self._segments):
            try:
                row = segment.docnos.row(docno)
            except KeyError:
                continue
            if not segment.is_deleted(row):
                return number, row
        raise KeyError(docno)

    def __getitem__(self, docno: str) -> Doc:
        number, row = self.place(docno)
        return self._segments[number].docs.get_row(row)

    def __contains__(self, docno: str) -> bool:
        try:
            self.place(docno)
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[Doc]:
        for segment in self._segments:
            for row, doc in enumerate(segment.docs):
                if not segment.is_deleted(row):
                    yield doc

    def __len__(self) -> int:
        return sum(len(segment) - int(segment.deleted.sum()) for segment in self._segments)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IndexDocs):
            return NotImplemented
        return (self.folder, self.state) == (other.folder, other.state)

    def __hash__(self) -> int:
        return hash((self.folder, self.state))

    def __repr__(self) -> str:
        return f"SparseIndex({str(self.folder)!r}).docs"

    def __reduce__(self) -> tuple[Callable[[Path], IndexDocs], tuple[Path]]:
        return _docs_of, (self.folder,)


def _docs_of(folder: Path) -> IndexDocs:
    return SparseIndex(folder).docs


def _opened(folder: Path) -> tuple[IndexManifest, tuple[Segment, ...]]:
    """The manifest and its segments; once more where a writer has replaced them meanwhile."""
    while True:
        manifest = IndexManifest.read(folder)
        try:
            for entry in manifest.segments:
                manifests.check(folder, entry)
            return manifest, tuple(
                Segment(folder / "segments" / entry.name, entry.deleted) for entry in manifest.segments
            )
        except Exception as error:  # damaged bytes lead anywhere
            damage = _damage(folder, manifest)
            if IndexManifest.read(folder) != manifest:
                continue
            if damage:
                raise damage from error
            raise


def _damage(folder: Path, manifest: IndexManifest, progress: Progress = silent) -> IndexDamaged | None:
    """What names the first file that is not as it was written."""
    try:
        for entry in manifest.segments:
            manifests.verify(folder, entry, progress)
    except IndexDamaged as damage:
        return damage
    except FileNotFoundError as error:  # gone while it was looked at
        return IndexDamaged(f"{error.filename}: missing")
    return None
