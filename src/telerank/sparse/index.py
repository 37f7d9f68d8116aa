"""The folder of an index, its manifest, and an inverted index for reading.

Replacing ``manifest.json`` is what commits a change. An index is opened once, searched with any similarity,
and unaffected by later changes. Opening it compares the sizes of all files and the checksums of small ones
(4 MiB and less).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from telerank import drafts
from telerank.columns.filters import Filter
from telerank.columns.kinds import LEFT_OUT
from telerank.corpus.docnos import with_files
from telerank.errors import (
    AnalyzerError,
    ArgumentTypeError,
    IndexDamaged,
    IndexFault,
    UnknownDocument,
    nearest_beside,
)
from telerank.sparse.fields import TermLists, bind_similarity, open_lists
from telerank.sparse.impacts import Impacts
from telerank.sparse.inverted.phrases import phrase_rows
from telerank.sparse.segment import Segment
from telerank.sparse.selection import RowSelection
from telerank.sparse.similarities.base import Beside, Reads, Similarity
from telerank.sparse.similarities.fields import check_field
from telerank.sparse.weights.entry import WeightsEntry, require_counts
from telerank.stored import (
    MANIFEST,
    MANIFEST_DRAFT,
    FolderReader,
    Manifest,
    StoredFile,
    check_files,
    verify_files,
    versions,
)
from telerank.text import Analyzer, has_tokenizer
from telerank.types import Doc, Progress, silent

LOCK = "write.lock"
SEGMENTS = "segments"
# The folder for vectors of the documents, with a folder for each model.
VECTORS = "vectors"
TOKENS = "tokens"
# Models and texts of pipelines that are kept with an index.
MODELS, PIPELINES = "models", "pipelines.json"
# The folder for the record of the files that an index was made from.
FILES = "files"


# The only kind of weights of terms so far.
COUNTS = "counts"


@dataclass(frozen=True)
class SegmentEntry:
    """A segment: its counts, from which statistics are computed, and its files by name.

    ``deleted`` and ``copies`` are files with marks of documents that are deleted, or left out as copies;
    ``kinds`` is that of copies that are found, left out or not. ``format`` is that of the postings
    (:mod:`telerank.sparse.inverted.postings`), 1 in indexes of format 1.
    """

    name: str
    documents: int
    nonempty: int
    tokens: int
    files: Mapping[str, StoredFile]
    deleted: str | None = None
    deletions: int = 0
    copies: str | None = None
    kinds: str | None = None
    format: int = 1


@dataclass(frozen=True)
class IndexManifest(Manifest):
    """An index at one moment; ``generation`` grows with every commit.

    ``fingerprint`` is the analyzer's: another release of a stemmer may make other terms under the same name.
    ``words`` has the lines of the files that the analyzer names. ``copies`` is what is done about copies, of
    which there are so many exact and near ones; empty: they are not looked for. ``columns`` has the kinds of
    the documents' columns (:mod:`telerank.columns.kinds`), and those that are not kept. ``weights`` is the
    kind of numbers that postings have: "counts", how often the document holds the term. ``fields`` are those
    that are indexed by themselves, too, in the order of their files; with ``positions`` it is known where
    terms stand. ``term_weights`` are weights beside the counts, if there are any.

    An index of format 1 is opened as it is; its next change writes format 2.
    """

    readable: ClassVar = (1, 2)

    analyzer: str
    fingerprint: str
    segments: tuple[SegmentEntry, ...] = ()
    generation: int = 0
    built_with: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    copies: str = ""
    exact_copies: int = 0
    near_copies: int = 0
    columns: Mapping[str, str] = field(default_factory=dict)
    weights: str = COUNTS
    fields: tuple[str, ...] = ()
    positions: bool = False
    term_weights: WeightsEntry | None = None
    format: int = 2

    @property
    def state(self) -> str:
        """The names of the segments and of their marks, which decide which documents there are."""
        return " ".join(
            f"{entry.name}/{entry.deleted or ''}{f'/{entry.copies}' if entry.copies else ''}"
            for entry in self.segments
        )

    def open_analyzer(self) -> Analyzer:
        """The analyzer; raises AnalyzerError if it names a tokenizer that is not here."""
        return Analyzer.parse(self.analyzer, self.words)

    @classmethod
    def read(cls, folder: Path) -> Self:
        if not has_index(folder):
            raise IndexFault(f"{folder}: no index here ({MANIFEST} is missing){nearest_beside(folder)}")
        manifest = super().read(folder)
        if manifest.weights != COUNTS:
            kinds = f"weights of the kind {manifest.weights!r:.60}, this version reads {COUNTS!r}"
            raise IndexFault(f"{folder / MANIFEST}: {kinds}")
        return manifest


def describe_copies(manifest: IndexManifest) -> dict[str, int]:
    """The numbers of copies by what is said of them; none if they are not looked for."""
    done = ", left out" if manifest.copies.startswith("leave-out") else ""
    counts = {f"exact copies{done}": manifest.exact_copies} if manifest.copies else {}
    return (
        {**counts, f"near copies{done}": manifest.near_copies} if manifest.copies.endswith("near") else counts
    )


def has_index(folder: Path) -> bool:
    """Whether a folder holds an index, or something else with a manifest."""
    return (folder / MANIFEST).is_file()


def read_committed(folder: Path) -> IndexManifest:
    """The manifest on the disk; one of generation 0, without analyzer, if there is none yet."""
    return IndexManifest.read(folder) if has_index(folder) else IndexManifest("", "")


def check_contents(folder: Path) -> None:
    """Raise IndexFault if a folder holds more than an index, or than a killed writer left of one."""
    if folder.exists() and not folder.is_dir():
        raise IndexFault(f"{folder}: is a file, not a folder")
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if MANIFEST in names and LOCK not in names:
        IndexManifest.read(folder)  # refuses a manifest of another kind
    if {MANIFEST, LOCK} & names:  # without either, a folder named segments may belong to another program
        names -= {MANIFEST, MANIFEST_DRAFT, LOCK, SEGMENTS, VECTORS, TOKENS, MODELS, PIPELINES, FILES}
    if others := sorted(names):
        raise IndexFault(f"{folder}: holds other things ({others[0]}); an index needs a folder of its own")


def sweep_index(folder: Path) -> None:
    """Remove segments and files that the manifest does not name: replaced ones, those of a killed writer.

    The next writer removes what cannot be removed now, because a process still writes to it.
    """
    try:
        named = {entry.name: entry.files for entry in read_committed(folder).segments}
    except IndexFault:  # nothing is removed before its replacement exists
        return
    drafts.remove(folder / MANIFEST_DRAFT)
    segments = folder / SEGMENTS
    drafts.sweep(segments.iterdir(), named)
    for name, files in named.items():
        drafts.sweep((segments / name).iterdir(), files)


def read_versions() -> dict[str, str]:
    """The versions of Python and of the packages that decide what an index holds."""
    decide = ("python", "telerank", "numpy", "numba", "PyStemmer")
    return {name: version for name, version in versions().items() if name in decide}


_FILTERS_KEPT, _MOST_MARKS = 64, 1 << 28  # whose marks stay in memory, a byte for each document
_LISTS_KEPT = 16  # what is read of an index
_SIMILARITIES_KEPT = 4  # whose contributions stay in memory


class SparseIndex(FolderReader):
    """The segments of an index as they were when it was opened.

    Raises IndexFault if there is no index, IndexDamaged naming a missing or damaged file, AnalyzerError if
    the analyzer makes other terms here than where the index was built.

    ``term`` finds a :class:`~telerank.sparse.fields.Term` of the whole texts, ``impacts`` the contributions
    under a similarity, per segment; those of the last few similarities are kept. ``selections`` has the
    documents that pass a filter, per segment; those of the last filters are kept, at most 256 MiB.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()
        self.manifest, self.segments = IndexManifest.open(self.folder, partial(open_segments, self.folder))
        self._contents = self.manifest
        if has_tokenizer(self.manifest.analyzer):
            self.analyzer  # noqa: B018 — of another analyzer it is told when the index is opened
        self.state = self.manifest.state
        self._lists = lru_cache(_LISTS_KEPT)(partial(open_lists, self.segments, self.manifest.fields))
        texts = self._lists(None)
        self.statistics, self.term = texts.statistics, texts.term
        most = max(2, min(_FILTERS_KEPT, _MOST_MARKS // max(sum(map(len, self.segments)), 1)))
        self.selections = lru_cache(most)(partial(_select, self.segments, self.columns))
        opened = partial(_open_impacts, self._lists, self.manifest.fields, self.folder)  # no cycle with self
        self.impacts = lru_cache(_SIMILARITIES_KEPT)(opened)

    def lists(self, similarity: Similarity | None = None) -> TermLists:
        """What a similarity reads; without one, the whole texts.

        Raises
        ------
        ModelError
            If it reads a field that the index has not, or as counts weights of terms that are none.
        """
        if similarity is None:
            return self._lists(None)
        _, reads = bind_similarity(similarity, self.fields, self.folder)
        if reads is Beside.COUNTS:
            require_counts(self.manifest.term_weights, similarity, self.folder)
        return self._lists(reads)

    def find_phrase(
        self, terms: Sequence[str], fields: Sequence[str] | None = None
    ) -> list[dict[str, npt.NDArray[np.int32]]]:
        """For each segment, which rows hold the terms one behind the other, ascending, by field.

        ``fields`` None: all of the index, and without any the whole texts (title and text run together),
        which have the name ``""``. Terms are those of the analyzer; what it leaves out, such as stop words,
        has no position. Deleted documents are among the rows.

        Raises
        ------
        IndexFault
            If the index has no positions.
        ModelError
            If there is no such field.
        """
        if not self.manifest.positions:
            how = "index it again with --positions (positions=True)"
            raise IndexFault(f"{self.folder}: has no positions of terms: {how}")
        names = self.fields or ("",) if fields is None else fields
        for name in names:
            if name:
                check_field(name, self.fields, "phrase")
        files = {"": 0, **{name: number for number, name in enumerate(self.fields, 1)}}
        return [
            {name: phrase_rows((segment, *segment.fields)[files[name]], terms) for name in names}
            for segment in self.segments
        ]

    @cached_property
    def analyzer(self) -> Analyzer:
        """The analyzer of documents and queries.

        Raises
        ------
        AnalyzerError
            If it names a tokenizer that no program has named here.
        """
        analyzer = self.manifest.open_analyzer()
        if self.manifest.fingerprint != analyzer.fingerprint():
            built_with = ", ".join(f"{name} {version}" for name, version in self.manifest.built_with.items())
            raise AnalyzerError(
                f"{self.folder}: was built where {analyzer} made other terms ({built_with}); build it again"
            )
        return analyzer

    @property
    def columns(self) -> dict[str, str]:
        """The kinds of the documents' columns, by name."""
        return {name: kind for name, kind in self.manifest.columns.items() if kind != LEFT_OUT}

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that are indexed by themselves, too."""
        return self.manifest.fields

    @property
    def docs(self) -> IndexDocs:
        """The documents by docno."""
        return IndexDocs(self)

    @property
    def stored_docs(self) -> IndexDocs:
        """The documents with the copies that are left out of searches."""
        return IndexDocs(self, with_copies=True)

    @property
    def identity(self) -> dict[str, object]:
        """Folder, analyzer, and the checksums of the files of each segment."""
        crc32 = [{name: file.crc32 for name, file in entry.files.items()} for entry in self.manifest.segments]
        return {"folder": str(self.folder), "analyzer": self.manifest.analyzer, "crc32": crc32}

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


def _open_impacts(
    lists: Callable[[Reads], TermLists], fields: tuple[str, ...], folder: Path, similarity: Similarity
) -> tuple[Impacts, ...]:
    bound, reads = bind_similarity(similarity, fields, folder)
    return lists(reads).open_impacts(bound)


def _select(
    segments: tuple[Segment, ...], kinds: Mapping[str, str], chosen: Filter
) -> tuple[RowSelection, ...]:
    tree = chosen.bind(kinds)
    return tuple(RowSelection(segment, tree) for segment in segments)


@dataclass(frozen=True, repr=False)
class IndexDocs:
    """The documents of an index by docno, without deleted ones: a mapping that is read from the disk.

    Copies that are left out are among them only ``with_copies``; with a filter ``chosen``, those that do not
    pass are not there.

    Raises
    ------
    UnknownDocument
        If no document has the docno that is looked up.
    """

    index: SparseIndex
    with_copies: bool = False
    chosen: Filter | None = None

    def locate(self, docno: str) -> tuple[int, int]:
        """The number of a document's segment, and its row there."""
        if not isinstance(docno, str):
            raise ArgumentTypeError(f"expected a docno, a text, got {docno!r:.60}")
        for number, segment in enumerate(self.index.segments):
            with suppress(KeyError):
                row = segment.docnos.row(docno)
                if not self._lacks(number, row):
                    return number, row
        raise UnknownDocument(f"{self.index.folder}: no document {docno!r}")

    @property
    def kinds(self) -> Mapping[str, str]:
        """The kinds of the documents' columns, by name."""
        return self.index.columns

    def hidden(self, chosen: Filter) -> list[npt.NDArray[np.bool_]]:
        """For each segment, which rows do not pass a filter, or are deleted."""
        return [selection.hidden for selection in self.index.selections(chosen.both(self.chosen))]

    def of_file(self, docno: str) -> list[str]:
        """The docnos of the passages of a file by its docno, and its own, in the order of the documents."""
        return [
            name
            for number, segment in enumerate(self.index.segments)
            for name in segment.docnos.of_file(docno)
            if not self._lacks(number, segment.docnos.row(name))
        ]

    def files_and_docnos(self) -> Iterator[str]:
        """The docnos, and before that of the first passage of a file its own."""
        return with_files(self)

    def __getitem__(self, docno: str) -> Doc:
        number, row = self.locate(docno)
        return self.index.segments[number].docs.get_row(row)

    def __contains__(self, docno: str) -> bool:
        with suppress(KeyError):
            return bool(self.locate(docno))
        return False

    def __iter__(self) -> Iterator[str]:
        for number, segment in enumerate(self.index.segments):
            yield from (docno for row, docno in enumerate(segment.docnos) if not self._lacks(number, row))

    def keys(self) -> IndexDocs:
        """The docnos, in the order of the documents."""
        return self

    def values(self) -> IndexTexts:
        """The documents, in their order."""
        return IndexTexts(self)

    def items(self) -> Iterator[tuple[str, Doc]]:
        """The docnos with their documents."""
        return ((doc.docno, doc) for doc in self.values())

    def get(self, docno: str, default: Doc | None = None) -> Doc | None:
        """The document of a docno, or ``default``."""
        with suppress(KeyError):
            return self[docno]
        return default

    def __len__(self) -> int:
        return sum(map(len, self.index.segments)) - sum(int(own.sum()) for own in self.marks)

    @property
    def marks(self) -> list[npt.NDArray[np.bool_]]:
        """For each segment, which rows are not there; of length 0 if all are."""
        if self.chosen is not None:
            return self.hidden(self.chosen)
        return [s.gone if self.with_copies else s.deleted for s in self.index.segments]

    def _lacks(self, number: int, row: int) -> bool:
        marks = self.marks[number]
        return bool(len(marks) and marks[row])

    def __repr__(self) -> str:
        return f"{self.index!r}.docs"


@dataclass(frozen=True, repr=False)
class IndexTexts:
    """The documents of an index in their order; each iteration begins anew."""

    docs: IndexDocs

    def __iter__(self) -> Iterator[Doc]:
        for segment, marks in zip(self.docs.index.segments, self.docs.marks, strict=True):
            yield from (doc for row, doc in enumerate(segment.docs) if not (len(marks) and marks[row]))

    def __len__(self) -> int:
        return len(self.docs)


def open_segments(folder: Path, manifest: IndexManifest) -> tuple[Segment, ...]:
    """The segments of an index; raises IndexDamaged naming a missing or damaged file."""
    try:
        for entry in manifest.segments:
            check_files(folder / SEGMENTS / entry.name, entry.files)
        return tuple(
            Segment(
                folder / SEGMENTS / entry.name,
                entry.deleted,
                entry.copies,
                entry.format,
                len(manifest.fields),
                weights=manifest.term_weights is not None,
            )
            for entry in manifest.segments
        )
    except Exception as error:  # damaged bytes may raise anything
        if damage := _damage(folder, manifest):
            raise damage from error
        raise


def _damage(folder: Path, manifest: IndexManifest, progress: Progress = silent) -> IndexDamaged | None:
    """The error that names the first file that is missing or damaged."""
    try:
        for entry in manifest.segments:
            verify_files(folder / SEGMENTS / entry.name, entry.files, f"verifying {entry.name}", progress)
    except IndexDamaged as damage:
        return damage
    except FileNotFoundError as error:  # removed meanwhile
        return IndexDamaged(f"{error.filename}: missing")
    return None
