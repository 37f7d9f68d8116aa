"""What the engines are given: the passages of ``msdocs`` and queries made from them, both analysed once."""

from __future__ import annotations

import lzma
import random
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

MEAN_SPAN = 6
FIRST_WORDS = 6


def passages(path: Path, limit: int | None = None) -> Iterator[str]:
    """The texts of a file ``number, source, text``, xz-packed."""
    with lzma.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        for line in islice(lines, limit):
            yield line.rstrip("\n").split("\t", 2)[2]


def queries(
    texts: Iterable[str], analyze: Callable[[str], list[str]], among: int, number: int, *, seed: int = 1
) -> list[str]:
    """Of ``number`` of the first ``among`` texts, by turns: its heading or first words; a span of its words.

    Spans have 6 words in the mean. There is nothing in them that suits one engine: they are words that stand
    together in a text, as in what people ask, with common words among them; one at least is a term.
    """
    random_ = random.Random(seed)
    chosen = set(random_.sample(range(among), min(among, 4 * number)))
    made: list[str] = []
    for row, text in enumerate(islice(texts, among)):
        words = re.findall(r"\w+", text) if row in chosen else []
        if len(words) >= 3:
            query = _first_words(words) if len(made) % 2 else _span(words, random_)
            made += [query] if analyze(query) else []
    return sorted(random_.sample(made, number))


def _first_words(words: list[str]) -> str:
    return " ".join(words[:FIRST_WORDS])


def _span(words: list[str], random_: random.Random) -> str:
    length = min(len(words), random_.randint(2, 2 * MEAN_SPAN - 2))
    start = random_.randint(0, len(words) - length)
    return " ".join(words[start : start + length])


def write(texts: Iterable[str], path: Path) -> int:
    """One line per text; the number of lines."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        return sum(1 for text in texts if file.write(text + "\n"))


def lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line.removesuffix("\n")


def write_analysed(texts: Iterable[str], analyze: Callable[[str], list[str]], path: Path) -> int:
    """One line per text, its terms with a blank between; the number of lines."""
    return write((" ".join(analyze(text)) for text in texts), path)
