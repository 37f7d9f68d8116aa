"""Segments: nothing is lost, everything fits, and the same document is always cut alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from long_texts import said
from small_models import WORDS, small_tokenizer
from telerank.errors import ModelError
from telerank.models.pairs.pair import PairTokenizer
from telerank.models.pairs.words import Words
from telerank.reranking.texts import make_pairs
from telerank.segments.settings import NAMED, SegmentSettings, named_segments
from telerank.segments.split import Segmenter
from telerank.text.sentences import split_sentences
from telerank.types import Doc

TEXTS = PairTokenizer(small_tokenizer("bert"), max_query=8, max_length=31)  # room for 20 tokens
ROOM = 31 - 3 - 8


def cut(doc: Doc, texts=TEXTS, language="en", **settings):
    return Segmenter(texts, SegmentSettings(**settings), language)(doc)


def joined(segments) -> list[int]:
    return [token for start, end in segments.windows.tolist() for token in range(start, end)]


settings_strategy = st.one_of(
    st.builds(
        SegmentSettings,
        length=st.none() | st.integers(1, ROOM),
        unit=st.sampled_from(["tokens", "words"]),
        sentences=st.booleans(),
        seed=st.none() | st.integers(0, 3),
    ),
    st.integers(1, ROOM).flatmap(
        lambda length: st.builds(
            SegmentSettings,
            length=st.just(length),
            stride=st.integers(1, length),
            unit=st.sampled_from(["tokens", "words"]),
        )
    ),
)


@given(settings_strategy, st.integers(0, 90), st.integers(0, 40), st.integers(0, 9))
def test_every_token_is_in_a_segment_and_every_segment_fits_beside_the_longest_query(
    settings, words, title, every
):
    doc = Doc("1", said(words, every), said(title))
    segments = Segmenter(TEXTS, settings, "en")(doc)
    query = TEXTS.queries([said(30)])[0]
    assert sorted(set(joined(segments))) == list(range(len(segments.ids)))
    assert segments.left_out == 0
    if settings.stride is None:
        assert joined(segments) == list(range(len(segments.ids)))
    for number in range(len(segments)):
        assert TEXTS.pair(query, segments.passage(number)).cut_passage == 0


@pytest.mark.parametrize(
    ("text", "settings", "lengths"),
    [
        (f"{said(45)}. Q1 d2.", {"sentences": True}, [20, 20, 9]),  # longer than the room
        (said(36, every=12), {"sentences": True, "length": 5}, [13, 13, 13]),  # longer than the length alone
        (said(60), {"seed": 0}, [18, 12, 5, 18, 7]),  # drawn alike on every machine
        (said(50), {"texts": Words(WORDS, max_query=8, max_length=28)}, [20, 20, 10]),
        (said(63, every=7), {"sentences": True}, [16] * 4 + [8]),  # two of seven words and a full stop
    ],
    ids=["room", "length", "drawn", "words with vectors", "sentences"],
)
def test_lengths_of_segments(text, settings, lengths):
    assert cut(Doc("a", text), **settings).lengths.tolist() == lengths


@pytest.mark.parametrize(
    ("words", "settings", "windows"),
    [
        (20, {"length": 8, "stride": 5}, [[0, 8], [5, 13], [10, 18], [15, 20]]),
        # one that does not fit ends earlier, and the next begins there
        (60, {"unit": "words", "length": 30, "stride": 25}, [[0, 20], [20, 40], [40, 60]]),
    ],
)
def test_a_window_begins_a_stride_behind_the_last(words, settings, windows):
    assert cut(Doc("1", said(words)), **settings).windows.tolist() == windows


def test_words_are_counted_between_blanks():
    segments = cut(Doc("1", "q1-d2-x3 q4, d5 x6 q7"), unit="words", length=2)
    assert [segments.text(n) for n in range(3)] == ["q1-d2-x3 q4,", "d5 x6", "q7"]


def test_segments_end_with_sentences_and_those_of_birch_are_sentences():
    doc = Doc("1", said(63, every=7))
    segments, ends = cut(doc, sentences=True), {end for _, end in split_sentences(doc.text)}
    assert all(segments.span(number).end in ends for number in range(len(segments)))
    segments = Segmenter(TEXTS, named_segments("birch"), "en")(Doc("1", said(35, every=7), "x1"))
    assert [segments.span(number) for number in range(5)] == split_sentences(segments.doc.text)
    assert len(segments.passage(0).ids) == 8


def test_the_title_is_repeated_and_takes_its_room_but_no_more_than_half_of_it():
    doc = Doc("1", said(40), "x1 x2 x3 x4")
    segments = cut(doc)
    title = TEXTS.queries([doc.title])[0].tolist()
    assert segments.lengths.tolist() == [16, 16, 8]
    assert all(segments.passage(number).ids[:4].tolist() == title for number in range(3))
    assert cut(doc, title=False).lengths.tolist() == [20, 20]
    segments = cut(Doc("1", said(25), said(1000)))
    assert (len(segments.title), segments.cut_title) == (10, 990)
    assert segments.lengths.tolist() == [10, 10, 5]


@pytest.mark.parametrize("settings", [*NAMED.values(), SegmentSettings(seed=1)])
def test_a_document_without_text_has_one_segment(settings):
    texts = TEXTS.with_lengths(8, 512)
    segments = Segmenter(texts, settings, "en")(Doc("1", "", "x1 x2"))
    assert (len(segments), len(segments.passage(0).ids), segments.text(0)) == (1, 2 * settings.title, "")
    assert len(Segmenter(texts, settings, "en")(Doc("1", " \n ")).passage(0).ids) == 0


def test_only_the_first_segments_are_kept_and_the_rest_is_counted():
    segments = cut(Doc("1", said(90)), first=4)
    assert (len(segments), segments.left_out) == (4, 10)
    assert len(segments.first(2)) == 2
    assert segments.first(9) is segments


def test_random_lengths_are_those_of_seed_and_docno():
    doc = Doc("1", said(400))
    lengths = cut(doc, seed=3).lengths
    assert lengths[:-1].min() >= 5
    assert lengths.max() <= 20
    assert len(set(lengths.tolist())) > 3
    assert cut(doc, seed=3).windows.tolist() == cut(doc, seed=3).windows.tolist()
    assert cut(doc, seed=4).windows.tolist() != cut(doc, seed=3).windows.tolist()
    assert cut(Doc("2", doc.text), seed=3).windows.tolist() != cut(doc, seed=3).windows.tolist()


def test_documents_are_cut_alike_alone_and_among_others():
    docs = [Doc(str(n), said(n * 9, 7, n), said(n % 4)) for n in range(12)]
    segmenter = Segmenter(TEXTS, NAMED["best"], "en")
    together = segmenter.split(docs, most_characters=300)
    assert [segments.windows.tolist() for segments in together] == [
        segmenter(doc).windows.tolist() for doc in docs
    ]


@pytest.mark.parametrize("kind", ["monobert", "bert-dmn"])
@pytest.mark.parametrize("title", ["", "x1 x2", "X1 x2."])
def test_a_document_that_fits_makes_the_pair_of_its_whole_text(rerankers, kind, title):
    reranker = rerankers[kind]
    doc = Doc("1", said(24, every=7), title)
    segments = Segmenter.of(reranker, SegmentSettings())(doc)
    pair = reranker.texts.pair(reranker.texts.queries(["q1 q2"])[0], segments.passage(0))
    (whole,) = make_pairs(reranker, [("q1 q2", doc.full_text)])
    assert len(segments) == 1
    assert pair.ids.tolist() == whole.ids.tolist()
    assert pair.sentences.tolist() == whole.sentences.tolist()


def test_sentences_are_numbered_from_0_in_each_segment():
    segments = cut(Doc("1", said(63, every=7), "X1 x2."), sentences=True)
    for number in range(len(segments)):
        sentences = segments.passage(number).sentences
        assert sorted(set(sentences.tolist())) == list(range(sentences.max() + 1))
        assert sentences[:3].tolist() == [0, 0, 0]
        assert sentences[3] == 1


def test_spans_are_characters_of_the_text():
    doc = Doc("1", f"  {said(50, every=7)}\n", "x1")
    segments = cut(doc, title=True)
    words = " ".join(segments.text(number) for number in range(len(segments))).split()
    assert words == doc.text.split()
    assert doc.text[slice(*segments.span(1))] == segments.text(1) == segments.text(1).strip()


def test_the_record_names_settings_tokenizer_and_rules():
    record = Segmenter(TEXTS, NAMED["best"], "en").record
    assert record["settings"]["sentences"] is True
    assert record != Segmenter(TEXTS, NAMED["best"], "fr").record
    assert record != Segmenter(TEXTS.with_lengths(8, 30), NAMED["best"], "en").record


@pytest.mark.parametrize(
    "wrong",
    [
        {"length": 0},
        {"stride": 9, "length": 8},
        {"stride": 3, "sentences": True},
        {"stride": 3, "seed": 1},
        {"first": 0},
        {"unit": "lines"},
        {"strid": 3},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValidationError):
        SegmentSettings(**wrong)


def test_what_cannot_fit_or_has_no_name_is_refused():
    with pytest.raises(ModelError, match="segments of 21 tokens: the model reads 31 tokens, 11 of them for"):
        cut(Doc("1", ""), length=21)
    with pytest.raises(ModelError, match="no max_query"):
        cut(Doc("1", ""), TEXTS.with_lengths(None, 31))
    with pytest.raises(ModelError, match="need a language"):
        cut(Doc("1", ""), language=None, sentences=True)
    piaf = named_segments("piaf")
    assert (piaf.length, piaf.length - piaf.stride, piaf.title) == (380, 120, False)
    with pytest.raises(ModelError, match="no segments are called 'tkl'; known: whole, best, birch"):
        named_segments("tkl")
