"""Searching by segments: what won is printed, what was cut is said once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import ok, refusal
from long_texts import said
from small_rerankers import small_reranker
from telerank.models.rerankers.reranker import save_reranker
from telerank.sparse.writer import build_index
from telerank.types import Doc

DOCS = [Doc(f"d{n}", said(120, every=7, seed=n), "x1") for n in range(3)]
QUERY = "search idx --query 'q1 q2 d1' --model"
BEST = f"{QUERY} \"bm25 % 2 >> maxp(rerank('./mono'), window=best)\""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    build_index(DOCS, folder / "idx", analyzer="standard", workers=1)
    save_reranker(small_reranker(folder), folder / "mono")
    (folder / "topics.tsv").write_text("1\tq1 q2 d1\n2\tq3 x4 d5\n")
    return folder


@pytest.fixture(autouse=True)
def folder(prepared, monkeypatch):
    monkeypatch.chdir(prepared)


def test_the_winning_segment_is_printed_with_its_characters():
    shown = ok(f"{BEST} --show-segment").stdout
    heads = [line for line in shown.splitlines() if ": segment " in line]
    assert len(heads) == 2
    assert all(", characters " in head and ", score " in head for head in heads)
    first = json.loads(ok(f"{BEST} --show-segment --json").stdout)["ranking"][0]
    segment = first["segment"]
    assert segment["text"] == first["text"][slice(*segment["span"])]
    assert segment["text"] in shown


def test_a_pipeline_without_segments_has_none_to_show():
    assert "no stage of it scores segments" in refusal(f"{QUERY} bm25 --show-segment")


def test_what_a_run_cut_is_said_once_and_kept_in_its_record():
    command = "search idx --queries topics.tsv --model \"bm25 % 2 >> firstp(rerank('./mono'))\" -o a.run"
    (line,) = (line for line in ok(command).stderr.splitlines() if "cut there" in line)
    assert "documents longer than 1 segment: cut there" in line
    assert json.loads(Path("a.run.json").read_text())["remarks"] == [line]


def test_a_plain_reranker_says_what_it_cut():
    printed = ok(f"{QUERY} \"bm25 % 2 >> rerank('./mono')\"")
    assert "2 pairs longer than 48 tokens: cut there" in printed.stderr


def test_an_explanation_names_the_winning_segment_of_a_long_document_and_the_parts_of_its_score():
    shown = ok(f"{BEST} --explain").stdout
    segment = json.loads(ok(f"{BEST} --explain --show-segment --json").stdout)["ranking"][0]["segment"]
    start, end = segment["span"]
    winner = next(line for line in shown.splitlines() if "which counts most" in line).split()
    named = f"segment {segment['number'] + 1} of {segment['count']}, characters {start} to {end}:"
    assert " ".join(winner[1:]).startswith(named)
    assert float(winner[0]) == pytest.approx(segment["score"], rel=1e-4)
    flat = " ".join(shown.split())
    assert f"the greatest of {segment['count']} segments by" in flat
    assert "what single sentences add, in all" in flat
    assert ": without it" in flat
