"""Where results go: devices, full disks, terminals that lack characters, other writers."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from telerank.drafts import open_draft

pytestmark = pytest.mark.process

DOCS = [{"docno": "d1", "text": "le café où l’été naît"}, {"docno": "d2", "text": "日本語 café ·"}]
RUN = "".join(f"q{n} Q0 d{m} {m} {3 - m} t\n" for n in range(3) for m in (1, 2))
QRELS = "".join(f"q{n} 0 d1 1\n" for n in range(3))
WRITING = [
    ("search", "idx", "--topics", "queries.tsv"),
    ("fuse", "a.run", "b.run"),
    ("evaluate", "qrels.txt", "a.run"),
    ("compare", "qrels.txt", "a.run", "b.run", "--baseline", "a"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("output")
    (folder / "docs.jsonl").write_text("".join(f"{json.dumps(doc, ensure_ascii=False)}\n" for doc in DOCS))
    (folder / "queries.tsv").write_text("".join(f"q{n}\tcafé {n}\n" for n in range(3)))
    (folder / "a.run").write_text(RUN)
    (folder / "b.run").write_text(RUN)
    (folder / "qrels.txt").write_text(QRELS)
    assert run(folder, "index", "docs.jsonl", "idx").returncode == 0
    return folder


def run(folder: Path, *arguments: str, largest: int | None = None, encoding: str = "utf-8"):
    """A command in a process of its own; ``largest`` bounds the size of the files that it may write."""
    limit = None if largest is None else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    command = [sys.executable, "-m", "telerank", *arguments]
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "NUMBA_CACHE_DIR": str(folder / "numba")}
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        encoding=encoding,
        env=environment,
        preexec_fn=limit,
        check=False,
    )


@pytest.mark.parametrize("arguments", WRITING, ids=" ".join)
def test_a_device_gets_the_result_and_nothing_is_written_beside_it(folder, arguments):
    (folder / "null").unlink(missing_ok=True)
    (folder / "null").symlink_to(os.devnull)
    before = sorted(folder.iterdir())
    done = run(folder, *arguments, "-o", "null")
    assert (done.returncode, sorted(folder.iterdir())) == (0, before)
    assert "settings in" not in done.stderr
    assert (folder / "null").is_symlink()


@pytest.mark.parametrize("arguments", WRITING, ids=" ".join)
def test_a_full_disk_names_the_file(folder, arguments):
    assert run(folder, *arguments, "-o", "/dev/full").stderr.strip() == (
        "telerank: /dev/full: No space left on device"
    )
    before = sorted(folder.iterdir())
    failed = run(folder, *arguments, "-o", "x.txt", largest=5)
    assert (failed.returncode, failed.stderr.strip()) == (2, "telerank: x.txt: File too large")
    assert sorted(folder.iterdir()) == before


def test_a_run_whose_record_cannot_be_written_has_no_old_one(folder):
    assert run(folder, "fuse", "a.run", "b.run", "-o", "fused.run").returncode == 0
    size = (folder / "fused.run").stat().st_size
    assert (folder / "fused.run.json").stat().st_size > size
    failed = run(folder, "fuse", "a.run", "b.run", "-o", "fused.run", "--method", "rrf", largest=size + 50)
    assert failed.stderr.strip() == "telerank: fused.run.json: File too large"
    assert not (folder / "fused.run.json").exists()


@pytest.mark.parametrize("arguments", WRITING, ids=" ".join)
def test_a_file_that_another_process_is_writing_is_left_alone(folder, arguments):
    with open_draft(folder / "busy.txt") as file:
        file.write(b"mine")
        failed = run(folder, *arguments, "-o", "busy.txt")
        assert failed.stderr.strip() == "telerank: busy.txt: another process is writing it"
    assert (folder / "busy.txt").read_bytes() == b"mine"
    (folder / "busy.txt").unlink()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_what_a_terminal_cannot_show_is_escaped(folder, encoding):
    def escaped(text: str) -> str:
        return text.encode(encoding, "backslashreplace").decode(encoding)

    for more in ((), ("--explain",)):
        answer = run(folder, "search", "idx", "-q", "日本語 café", *more, encoding=encoding)
        assert (answer.returncode, answer.stderr) == (0, "")
        assert answer.stdout.startswith(escaped("日本語 café\n"))
        assert escaped("l’été naît") in answer.stdout
    answer = run(folder, "search", "idx", "-q", "日本語 café", "--json", encoding=encoding)
    assert json.loads(answer.stdout)["query"] == "日本語 café"
    assert run(folder, "analyze-text", "日本語 café", encoding=encoding).returncode == 0
    assert run(folder, "pipeline", "save", "idx", "é", "bm25 % 3", encoding=encoding).returncode == 0
    for arguments in (("ls", "idx"), ("show", "idx", "é")):
        assert run(folder, "pipeline", *arguments, encoding=encoding).returncode == 0
    assert escaped("é.run: No such") in run(folder, "fuse", "é.run", "a.run", encoding=encoding).stderr
