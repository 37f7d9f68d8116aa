from __future__ import annotations

import json
import subprocess
import sys

import pytest

from commands import ok, refusal


def test_each_step_is_a_row_with_its_output():
    shown = ok("analyze-text --analyzer french", "L'État d'aujourd'hui").stdout
    assert "nfkc|casefold|words|elision(french)|ligatures|stop(french)|snowball(french)" in shown
    rows = [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in shown.splitlines()
        if line.startswith("│")
    ]
    assert rows == [
        ["", "", "L'État d'aujourd'hui"],
        ["nfkc", "", "L'État d'aujourd'hui"],
        ["casefold", "", "l'état d'aujourd'hui"],
        ["words", "2", "l'état · d'aujourd'hui"],
        ["elision(french)", "2", "état · aujourd'hui"],
        ["ligatures", "2", "état · aujourd'hui"],
        ["stop(french)", "2", "état · aujourd'hui"],
        ["snowball(french)", "2", "état · aujourd'hui"],
    ]


def test_json_has_the_terms_and_every_step():
    record = json.loads(ok("analyze-text -a english --json", "The cats’ [b]tails[/b]").stdout)
    assert record["text"] == "The cats’ [b]tails[/b]"
    assert record["analyzer"] == "nfkc|casefold|words|possessive|stop(english)|snowball(porter)"
    assert record["terms"] == ["cat", "b", "tail", "b"]
    assert record["steps"][2] == {"step": "words", "output": ["the", "cats", "b", "tails", "b"]}
    assert record["steps"][-1]["output"] == record["terms"]


def test_a_dash_reads_lines_of_standard_input():
    lines = ok("analyze-text --json - Last", stdin=b"One\n\nTwo words\r\n").stdout.splitlines()
    assert [(record["text"], record["terms"]) for record in map(json.loads, lines)] == [
        ("One", ["one"]),
        ("", []),
        ("Two words", ["two", "words"]),
        ("Last", ["last"]),
    ]


def test_markup_in_a_text_is_text():
    assert "[red]alarm[/red]" in ok("analyze-text [red]alarm[/red] -a none").stdout


def test_an_unknown_analyzer_is_refused():
    assert refusal("analyze-text -a frensh texte") == (
        "telerank: unknown step 'frensh'; did you mean 'french'?"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="arguments are no bytes there")
def test_an_argument_that_is_no_utf8_is_shown_escaped():
    command = [sys.executable, "-m", "telerank", "analyze-text", "--json", b"caf\xe9"]
    printed = subprocess.run(command, capture_output=True, check=True).stdout
    assert json.loads(printed)["text"] == "caf\\udce9"
