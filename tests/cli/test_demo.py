"""``telerank demo``: needs nothing, shows the tables, writes the report, says what comes next."""

from __future__ import annotations

import json
import resource
import shlex
import subprocess
import sys
from importlib.util import find_spec

import pytest
from sparse_task import plan, task
from typer.testing import CliRunner

import telerank
import telerank.cli.demo as demo_command
from documents import DEMO, ROOT, is_shown, steps
from telerank.cli.main import app
from telerank.recipes import head
from telerank.recipes.sparse import Parts, run_plan
from telerank.types import silent

ANSWER = "Gutenberg"


NEURAL = bool(find_spec("torch") and find_spec("transformers"))
INSTALL = "- pip install 'telerank[neural,minilm]' adds vectors, fusion and a re-ranker."


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """The output of a demo of few questions with a model of few weights, and its folder."""
    folder = tmp_path_factory.mktemp("demo") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_command, "_DEV", 20)
        patch.setattr(demo_command, "_TEST", 60)
        if NEURAL:
            from small_models import small_encoder

            patch.setattr(demo_command, "_MODEL", str(small_encoder(folder.parent / "small-bert")))
            patch.setattr(head, "LENGTH", 48)  # of the 66 positions that it has
        result = CliRunner().invoke(app, ["demo", "--output", str(folder)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result, folder


def test_it_says_what_it_works_on(shown):
    said = shown[0].stderr
    assert "PIAF v1.1, 1,518 paragraphs, 7,569 questions" in said
    assert "20 questions choose the parameters, 60 others measure" in said


def test_it_shows_the_four_tables(shown):
    text = shown[0].stdout
    captions = (
        "R@k of the tuned models, analyzer french",
        "AP@k of the tuned models, analyzer french",
        "With and without preprocessing, at defaults and tuned",
        "Tuned by AP@15",
    )
    places = [text.index(caption) for caption in captions]
    assert places == sorted(places)
    for model in ("BM25", "LMDirichlet", "LMJelinekMercer", "DFR", "DFI"):
        assert text.count(f"\n {model} ") >= 6
    assert "Preprocessing: AP@15 of BM25 at its defaults is" in text


@pytest.mark.skipif(not NEURAL, reason="the extra neural is not installed")
def test_vectors_and_fusions_stand_beside_the_words(shown):
    result, folder = shown
    text = result.stdout
    table = text[text.index("Dense vectors, and both together") : text.index("Re-ranked by a head on")]
    rows = ("BM25 tuned", "MiniLM", "in turns, BM25 tuned first", "reciprocal ranks")
    assert [table.count(f"\n {row} ") for row in rows] == [1, 1, 1, 1]
    assert "60 questions, Holm's correction over the 16 tests" in " ".join(table.split())
    assert "the best of 11 on the 20 questions that choose" in " ".join(table.split())
    assert "- MiniLM was trained on English; these texts are French." in text
    assert INSTALL not in text
    figures = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert [one["name"] for one in figures["fused"]["systems"]][:4] == list(rows)
    means = {one["name"]: one["means"] for one in figures["systems"]}
    for name, value in figures["fused"]["systems"][0]["means"].items():
        assert value == means["bm25 tuned, french"][name]
    assert "What vectors add to words" in (folder / "report.html").read_text(encoding="utf-8")
    assert (folder / "indexes" / "french" / "vectors" / "small-bert" / "manifest.json").is_file()


@pytest.mark.skipif(not NEURAL, reason="the extra neural is not installed")
def test_a_head_is_trained_and_measured_beside_its_first_stage(shown):
    result, folder = shown
    table = result.stdout[result.stdout.index("Re-ranked by a head on") :]
    rows = ("BM25 tuned", "BERT-DMN-lite", "both, summed")
    assert [table.count(f"\n {row} ") for row in rows] == [1, 1, 1]
    assert "Learned from 160 questions" in table
    figures = json.loads((folder / "report.json").read_text(encoding="utf-8"))["head"]
    assert [one["name"] for one in figures["systems"]] == list(rows)
    assert "What a re-ranker makes of the first ten" in (folder / "report.html").read_text(encoding="utf-8")
    assert (folder / "reranker" / "model" / "reranker.json").is_file()


def test_where_the_extras_are_missing_one_line_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    questions = task(60)
    measures = [f"{name}@{depth}" for name in ("R", "AP") for depth in demo_command._DEPTHS]
    outcome = run_plan(questions, plan(held_out=Parts(10), measures=measures), folder=tmp_path)
    assert demo_command._fused(questions, outcome, tmp_path / "folded", silent) is None
    demo_command._show(outcome, None, None)
    said = capsys.readouterr().out
    assert said.splitlines()[-1] == INSTALL
    assert "Dense" not in said


def test_no_line_is_wider_than_a_terminal_of_80_columns_but_commands_and_paths(shown):
    wide = [line for line in shown[0].stdout.splitlines() if len(line) > 80]
    assert all(line.startswith(("  telerank ", "That took ")) for line in wide)


def test_the_report_and_its_figures_are_written(shown):
    _, folder = shown
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count('<img src="data:image/svg+xml;base64,') == 2
    assert "PIAF v1.1: 1,518 paragraphs, 7,569 questions" in page
    assert "<dt>Licence</dt><dd>MIT</dd>" in page
    figures = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert figures["questions"] == {"dev": 20, "test": 60}
    assert len(figures["systems"]) == 20
    assert [f"R@{k}" in figures["systems"][0]["means"] for k in (1, 3, 5, 7, 9, 11, 13, 15)] == [True] * 8


def test_preprocessing_finds_more(shown):
    figures = json.loads((shown[1] / "report.json").read_text(encoding="utf-8"))
    means = {one["name"]: one["means"]["AP@15"] for one in figures["systems"]}
    assert means["bm25 default, french"] > 1.15 * means["bm25 default, none"]


def test_what_it_says_to_type_next_works(shown):
    result, folder = shown
    lines = [line.strip() for line in result.stdout.splitlines() if line.startswith("  telerank search")]
    program, *arguments = shlex.split(lines[0])
    assert (program, arguments[1]) == ("telerank", str(folder / "indexes" / "french"))
    found = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert found.exit_code == 0
    assert ANSWER in found.stdout
    assert len(telerank.open(folder / "indexes" / "french")) == 1518


def test_a_folder_that_holds_something_else_is_not_touched(tmp_path):
    (tmp_path / "indexes" / "french").mkdir(parents=True)
    (tmp_path / "indexes" / "french" / "letter.txt").write_text("mine")
    program = "from telerank.cli.main import main; main()"
    run = [sys.executable, "-c", program, "demo", "-o", str(tmp_path)]
    failed = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert "indexes/french" in failed.stderr.splitlines()[-1]
    assert (tmp_path / "indexes" / "french" / "letter.txt").read_text() == "mine"


@pytest.mark.slow
def test_the_whole_of_it_takes_some_minutes(tmp_path):
    """CPU time of a machine that others use, too; numba compiles anew. Vectors take 110 s of one core."""
    program = "from telerank.cli.main import main; main()"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {
        "PATH": "",
        "OMP_NUM_THREADS": "1",
        "NUMBA_CACHE_DIR": str(tmp_path / "numba"),
        "HOME": str(tmp_path),
    }
    run = [sys.executable, "-c", program, "demo"]
    done = subprocess.run(
        run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, encoding="utf-8"
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    taken = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert taken < (480 if NEURAL else 120)
    assert "The report: telerank-demo/report.html" in done.stdout
    figures = json.loads((tmp_path / "telerank-demo/report.json").read_text(encoding="utf-8"))
    means = {one["name"]: one["means"] for one in figures["systems"]}
    assert means["bm25 default, french"]["R@1"] == pytest.approx(0.690, abs=0.001)
    assert means["bm25 default, none"]["R@1"] == pytest.approx(0.467, abs=0.001)
    assert means["dfr tuned, french"]["AP@15"] > means["bm25 default, french"]["AP@15"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    (step,) = steps(readme, DEMO)
    printed = [line.rstrip() for line in (done.stderr + done.stdout).splitlines()]
    assert is_shown(readme[step.shown], printed), "the README shows another demo (make docs renews it)"
