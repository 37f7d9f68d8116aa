"""The chains of ``english`` and ``french`` beside Lucene's; lucene_analysis.py made the numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from telerank.text import PRESETS, Analyzer

ROWS = json.loads(Path(__file__).with_name("lucene_analysis.json").read_text(encoding="utf-8"))
SENTENCES = [row for row in ROWS if row["part"] == "sentences"]

NEWER_STEMS = {  # what Lucene 8's older algorithms make of a word: what Snowball 3 does
    "analog": "analogi",  # Lucene's English Porter departs from the paper: -logi becomes -log
    "possibl": "possibli",  # likewise -bli becomes -bl
    "congolais": "congol",  # Snowball 3 takes -ais, -aise off
    "français": "franc",
    "japonais": "japon",
    "lanoë": "lano",  # and ë, ï
    "paléozoïqu": "paléozo",
}

APART = {  # text: (terms here, why they are not Lucene's)
    "the U.S.A. and e.g. Ph.D.": ("usa eg ph d", "an acronym is one word with or without its stops"),
    "S.N.C.F.": ("sncf", "an acronym is one word with or without its stops"),
    "www.example.com": ("www example com", "a stop between words separates: more meet than part"),
    "M.Dupont": ("dupont", "a stop between words separates"),
    "key:value": ("key value", "a colon separates"),
    "1;2": ("1 2", "a semicolon separates"),
    "étudiant·e·s": ("étudiant e", "so does the middle dot of inclusive spelling: étudiant is found"),
    "_emphasis_ __init__": ("emphasis init", "underscores at the ends are mark-up"),
    "Straße": ("strasse", "case folding, not lower case"),
    "ﬁne x² ½": ("fine x2 1 2", "NFKC"),
    "ﬁlle": ("fille", "NFKC"),
    "cafe\u0301": ("café", "composed and decomposed letters are the same"),
    "Windows™": ("windows", "a sign is not a word"),
    "☂ 💡": ("", "a sign is not a word"),
    "東京": ("東京", "no segmentation of scripts without blanks: English and French are served"),
    "co\u00adoperate": ("cooperate", "soft hyphens are invisible"),
    "aujourd’hui": ("aujourd'hui", "one apostrophe for all"),
    "l'œuvre, l'oeuvre": ("oeuvre oeuvre", "œ and oe are one spelling"),
}
ALIKE = ["3'UTR", "l′arbre", "d'1 euro"]


def _ours(language: str, *, stem: bool) -> Analyzer:
    whole = PRESETS[language]
    return Analyzer.parse(whole if stem else whole.rpartition("|")[0])


@pytest.mark.parametrize(("language", "count"), [("english", 17), ("french", 137)])
def test_words_and_stems_of_sentences_are_lucenes_but_for_a_newer_snowball(language: str, count: int):
    rows = [row for row in SENTENCES if row["language"] == language]
    assert len(rows) == count
    words, stems = (_ours(language, stem=stem) for stem in (False, True))
    for row in rows:
        assert words(row["text"]) == row["words"].replace("œ", "oe").split()
        for stem, lucenes in zip(stems(row["text"]), row["stems"].replace("œ", "oe").split(), strict=True):
            assert stem in (lucenes, NEWER_STEMS.get(lucenes))


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row["part"] == "apart"], ids=lambda row: ascii(row["text"])
)
def test_words_differ_from_lucenes_where_there_is_a_reason(row: dict[str, str]):
    ours = " ".join(_ours(row["language"], stem=False)(row["text"]))
    if row["text"] in APART:
        assert ours == APART[row["text"]][0]
        assert ours != row["words"]
    else:
        assert row["text"] in ALIKE
        assert ours == row["words"]
