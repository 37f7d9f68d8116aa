"""Every command makes the folder of its output, unless more than the last folder of the path is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import ok, refusal
from small_set import write_small_set

FILES = (
    "search idx set -o",
    "fuse a.run b.run -o",
    "evaluate set a.run -o",
    "evaluate set a.run --json -o",
    "compare set a.run b.run -m RR -o",
    "combine set a.run b.run -m RR -o",
    "depth set a.run -r b.run --depths 1,2 -o",
    "consistency a.run b.run --depths 1,2 -o",
    "tune idx set --model bm25 --folds 2 -o",
    "tune-fusion set a.run b.run --folds 2 -o",
    "depth set a.run -r b.run --depths 1,2 --plot",
    "tune-fusion set a.run b.run --folds 2 --plot",
)
FOLDERS = ("index set", "data convert set --to beir", "data stats set --plots")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    write_small_set(folder)
    ok("index", folder / "set", folder / "idx")
    return folder


@pytest.fixture
def folder(prepared, monkeypatch, tmp_path):
    monkeypatch.chdir(prepared)
    return tmp_path


@pytest.mark.parametrize("command", FILES)
def test_the_folder_of_a_file_is_made(command, folder):
    ok(command, folder / "new/out.svg")
    assert (folder / "new/out.svg").stat().st_size > 0


@pytest.mark.parametrize("command", FOLDERS)
def test_a_folder_is_made_in_a_folder_that_is_made(command, folder):
    ok(command, folder / "new/out")
    assert any((folder / "new/out").iterdir())


@pytest.mark.parametrize("command", FILES)
def test_a_mistyped_path_is_refused_before_the_work(command, folder):
    path = folder / "mistyped/new/out.svg"
    said = refusal(command.replace("a.run", "no.run"), path)
    assert said == f"telerank: {Path(path).parent}: No such file or directory"
    assert not (folder / "mistyped").exists()
