from __future__ import annotations

import inspect
import re
from pathlib import Path
from string import Formatter
from typing import get_args

import pytest

from telerank.service import page
from telerank.service.page.messages import TEXTS, Messages, choose_language
from telerank.stage import Stage
from telerank.syntax.reading import Effect
from telerank.text.follow_up import Rule

FOLDER = Path(page.__file__).parent
ENGLISH, FRENCH = Messages("en"), Messages("fr")


def test_both_languages_have_the_same_texts_with_the_same_values():
    assert list(TEXTS["en"]) == list(TEXTS["fr"]) == sorted(TEXTS["en"])
    for key, text in TEXTS["en"].items():
        named = {name for _, name, _, _ in Formatter().parse(text) if name}
        french = {name for _, name, _, _ in Formatter().parse(TEXTS["fr"][key]) if name}
        assert french == named or key.endswith(".one"), key


def test_every_text_is_used_and_every_text_that_is_used_is_there():
    templates = "".join(path.read_text("utf-8") for path in (FOLDER / "templates").iterdir())
    code = "".join(path.read_text("utf-8") for path in FOLDER.glob("*.py"))
    code += (FOLDER.parent / "routes" / "page.py").read_text("utf-8")
    named = set(re.findall(r'say\(\s*"([a-z.]+)"', templates + code))
    named |= {f"error.{status}" for status in (400, 401, 403, 404, 405, 413, 422, 424, 429, 500, 503, 507)}
    roles = re.findall("``([a-z]+)``", inspect.getdoc(Stage.role))
    named |= {f"stage.{role}" for role in (*roles, "read", "passages")}
    named |= {"answer.high", "answer.medium", "answer.low"}
    named |= {f"syntax.{effect}" for effect in get_args(Effect)}
    named |= {f"follow.{rule}" for rule in get_args(Rule) if rule != "as typed"}
    known = {key.removesuffix(".one").removesuffix(".other") for key in TEXTS["en"]}
    known = known - {"stage"} | {"stage.other"}
    named -= {"answer.", "follow.", "stage.", "syntax."}  # a level follows, a rule, a role or an effect
    assert named == known


def test_french_has_its_typography():
    for key, text in TEXTS["fr"].items():
        assert not re.search(r"[^\u202f\d][:;?!](?![a-z])", text.replace("{n}", "0")), key
        assert not re.search(r"\w'\w", text), key
        assert '"' not in text


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("", "en"),
        ("fr", "fr"),
        ("fr-CA,fr;q=0.9,en;q=0.8", "fr"),
        ("de,en;q=0.5,fr;q=0.7", "fr"),
        ("en;q=0.5,fr;q=0.5", "en"),
        ("fr;q=0", "en"),
        ("FR-fr;Q=0.3, de", "fr"),
        ("fr;q=x", "en"),
        ("fr;q=nan", "en"),
        (",;,;q=,", "en"),
        ("*", "en"),
    ],
)
def test_the_language_is_the_browsers_first_of_two(accepted: str, language: str):
    assert choose_language(accepted) == language
    assert choose_language(accepted, "en") == "en"
    assert choose_language(accepted, "de") == language


def test_numbers_shares_and_times():
    assert [ENGLISH.number(1234567), FRENCH.number(1234567)] == ["1,234,567", "1\u202f234\u202f567"]
    assert [ENGLISH.number(-1.5, 1), FRENCH.number(-1.5, 1)] == ["\u22121.5", "\u22121,5"]
    assert [ENGLISH.share(0.873), FRENCH.share(0.873)] == ["87%", "87\u202f%"]
    assert [ENGLISH.time(0.0123), FRENCH.time(1.25)] == ["12\u00a0ms", "1,2\u00a0s"]
    assert [FRENCH.score(0.01639), FRENCH.score(12.345), FRENCH.score(2e-9)] == [
        "0,0164",
        "12,35",
        "2e\u221209",
    ]


@pytest.mark.parametrize(
    ("n", "english", "french"), [(0, "other", "one"), (1, "one", "one"), (2, "other", "other")]
)
def test_plurals_are_those_of_the_language(n: int, english: str, french: str):
    key = "home.documents"
    assert ENGLISH(key, n=n) == TEXTS["en"][f"{key}.{english}"].format(n=n)
    assert FRENCH(key, n=n) == TEXTS["fr"][f"{key}.{french}"].format(n=n)
