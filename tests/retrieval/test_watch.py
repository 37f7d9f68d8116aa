"""An index follows a folder: updates when files have settled, told once what is broken, stopped whole."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("watchfiles")

import telerank as tr
from telerank.errors import ArgumentError, CollectionError, IndexFault, IndexLocked, UnreadFiles, UpdateFailed
from telerank.retrieval import watch

WAIT = 0.2


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder of two files, indexed in ``idx`` beside it."""
    folder = tmp_path / "files"
    folder.mkdir()
    for name in ("a.md", "b.md"):
        (folder / name).write_text(f"text of {name}")
    tr.index(tr.collection(folder), tmp_path / "idx", workers=1, progress=False)
    return folder


def follow(files: Path, **settings):
    return closing(tr.open(files.with_name("idx")).watch(files, workers=1, **{"wait": WAIT, **settings}))


def texts(files: Path) -> set[str]:
    return {doc.text for doc in tr.open(files.with_name("idx")).docs.values()}


@contextmanager
def later(change, seconds: float = 0.1) -> Iterator[None]:
    """Make a change while the watcher waits."""
    timer = threading.Timer(seconds, change)
    timer.start()
    yield
    timer.join()


@pytest.mark.process
@pytest.mark.parametrize("poll", [None, 0.1])
def test_files_that_are_added_changed_renamed_and_removed_are_followed(files, poll):
    changes = [
        (lambda: (files / "c.md").write_text("new"), {"added": ("c.md",)}),
        (lambda: (files / "a.md").write_text("changed"), {"changed": ("a.md",)}),
        (lambda: (files / "b.md").rename(files / "d.md"), {"moved": {"d.md": "b.md"}}),
        ((files / "c.md").unlink, {"gone": ("c.md",)}),
    ]
    with follow(files, poll=poll) as watched:
        assert len(next(watched).unchanged) == 2
        for change, expected in changes:
            with later(change):
                update = next(watched)
            assert {name: getattr(update, name) for name in expected} == expected
    assert texts(files) == {"changed", "text of b.md"}


@pytest.mark.process
def test_a_file_that_is_being_written_is_waited_for_and_others_do_not_matter(files):
    def write() -> None:
        (files / ".hidden.md").write_text("x")
        (files / "notes.tmp").write_text("x")
        with (files / "c.md").open("w") as file:
            for number in range(12):
                file.write(f"line {number}\n")
                file.flush()
                time.sleep(WAIT / 2)

    with follow(files, wait=5 * WAIT) as watched:
        next(watched)
        with later(write):
            assert next(watched).added == ("c.md",)
    assert any("line 0" in text and "line 11" in text for text in texts(files))


@pytest.mark.process
def test_a_broken_file_is_named_once_and_a_failure_is_survived(files, monkeypatch):
    monkeypatch.setattr(watch, "_RETRY", 0.1)
    away = files.with_name("away")
    (files / "broken.pdf").write_bytes(b"%PDF-1.4 no more")

    def come_back() -> None:
        away.rename(files)
        (files / "d.md").write_text("back")

    with warnings.catch_warnings(record=True) as caught, follow(files) as watched:
        warnings.simplefilter("always")
        assert next(watched).added == ("broken.pdf",)
        with later(lambda: (files / "c.md").write_text("new")):
            assert next(watched).added == ("c.md",)
        with later(lambda: files.rename(away)), later(come_back, 1):
            assert next(watched).added == ("d.md",)
    told = [str(warning.message) for warning in caught if issubclass(warning.category, UnreadFiles)]
    assert len(told) == 1
    assert "broken.pdf" in told[0]
    failures = [str(warning.message) for warning in caught if issubclass(warning.category, UpdateFailed)]
    assert len(failures) == len(set(failures)) >= 1
    assert "not updated, tried again" in failures[0]
    assert "back" in texts(files)


def test_a_second_watcher_and_what_cannot_be_followed_are_refused(files, tmp_path):
    with follow(files) as watched:
        next(watched)
        with follow(files) as second, pytest.raises(IndexLocked, match="another process watches a folder"):
            next(second)
        tr.open(tmp_path / "idx").add([tr.Doc("own", "not of a file")])  # others may write meanwhile
    with follow(files) as again:
        assert len(next(again).unchanged) == 2
    with follow(tmp_path / "nothing") as watched, pytest.raises(CollectionError, match="nothing: no such"):
        next(watched)
    plain = tr.index({"1": "x"}, tmp_path / "plain", progress=False)
    with (
        closing(plain.watch(files, wait=WAIT)) as watched,
        pytest.raises(IndexFault, match="was not made from"),
    ):
        next(watched)
    with pytest.raises(ArgumentError, match="wait: expected seconds above 0"):
        plain.watch(files, wait=0)


@pytest.mark.process
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_command_prints_each_update_and_ends_with_whole_files(files, number, status):
    command = [
        sys.executable,
        "-m",
        "telerank",
        "index",
        "watch",
        files,
        files.with_name("idx"),
        "--wait",
        "0.2",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as watched:
        assert "0 added, 0 changed, 0 moved, 0 gone, 2 unchanged" in watched.stderr.readline()
        (files / "c.md").write_text("new")
        assert "1 added, 0 changed, 0 moved, 0 gone, 2 unchanged" in watched.stderr.readline()
        for name in range(100):
            (files / f"{name}.md").write_text(f"text {name}")
        time.sleep(0.5)  # it may be updating
        watched.send_signal(number)
        assert watched.wait(60) == status
    index = tr.open(files.with_name("idx"))
    index.verify(progress=False)
    assert len(index) in (3, 103)
    index.update(files, progress=False)
    assert len(tr.open(files.with_name("idx"))) == 103
