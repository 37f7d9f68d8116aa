from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telerank.text.sentences import Span, is_wrapped, split_sentences

LANGUAGES = ["en", "fr"]
ANY_TEXT = st.text(st.characters(exclude_categories=()))
PIECES = st.sampled_from(
    ["M.", "Dr.", "etc.", "p.", "U.S.", "J.-C.", "C.", "3.", "2.1", "1998.", "word", "Word", "The", "le", "Le", "l'art",
     "vitamin", "av.", "Inc.", "mRNA", "...", "…", ". . .", "?", "!", "?!", ".", "« ", " »", "“", "”", '"', "'", "(", ")",
     "[", "]", "[…]", "[12]", ",", "–", "- ", " ", " ", " ", "\u00a0", "\n", "\n\n", "\r\n", "\t", "\0", "\u2028", "x.Y",
     "it", "body.More of", "\ud800", "*", "É", "\u0301"]
)  # fmt: skip
LIKE_TEXT = st.lists(PIECES, max_size=40).map("".join) | st.lists(PIECES, max_size=40).map(" ".join)
WRAPPED = """\
  The boundary layer in simple shear flow past a flat plate was studied by
Smith and Jones. The equations are presented for steady incompressible
flow with no pressure gradient, following the treatment of Prof. Blasius
and Dr. Glauert, who gave:
  1. an exact solution,
  2. an approximation that holds everywhere but in a neighbourhood of the
     leading edge.

The results agree.
"""


def split(text: str, language: str = "en", *, wrapped: bool | None = None) -> list[str]:
    return [text[start:end] for start, end in split_sentences(text, language, wrapped=wrapped)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_hard_cases_are_split_where_a_reader_would(language: str):
    lines = Path(__file__).with_name(f"sentences_{language}.txt").read_text(encoding="utf-8").splitlines()
    cases = [line for line in lines if line and not line.startswith("#")]
    assert len(cases) >= 60
    for case in cases:
        case = case.replace("\\n", "\n").replace("\\r", "\r").replace("~", "\u00a0")
        text = case.replace("|| ", "").replace("||", "")
        assert split(text, language) == [part.strip() for part in case.split("||")]


@settings(max_examples=500)
@given(ANY_TEXT | LIKE_TEXT, st.sampled_from(LANGUAGES), st.sampled_from([None, False, True]))
def test_every_character_that_is_not_blank_is_in_one_sentence_and_a_sentence_splits_into_itself(
    text: str, language: str, wrapped: bool | None
):
    end = 0
    for span in split_sentences(text, language, wrapped=wrapped):
        sentence = text[span.start : span.end]
        assert text[end : span.start].strip() == ""
        assert sentence.strip() == sentence != ""
        assert end <= span.start < span.end
        assert wrapped is None or split(sentence, language, wrapped=wrapped) == [sentence]
        end = span.end
    assert text[end:].strip() == ""


@given(LIKE_TEXT, LIKE_TEXT, st.sampled_from(LANGUAGES))
def test_paragraphs_are_split_each_on_its_own(one: str, other: str, language: str):
    both = split(f"{one}\n\n{other}", language)
    assert both == split(one, language) + split(other, language)


def test_spans_are_offsets_into_the_text():
    text = " One. Two."
    assert split_sentences(text) == [Span(1, 5), Span(6, 10)]
    assert split_sentences(text)[1].start == 6
    assert split_sentences("") == split_sentences(" \n\u00a0 ") == []
    with pytest.raises(ValueError, match="sentences are split in en, fr, got language 'de'"):
        split_sentences("Guten Tag.", "de")


def test_a_wrapped_paragraph_is_recognised_and_not_cut_at_its_lines():
    first, second, *_, last = split(WRAPPED)
    assert first.startswith("The boundary")
    assert first.endswith("by\nSmith and Jones.")
    assert second.startswith("The equations")
    assert second.endswith("who gave:")
    assert last == "The results agree."
    assert len(split(WRAPPED, wrapped=False)) == 9


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (WRAPPED.partition("\n\n")[0], True),
        ("Conditions à remplir\nPersonnes concernées\nSalarié ou fonctionnaire", False),
        ("Une phrase longue, et même plus longue que toutes les autres.\nUne courte.\nUne autre.", False),
        (f"{'A' * 50}\n{'B' * 50}\nshort\nC", True),  # two in three
        (f"{'A' * 50}\n{'B' * 50}\nshort\nC\nD", False),
        ("one line", False),
        ("", False),
    ],
)
def test_lines_are_wrapped_where_the_next_word_would_not_have_fitted(text: str, expected: bool):
    assert is_wrapped(text) is expected


@pytest.mark.parametrize(
    "unit",
    ["a. ", "A. ", ". ", "...", "! ", "[...] ", "(", '" ', "« ", "\n", " ", "Dr. ", "\u00a0", "x.Y", "'", "1. ", ". . . ",
     "word ", "word. Word ", "l'", "\n\n", "\r\n ", "?! ", ") ", "[1] . ", "J.-C. ", ".)"],
)  # fmt: skip
def test_time_grows_with_the_text_and_no_faster(unit: str):
    text = unit * (100_000 // len(unit))
    began = time.process_time()
    split_sentences(text)
    assert time.process_time() - began < 10  # half a second at most; squared, it is minutes


@pytest.mark.data
def test_real_french_sentences_look_like_sentences(data: Path):
    with gzip.open(data / "piaf" / "piaf-v1.1.json.gz", "rt", encoding="utf-8") as file:
        articles = json.load(file)["data"]
    paragraphs = [p["context"] for article in articles for p in article["paragraphs"]]
    answers = [
        (p["context"], a["answer_start"], a["answer_start"] + len(a["text"]))
        for article in articles for p in article["paragraphs"] for q in p["qas"] for a in q["answers"]
    ]  # fmt: skip
    lengths = sorted(end - start for text in paragraphs for start, end in split_sentences(text, "fr"))
    assert 6_500 < len(lengths) < 6_900
    assert 130 < lengths[len(lengths) // 2] < 145
    whole = {text: split_sentences(text, "fr") for text in paragraphs}
    kept = sum(any(start <= a and b <= end for start, end in whole[text]) for text, a, b in answers)
    assert kept > 0.98 * len(answers)  # an answer is hardly ever cut
