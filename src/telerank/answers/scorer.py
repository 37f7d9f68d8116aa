"""Read questions in texts: windows of similar lengths in batches, over the back ends of re-rankers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from telerank.answers.combine import AnswerRules, ReadText, choose_answers
from telerank.answers.spans import Logits, TextReading, TokenBounds, best_spans, find_bounds
from telerank.batches import WindowLimits
from telerank.computing import SpanComputing
from telerank.errors import ArgumentError, ModelError, count_noun
from telerank.models.inference import stream_groups
from telerank.models.pairs.pair import Pair, batch_of
from telerank.models.readers import (
    Context,
    ContextWindow,
    Reader,
    cut_windows,
    load_reader,
    require_reader,
    tokenize_contexts,
)
from telerank.reranking.scorer import ComputedModel
from telerank.reranking.texts import TextPair
from telerank.types import Answers, Doc, Progress, Query, as_query, silent

Texts: TypeAlias = str | Doc | Iterable[str | Doc] | Mapping[str, str]
"""One text or several, which may be documents, or have their docnos as keys."""

_HALF = re.compile("[\ud800-\udfff]")
_WINDOW = WindowLimits(
    500_000, 2048, 64
)  # characters, pairs, groups: few, so that the first answers come early
_LENGTHS = ("max_length", "stride", "max_question", "max_answer", "temperature")


@dataclass
class ReadingCounts:
    """What was read so far; ``cut`` has the questions that were cut, with how many tokens were cut off."""

    pairs: int = 0
    windows: int = 0
    cut: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class PreparedPair:
    """A question and a text as tokens: its windows, and where spans of the text may begin and end."""

    windows: list[ContextWindow]
    bounds: TokenBounds


@dataclass(frozen=True, eq=False, repr=False)
class SpanReader(ComputedModel, SpanComputing):
    """A reader, by its name or loaded, and the settings of its computation: a value.

    ``precision`` ``auto`` is bfloat16 on a GPU that computes in it, else float32 (:attr:`computes_in`).
    ``tokens`` bounds a batch, padding included; None leaves it to the device. A GPU whose memory is too small
    gets smaller batches (:meth:`describe_memory`). In float32 the score of a span is the same in any batch,
    to 1e-5. ``samples`` are questions with texts, to calibrate int8 on. The lengths, ``threshold`` and
    ``temperature`` are those of :class:`~telerank.models.readers.ReaderSettings`; None leaves them to
    the reader, and a ``threshold`` of infinity gives always an answer. A named reader has to exist, or is
    fetched from the hub, and is loaded with the first text.

    Raises
    ------
    ModelError
        If there is no such reader, back end or precision; with the first text, if it cannot read windows
        of these lengths; if one window does not fit into a GPU's memory.
    MissingExtra
        With the first text, if the back end's package is not installed.
    """

    model: Reader | str | Path
    counts: ReadingCounts = field(default_factory=ReadingCounts, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.model, Reader):
            require_reader(self.model)
        if self.threshold is not None and math.isnan(self.threshold):
            raise ModelError("threshold must be a number, got nan")

    @cached_property
    def reader(self) -> Reader:
        reader: Reader = self._open(load_reader)
        values = {name: getattr(self, name) for name in _LENGTHS}
        return reader.with_settings(**{name: value for name, value in values.items() if value is not None})

    @property
    def loaded(self) -> Reader:
        return self.reader

    def rules(self, mu: float = 1.0) -> AnswerRules:
        """How spans become answers: the reader's settings, unless they are given here."""
        settings = self.reader.settings
        threshold = settings.threshold if self.threshold is None else self.threshold
        return AnswerRules(threshold, settings.temperature, settings.language, mu)

    def answer(self, question: Query | str, texts: Texts, *, k: int | None = None) -> Answers:
        """The answers to a question in one text or several, best first, at most ``k``.

        A text without a docno is named by its number, from ``0``; a mapping has texts by docno. Of a
        document the text is read, without its title.

        Raises
        ------
        ValueError
            If two documents have the same docno.
        """
        if isinstance(texts, Mapping):
            docs = [Doc(docno, text) for docno, text in texts.items()]
        else:
            items = [texts] if isinstance(texts, str | Doc) else texts
            docs = [Doc(str(n), item) if isinstance(item, str) else item for n, item in enumerate(items)]
        if len({doc.docno for doc in docs}) < len(docs):
            raise ArgumentError("two documents have the same docno")
        query = as_query(question)
        readings = self.read([(query.text, doc.text) for doc in docs])
        read_texts = [
            ReadText(doc.docno, doc.text, reading) for doc, reading in zip(docs, readings, strict=True)
        ]
        answers = choose_answers(query, read_texts, self.rules())
        return answers if k is None else answers.cut(k)

    def read(self, pairs: Iterable[TextPair], *, progress: Progress = silent) -> list[TextReading]:
        """What the reader says of each question in each text, in their order."""
        return next(self.stream([pairs], progress=progress))

    def stream(
        self, groups: Iterable[Iterable[TextPair]], *, progress: Progress = silent
    ) -> Iterator[list[TextReading]]:
        """What the reader says of each group of pairs, a query's passages, lazily and in order.

        About half a million characters are in memory, for any number of groups and of pairs in a group. While
        pairs are computed, the next pairs are read and tokenised.
        """
        parts = stream_groups(
            _WINDOW.cut(groups, lambda pair: len(pair[1])),
            self.prepare,
            lambda prepared: partial(self.read_prepared, prepared, progress),
        )
        yield from map(list[TextReading], map(chain.from_iterable, parts))

    def prepare(self, pairs: Sequence[TextPair]) -> list[PreparedPair]:
        """The windows of pairs; each distinct text is tokenised once."""
        texts, stride = self.reader.texts, self.reader.settings.stride
        names = list(dict.fromkeys(question for question, _ in pairs))
        for half in filter(None, map(_HALF.search, chain.from_iterable(pairs))):
            # UTF-8 cannot encode it, and no tokenizer reads it
            raise ModelError(f"a text has half of a surrogate pair, U+{ord(half[0]):04X}: it is damaged")
        questions = dict(zip(names, texts.queries(names), strict=True))
        contexts: dict[str, tuple[Context, TokenBounds]] = {}
        for context in tokenize_contexts(texts, list(dict.fromkeys(text for _, text in pairs))):
            contexts[context.text] = context, find_bounds(context)
        for question, ids in questions.items():
            if len(ids) > texts.longest_query:
                self.counts.cut[question] = len(ids) - texts.longest_query
        prepared = []
        for question, text in pairs:
            context, bounds = contexts[text]
            prepared.append(PreparedPair(cut_windows(texts, questions[question], context, stride), bounds))
        return prepared

    def read_prepared(
        self, prepared: Sequence[PreparedPair], progress: Progress = silent
    ) -> list[TextReading]:
        """What the reader says of pairs of tokens, in their order; all of them are in memory."""
        windows = [window for pair in prepared for window in pair.windows]
        logits, nulls = self._compute_windows(windows, progress)
        longest, readings, first = self.reader.settings.max_answer, list[TextReading](), 0
        for pair in prepared:
            last = first + len(pair.windows)
            spans = best_spans(pair.windows, logits[first:last], pair.bounds, longest=longest)
            readings.append(TextReading(spans, min(nulls[first:last], default=math.inf)))
            first = last
        self.counts.pairs += len(prepared)
        return readings

    def _compute_windows(
        self, windows: Sequence[ContextWindow], progress: Progress
    ) -> tuple[list[Logits], list[float]]:
        """The logits of each window's context tokens, (n, 2), and its score of no answer."""
        pairs, before = [window.pair for window in windows], self.counts.windows

        def join(rows: Sequence[int], width: int) -> Tensor:
            batch = batch_of([pairs[row] for row in rows], self.reader.texts.pad_id, width)
            return torch.stack((batch.input_ids, batch.attention_mask, batch.token_type_ids))

        lengths = np.array([len(pair) for pair in pairs], np.int64)
        outputs = self._compute_rows(lengths, join, lambda done: progress("reading", before + done, None))
        logits, nulls = [np.empty((0, 2), np.float32)] * len(pairs), [math.inf] * len(pairs)
        # a GPU is asked for the logits of all batches at once
        parts = [batch.flatten(0, 1) for batch in outputs.batches]  # (tokens, 2)
        flat = torch.cat(parts).cpu().numpy() if parts else np.empty((0, 2), np.float32)
        ends = np.cumsum(outputs.widths).tolist()
        for row, width, end in zip(outputs.rows, outputs.widths, ends, strict=True):
            window, of_pair = windows[row], flat[end - width : end][: len(pairs[row])]
            if not np.isfinite(of_pair).all():
                raise ModelError(f"{self.name}: a logit is not a finite number")
            logits[row] = of_pair[window.begin : window.begin + window.count]
            nulls[row] = float(of_pair[0].astype(np.float64).sum())
        self.counts.windows += len(windows)
        return logits, nulls

    def describe_cut(self) -> str:
        """How many questions were cut, and where; empty if none was."""
        cut = self.counts.cut
        if not cut:
            return ""
        return (
            f"{len(cut):,} question{'s' if len(cut) != 1 else ''} longer than "
            f"{count_noun(self.reader.settings.max_question, 'token')}: cut there, "
            f"{count_noun(sum(cut.values()), 'token')} were not read"
        )

    def _sample_pairs(self) -> list[Pair]:
        return [window.pair for prepared in self.prepare(self.samples) for window in prepared.windows]
