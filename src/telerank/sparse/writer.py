"""Writing an index: adding, marking deletions, merging; each change is committed whole or not at all.

A change is written to new files and becomes part of the index when ``manifest.json`` is replaced. A writer
that is killed leaves the index as it was; the next writer removes the unfinished files.
"""

from __future__ import annotations

import shutil
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from errno import ENOSPC
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

import filelock
import numpy as np
import numpy.typing as npt

from telerank.columns.kinds import check_columns, check_name
from telerank.corpus.docnos import Docnos
from telerank.corpus.docstore import DocstoreWriter
from telerank.drafts import sync_folder
from telerank.errors import (
    ArgumentError,
    ArgumentTypeError,
    DocumentError,
    IndexFault,
    MissingExtra,
    shorten,
)
from telerank.parameters import CopySetting
from telerank.sparse.build import STRETCH, Inversion, build_segment, merge_segments
from telerank.sparse.copies import CopyKeys
from telerank.sparse.copy_search import find_copies, open_copy_sources, update_copies
from telerank.sparse.index import (
    LOCK,
    SEGMENTS,
    IndexManifest,
    SegmentEntry,
    SparseIndex,
    check_contents,
    has_index,
    read_committed,
    read_versions,
    sweep_index,
)
from telerank.sparse.inverted.postings import FORMAT
from telerank.sparse.weights.encoder import TermEncoder
from telerank.sparse.weights.writing import WeightSource, write_weights
from telerank.stored import StoredFile, becoming_writer, load_npy, record_files
from telerank.text import Analyzer
from telerank.types import Doc, Progress, silent

# What is called with the manifests before and after a change, when the files of the latter are written.
BeforeCommit: TypeAlias = Callable[[IndexManifest, IndexManifest], None]
_MOST_SEGMENTS = 32  # each keeps a dozen files open
_MOST_FIELDS = 16  # each has seven files in every segment
_NO_SPACE = 1 << 20  # bytes


def build_index(
    docs: Iterable[Doc],
    folder: str | Path,
    *,
    analyzer: Analyzer | str = "standard",
    overwrite: bool = False,
    workers: int | None = None,
    progress: Progress = silent,
) -> SparseIndex:
    """Index documents into a folder that has no index yet; with ``overwrite``, replace the index there.

    ``analyzer`` may be a text form; with ``workers`` None every core is used. Raises IndexFault if the folder
    holds an index or something else, IndexLocked if another process writes to it, DocumentError if there is
    no document or one cannot be stored.
    """
    chain = Analyzer.parse(analyzer) if isinstance(analyzer, str) else analyzer
    if not overwrite and has_index(Path(folder)):
        raise IndexFault(f"{folder}: holds an index already: overwrite it (overwrite=True), or add to it")
    with IndexWriter(folder, chain, overwrite=overwrite, workers=workers) as writer:
        writer.add(docs, progress=progress)
    return SparseIndex(folder)


class IndexWriter(AbstractContextManager["IndexWriter"]):
    """The only writer of an index; every method commits its change before it returns.

    Without an ``analyzer`` the index must exist, and its own is used. With ``overwrite`` the first
    :meth:`add` replaces everything in the index. Raises AnalyzerError if the index was built with another
    analyzer, IndexFault if there is none or the folder cannot be written to, IndexLocked if another process
    writes to it.

    ``before_commit`` lets something follow the documents; if it raises, a change is not made.

    Memory is bounded by ``stretch``, the number of characters that a process analyses at a time; beyond
    ``most_segments`` the smaller ones are merged.
    """

    def __init__(
        self,
        folder: str | Path,
        analyzer: Analyzer | None = None,
        *,
        overwrite: bool = False,
        workers: int | None = None,
        stretch: int = STRETCH,
        most_segments: int = _MOST_SEGMENTS,
    ) -> None:
        self.folder = Path(folder).resolve()
        self.before_commit: BeforeCommit | None = None
        self._weights: WeightSource | None = None
        self._workers, self._stretch, self._most_segments = workers, stretch, most_segments
        self._lock = filelock.FileLock(self.folder / LOCK, timeout=0, thread_local=False)
        with becoming_writer(self.folder, "another writer is at work on this index", self.close):
            check_contents(self.folder)
            if analyzer is None:
                IndexManifest.read(self.folder)  # raises if there is none
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
            self.manifest = self._read(analyzer, overwrite)
            (self.folder / SEGMENTS).mkdir(exist_ok=True)
            sweep_index(self.folder)

    def choose_copies(self, setting: CopySetting) -> None:
        """What is done about copies, from the first document on.

        Raises
        ------
        MissingExtra
            If near copies are looked for and datasketch is not installed.
        """
        if self.manifest.segments:
            raise IndexFault(f"{self.folder}: has documents already")
        if setting.endswith("near") and find_spec("datasketch") is None:
            raise MissingExtra("datasketch", "copies")
        self.manifest = replace(self.manifest, copies=setting)

    def choose_columns(self, columns: Mapping[str, str]) -> None:
        """The kinds of columns, from the first document on; those of others are inferred.

        Raises
        ------
        ArgumentError
            If a name or a kind is none.
        """
        if self.manifest.segments:
            raise IndexFault(f"{self.folder}: has documents already")
        self.manifest = replace(self.manifest, columns=check_columns(columns))

    def choose_fields(self, fields: Sequence[str], *, positions: bool = False) -> None:
        """The fields that are indexed by themselves, too; with ``positions`` also where terms stand.

        Raises
        ------
        ArgumentError
            If a name is none or comes twice, or there are more than 16.
        """
        if self.manifest.segments:
            raise IndexFault(f"{self.folder}: has documents already")
        self.manifest = replace(self.manifest, fields=check_field_names(fields), positions=positions)

    def choose_weights(self, source: WeightSource) -> None:
        """Where the weights of terms come from, beside the counts, of the documents that are added.

        Raises
        ------
        IndexFault
            If the index has documents and no weights, or those of another model.
        """
        entry = self.manifest.term_weights
        if self.manifest.segments:
            if entry is None:
                raise IndexFault(f"{self.folder}: has documents without weights of terms: index them again")
            entry.check(source.entry, self.folder)
        else:
            self.manifest = replace(self.manifest, term_weights=source.entry)
        self._weights = source

    def _find_weights(self) -> WeightSource | None:
        """What gives weights to new documents, if the index has any."""
        entry = self.manifest.term_weights
        if entry is None or self._weights is not None:
            return self._weights
        if not entry.model:
            how = "give those of new documents, too (--weights FILE, weights=FILE)"
            raise IndexFault(f"{self.folder}: its weights of terms are in files: {how}")
        self.choose_weights(TermEncoder(entry.model))
        return self._weights

    def add(
        self,
        docs: Iterable[Doc],
        *,
        update: bool = False,
        deleted: Iterable[str] = (),
        progress: Progress = silent,
    ) -> int:
        """Index documents as a new segment and return their number; ``update`` replaces documents.

        The same commit deletes the documents of the docnos ``deleted``.

        Raises DocumentError if one cannot be stored or, without ``update``, is in the index already.
        """
        inversion = Inversion(
            self.manifest.open_analyzer(),
            self._workers,
            self._stretch,
            self.manifest.fields,
            self.manifest.positions,
            self.manifest.columns,
        )
        weights = self._find_weights()
        with self._change():
            new = self._new_segment()
            keys = CopyKeys(new, near=self.manifest.copies.endswith("near")) if self.manifest.copies else None
            store = DocstoreWriter(new, self.manifest.columns)
            build_segment(store, docs, inversion, keys=keys, progress=progress)
            entry = self.manifest.term_weights
            if weights is not None and entry is not None:
                entry = write_weights(new, entry, weights, inversion.analyzer, progress)
            known = self._known_docnos(new)
            if known and not update:
                more = f" ({len(known):,} of the new ones are)" if len(known) > 1 else ""
                raise DocumentError(
                    f"document {known[0]!r} is in the index already{more}: replace it (update=True)"
                )
            segment = _record_segment(new)
            columns = {**self.manifest.columns, **store.kinds}
            segments = (*self._mark_deleted({*known, *deleted}), segment)
            self._commit(segments, columns=columns, term_weights=entry)
        sizes = [segment.documents for segment in self.manifest.segments]
        if len(sizes) > self._most_segments:
            # from the first that is no larger than all after it: larger segments are rewritten less often
            small = (number for number, size in enumerate(sizes) if size <= sum(sizes[number + 1 :]))
            self._fold(next(small, 0), progress)
        return segment.documents

    def replace(self, docnos: Collection[str], docs: Iterable[Doc], *, progress: Progress = silent) -> int:
        """Delete documents and add others, which may have their docnos, or none, as one change.

        ``docnos`` is used after the last of ``docs`` was read, which may take docnos from it until then.
        Returns the number of the others. Raises DocumentError if one of them cannot be stored, or one of the
        first is unknown.
        """
        stream = iter(docs)
        if first := list(islice(stream, 1)):
            return self.add(chain(first, stream), update=True, deleted=docnos, progress=progress)
        if docnos:
            self.delete(docnos)
        return 0

    def delete(self, docnos: Iterable[str]) -> int:
        """Mark documents as deleted and return their number; raises DocumentError if one is unknown."""
        distinct = list(dict.fromkeys(docnos))
        self._require_documents()
        with self._change():
            docs = SparseIndex(self.folder).stored_docs
            missing = [docno for docno in distinct if docno not in docs]
            if missing:
                raise DocumentError(
                    f"no document {missing[0]!r} in the index ({len(missing)} of {len(distinct)} are not)"
                )
            self._commit(self._mark_deleted(distinct))
        return len(distinct)

    def merge(self, progress: Progress = silent) -> None:
        """Merge all segments into one without deleted documents, which statistics then no longer count.

        Of an index of an earlier format this makes a smaller one.
        """
        self._require_documents()
        self._fold(0, progress)

    def close(self) -> None:
        self._lock.release()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, analyzer: Analyzer | None, overwrite: bool) -> IndexManifest:
        """The manifest that changes start from: the index's, or one without documents."""
        if not overwrite and has_index(self.folder):
            index = SparseIndex(self.folder)
            index.require(analyzer or index.analyzer)
            return index.manifest
        try:
            before = read_committed(self.folder)
        except IndexFault:  # what cannot be read can be overwritten
            if analyzer is None:
                raise
            before = IndexManifest("", "")
        chain = analyzer or before.open_analyzer()
        return IndexManifest(
            str(chain), chain.fingerprint(), (), before.generation, read_versions(), chain.files
        )

    @contextmanager
    def _change(self) -> Iterator[None]:
        """A change to the index: if it fails before it is committed, the files that it wrote are removed."""
        if not self._lock.is_locked:
            raise IndexFault(f"{self.folder}: this writer is closed")
        try:
            yield
        except OSError as error:
            # numpy gives no reason when it cannot write
            full = error.errno == ENOSPC or shutil.disk_usage(self.folder).free < _NO_SPACE
            why = "no space is left on the disk" if full else str(error)
            self._recover()
            raise IndexFault(f"{self.folder}: the change failed: {why}") from error
        except BaseException:
            self._recover()
            raise

    def _require_documents(self) -> None:
        if not self.manifest.segments:
            raise IndexFault(f"{self.folder}: there are no documents yet")

    def _new_segment(self) -> Path:
        """A folder for a segment's files."""
        new = self.folder / SEGMENTS / uuid.uuid4().hex[:12]
        new.mkdir()
        return new

    def _commit(self, segments: tuple[SegmentEntry, ...], **changed: Any) -> None:
        sync_folder(self.folder / SEGMENTS)
        generation, form = self.manifest.generation + 1, IndexManifest.format
        manifest = replace(self.manifest, segments=segments, generation=generation, format=form, **changed)
        manifest = self._mark_copies(manifest)
        if self.before_commit is not None:
            self.before_commit(self.manifest, manifest)
        manifest.write(self.folder)
        self.manifest = manifest
        sweep_index(self.folder)

    def _recover(self) -> None:
        """After a failure, read the manifest on the disk, which is the one before or after the change."""
        with suppress(IndexFault, OSError):
            committed = read_committed(self.folder)
            if committed.generation > self.manifest.generation:
                self.manifest = committed
            sweep_index(self.folder)

    def _fold(self, first: int, progress: Progress) -> None:
        """Merge the segments from the ``first`` on."""
        kept, old = self.manifest.segments[:first], self.manifest.segments[first:]
        with self._change():
            if len(old) == 1 and not old[0].deletions and old[0].format == FORMAT:
                return
            new = self._new_segment()
            merge_segments(new, SparseIndex(self.folder).segments[first:], progress)
            self._commit((*kept, _record_segment(new)))

    def _known_docnos(self, new: Path) -> list[str]:
        """The docnos of the new segment that the index holds, whose files are closed again."""
        if not self.manifest.segments:
            return []
        docs = SparseIndex(self.folder).stored_docs
        return [docno for docno in Docnos(new) if docno in docs]

    def _mark_deleted(self, docnos: Iterable[str]) -> tuple[SegmentEntry, ...]:
        """Write marks of deletion; the entries of all segments with them."""
        entries = list(self.manifest.segments)
        if not entries:
            return ()
        index, rows = SparseIndex(self.folder), defaultdict[int, list[int]](list)
        for number, row in map(index.stored_docs.locate, docnos):
            rows[number].append(row)
        for number, deleted in rows.items():
            entry, before = entries[number], index.segments[number].gone
            marks = np.zeros(entry.documents, np.bool_)
            marks[: len(before)] = before
            marks[deleted] = True
            entries[number] = self._replace_marks(entry, "deleted", marks)
        return tuple(entries)

    def _mark_copies(self, manifest: IndexManifest) -> IndexManifest:
        """The manifest with the numbers of copies, their kinds and, if they are left out, marks of them."""
        entries = list(manifest.segments)
        if not manifest.copies or not entries:
            return manifest
        near = manifest.copies.endswith("near")
        sources = open_copy_sources(self.folder, self.manifest, manifest)
        copies = update_copies(sources, near=near) or find_copies(sources, near=near)
        for number, (entry, source, kinds) in enumerate(zip(entries, sources, copies.kinds, strict=False)):
            if source.kinds is None or not entry.kinds or not np.array_equal(kinds, source.kinds):
                entries[number] = entry = self._replace_marks(entry, "kinds", kinds)
                if manifest.copies.startswith("leave-out") and (entry.copies or kinds.any()):
                    entries[number] = self._replace_marks(entry, "copies", kinds > 0)
        return replace(manifest, segments=tuple(entries), exact_copies=copies.exact, near_copies=copies.near)

    def _replace_marks(
        self, entry: SegmentEntry, kind: Literal["deleted", "copies", "kinds"], marks: npt.NDArray[Any]
    ) -> SegmentEntry:
        """Write marks of a segment's documents; its entry with them."""
        folder = self.folder / SEGMENTS / entry.name
        name = f"{kind}.{self.manifest.generation + 1}.npy"
        np.save(folder / name, marks)
        sync_folder(folder)
        old = getattr(entry, kind)
        files = {key: file for key, file in entry.files.items() if key != old}
        files[name] = StoredFile.record(folder / name)
        if kind == "copies":
            return replace(entry, files=files, copies=name)
        if kind == "kinds":
            return replace(entry, files=files, kinds=name)
        return replace(entry, files=files, deleted=name, deletions=int(marks.sum()))


def check_field_names(fields: Sequence[str]) -> tuple[str, ...]:
    """The names of fields; raises ArgumentError if one cannot be, or comes twice, or they are too many."""
    if isinstance(fields, str):
        raise ArgumentTypeError(f"expected a list of fields, such as ['title', 'text'], got {fields!r:.60}")
    names = tuple(fields)
    for name in names:
        check_name(name)
        if names.count(name) > 1:
            raise ArgumentError(f"fields: {shorten(name)} is given twice")
    if len(names) > _MOST_FIELDS:
        raise ArgumentError(f"fields: expected at most {_MOST_FIELDS}, got {len(names)}")
    return names


def _record_segment(folder: Path) -> SegmentEntry:
    """The entry of a finished segment, whose files are flushed."""
    lengths = load_npy(folder / "lengths.npy")
    counts = len(lengths), int((lengths > 0).sum()), int(lengths.sum(dtype=np.int64))
    return SegmentEntry(folder.name, *counts, record_files(folder), format=FORMAT)
