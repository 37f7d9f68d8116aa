"""Names that do not exist, as they are typed: the nearest one is named, never a list of forty."""

from __future__ import annotations

from pathlib import Path

import pytest

import telerank as tr
from commands import ok, typed
from telerank.cli.console import as_options
from telerank.errors import CollectionError, agree, count_noun
from telerank.show.progress import show_progress

NAMES = {
    "serach idx -q x": "No such command 'serach'; did you mean 'search'?",
    "index biuld set idx": "No such command 'biuld'; did you mean 'build'?",
    "data sho set": "did you mean 'show'?",
    "train monobert": "No such command 'monobert'; known: fine-tune, bi-encoder, splade, late-interaction, term-weights, reranker, reader, mlm, expander, lengthen, trim, pack",
    "train reranker piaf/gird": "did you mean 'piaf/grid'?",
    "train reranker wrong.yaml": "not 'data.colection'; did you mean 'collection'?",
    "inspect diffuson set m": "did you mean 'diffusion'?",
    "experiment repbert/tabel1": "no experiment 'repbert/tabel1'; did you mean 'repbert/table1'?",
    "search idx set --modle bm25": "'--model'?",
    "search idx set --model bm52": "unknown name 'bm52'; did you mean 'bm25'?",
    "search idx set --model 'bm25(kk1=1)'": "did you mean 'k1'?",
    "search idx set --model 'bm25 >> rerank(my-rerankr)'": "did you mean 'my-reranker'?",
    "search idx set --model 'run(a.rnu)'": "a.rnu: no such file; did you mean 'a.run'?",
    "search ixd set": "no index here (manifest.json is missing); did you mean 'idx'?",
    "search idx ste": "did you mean 'set'?",
    "search idx scifcat": "did you mean 'scifact'?",
    "index set new --analyzer frensh": "unknown step 'frensh'; did you mean 'french'?",
    "index set new --format beri": "unknown format 'beri'; did you mean 'beir'?",
    "evaluate set a.run -m nDGC@10": "there is no measure 'nDGC'; did you mean 'nDCG'?",
    "evaluate set a.rnu": "a.rnu: no such file; did you mean 'a.run'?",
    "compare set a.run b.run -b aa": "there is no run 'aa'; did you mean 'a'?",
    "tune idx set --model bm52": "unknown model 'bm52'; did you mean 'bm25'?",
}  # fmt: skip


@pytest.fixture
def folder(small_set, tmp_path_factory, monkeypatch):
    monkeypatch.chdir(small_set)
    others = tmp_path_factory.mktemp("others")
    (others / "my-reranker").mkdir()
    (others / "scifact").mkdir()
    monkeypatch.setenv("TELERANK_MODELS", str(others))
    monkeypatch.setenv("TELERANK_DATA", str(others))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    Path("wrong.yaml").write_text("data: {colection: set}\n")
    return small_set


@pytest.mark.parametrize(("command", "says"), NAMES.items(), ids=NAMES)
def test_the_nearest_name_is_named(folder, command, says):
    printed = typed(command)
    assert printed.status == 2
    assert says in printed.stderr
    assert len(printed.stderr) < 700


def test_a_collection_is_found_by_its_name_in_the_folders_of_the_variable(folder, monkeypatch, tmp_path):
    expected = ok("data ls set").stdout
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TELERANK_DATA", f"{tmp_path / 'nowhere'}:{folder}")
    assert ok("data ls set").stdout == expected
    ok("index set found")
    ok("search found set -o found.run")
    ok("evaluate set found.run -m AP")
    assert tr.collection("set").name == "set"
    with pytest.raises(CollectionError, match=r"\./set: no such file or folder"):
        tr.collection("./set")


def test_a_message_names_arguments_as_python_does_and_options_in_commands(folder):
    ok("index set new")
    with pytest.raises(tr.TelerankError, match=r"overwrite it \(overwrite=True\)"):
        tr.index(["other"], "new", progress=False)
    assert "overwrite it (--overwrite)" in typed("index set new --analyzer none").stderr
    assert as_options('encoding="latin-1", dev=…, k1=0.9') == "--encoding latin-1, --dev, k1=0.9"


def test_an_interruption_says_what_is_kept_and_goes_on_as_one():
    with pytest.raises(KeyboardInterrupt) as interrupt, show_progress(False, kept="all"):
        raise KeyboardInterrupt
    assert interrupt.value.__notes__ == ["interrupted: all"]


def test_counts_agree_with_their_nouns():
    counted = [f"{count_noun(n, 'query')} {agree(n, 'is', 'are')}" for n in (0, 1, 2000)]
    assert counted == ["0 queries are", "1 query is", "2,000 queries are"]
    assert count_noun(2, "day") == "2 days"
