"""Texts to rows of word vectors: the pairs of DMN, QA-LSTM and K-NRM."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from telerank.errors import ModelError
from telerank.models.pairs.pair import Frame, PairTexts

PADDING, UNKNOWN, SPECIAL = 0, 1, 2
"""Row 0 is the padding's and row 1 that of unknown words; word ``i`` of a vocabulary has row SPECIAL + i."""

VOCABULARY = "vocab.txt"

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

    def __init__(self, vocabulary: Sequence[str], *, max_query: int = 64, max_length: int = 512) -> None:
        if not 1 <= max_query < max_length:
            raise ModelError(f"a query of {max_query} words leaves no room for a passage in {max_length}")
        self.vocabulary, self.max_query, self.max_length = tuple(vocabulary), max_query, max_length
        self._rows = {word: SPECIAL + number for number, word in enumerate(self.vocabulary)}
        if len(self._rows) < len(self.vocabulary):
            twice = Counter(self.vocabulary).most_common(1)[0][0]
            raise ModelError(f"the word {twice!r} comes twice in the vocabulary")
        self._cache: dict[str, tuple[int, ...]] = {}

    def record(self) -> dict[str, Any]:
        """The vocabulary, as a hash, and lengths."""
        digest = hashlib.sha256("\n".join(self.vocabulary).encode("utf-8", "surrogatepass")).hexdigest()
        return {"words": digest, "max_query": self.max_query, "max_length": self.max_length}

    def with_lengths(self, max_query: int, max_length: int) -> Words:
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
