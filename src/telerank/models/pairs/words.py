"""Texts to rows of word vectors, the pairs of DMN, QA-LSTM and K-NRM; and the vectors on disk.

Those are a folder {vectors.npy, vocab.txt}, in which row ``i`` of the array is the vector of line ``i`` of
the list, or text as GloVe and fastText give it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from telerank.errors import FormatError, ModelError
from telerank.models.pairs.pair import Frame, PairTexts
from telerank.stored import load_npy

PADDING, UNKNOWN, SPECIAL = 0, 1, 2
"""Row 0 is the padding's and row 1 that of unknown words; word ``i`` of a vocabulary has row SPECIAL + i."""

VOCABULARY, VECTORS = "vocab.txt", "vectors.npy"

_COUNT = re.compile("[0-9]{1,9}")
_Array = npt.NDArray[np.float32]

_TOKEN = re.compile(
    r"(?:[^\W\d_]\.){2,}"  # initials: u.s.
    r"|(?<!\w)'(?:s|re|ve|m|ll|d)(?!\w)"  # the rest of a contraction on its own
    r"|\w+(?:[-'.,/&]\w+)*'?"  # words whose parts are joined: state-of-the-art, 1,000, don't
    r"|([^\w\s])\1*"  # runs of a sign: ...
)
_CONTRACTED = re.compile(r"(.+?)(n't|'(?:s|re|ve|m|ll|d))")  # as the Penn Treebank, and so GloVe, has them
_ELIDED = re.compile(r"(\w{1,9}')(\w.*)")  # l'assurance
_PART = re.compile(r"\w+'(?=\w)|\w+")
_APOSTROPHES = str.maketrans("’‘", "''")
_CACHED = 1_000_000  # distinct tokens whose rows are kept in memory


@dataclass(frozen=True, eq=False)
class WordEncoding:
    """The rows of a text, and the start and end of the token of each."""

    ids: list[int]
    offsets: list[tuple[int, int]]


class Words(PairTexts):
    """Words of ``vocabulary`` as rows, see :data:`SPECIAL`; there are no special tokens in a pair.

    Tokens are lower-cased, and punctuation is a token. A token that the vocabulary lacks is split: as a
    contraction (do n't), an elision (l' assurance), at hyphens and the like; a part that it lacks is the
    unknown word. Lengths count rows: a query is cut at ``max_query``, then the passage at ``max_length`` of
    the pair. Raises ModelError if a word comes twice, or the lengths leave no room for a passage.
    """

    frame = Frame((), (), (), (0, 0, 0, 1, 1))
    pad_id = PADDING

    def __init__(
        self, vocabulary: Sequence[str], *, max_query: int | None = 64, max_length: int = 512
    ) -> None:
        self.vocabulary, self.max_query, self.max_length = tuple(vocabulary), max_query, max_length
        if not 1 <= self.longest_query < max_length:
            raise ModelError(
                f"a query of {max_query or 1} words leaves no room for a passage in {max_length}"
            )
        self._rows = {word: SPECIAL + number for number, word in enumerate(self.vocabulary)}
        if len(self._rows) < len(self.vocabulary):
            twice = Counter(self.vocabulary).most_common(1)[0][0]
            raise ModelError(f"the word {twice!r} comes twice in the vocabulary")
        self._cache: dict[str, tuple[int, ...]] = {}

    def record(self) -> dict[str, Any]:
        """The vocabulary, as a hash, and lengths."""
        digest = hashlib.sha256("\n".join(self.vocabulary).encode("utf-8", "surrogatepass")).hexdigest()
        return {"words": digest, "max_query": self.max_query, "max_length": self.max_length}

    def with_lengths(self, max_query: int | None, max_length: int) -> Words:
        return Words(self.vocabulary, max_query=max_query, max_length=max_length)

    def save(self, folder: Path) -> None:
        save_vocabulary(folder / VOCABULARY, self.vocabulary)

    def encode(self, texts: Sequence[str]) -> Iterator[WordEncoding]:
        for text in texts:
            encoding = WordEncoding([], [])
            for token, span in _tokens(text):
                rows = self._cache.get(token)
                if rows is None:
                    if len(self._cache) >= _CACHED:
                        self._cache.clear()
                    rows = self._cache[token] = self._look_up(token)
                encoding.ids.extend(rows)
                encoding.offsets.extend([span] * len(rows))
            yield encoding

    def _look_up(self, token: str) -> tuple[int, ...]:
        for parts in splittings(token):
            rows = tuple(self._rows.get(part, UNKNOWN) for part in parts)
            if UNKNOWN not in rows:
                return rows
        # parts is the finest splitting now
        return tuple(self._rows.get(part, self._rows.get(part.rstrip("'"), UNKNOWN)) for part in parts)


def words_in(texts: Iterable[str]) -> set[str]:
    """Every word that :class:`Words` may look up for these texts: those of a large vocabulary to keep."""
    tokens = {token for text in texts for token, _ in _tokens(text)}
    whole = {part for token in tokens for parts in splittings(token) for part in parts}
    return whole | {part.rstrip("'") for part in whole} - {""}


def save_vocabulary(file: str | Path, vocabulary: Sequence[str]) -> None:
    """Write one word a line. Raises ModelError if a word has a line break."""
    broken = [word for word in vocabulary if "\n" in word]
    if broken:
        raise ModelError(f"{file}: a word of the vocabulary has a line break: {broken[0]!r}")
    Path(file).write_bytes("".join(f"{word}\n" for word in vocabulary).encode())


def load_vocabulary(file: str | Path) -> list[str]:
    """The words that :func:`save_vocabulary` wrote. Raises ModelError if the file is missing or not UTF-8."""
    try:
        text = Path(file).read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{file}: expected a vocabulary, one word a line") from error
    # words may hold every other character that Python takes for the end of a line
    return text.removesuffix("\n").split("\n") if text else []


def splittings(token: str) -> Iterator[list[str]]:
    """The ways to split a token, the coarsest first: whole, contracted, elided, in its smallest parts."""
    yield [token]
    for pattern in (_CONTRACTED, _ELIDED):
        if match := pattern.fullmatch(token):
            yield list(match.groups())
    yield _PART.findall(token) or [token[0]]


def _tokens(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    for match in _TOKEN.finditer(text.translate(_APOSTROPHES)):
        yield match[0].lower(), match.span()


def load_vectors(path: str | Path, only: Collection[str] | None = None) -> tuple[list[str], Tensor]:
    """The vocabulary of a folder or text file, and the table for its words, (SPECIAL + words, E).

    The table's rows are those of :class:`Words`: zeros for padding, the mean of
    the other vectors for the unknown word, then the words'. With ``only``, other words are left out. Raises
    ModelError if there are no word vectors, list and array differ in length, or no word is left; FormatError
    if a line of a text file is not a word and as many numbers as on other lines.
    """
    path, words = Path(path), None if only is None else frozenset(only)
    if not path.exists():
        raise ModelError(
            f"{path}: expected word vectors: a folder with {VECTORS} and {VOCABULARY}, or a text file"
        )
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
    if stored.dtype.kind not in "fiu":
        raise ModelError(f"{folder / VECTORS}: expected an array of numbers, got {stored.dtype}")
    if stored.ndim != 2 or len(stored) != len(vocabulary):
        raise ModelError(
            f"{folder / VECTORS}: expected an array of {len(vocabulary)} vectors, "
            f"got one of shape {stored.shape}"
        )
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
            if len(first) == 2 and all(_COUNT.fullmatch(count) for count in first):
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
            raise FormatError(
                file, number, f"a word and {width} numbers" if width else "a word and numbers", line
            )
    return list(vectors), np.stack(list(vectors.values())) if vectors else np.zeros((0, width), np.float32)


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    try:
        # words may hold every other character that Python takes for the end of a line
        with file.open(encoding="utf-8", newline="\n") as lines:
            yield from ((number, line.rstrip(" \r\n")) for number, line in enumerate(lines, 1))
    except UnicodeDecodeError as error:
        raise ModelError(f"{file}: expected word vectors in UTF-8") from error
