"""Long documents as passages of words, for first stages that read a short text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from telerank.corpus.lengths import word_spans
from telerank.types import PASSAGE, Doc


def cut_passages(docs: Iterable[Doc], words: int) -> Iterator[Doc]:
    """The passages of documents: ``words`` words each, of which the next one repeats half.

    They keep the title, and are named by number: where ``guide`` is judged, ``guide#1`` and ``guide#2`` count
    once, at the better rank. A document of no more words is its only passage.
    """
    stride = max(words // 2, 1)
    for doc in docs:
        spans = word_spans(doc.text)
        starts = range(0, max(len(spans) - words + stride, 1), stride)
        for number, start in enumerate(starts, 1):
            held = spans[start : start + words]
            text = doc.text[held[0][0] : held[-1][1]] if held else doc.text
            yield replace(doc, docno=f"{doc.docno}{PASSAGE}{number}", text=text)
