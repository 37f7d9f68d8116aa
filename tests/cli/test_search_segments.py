"""Searching by segments: what won is printed, what was cut is said once."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from long_texts import said
from small_rerankers import small_reranker
from telerank.cli.main import app
from telerank.models.rerankers.reranker import save_reranker
from telerank.sparse.writer import build_index
from telerank.types import Doc

DOCS = [Doc(f"d{n}", said(120, every=7, seed=n), "x1") for n in range(3)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    build_index(DOCS, folder / "idx", analyzer="standard", workers=1)
    save_reranker(small_reranker(folder), folder / "mono")
    (folder / "topics.tsv").write_text("1\tq1 q2 d1\n2\tq3 x4 d5\n")
    return folder


def run(*arguments: object):
    return CliRunner().invoke(app, ["search", *map(str, arguments)])


def test_the_winning_segment_is_printed_with_its_characters(place):
    model = f"bm25 % 2 >> maxp(rerank('{place / 'mono'}'), window=best)"
    result = run(place / "idx", "--query", "q1 q2 d1", "--model", model, "--show-segment")
    assert result.exit_code == 0, result.output
    heads = [line for line in result.stdout.splitlines() if ": segment " in line]
    assert len(heads) == 2
    assert all(", characters " in head and ", score " in head for head in heads)
    shown = json.loads(
        run(place / "idx", "--query", "q1 q2 d1", "--model", model, "--show-segment", "--json").stdout
    )
    segment = shown["ranking"][0]["segment"]
    assert segment["text"] == shown["ranking"][0]["text"][slice(*segment["span"])]
    assert segment["text"] in result.stdout


def test_a_pipeline_without_segments_has_none_to_show(place):
    result = run(place / "idx", "--query", "q1", "--model", "bm25", "--show-segment")
    assert result.exit_code != 0
    assert "no stage of it scores segments" in str(result.output) + str(result.exception)


def test_what_a_run_cut_is_said_once_and_kept_in_its_record(place):
    model = f"bm25 % 2 >> firstp(rerank('{place / 'mono'}'))"
    result = run(place / "idx", "--topics", place / "topics.tsv", "--model", model, "-o", place / "a.run")
    assert result.exit_code == 0, result.output
    (line,) = (line for line in result.stderr.splitlines() if "cut there" in line)
    assert "documents longer than 1 segment: cut there" in line
    assert json.loads((place / "a.run.json").read_text())["remarks"] == [line]


def test_a_plain_reranker_says_what_it_cut(place):
    model = f"bm25 % 2 >> rerank('{place / 'mono'}')"
    result = run(place / "idx", "--query", "q1 q2 d1", "--model", model)
    assert "2 pairs longer than 48 tokens: cut there" in result.stderr


def test_an_explanation_names_the_winning_segment_of_a_long_document_and_the_parts_of_its_score(place):
    model = f"bm25 % 2 >> maxp(rerank('{place / 'mono'}'), window=best)"
    arguments = (place / "idx", "--query", "q1 q2 d1", "--model", model, "--explain")
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    flat = " ".join(result.stdout.split())
    segment = json.loads(run(*arguments, "--show-segment", "--json").stdout)["ranking"][0]["segment"]
    start, end = segment["span"]
    winner = next(line for line in result.stdout.splitlines() if "which counts most" in line).split()
    named = f"segment {segment['number'] + 1} of {segment['count']}, characters {start} to {end}:"
    assert " ".join(winner[1:]).startswith(named)
    assert float(winner[0]) == pytest.approx(segment["score"], rel=1e-4)
    assert f"the greatest of {segment['count']} segments by" in flat
    assert "what single sentences add, in all" in flat
    assert ": without it" in flat
