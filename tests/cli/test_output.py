"""Where results go: new folders, devices, full disks, terminals that lack characters, other writers."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from commands import ok, refusal, typed
from telerank.drafts import open_draft

WRITING = (
    "search idx set",
    "fuse a.run b.run",
    "evaluate set a.run",
    "compare set a.run b.run --baseline a",
)
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


@pytest.fixture
def folder(small_set, monkeypatch):
    monkeypatch.chdir(small_set)
    return small_set


def with_files_of(size: int, command: str):
    """How a command ends that may write files of ``size`` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        return typed(command)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("command", WRITING)
def test_a_device_gets_the_result_and_nothing_is_written_beside_it(folder, command):
    Path("null").symlink_to(os.devnull)
    before = sorted(folder.iterdir())
    assert "settings in" not in ok(f"{command} -o null").stderr
    assert sorted(folder.iterdir()) == before
    assert Path("null").is_symlink()
    Path("null").unlink()


@pytest.mark.parametrize("command", WRITING)
def test_a_full_disk_names_the_file(folder, command):
    failed = typed(f"{command} -o /dev/full")
    assert (failed.status, failed.stderr) == (2, "telerank: /dev/full: No space left on device\n")
    before = sorted(folder.iterdir())
    failed = with_files_of(5, f"{command} -o x.txt")
    assert (failed.status, failed.stderr) == (2, "telerank: x.txt: File too large\n")
    assert sorted(folder.iterdir()) == before


def test_a_run_whose_record_cannot_be_written_has_no_old_one(folder):
    ok("fuse a.run b.run -k 1 -o fused.run")
    size = Path("fused.run").stat().st_size
    assert Path("fused.run.json").stat().st_size > size
    failed = with_files_of(size + 50, "fuse a.run b.run -k 1 -o fused.run --method rrf")
    assert failed.stderr == "telerank: fused.run.json: File too large\n"
    assert not Path("fused.run.json").exists()


@pytest.mark.parametrize("command", WRITING)
def test_a_file_that_is_being_written_is_left_alone(folder, command):
    with open_draft(Path("busy.txt")) as file:
        file.write(b"mine")
        failed = typed(f"{command} -o busy.txt")
        assert failed.stderr == "telerank: busy.txt: another process is writing it\n"
    assert Path("busy.txt").read_bytes() == b"mine"
    Path("busy.txt").unlink()


@pytest.mark.parametrize("command", FILES)
def test_the_folder_of_a_file_is_made(command, folder, tmp_path):
    file = tmp_path / f"new/out.{'svg' if command.endswith('--plot') else 'txt'}"
    ok(command, file)
    assert file.stat().st_size > 0


@pytest.mark.parametrize("command", FOLDERS)
def test_a_folder_is_made_in_a_folder_that_is_made(command, folder, tmp_path):
    ok(command, tmp_path / "new/out")
    assert any((tmp_path / "new/out").iterdir())


@pytest.mark.parametrize("command", FILES)
def test_a_mistyped_path_is_refused_before_the_work(command, folder, tmp_path):
    path = tmp_path / f"mistyped/new/out.{'svg' if command.endswith('--plot') else 'txt'}"
    said = refusal(command.replace("a.run", "no.run"), path)
    assert said == f"telerank: {Path(path).parent}: No such file or directory"
    assert not (tmp_path / "mistyped").exists()


SHOWN = """
import sys
from telerank.cli.main import main
for words in (
    ("search", "idx", "-q", "日本語 café"),
    ("search", "idx", "-q", "日本語 café", "--explain"),
    ("search", "idx", "-q", "日本語 café", "--json"),
    ("analyze-text", "日本語 café"),
    ("pipeline", "save", "idx", "é", "bm25 % 3"),
    ("pipeline", "ls", "idx"),
    ("pipeline", "show", "idx", "é"),
    ("fuse", "é.run", "a.run"),
):
    sys.argv = ["telerank", *words]
    try:
        main()
    except SystemExit as ended:
        print("end", ended.code or 0, flush=True)
"""


@pytest.mark.process
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_what_a_terminal_cannot_show_is_escaped(tmp_path, encoding):
    def escaped(text: str) -> str:
        return text.encode(encoding, "backslashreplace").decode(encoding)

    docs = ("le café où l’été naît", "日本語 café ·")
    lines = (json.dumps({"docno": f"d{n}", "text": text}) + "\n" for n, text in enumerate(docs))
    (tmp_path / "docs.jsonl").write_text("".join(lines))
    ok("index", tmp_path / "docs.jsonl", tmp_path / "idx")
    ran = subprocess.run(
        [sys.executable, "-c", SHOWN],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        encoding=encoding,
        check=True,
    )
    answer, explained, in_json, *others, last = ran.stdout.split("end ")
    for text in (answer, explained.removeprefix("0\n")):
        assert text.startswith(escaped("日本語 café\n"))
        assert escaped("l’été naît") in text
    assert json.loads(in_json.removeprefix("0\n"))["query"] == "日本語 café"
    assert all(other.startswith("0\n") for other in others)
    assert last == "2\n"
    (line,) = (line for line in ran.stderr.splitlines() if line.startswith("telerank: "))
    assert line.startswith(escaped("telerank: é.run: no such file"))
