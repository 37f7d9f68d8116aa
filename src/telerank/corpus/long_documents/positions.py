"""Where in documents the known relevant text stands, in words or in a tokenizer's tokens."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from telerank.corpus.collection import Collection
from telerank.errors import CollectionError, FormatError, MissingExtra
from telerank.types import Answer, Progress, silent

TokenSpans: TypeAlias = Callable[[str], Sequence[tuple[int, int]]]
"""The begin and the end of each token of a text, in characters, ascending."""
_WORD = re.compile(r"\S+")
_STEP = 100  # documents between two calls of progress


@dataclass(frozen=True, slots=True)
class RelevantPosition:
    """The first known relevant text of a pair: tokens ``before`` it, its ``end``, the document's ``length``.

    Of several answers it is the one that ends first; a model that reads the first ``end`` tokens reads it
    whole.
    """

    qid: str
    docno: str
    before: int
    end: int
    length: int


def word_spans(text: str) -> list[tuple[int, int]]:
    """The words of a text: what stands between blanks."""
    return [word.span() for word in _WORD.finditer(text)]


def tokenizer_spans(path: str | Path) -> TokenSpans:
    """The tokens of a ``tokenizer.json``, or of the one in a folder.

    Raises FormatError if it cannot be read, MissingExtra without the package ``tokenizers``.
    """
    try:
        library = import_module("tokenizers")
    except ImportError as error:
        raise MissingExtra("tokenizers", "neural") from error
    file = Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)
    try:
        tokenizer = library.Tokenizer.from_str(file.read_text("utf-8"))
    except Exception as error:  # the library raises nothing narrower
        raise FormatError(file, None, f"a tokenizer.json ({error})") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: [tuple(span) for span in tokenizer.encode(text, add_special_tokens=False).offsets]


def find_positions(
    collection: Collection,
    splits: Sequence[str] | None = None,
    *,
    spans: TokenSpans = word_spans,
    progress: Progress = silent,
) -> Iterator[RelevantPosition]:
    """The position of each pair of a query and a document that has answers, document by document.

    ``splits`` default to all that have answers. Each document is tokenised once; memory holds the answers.

    Raises
    ------
    CollectionError
        If the splits have no answers, or a document does not exist or lacks an answer at its offset.
    """
    names = tuple(collection.answers) if splits is None else tuple(splits)
    answers: dict[str, dict[str, list[Answer]]] = {}
    for name in names:
        for answer in collection.answers.get(name, tuple)():
            answers.setdefault(answer.docno, {}).setdefault(answer.qid, []).append(answer)
    if not answers:
        raise CollectionError(f"{collection.name} has no answers in {', '.join(names) or 'any split'}")
    for number, doc in enumerate(collection.docs(), 1):
        if number % _STEP == 0:
            progress("positions of answers", number, collection.size)
        own = answers.pop(doc.docno, {})
        tokens = spans(doc.text) if own else ()
        begins, ends = [begin for begin, _ in tokens], [end for _, end in tokens]
        for qid, some in own.items():
            for answer in some:
                check_answer(answer, doc.text)
            first = min(some, key=lambda answer: answer.end)
            yield RelevantPosition(
                qid,
                doc.docno,
                bisect_left(ends, first.start + 1),  # tokens that end before it
                bisect_left(begins, first.end),  # tokens that begin before its end
                len(tokens),
            )
    if answers:
        raise CollectionError(
            f"{collection.name} has answers in {next(iter(answers))!r}, but no such document"
        )


def check_answer(answer: Answer, text: str) -> None:
    """Raise CollectionError if an answer does not stand at its offset in the document's text."""
    if not text.startswith(answer.text, answer.start):
        problem = f"does not have the answer of query {answer.qid} at character {answer.start:,}"
        raise CollectionError(f"document {answer.docno!r} {problem}: {answer.text[:60]!r}")


def share_beyond(positions: Iterable[RelevantPosition], limits: Iterable[int]) -> dict[int, float]:
    """For each limit the share of pairs whose relevant text is not whole within the first ``limit`` tokens.

    NaN without pairs.
    """
    ends = sorted(position.end for position in positions)
    return {limit: 1 - bisect_left(ends, limit + 1) / len(ends) if ends else float("nan") for limit in limits}
