"""The vectors of tokens of an index's documents: a byte a dimension, and a scale for each token.

A folder holds parts, each of some documents of one segment of the index, and a manifest that names them:

====================  ============================================================================
``codes.NNNN.npy``    (T, D rounded up to a multiple of 4) int8: each vector divided by its scale
``bounds.NNNN.npy``   (T, 4) float32: scale, 0, length of the stored vector, sum of codes
``spans.NNNN.npy``    (rows, 2) int64: the first token of each document, and the one after its last
``rows.NNNN.npy``     (rows,) int32: the documents' rows in the segment
``texts.NNNN.npy``    (rows, 2) uint64: the digests of their texts
====================  ============================================================================

Segments never change, so neither do parts: deleted documents are not asked for, and a document that a merge
or an update moves gets the vectors of its text again, without encoding. Replacing ``manifest.json`` commits
a part; a killed process loses the part that it was encoding. Parts of like sizes are joined, so that of
millions of documents some dozens of files are open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import filelock
import numpy as np
import numpy.typing as npt

from telerank.dense.kinds import Floats, check_vectors, pad_width
from telerank.dense.segments import IndexDocuments, KnownTexts, compute_digests
from telerank.drafts import remove, sweep, sync_folder
from telerank.errors import IndexDamaged, IndexFault, ModelError
from telerank.late_interaction.encoder import EncodedText
from telerank.late_interaction.manifest import TokenManifest, TokenPart, has_tokens
from telerank.stored import (
    MANIFEST,
    FolderReader,
    StoredFile,
    becoming_writer,
    check_files,
    map_npy,
    verify_files,
)
from telerank.types import Doc, Progress, silent

PART = 1024  # documents of a part
JOINED = 16  # parts of like sizes that become one
Array = npt.NDArray[Any]


class TextEncoder(Protocol):
    """What makes the vectors of tokens."""

    @property
    def name(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    @property
    def settings(self) -> Mapping[str, Any]: ...

    def encode_documents(self, texts: Sequence[str]) -> Iterable[EncodedText]:
        """The vectors of the tokens of each text, in any order."""


class PlacedTokens:
    """The documents of a part: ``codes``, ``bounds`` and ``spans`` as they are stored."""

    def __init__(self, folder: Path, part: TokenPart, width: int) -> None:
        number = f"{part.number:04d}.npy"

        def read(name: str, kind: Any, *shape: int, mapped: bool = True) -> Array:
            return map_npy(folder / f"{name}.{number}", kind, shape, mapped=mapped)

        self.codes = read("codes", np.int8, part.tokens, width)
        self.bounds = read("bounds", np.float32, part.tokens, 4)
        self.spans = read("spans", np.int64, part.rows, 2, mapped=False)
        self.rows = read("rows", np.int32, part.rows, mapped=False)
        begins, ends = self.spans.T
        if part.rows and not (begins.min() >= 0 and (begins <= ends).all() and ends.max() <= part.tokens):
            raise IndexDamaged(f"{folder / f'spans.{number}'}: damaged (beyond {part.tokens} tokens)")


class TokenVectors(FolderReader):
    """The vectors of tokens of the documents of an index at one moment; ``lacking`` have none.

    Raises IndexFault if there are none, IndexDamaged naming a damaged file.
    """

    def __init__(self, folder: str | Path, index: IndexDocuments) -> None:
        self.folder, self.index = Path(folder).resolve(), index
        if not has_tokens(self.folder):
            raise IndexFault(f"{self.folder}: no vectors of tokens here (make them: telerank encode)")
        self.manifest, self.parts = TokenManifest.open(self.folder, self._open_parts)
        self._contents = self.manifest, index.state
        self.locations = [self._locate(name) for name in (segment.name for segment in index.segments)]

    @property
    def lacking(self) -> int:
        """How many documents have no vectors."""
        pairs = zip(self.index.segments, self.locations, strict=True)
        return sum(int((segment.kept & (at[:, 0] < 0)).sum()) for segment, at in pairs)

    def find(self, segment: int, row: int) -> tuple[int, int]:
        """The part of a document of the index, and its place there; KeyError if it has no vectors."""
        part, at = self.locations[segment][row]
        if part < 0:
            raise KeyError(row)
        return int(part), int(at)

    @property
    def identity(self) -> dict[str, object]:
        """Folder, fingerprint of the model, and the checksums of the files."""
        crc32 = {name: file.crc32 for name, file in self.manifest.files.items()}
        return {"folder": str(self.folder), "fingerprint": self.manifest.fingerprint, "crc32": crc32}

    def verify(self, progress: Progress = silent) -> None:
        """Read every file and compare its checksum; raises IndexDamaged naming a damaged file."""
        verify_files(self.folder, self.manifest.files, "verifying vectors of tokens", progress)

    def __len__(self) -> int:
        return len(self.index) - self.lacking

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.folder, self.index)

    def _open_parts(self, manifest: TokenManifest) -> list[PlacedTokens]:
        check_files(self.folder, manifest.files)
        width = pad_width(manifest.dimension)
        return [PlacedTokens(self.folder, part, width) for part in manifest.parts]

    def _locate(self, name: str) -> Array:
        """For each row of a segment its part, -1 for none, and its place there: (rows, 2) int32."""
        size = next(len(segment.docs) for segment in self.index.segments if segment.name == name)
        locations = np.full((size, 2), -1, np.int32)
        for number, (part, placed) in enumerate(zip(self.manifest.parts, self.parts, strict=True)):
            if part.segment == name:
                if part.rows and not 0 <= placed.rows.min() <= placed.rows.max() < size:
                    raise IndexDamaged(f"{self.folder}: rows of vectors are not those of {name}")
                locations[placed.rows, 0] = number
                locations[placed.rows, 1] = np.arange(part.rows)
        return locations


class StoredTexts:
    """The vectors of tokens that are stored, by the digests of their texts."""

    def __init__(self, folder: Path, vectors: TokenVectors) -> None:
        entries, self._parts = vectors.manifest.parts, vectors.parts
        self._ends = np.cumsum([part.rows for part in entries])
        self._known = KnownTexts([_map_texts(folder, part) for part in entries])

    def find(self, digests: npt.NDArray[np.uint64]) -> list[tuple[Array, Array] | None]:
        """Codes and bounds of each text, None for those that are not stored."""
        arrays: list[tuple[Array, Array] | None] = []
        for row in self._known.find(digests).tolist():
            if row < 0:
                arrays.append(None)
                continue
            number = int(np.searchsorted(self._ends, row, "right"))
            part = self._parts[number]
            begin, end = part.spans[row - self._ends[number]]  # from the end of the part
            arrays.append((part.codes[begin:end], part.bounds[begin:end]))
        return arrays


class TokenWriter(AbstractContextManager["TokenWriter"]):
    """The only writer of the vectors of tokens in a folder of an index.

    Raises IndexLocked if another process writes to them, IndexFault if they are of another model (and
    ``overwrite`` is not set).
    """

    def __init__(self, folder: Path, encoder: Callable[[], TextEncoder], *, overwrite: bool = False) -> None:
        self.folder, self._open = folder.resolve(), encoder
        self._lock = filelock.FileLock(f"{self.folder}.lock", timeout=0, thread_local=False)
        with becoming_writer(self.folder, "another process encodes into it", self.close):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
            self.manifest = self._begin(overwrite=overwrite)
            self._sweep()

    def complete(self, index: IndexDocuments, progress: Progress = silent) -> int:
        """Give every document of an index vectors, those of an equal text if there are some.

        The number of documents that were encoded.
        """
        encoded, total = 0, len(index)
        vectors = TokenVectors(self.folder, index)
        lacking = [
            np.flatnonzero(segment.kept & (at[:, 0] < 0))
            for segment, at in zip(index.segments, vectors.locations, strict=True)
        ]
        done, stored = total - sum(map(len, lacking)), StoredTexts(self.folder, vectors)
        for segment, rows in zip(index.segments, lacking, strict=True):
            for begin in range(0, len(rows), PART):
                part = rows[begin : begin + PART].astype(np.int32)
                docs = [segment.docs.get_row(int(row)) for row in part]
                encoded += self._add(segment.name, part, docs, stored)
                done += len(part)
                progress("encoding tokens", done, total)
        return encoded

    def drop(self, index: IndexDocuments) -> None:
        """Remove the parts of segments that an index does not have any more."""
        names = {segment.name for segment in index.segments}
        kept = tuple(part for part in self.manifest.parts if part.segment in names)
        if len(kept) < len(self.manifest.parts):
            self._commit(replace(self.manifest, parts=kept))
        self._sweep()

    def close(self) -> None:
        if self._lock.is_locked:
            remove(Path(self._lock.lock_file))
            self._lock.release()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, *, overwrite: bool) -> TokenManifest:
        if has_tokens(self.folder):
            manifest = TokenManifest.read(self.folder)
            if not overwrite:
                return manifest
        encoder = self._open()
        manifest = TokenManifest(encoder.dimension, encoder.name, encoder.fingerprint, dict(encoder.settings))
        manifest.write(self.folder)
        return manifest

    def _add(self, segment: str, rows: Array, docs: Sequence[Doc], stored: StoredTexts) -> int:
        """Write and commit the part of some documents; how many of them were encoded."""
        digests, cut = compute_digests(docs), 0
        arrays = stored.find(digests)
        new = [number for number, own in enumerate(arrays) if own is None]
        if new:
            encoder = self._check(self._open())
            for at, vectors, is_cut in encoder.encode_documents([docs[number].full_text for number in new]):
                check_vectors(vectors, f"document {docs[new[at]].docno}: token")
                arrays[new[at]] = quantise_tokens(vectors)
                cut += is_cut
        placed = [own for own in arrays if own is not None]
        ends = np.cumsum([len(codes) for codes, _ in placed])
        files = {
            "codes": np.concatenate([codes for codes, _ in placed]),
            "bounds": np.concatenate([bounds for _, bounds in placed]),
            "spans": np.stack([np.concatenate([[0], ends[:-1]]), ends], axis=1).astype(np.int64),
            "rows": rows,
            "texts": digests,
        }
        part = self._write(segment, {kind: [array] for kind, array in files.items()})
        parts = (*self.manifest.parts, part)
        self._commit(replace(self.manifest, parts=parts, cut=self.manifest.cut + cut))
        while self._join():
            pass
        return len(new)

    def _write(self, segment: str, arrays: Mapping[str, Sequence[Array]]) -> TokenPart:
        """Write a part, whose arrays are given in pieces."""
        number = 1 + max((part.number for part in self.manifest.parts), default=-1)
        stored, lengths = {}, {}
        for kind, pieces in arrays.items():
            name, lengths[kind] = f"{kind}.{number:04d}.npy", sum(map(len, pieces))
            shape = (lengths[kind], *pieces[0].shape[1:])
            with (self.folder / name).open("wb") as file:
                header = {"descr": pieces[0].dtype.str, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
                for piece in pieces:
                    file.write(np.ascontiguousarray(piece).data)
            stored[name] = StoredFile.record(self.folder / name)
        sync_folder(self.folder)
        return TokenPart(segment, lengths["rows"], lengths["codes"], stored)

    def _join(self) -> bool:
        """Make one part of the last :data:`JOINED` ones, if they are of one segment and of like sizes."""
        last = self.manifest.parts[-JOINED:]
        if len(last) < JOINED or len({(part.segment, _level(part.rows)) for part in last}) > 1:
            return False
        placed = [PlacedTokens(self.folder, part, pad_width(self.manifest.dimension)) for part in last]
        starts = np.cumsum([0, *(part.tokens for part in last)])
        files: dict[str, list[Array]] = {
            "codes": [each.codes for each in placed],
            "bounds": [each.bounds for each in placed],
            "spans": [each.spans + start for each, start in zip(placed, starts, strict=False)],
            "rows": [each.rows for each in placed],
            "texts": [_map_texts(self.folder, part) for part in last],
        }
        joined = self._write(last[0].segment, files)
        self._commit(replace(self.manifest, parts=(*self.manifest.parts[:-JOINED], joined)))
        self._sweep()
        return True

    def _check(self, encoder: TextEncoder) -> TextEncoder:
        if encoder.fingerprint != self.manifest.fingerprint:
            raise ModelError(
                f"{self.folder}: these vectors were made by {self.manifest.model} "
                f"({self.manifest.fingerprint[:12]}), not by {encoder.name} ({encoder.fingerprint[:12]})"
            )
        return encoder

    def _commit(self, manifest: TokenManifest) -> None:
        manifest.write(self.folder)
        self.manifest = manifest

    def _sweep(self) -> None:
        sweep(self.folder.iterdir(), {MANIFEST, *self.manifest.files})


def _map_texts(folder: Path, part: TokenPart) -> Array:
    return map_npy(folder / f"texts.{part.number:04d}.npy", np.uint64, (part.rows, 2))


def _level(rows: int) -> int:
    """How often parts were joined to one of so many documents."""
    level = 0
    while rows >= PART * JOINED:
        rows, level = rows // JOINED, level + 1
    return level


def quantise_tokens(vectors: Floats) -> tuple[Array, Array]:
    """Codes (T, D rounded up) int8 and bounds (T, 4) of vectors (T, D)."""
    from telerank.dense import kernel  # what does not encode needs no numba

    codes = np.empty((len(vectors), pad_width(vectors.shape[1])), np.int8)
    bounds = np.empty((len(vectors), 4), np.float32)
    kernel.quantise(np.ascontiguousarray(vectors, np.float32), codes, bounds)
    bounds[:, 1] = 0  # the codes are the vectors
    return codes, bounds
