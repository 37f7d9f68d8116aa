from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from commands import ok
from small_set import write_small_set, write_three_runs


@pytest.fixture(scope="session")
def small_set(tmp_path_factory) -> Path:
    """The files of :func:`small_set.write_small_set`, and an index ``idx`` with a pipeline ``best``."""
    folder = tmp_path_factory.mktemp("small")
    write_small_set(folder)
    ok("index", folder / "set", folder / "idx")
    ok("pipeline save", folder / "idx", "best", "bm25")
    return folder


@pytest.fixture(scope="session")
def written_runs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    write_three_runs(folder)
    return folder


@pytest.fixture
def three_runs(written_runs, tmp_path, monkeypatch) -> Path:
    """A folder with the files of :func:`small_set.write_three_runs`, which is the working folder."""
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(written_runs, tmp_path, dirs_exist_ok=True)
