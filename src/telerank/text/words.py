"""Words of files: stop words, parts of compounds, synonyms; what stands before a step makes terms of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from telerank.errors import AnalyzerError

Terms: TypeAlias = Callable[[str], list[str]]
"""From a text to its terms: the steps before a step."""
LARGEST_FILE = 4 * 2**20
"""Bytes of a file of words."""
_ARROW, _COMMA = re.compile(r"(?<!\\)=>"), re.compile(r"(?<!\\),")


def read_lines(file: Path, step: str) -> list[str]:
    """The lines of a file of words, without blanks at their ends.

    Raises
    ------
    AnalyzerError
        If there is no such file, or it is no text in UTF-8, or too large, or has no line.
    """
    try:
        is_large = file.stat().st_size > LARGEST_FILE
        text = "" if is_large else file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise AnalyzerError(f"{step}: cannot read the file {file} ({error})") from error
    if is_large:
        raise AnalyzerError(f"{step}: {file} is larger than {LARGEST_FILE >> 20} MiB")
    lines = [line.rstrip() for line in text.splitlines()]
    if not any(lines):
        raise AnalyzerError(f"{step}: the file {file} has no line")
    return lines


def read_single(where: str, lines: Sequence[str], before: Terms) -> frozenset[str]:
    """The terms of lines that are one word each; empty lines, and those that begin with ``#``, are left out.

    Raises
    ------
    AnalyzerError
        If a line has several words.
    """
    words = set()
    for where_line, line in _number(where, lines):
        terms = before(line)
        if len(terms) > 1:
            raise AnalyzerError(f"{where_line}: expected one word, got {line!r}")
        words.update(terms)
    return frozenset(words)


def decompound(words: frozenset[str], token: str) -> tuple[str, ...]:
    """The token, and the words that it holds, from left to right."""
    starts = range(len(token) - 1 if len(token) >= 5 else 0)
    parts = (token[i:j] for i in starts for j in range(i + 2, min(i + 15, len(token)) + 1))
    return (token, *(part for part in parts if part in words and part != token))


class Synonyms:
    """The synonyms of a file in Solr's format; ``rules`` have what stands for the terms of an entry.

    Raises
    ------
    AnalyzerError
        If a line has an entry without words, or with several although ``is_indexed``.
    """

    def __init__(self, where: str, lines: Sequence[str], before: Terms, *, is_indexed: bool) -> None:
        self.is_indexed = is_indexed
        self.rules: dict[tuple[str, ...], tuple[tuple[str, ...], ...]] = {}
        for where_line, line in _number(where, lines):
            # an escaped comma or arrow is a part of an entry
            sides = [
                [tuple(before(re.sub(r"\\(.)", r"\1", entry))) for entry in _COMMA.split(side)]
                for side in _ARROW.split(line)
            ]
            if len(sides) > 2 or not all(chain(*sides)):
                raise AnalyzerError(f"{where_line}: expected words, as in 'a, b' or 'a => b', got {line!r}")
            if is_indexed and any(len(entry) > 1 for entry in chain(*sides)):
                raise AnalyzerError(f"{where_line}: at indexing an entry is one word, got {line!r}")
            for entry in sides[0]:
                others = sides[1] if len(sides) == 2 else [entry, *sides[0]]
                self.rules[entry] = tuple(dict.fromkeys((*self.rules.get(entry, ()), *others)))
        self._longest = max(map(len, self.rules), default=0)

    def of_token(self, token: str) -> tuple[str, ...]:
        """What stands for one token."""
        return tuple(chain.from_iterable(self.rules.get((token,), ((token,),))))

    def of_query(self, tokens: Sequence[str]) -> list[str]:
        """What stands for the tokens of a query; of the entries that begin at a token the longest counts."""
        terms: list[str] = []
        start = 0
        while start < len(tokens):
            lengths = range(min(self._longest, len(tokens) - start), 0, -1)
            entries = (tuple(tokens[start : start + length]) for length in lengths)
            entry = next((each for each in entries if each in self.rules), (tokens[start],))
            terms.extend(chain.from_iterable(self.rules.get(entry, (entry,))))
            start += len(entry)
        return terms


def _number(where: str, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The lines that are no comments and not empty, each with its place."""
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            yield f"{where}, line {number}", line
