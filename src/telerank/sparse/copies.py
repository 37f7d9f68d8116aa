"""Copies among the documents of an index: equal texts, and nearly equal ones.

Texts are equal if they are so in lower case and with single blanks; their keys are 64 bits of BLAKE2b. Two
are nearly equal if their sets of three consecutive words have an estimated Jaccard similarity of 0.8 or more:
128 values of MinHash (Broder 1997; the package datasketch), compared if one of 21 bands of six is equal,
which finds 99.8 % of the pairs of that similarity. In a band each document is compared with the 32 before it,
in the order of docnos.

Of copies the document stays whose docno sorts first, so that it does not depend on how an index became what
it is. A near copy is one of a document that stays. After a change those documents are compared that share a
text or a band with one that changed, and what is nearly equal to them; all others are what they were.

===================  ==============================================================================
``keys.npy``         uint64 (documents,): the key of each text
``signatures.bin``   uint32 (documents, 128): the values of MinHash, if near copies are looked for
``bands.bin``        uint64 (22, documents), or (1, documents): the keys, and those of each band, sorted
``bands.rows.bin``   int32, of the same shape: whose they are
``kinds.GEN.npy``    uint8 (documents,): 1 for an exact copy, 2 for a near one
===================  ==============================================================================

Memory of a comparison of all: 40 bytes a document, and 200 for each that is, or may be, a copy; of a change:
three bytes a document. All but the kinds is memory-mapped.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

import numpy as np
import numpy.typing as npt

from telerank.errors import IndexDamaged, MissingExtra
from telerank.stored import map_npy

KEYS, SIGNATURES, BANDS, BAND_ROWS = "keys.npy", "signatures.bin", "bands.bin", "bands.rows.bin"
_VALUES, _BAND, BAND_COUNT = 128, 6, 21
_SIMILAR = 0.8
_WORDS = 3
AT_ONCE = 1 << 16  # rows or pairs

Keys: TypeAlias = npt.NDArray[np.uint64]
Marks: TypeAlias = npt.NDArray[np.bool_]
Signatures: TypeAlias = npt.NDArray[np.uint32]


class CopyKeys:
    """The keys of the texts of a segment, which are written into its folder; with ``near`` signatures, too.

    Raises
    ------
    MissingExtra
        If near copies are looked for and datasketch is not installed.
    """

    def __init__(self, folder: Path, *, near: bool) -> None:
        if near and find_spec("datasketch") is None:
            raise MissingExtra("datasketch", "copies")
        self._folder, self._keys = folder, array("Q")
        self._sign = _make_signer() if near else None
        self._file = (folder / SIGNATURES).open("wb") if near else None

    def add(self, text: str) -> None:
        words = text.casefold().split()
        digest = blake2b(" ".join(words).encode("utf-8", "surrogatepass"), digest_size=8).digest()
        self._keys.append(int.from_bytes(digest, "little"))
        if self._sign is not None and self._file is not None:
            self._file.write(self._sign(words).tobytes())

    def close(self) -> None:
        """Write what is left."""
        np.save(self._folder / KEYS, np.frombuffer(self._keys, np.uint64))
        if self._file is not None:
            self._file.close()
        _write_bands(self._folder, len(self._keys))


def _make_signer() -> Callable[[list[str]], Signatures]:
    """What makes the values of MinHash (128,) from words; of fewer than three the words are the set."""
    from datasketch import MinHash

    settings: dict[str, Any] = {"num_perm": _VALUES, "seed": 1, "scheme": "affine32", "hashfunc": crc32}
    permutations = MinHash(**settings).permutations

    def sign(words: list[str]) -> Signatures:
        minhash = MinHash(**settings, permutations=permutations)
        parts = range(max(len(words) - _WORDS + 1, 1))
        minhash.update_batch(
            {" ".join(words[n : n + _WORDS]).encode("utf-8", "surrogatepass") for n in parts}
        )
        return np.asarray(minhash.hashvalues, np.uint32)

    return sign


def merge_keys(folder: Path, folders: Sequence[Path], kept: Sequence[Marks]) -> None:
    """Write the keys and signatures of the rows that are kept of several segments, if these have them."""
    if not all((source / KEYS).is_file() for source in folders):
        return
    keys = [map_npy(source / KEYS, np.uint64)[rows] for source, rows in zip(folders, kept, strict=True)]
    np.save(folder / KEYS, np.concatenate(keys))
    if all((source / SIGNATURES).is_file() for source in folders):
        with (folder / SIGNATURES).open("wb") as file:
            for source, marks in zip(folders, kept, strict=True):
                signatures = map_signatures(source, len(marks))
                rows = np.flatnonzero(marks)
                for start in range(0, len(rows), AT_ONCE):
                    file.write(signatures[rows[start : start + AT_ONCE]].tobytes())
    _write_bands(folder, sum(map(len, keys)))


def _write_bands(folder: Path, documents: int) -> None:
    """Sort the keys, and those of each band, so that a document with the same is found at once."""
    signatures = map_signatures(folder, documents) if (folder / SIGNATURES).is_file() else None
    with (folder / BANDS).open("wb") as keys_file, (folder / BAND_ROWS).open("wb") as rows_file:
        for band in range(1 if signatures is None else 1 + BAND_COUNT):
            if band == 0 or signatures is None:
                keys = map_npy(folder / KEYS, np.uint64)
            else:
                keys = compute_band_keys(signatures[:, band_columns(band)])
            order = np.argsort(keys, kind="stable")
            keys_file.write(keys[order].tobytes())
            rows_file.write(order.astype(np.int32).tobytes())


def map_signatures(folder: Path, documents: int) -> Signatures:
    return _map(folder / SIGNATURES, np.uint32, (documents, _VALUES))


def map_bands(folder: Path, documents: int, *, near: bool) -> tuple[Keys, npt.NDArray[np.int32]]:
    """The sorted keys of all documents, and whose they are: first of texts, then of the bands."""
    shape = (1 + BAND_COUNT if near else 1, documents)
    return _map(folder / BANDS, np.uint64, shape), _map(folder / BAND_ROWS, np.int32, shape)


def _map(path: Path, kind: npt.DTypeLike, shape: tuple[int, int]) -> npt.NDArray[Any]:
    try:
        return np.asarray(np.memmap(path, kind, "r", shape=shape))
    except (OSError, ValueError) as error:
        raise IndexDamaged(f"{path}: damaged ({error})") from error


def band_columns(band: int) -> slice:
    """The values of signatures that are in a band, from 1 on."""
    return slice((band - 1) * _BAND, band * _BAND)


def compute_band_keys(values: Signatures) -> Keys:
    """A number for the values of a band (documents, 6) of each document; equal values have equal ones."""
    keys = np.zeros(len(values), np.uint64)
    for start in range(0, len(values), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        for column in values[part].T:
            keys[part] = (keys[part] ^ column) * np.uint64(0x9E3779B97F4A7C15)
            keys[part] ^= keys[part] >> np.uint64(29)
    return keys


def are_similar(first: Signatures, second: Signatures) -> Marks:
    """Which documents (n,) are near copies of others, by the values of both (n, 128)."""
    similar: Marks = (first == second).mean(axis=1) >= _SIMILAR
    return similar
