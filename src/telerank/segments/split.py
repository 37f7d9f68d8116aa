"""Cut documents into segments, in the tokens of a model: each document is tokenised once for all queries."""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from telerank.errors import ModelError
from telerank.models.pairs.pair import PairTexts, Passage, number_spans
from telerank.models.rerankers.reranker import Reranker
from telerank.segments.settings import SegmentSettings
from telerank.text.sentences import RULES, Span, split_sentences
from telerank.types import Doc

_Ids = npt.NDArray[np.int32]
_WORD = re.compile(r"\S+")
_SHORTEST = 0.25  # of the length, where lengths are drawn


@dataclass(frozen=True, eq=False)
class Segments:
    """The tokens of a document, and where each of its segments begins and ends: at least one segment.

    ``ids`` (T,) are the text's tokens, ``offsets`` (T, 2) the characters of each in the text, ``windows``
    (segments, 2) the first token of each segment and the one after its last. ``title`` are the tokens that
    each segment repeats, up to character ``title_end`` of the title; ``cut_title`` more were cut off.
    ``sentences`` and ``title_sentences`` number the sentence of each token. A document without tokens has one
    empty segment.
    """

    doc: Doc
    title: _Ids
    ids: _Ids
    offsets: _Ids
    sentences: _Ids
    title_sentences: _Ids
    windows: npt.NDArray[np.int64]
    cut_title: int = 0
    title_end: int = 0

    def __len__(self) -> int:
        return len(self.windows)

    @property
    def kept_title(self) -> str:
        """The part of the title that each segment repeats; empty if none does."""
        return self.doc.title[: self.title_end]

    @property
    def left_out(self) -> int:
        """Number of the text's tokens behind the last segment: those that ``first`` leaves out."""
        return len(self.ids) - int(self.windows[-1, 1])

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of each segment without the title, (segments,)."""
        return self.windows[:, 1] - self.windows[:, 0]

    def passage(self, number: int) -> Passage:
        """The tokens of a segment, title first, as a pair has them."""
        start, end = self.windows[number]
        own = self.sentences[start:end]
        title = self.title_sentences
        if len(title) and len(self.sentences) and title[-1] == self.sentences[0] and len(own):
            # the title ends no sentence: it is part of the first sentence of each segment
            title = np.where(title == title[-1], own[0], title)
        numbers = np.concatenate([title, own])
        rises = np.concatenate([[0], np.cumsum(numbers[1:] != numbers[:-1])])[: len(numbers)]
        return Passage(np.concatenate([self.title, self.ids[start:end]]), rises.astype(np.int32))

    def span(self, number: int) -> Span:
        """The characters of a segment in the document's text, from its first token to its last."""
        start, end = self.windows[number].tolist()
        if start == end:
            return Span(0, 0)
        first, last = int(self.offsets[start, 0]), int(self.offsets[end - 1, 1])
        return Span(last - len(self.doc.text[first:last].lstrip()), last)

    def text(self, number: int) -> str:
        """The text of a segment, without the title."""
        start, end = self.span(number)
        return self.doc.text[start:end]

    def first(self, count: int) -> Segments:
        """The same with only the first ``count`` segments."""
        return self if count >= len(self) else replace(self, windows=self.windows[:count])


@dataclass(frozen=True, eq=False)
class Segmenter:
    """Cuts documents as ``settings`` say, so that each segment fits beside the longest query.

    The segments of a document are a function of its title and text, its docno, the settings, and what makes
    the pairs, ``texts``: never of a query. Room is kept for a query of ``max_query`` tokens, for the special
    tokens, and for the title, of which at most half of the rest is taken. ``language`` decides how
    sentences are split; None: they are neither split nor numbered.

    Raises
    ------
    ModelError
        If the model sets no ``max_query``, the length does not fit, or sentences lack a language.
    """

    texts: PairTexts
    settings: SegmentSettings
    language: str | None = None

    def __post_init__(self) -> None:
        if self.texts.max_query is None:
            raise ModelError("segments need a longest query: this model has no max_query")
        if self.settings.sentences and self.language is None:
            raise ModelError("segments that end with sentences need a language")
        length = self.settings.length
        if self.settings.unit == "tokens" and length is not None and length > self.room:
            raise ModelError(
                f"segments of {length} tokens: the model reads {self.texts.max_length} tokens, "
                f"{self.texts.max_length - self.room} of them for the query and the frame"
            )

    @classmethod
    def of(cls, reranker: Reranker, settings: SegmentSettings) -> Segmenter:
        """The segmenter for a re-ranker, which splits sentences if the settings or the model need them."""
        needed = settings.sentences or reranker.kind.reads_sentences
        return cls(reranker.texts, settings, reranker.shape.language if needed else None)

    @property
    def room(self) -> int:
        """Tokens of a segment, title included, beside the longest query."""
        return self.texts.max_length - self.texts.frame.size - self.texts.longest_query

    @cached_property
    def record(self) -> dict[str, Any]:
        """Everything that decides the segments of a document, for JSON: what a stored selection names."""
        texts = json.dumps(self.texts.record(), sort_keys=True).encode()
        return {
            "settings": self.settings.model_dump(),
            "texts": hashlib.sha256(texts).hexdigest(),
            "sentences": None if self.language is None else [self.language, RULES],
        }

    def __call__(self, doc: Doc) -> Segments:
        """The segments of one document."""
        return next(self.split([doc]))

    def split(self, docs: Sequence[Doc], *, most_characters: int = 2_000_000) -> Iterator[Segments]:
        """The segments of each document, lazily and in order; ``most_characters`` are encoded at a time."""
        start = characters = 0
        for end, doc in enumerate(docs, 1):
            characters += len(doc.text)
            if characters >= most_characters or end == len(docs):
                part = docs[start:end]
                titles = [doc.title if self.settings.title else "" for doc in part]
                texts = self.texts.encode([doc.text for doc in part])
                for encoded in zip(part, self.texts.encode(titles), texts, strict=True):
                    yield self._segments(*encoded)
                start, characters = end, 0

    def _segments(self, doc: Doc, title: Any, text: Any) -> Segments:
        ids, titles = np.array(text.ids, np.int32), np.array(title.ids, np.int32)
        offsets = np.array(text.offsets, np.int32).reshape(-1, 2)
        kept = titles[: self.room // 2]
        of_title, sentences = self._sentences(doc, title, offsets)
        # the first token of each unit, and the number of tokens
        starts = np.arange(len(ids) + 1)
        if self.settings.unit == "words":
            words = np.array([match.start() for match in _WORD.finditer(doc.text)], np.int64)
            starts = np.append(np.flatnonzero(np.diff(number_spans(offsets, words), prepend=-1)), len(ids))
        windows = [*_cut_windows(self.settings, doc.docno, self.room - len(kept), starts, sentences)]
        cut = len(titles) - len(kept)
        end = 0 if not len(kept) else int(title.offsets[len(kept) - 1][1]) if cut else len(doc.title)
        of_title = of_title[: len(kept)]
        return Segments(doc, kept, ids, offsets, sentences, of_title, np.array(windows, np.int64), cut, end)

    def _sentences(self, doc: Doc, title: Any, offsets: _Ids) -> tuple[_Ids, _Ids]:
        """The number of the sentence of each token of the title and the text, as in the full text."""
        if self.language is None:
            return np.zeros(len(title.ids), np.int32), np.zeros(len(offsets), np.int32)
        full = doc.full_text if self.settings.title and doc.title else doc.text
        starts = np.array([start for start, _ in split_sentences(full, self.language)], np.int64)
        shift = len(full) - len(doc.text)
        before = np.array(title.offsets, np.int64).reshape(-1, 2)
        return number_spans(before, starts), number_spans(offsets + shift, starts)


def _cut_windows(
    settings: SegmentSettings, docno: str, room: int, starts: npt.NDArray[np.int64], sentences: _Ids
) -> Iterator[tuple[int, int]]:
    """The first token of each segment, of at most ``room`` tokens, and the one after its last."""
    total, start, count = int(starts[-1]), 0, 0
    ends = np.append(np.flatnonzero(np.diff(sentences)) + 1, total)
    longest = room if settings.length is None else settings.length
    # seeds of Python's generator may be text: the draw is that of (seed, docno) on every machine
    draw = random.Random(f"{settings.seed} {docno}")
    while count != settings.first:
        length = longest
        if settings.seed is not None:
            length = draw.randint(max(1, math.ceil(longest * _SHORTEST)), longest)
        unit = int(np.searchsorted(starts, start, side="right")) - 1
        end = min(int(starts.take(unit + length, mode="clip")), start + room)
        later = ends[ends > start] if settings.sentences else ends[:0]
        if len(later):
            # with the last sentence that fits; the first one is split if even that does not
            fitting = later[later <= end]
            end = int(fitting[-1]) if len(fitting) else min(int(later[0]), start + room)
        yield start, end
        count += 1
        if end >= total:
            return
        next_start = end if settings.stride is None else starts.take(unit + settings.stride, mode="clip")
        start = min(int(next_start), end)
