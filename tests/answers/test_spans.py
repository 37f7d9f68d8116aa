"""The best spans: against a slow reference, whole words, always the text's own characters."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_readers import TOKENIZERS, reader_with
from telerank.answers.spans import TokenBounds, best_spans, find_bounds
from telerank.models.pairs.pair import Pair
from telerank.models.readers import Context, ContextWindow, tokenize_contexts

NO_PAIR = Pair(*(np.empty(0, np.int32) for _ in range(4)))


def slow_spans(windows, logits, bounds, longest, count):
    """Every pair of a start and an end of a window, L x L, one after another."""
    best = {}
    for window, own in zip(windows, logits, strict=True):
        for i in range(window.count):
            for j in range(i, window.count):
                start, end = bounds.starts[window.first + i], bounds.ends[window.first + j]
                if j - i >= longest or start < 0 or end < 0 or not start < end or not window.counts[i]:
                    continue
                score = float(own[i, 0]) + float(own[j, 1])
                best[start, end] = max(score, best.get((start, end), -np.inf))
    ordered = sorted((-score, int(start), int(end)) for (start, end), score in best.items())
    return [(start, end, -score) for score, start, end in ordered[:count]]


@st.composite
def problems(draw):
    """Tokens of three characters, some of which share them or begin no word, in windows of any cut."""
    length = draw(st.integers(0, 24))
    flags = st.lists(st.booleans(), min_size=length, max_size=length)
    places = np.cumsum([draw(st.integers(0, 3)) for _ in range(length)])
    starts = np.where(draw(flags), places, -1) if length else np.empty(0, np.int64)
    ends = np.where(draw(flags), places + 3, -1) if length else np.empty(0, np.int64)
    room, step = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    windows, logits = [], []
    numbers = st.integers(-3, 3).map(lambda n: n / 4)  # many equal scores
    for first in range(0, length, min(step, room)):
        count = min(room, length - first)
        counts = np.array([draw(st.booleans()) for _ in range(count)], bool)
        windows.append(ContextWindow(NO_PAIR, first, count, 0, counts))
        values = [draw(numbers) for _ in range(2 * count)]
        logits.append(np.array(values, np.float32).reshape(count, 2))
    return windows, logits, TokenBounds(starts, ends)


@given(problems(), st.integers(1, 8), st.integers(1, 6))
def test_the_banded_scan_finds_what_a_slow_one_finds(problem, longest, count):
    windows, logits, bounds = problem
    spans = best_spans(windows, logits, bounds, longest=longest, count=count)
    found = [(span.start, span.end, span.score) for span in spans]
    assert found == slow_spans(windows, logits, bounds, longest, count)


def test_no_table_of_all_pairs_is_made():
    """A window of 20,000 tokens: all pairs would be 400 million numbers."""
    import tracemalloc

    length = 20_000
    bounds = TokenBounds(np.arange(length) * 2, np.arange(length) * 2 + 1)
    window = ContextWindow(NO_PAIR, 0, length, 0, np.ones(length, bool))
    logits = np.random.default_rng(0).normal(size=(length, 2)).astype(np.float32)
    tracemalloc.start()
    spans = best_spans([window], [logits], bounds, longest=30)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(spans) == 20
    assert most < 60 * 8 * 30 * length / 10  # some arrays of (length, 30) float64


def words_of(text, tokens):
    """The bounds of tokens, given as strings in their order."""
    offsets, at = [], 0
    for token in tokens:
        at = text.index(token, at)
        offsets.append((at, at + len(token)))
        at += len(token)
    context = Context(text, np.zeros(len(tokens), np.int32), np.array(offsets).reshape(-1, 2))
    bounds = find_bounds(context)
    return [(int(start), int(end)) for start, end in zip(bounds.starts, bounds.ends, strict=True)]


def test_a_span_begins_and_ends_with_whole_words():
    text = "unbelievable, l’homme"
    tokens = ["un", "believ", "able", ",", " l", "’", "hom", "me"]
    found = words_of(text, tokens)
    assert [start for start, _ in found] == [0, -1, -1, 12, 14, 15, 16, -1]
    assert [end for _, end in found] == [-1, -1, 12, 13, 15, 16, -1, 21]


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("3.14", 2),  # a number
        ("e\u0301te", 1),  # before a combining accent
        ("e\u0301te", 2),  # behind it
        ("info\u00adration", 4),  # a soft hyphen
        ("क्\u200dष", 2),  # a zero-width joiner
    ],
)
def test_these_are_inside_a_word(text, inside):
    ends = words_of(text, [text[:inside], text[inside:]])
    assert (ends[0][1], ends[1][0]) == (-1, -1)


@pytest.mark.parametrize(
    ("text", "between"),
    [
        ("漢字", 1),  # no blanks between words
        ("l'an", 2),
        ("a-b", 2),
        ("3. 14", 3),
        ("a\u00a0b", 2),
        ("ab\ncd", 3),
    ],
)
def test_these_are_between_words(text, between):
    assert words_of(text, [text[:between], text[between:]])[1][0] >= 0


def test_blanks_at_the_edges_of_tokens_are_left_out():
    assert words_of("  a \n b ", ["  a ", "\n b "]) == [(2, 3), (6, 7)]
    assert words_of("   ", ["   "]) == [(-1, -1)]


LETTERS = "aél'’ \n\t\u00a0\u200d.,3ﬁœ漢字かש\u05b8ل\u0301😀🇫🇷\u200f«»"


@pytest.fixture(scope="module")
def readers(tmp_path_factory):
    root = tmp_path_factory.mktemp("readers")
    return {name: reader_with(root, name).texts for name in TOKENIZERS}


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@given(text=st.text(st.sampled_from(LETTERS), max_size=60), seed=st.integers(0, 99))
@example(text="", seed=0)
@example(text="ﬁn de l’été", seed=1)
def test_spans_of_any_text_are_its_own_characters_and_no_parts_of_words(readers, tokenizer, text, seed):
    (context,) = tokenize_contexts(readers[tokenizer], [text])
    count = len(context)
    window = ContextWindow(NO_PAIR, 0, count, 0, np.ones(count, bool))
    logits = np.random.default_rng(seed).normal(size=(count, 2)).astype(np.float32)
    for span in best_spans([window], [logits], find_bounds(context), longest=7):
        assert 0 <= span.start < span.end <= len(text)
        shown = text[span.start : span.end]
        assert shown == shown.strip()
        assert not span.end < len(text) or unicodedata.category(text[span.end])[0] != "M"
        for at in (span.start, span.end):
            if 0 < at < len(text):
                assert not (is_letter(text[at - 1]) and is_letter(text[at]))


def is_letter(character):
    return character.isalnum() and not unicodedata.name(character, "").startswith(("CJK", "HIRAGANA"))
