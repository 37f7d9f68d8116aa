"""Every command makes the folder of its output, unless more than the last folder of the path is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from small_set import write_small_set
from telerank.cli.main import main

FILES = {
    "search": "search idx set -o",
    "fuse": "fuse a.run b.run -o",
    "evaluate": "evaluate set a.run -o",
    "evaluate --json": "evaluate set a.run --json -o",
    "compare": "compare set a.run b.run -o",
    "combine": "combine set a.run b.run -o",
    "depth": "depth set a.run -r b.run --depths 1,2 -o",
    "consistency": "consistency a.run b.run --depths 1,2 -o",
    "tune": "tune idx set --model bm25 --folds 2 -o",
    "tune-fusion": "tune-fusion set a.run b.run --folds 2 -o",
}
PLOTS = {
    "depth": "depth set a.run -r b.run --depths 1,2 --plot",
    "tune-fusion": "tune-fusion set a.run b.run --folds 2 --plot",
}
FOLDERS = {
    "index": "index set",
    "convert": "data convert set --to beir",
    "plots": "data stats set --plots",
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    write_small_set(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert status(patch, "index set idx") == 0
    return folder


@pytest.fixture
def folder(prepared, monkeypatch, tmp_path):
    monkeypatch.chdir(prepared)
    return tmp_path


def status(patch, command: str) -> int:
    patch.setattr(sys, "argv", ["telerank", *command.split()])
    with pytest.raises(SystemExit) as stopped:
        main()
    return stopped.value.code or 0


@pytest.mark.parametrize("command", FILES.values(), ids=FILES)
def test_the_folder_of_a_file_is_made(command, folder, monkeypatch):
    assert status(monkeypatch, f"{command} {folder}/new/out.txt") == 0
    assert (folder / "new/out.txt").stat().st_size > 0


@pytest.mark.parametrize("command", PLOTS.values(), ids=PLOTS)
def test_the_folder_of_a_plot_is_made(command, folder, monkeypatch):
    assert status(monkeypatch, f"{command} {folder}/new/out.svg") == 0
    assert (folder / "new/out.svg").stat().st_size > 0


@pytest.mark.parametrize("command", FOLDERS.values(), ids=FOLDERS)
def test_a_folder_is_made_in_a_folder_that_is_made(command, folder, monkeypatch):
    assert status(monkeypatch, f"{command} {folder}/new/out") == 0
    assert any((folder / "new/out").iterdir())


@pytest.mark.parametrize(
    "command", [*FILES.values(), *PLOTS.values()], ids=[*FILES, *(f"{name} --plot" for name in PLOTS)]
)
def test_a_mistyped_path_is_refused_before_the_work(command, folder, monkeypatch, capsys):
    path = f"{folder}/mistyped/new/out.svg"
    assert status(monkeypatch, f"{command.replace('a.run', 'no.run')} {path}") == 2
    assert capsys.readouterr().err == f"telerank: {Path(path).parent}: No such file or directory\n"
    assert not (folder / "mistyped").exists()
