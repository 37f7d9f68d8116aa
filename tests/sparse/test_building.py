"""Building on several processes: the same bytes as on one, bounded memory, and no process left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import psutil
import pytest
from small import contents, docs, terms_of

from telerank.errors import IndexFault
from telerank.sparse.index import SparseIndex
from telerank.sparse.runs import RunMaker
from telerank.sparse.writer import IndexWriter, build_index
from telerank.text import Analyzer
from telerank.types import Doc

PATIENCE = 600.0  # seconds after which a test says that something hangs


def words(seed: int, size: int) -> list[str]:
    random = Random(seed)
    return [
        " ".join(f"w{random.randint(0, 2000)}" for _ in range(random.randint(0, 60))) for _ in range(size)
    ]


def build_in_stretches(documents: Iterable[Doc], folder: Path, workers: int = 2, stretch: int = 4000) -> None:
    with IndexWriter(folder, Analyzer.parse("english"), workers=workers, stretch=stretch) as writer:
        writer.add(documents)


def working(parent: psutil.Process | None = None) -> list[psutil.Process]:
    """The analysing processes of a process, by default of this one."""
    children = (parent or psutil.Process()).children()
    return [child for child in children if "telerank.sparse.worker" in child.cmdline()]


def gone(processes: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(processes, timeout=PATIENCE)[1]


def test_any_number_of_processes_and_any_stretch_write_the_same_bytes(tmp_path):
    texts = [*words(1, 300), "w1 " * 255, "w2 " * 3000, "", *words(2, 300)]
    build_in_stretches(docs(texts), tmp_path / "whole", 1, 1 << 20)
    for workers, stretch in ((1, 4000), (2, 4000), (3, 60_000), (1, 1)):
        folder = tmp_path / f"{workers} by {stretch}"
        build_in_stretches(docs(texts), folder, workers, stretch)
        assert contents(folder) == contents(tmp_path / "whole")


def test_forgetting_the_tokens_seen_changes_nothing(tmp_path):
    remembering, forgetful = (RunMaker(Analyzer.parse("english"), most_surfaces=n) for n in (1 << 20, 50))
    for seed in (5, 6):
        remembering.make(words(seed, 100), 0, tmp_path / "remembered")
        forgetful.make(words(seed, 100), 0, tmp_path / "forgotten")
        assert (tmp_path / "remembered").read_bytes() == (tmp_path / "forgotten").read_bytes()
    assert remembering.vocabulary == forgetful.vocabulary


def test_the_index_holds_what_the_analyzer_makes_of_the_documents(tmp_path):
    texts = ["The cats' 300 naps", "L'été", "", "cat cat " * 130]
    index = build_index(
        [Doc("titled", "naps", "Cats", "u"), *docs(texts)], tmp_path / "i", analyzer="english", workers=1
    )
    [segment] = index.segments
    made = {
        (segment.terms[term], int(row)): int(tf)
        for term in range(len(segment.terms))
        for row, tf in zip(
            segment.rows[segment.offsets[term] : segment.offsets[term + 1]],
            segment.frequencies(*map(int, segment.offsets[term : term + 2])),
            strict=True,
        )
    }
    documents = terms_of(index)
    expected = {
        (term, row): terms.count(term) for row, terms in enumerate(documents.values()) for term in terms
    }
    assert documents["titled"] == ["cat", "nap"]
    assert made == expected
    assert made["cat", 4] == 260
    assert segment.lengths.tolist() == list(map(len, documents.values()))
    assert [segment.terms[term] for term in range(len(segment.terms))] == sorted({t for t, _ in expected})
    assert index.statistics.documents == 4
    assert index.statistics.tokens == sum(map(len, documents.values()))
    assert index.docs["titled"] == Doc("titled", "naps", "Cats", "u")


def test_building_tells_how_far_it_is(tmp_path):
    told = []
    build_index(
        docs(words(6, 2500)), tmp_path / "index", workers=1, progress=lambda *how_far: told.append(how_far)
    )
    indexed = [done for what, done, _ in told if what == "indexing"]
    folded = [(done, total) for what, done, total in told if what == "folding"]
    assert indexed == [1000, 2000]
    assert folded[-1][0] == folded[-1][1] == len(SparseIndex(tmp_path / "index").segments[0].rows)


@pytest.mark.parametrize(("fatal", "moment"), [([0], 150), ([0, 1], 400), ([1], 1500)])
def test_a_process_that_dies_is_an_error_and_not_a_wait(tmp_path, fatal, moment):
    processes, errors = [], []

    def deadly() -> Iterator[Doc]:
        for number, doc in enumerate([*docs(words(7, 1500)), None]):
            if number == moment:
                processes.extend(working())
                for which in fatal:
                    processes[which].kill()
            if doc:
                yield doc

    def work() -> None:
        with pytest.raises(IndexFault, match="an analysing process ended before its work") as caught:
            build_in_stretches(deadly(), tmp_path / "index")
        errors.append(caught)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert len(errors) == 1
    assert len(processes) == 2
    assert gone(processes)
    assert list((tmp_path / "index/segments").iterdir()) == []


def test_what_fails_in_a_process_is_raised_here_and_ends_the_others(tmp_path):
    def spoiling() -> Iterator[Doc]:
        for number, doc in enumerate(docs(words(9, 1500))):
            if number == 300:
                [scratch] = (tmp_path / "index/segments").glob("*/runs")
                scratch.rename(tmp_path / "elsewhere")
            yield doc

    with pytest.raises(IndexFault, match=r"No such file or directory.*\.run"):
        build_in_stretches(spoiling(), tmp_path / "index")
    assert working() == []


def test_what_the_documents_raise_is_raised_here_and_ends_the_processes(tmp_path):
    def failing() -> Iterator[Doc]:
        yield from docs(words(10, 400))
        raise LookupError("the collection ends in the middle")

    with pytest.raises(LookupError, match="ends in the middle"):
        build_in_stretches(failing(), tmp_path / "index")
    assert working() == []


ENDLESS = """
import itertools, signal, sys
from telerank.sparse.writer import IndexWriter
from telerank.text import Analyzer
from telerank.types import Doc

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background programs are born deaf to it
with IndexWriter(sys.argv[1], Analyzer.parse("standard"), workers=2, stretch=4000) as writer:
    writer.add(Doc(f"d{n}", "some words " * 20) for n in itertools.count())
"""


def building_for_ever(script: Path, folder: Path, **how: object) -> tuple[psutil.Popen, list[psutil.Process]]:
    """A program that builds, and its two processes once they are at work."""
    script.write_text(ENDLESS)  # a script without ``if __name__ == "__main__"``
    parent = psutil.Popen([sys.executable, script, folder], **how)
    until = time.monotonic() + PATIENCE
    while len(list(folder.glob("segments/*/runs/*.run"))) < 3 and time.monotonic() < until:
        time.sleep(0.05)
    children = working(parent)
    assert len(children) == 2
    return parent, children


def test_processes_take_no_modules_from_the_working_folder_and_end_when_their_parent_is_killed(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    for name in ("queue", "pickle", "numpy", "telerank"):
        (work / f"{name}.py").write_text("raise SystemExit('the wrong module')")
    parent, children = building_for_ever(tmp_path / "script.py", tmp_path / "index", cwd=work)
    parent.kill()
    parent.wait()
    assert gone(children)
    build_index(docs(["a"]), tmp_path / "index", workers=1)  # nothing holds the lock
    assert len(list((tmp_path / "index/segments").iterdir())) == 1


def test_processes_leave_the_answer_to_ctrl_c_to_their_parent(tmp_path):
    parent, children = building_for_ever(
        tmp_path / "script.py", tmp_path / "index", stderr=subprocess.PIPE, start_new_session=True
    )
    os.killpg(parent.pid, signal.SIGINT)
    try:
        said = parent.communicate(timeout=PATIENCE)[1].decode()
    except subprocess.TimeoutExpired:  # it would build for ever
        parent.kill()
        raise
    assert said.count("KeyboardInterrupt") == 1
    assert said.count("Traceback") == 1
    assert gone(children)
    assert list((tmp_path / "index/segments").iterdir()) == []


MSDOCS = """
import lzma, sys
from telerank.sparse.writer import build_index
from telerank.types import Doc

def passages():
    with lzma.open(sys.argv[1], "rt", encoding="utf-8", newline="\\n") as lines:
        for line in lines:
            number, _, text = line.rstrip("\\n").split("\\t", 2)
            yield Doc(number, text)

print(len(build_index(passages(), sys.argv[2], analyzer="english", workers=2)))
"""


@pytest.mark.scale
@pytest.mark.data
def test_a_million_passages_are_indexed_within_two_gibibytes(data, tmp_path):
    """Measured every tenth of a second: what the program and its processes hold, shared pages shared out."""
    command = [sys.executable, "-c", MSDOCS, data / "msdocs/passages.tsv.xz", tmp_path / "index"]
    program, peak = psutil.Popen(command, stdout=subprocess.PIPE), 0
    while program.poll() is None:
        held = 0
        for process in (program, *program.children()):
            try:
                held += process.memory_full_info().pss
            except psutil.Error:  # it has ended
                continue
        peak = max(peak, held)
        time.sleep(0.1)
    assert program.communicate()[0] == b"1154982\n"
    assert 100 << 20 < peak < 2 << 30
    texts = sum(path.stat().st_size for path in (tmp_path / "index").rglob("docs.arrow"))
    assert sum(path.stat().st_size for path in (tmp_path / "index").rglob("*.*")) - texts < 200e6
