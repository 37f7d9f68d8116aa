from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from telerank.cli.main import app

FRENCH = "nfkc|casefold|words|elision(french)|ligatures|stop(french)|snowball(french)"


def analyze(*arguments: str, stdin: str = "") -> str:
    result = CliRunner().invoke(app, ["analyze-text", *arguments], input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def command(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    program = "from telerank.cli.main import main; main()"
    run = [sys.executable, "-c", program, "analyze-text", *arguments]
    return subprocess.run(run, input=stdin, capture_output=True, check=False)


def test_each_step_is_a_row_with_its_output():
    shown = analyze("--analyzer", "french", "L'État d'aujourd'hui")
    assert FRENCH in shown
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
    made = json.loads(analyze("-a", "english", "--json", "The cats’ [b]tails[/b]"))
    assert made["text"] == "The cats’ [b]tails[/b]"
    assert made["analyzer"] == "nfkc|casefold|words|possessive|stop(english)|snowball(porter)"
    assert made["terms"] == ["cat", "b", "tail", "b"]
    assert made["steps"][2] == {"step": "words", "output": ["the", "cats", "b", "tails", "b"]}
    assert made["steps"][-1]["output"] == made["terms"]


def test_a_dash_reads_lines_of_standard_input():
    made = [
        json.loads(line) for line in analyze("--json", "-", "Last", stdin="One\n\nTwo words\r\n").splitlines()
    ]
    assert [(record["text"], record["terms"]) for record in made] == [
        ("One", ["one"]),
        ("", []),
        ("Two words", ["two", "words"]),
        ("Last", ["last"]),
    ]


def test_markup_in_a_text_is_text():
    assert "[red]alarm[/red]" in analyze("[red]alarm[/red]", "-a", "none")


def test_an_unknown_analyzer_is_one_line_and_status_2():
    done = command("-a", "frensh", "texte")
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.decode().startswith("telerank: unknown step 'frensh'; known: nfc, nfkc")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="arguments are no bytes there")
def test_an_argument_that_is_no_utf8_is_shown_escaped():
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from telerank.cli.main import main; main()",
            b"analyze-text",
            b"--json",
            b"caf\xe9",
        ],
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout)["text"] == "caf\\udce9"


def test_help_has_an_example():
    assert "telerank analyze-text --analyzer french" in analyze("--help")
