"""Where results go: devices, full disks, terminals that lack characters, other writers."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from commands import ok, typed
from telerank.drafts import open_draft

DOCS = [{"docno": "d1", "text": "le café où l’été naît"}, {"docno": "d2", "text": "日本語 café ·"}]
RUN = "".join(f"q{n} Q0 d{m} {m} {3 - m} t\n" for n in range(3) for m in (1, 2))
WRITING = (
    "search idx --topics queries.tsv",
    "fuse a.run b.run",
    "evaluate qrels.txt a.run",
    "compare qrels.txt a.run b.run --baseline a",
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("output")
    (folder / "docs.jsonl").write_text("".join(f"{json.dumps(doc, ensure_ascii=False)}\n" for doc in DOCS))
    (folder / "queries.tsv").write_text("".join(f"q{n}\tcafé {n}\n" for n in range(3)))
    for name in ("a", "b"):
        (folder / f"{name}.run").write_text(RUN)
    (folder / "qrels.txt").write_text("".join(f"q{n} 0 d1 1\n" for n in range(3)))
    (folder / "null").symlink_to(os.devnull)
    ok("index", folder / "docs.jsonl", folder / "idx")
    return folder


@pytest.fixture
def folder(prepared, monkeypatch):
    monkeypatch.chdir(prepared)
    return prepared


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
    before = sorted(folder.iterdir())
    assert "settings in" not in ok(f"{command} -o null").stderr
    assert sorted(folder.iterdir()) == before
    assert (folder / "null").is_symlink()


@pytest.mark.parametrize("command", WRITING)
def test_a_full_disk_names_the_file(folder, command):
    failed = typed(f"{command} -o /dev/full")
    assert (failed.status, failed.stderr) == (2, "telerank: /dev/full: No space left on device\n")
    before = sorted(folder.iterdir())
    failed = with_files_of(5, f"{command} -o x.txt")
    assert (failed.status, failed.stderr) == (2, "telerank: x.txt: File too large\n")
    assert sorted(folder.iterdir()) == before


def test_a_run_whose_record_cannot_be_written_has_no_old_one(folder):
    ok("fuse a.run b.run -o fused.run")
    size = Path("fused.run").stat().st_size
    assert Path("fused.run.json").stat().st_size > size
    failed = with_files_of(size + 50, "fuse a.run b.run -o fused.run --method rrf")
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
def test_what_a_terminal_cannot_show_is_escaped(folder, encoding):
    def escaped(text: str) -> str:
        return text.encode(encoding, "backslashreplace").decode(encoding)

    ran = subprocess.run(
        [sys.executable, "-c", SHOWN],
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
    assert line.startswith(escaped("telerank: é.run: No such"))
