"""Word vectors on disk: a folder {vectors.npy, vocab.txt}, or text as GloVe and fastText give it.

Row ``i`` of the array is the vector of line ``i`` of the list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from telerank.errors import FormatError, ModelError
from telerank.models.pairs.words import SPECIAL, VOCABULARY, load_vocabulary
from telerank.npy import load_npy

VECTORS = "vectors.npy"

_Array = npt.NDArray[np.float32]


def load_vectors(path: str | Path, only: Collection[str] | None = None) -> tuple[list[str], Tensor]:
    """The vocabulary of a folder or text file, and the table for its words, (SPECIAL + words, E).

    The table's rows are those of :class:`telerank.models.pairs.words.Words`: zeros for padding, the mean of
    the other vectors for the unknown word, then the words'. With ``only``, other words are left out. Raises
    ModelError if there are no word vectors, list and array differ in length, or no word is left; FormatError
    if a line of a text file is not a word and as many numbers as on other lines.
    """
    path, words = Path(path), None if only is None else frozenset(only)
    if not path.exists():
        files = f"a folder with {VECTORS} and {VOCABULARY}, or a text file"
        raise ModelError(f"{path}: expected word vectors: {files}")
    vocabulary, vectors = (_read_folder if path.is_dir() else _read_text)(path, words)
    if not vocabulary:
        raise ModelError(f"{path}: none of the given words has a vector")
    if not np.isfinite(vectors).all():
        raise ModelError(f"{path}: a word vector is not finite")
    table = torch.zeros(SPECIAL + len(vocabulary), vectors.shape[1])
    table[1] = torch.from_numpy(vectors.mean(0))
    table.numpy()[SPECIAL:] = vectors  # torch.from_numpy warns about a mapped file
    return vocabulary, table


def _read_folder(folder: Path, only: Collection[str] | None) -> tuple[list[str], _Array]:
    vocabulary = load_vocabulary(folder / VOCABULARY)
    try:
        stored = load_npy(folder / VECTORS, mmap_mode="r")
    except (OSError, ValueError) as error:
        raise ModelError(f"{folder / VECTORS}: expected an array of word vectors") from error
    if stored.ndim != 2 or len(stored) != len(vocabulary):
        shape = f"got one of shape {stored.shape}"
        raise ModelError(f"{folder / VECTORS}: expected an array of {len(vocabulary)} vectors, {shape}")
    if only is None:
        return vocabulary, np.asarray(stored, np.float32)
    kept = [row for row, word in enumerate(vocabulary) if word in only]
    return [vocabulary[row] for row in kept], np.asarray(stored[kept], np.float32)


def _read_text(file: Path, only: Collection[str] | None) -> tuple[list[str], _Array]:
    """Lines of ``word number number …``, with or without fastText's first line of two counts."""
    vectors: dict[str, _Array] = {}
    width = 0
    for number, line in _lines(file):
        if not width:
            first = line.split(" ")
            if len(first) == 2 and all(count.isdigit() for count in first):
                width = int(first[1])
                continue
            width = len(first) - 1
        # from the right: some of GloVe's words have blanks
        word, *numbers = line.rsplit(" ", max(1, width))
        if only is not None and word not in only:
            continue
        if word in vectors:
            raise ModelError(f"{file}: the word {word!r} comes twice")
        try:
            vectors[word] = np.array([float(value) for value in numbers], np.float32)
        except ValueError:
            numbers = []
        if len(numbers) != width or not width:
            expected = f"a word and {width} numbers" if width else "a word and numbers"
            raise FormatError(file, number, expected, line)
    return list(vectors), np.stack(list(vectors.values())) if vectors else np.zeros((0, width), np.float32)


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    try:
        # words may hold every other character that Python takes for the end of a line
        with file.open(encoding="utf-8", newline="\n") as lines:
            yield from ((number, line.rstrip(" \r\n")) for number, line in enumerate(lines, 1))
    except UnicodeDecodeError as error:
        raise ModelError(f"{file}: expected word vectors in UTF-8") from error
