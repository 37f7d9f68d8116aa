"""Building: from distinct pieces the terms of the texts; on several processes the same bytes as on one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import numpy as np
import psutil
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from small import contents, docs, terms_of

from telerank.errors import IndexFault
from telerank.sparse.runs import RunMaker, find_surfaces
from telerank.sparse.writer import IndexWriter, build_index
from telerank.text import PRESETS, Analyzer
from telerank.types import Doc

PATIENCE = 600.0  # seconds after which a test says that something hangs


def words(seed: int, size: int) -> list[str]:
    random = Random(seed)
    lengths = (random.randint(0, 60) for _ in range(size))
    return [" ".join(f"w{random.randint(0, 2000)}" for _ in range(length)) for length in lengths]


def build_in_stretches(documents: Iterable[Doc], folder: Path, workers: int = 2, stretch: int = 4000) -> None:
    with IndexWriter(folder, Analyzer.parse("english"), workers=workers, stretch=stretch) as writer:
        writer.add(documents)


def working(parent: psutil.Process | None = None) -> list[psutil.Process]:
    """The analysing processes of a process, by default of this one."""
    children = (parent or psutil.Process()).children()
    return [child for child in children if "telerank.sparse.worker" in child.cmdline()]


def gone(processes: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(processes, timeout=PATIENCE)[1]


@pytest.mark.process
def test_any_number_of_processes_and_any_stretch_write_the_same_bytes(tmp_path):
    texts = [*words(1, 300), "w1 " * 255, "w2 " * 3000, "", *words(2, 300)]
    build_in_stretches(docs(texts), tmp_path / "whole", 1, 1 << 20)
    for workers, stretch in ((1, 4000), (2, 4000), (3, 60_000), (1, 1)):
        folder = tmp_path / f"{workers} by {stretch}"
        build_in_stretches(docs(texts), folder, workers, stretch)
        assert contents(folder) == contents(tmp_path / "whole")


ANALYZERS = {name: Analyzer.parse(name) for name in (*PRESETS, "french|asciifold")}
TELLING = "aZéœßİſ9_.,'’ʼ-/ \t\n\0\x1c\u00a0\u0301\u0338=<\u200b\xad“»…\ud800한𝒜ﬁ½²U.S"
LIVELY = st.lists(st.one_of(st.text(TELLING, max_size=30), st.text(max_size=30)), max_size=8)


def through_pieces(texts: list[str], analyzer: Analyzer) -> list[list[str]]:
    distinct, which, ends = find_surfaces(texts, analyzer.classes)
    terms = [analyzer(piece.decode("utf-8", "surrogatepass")) for piece in distinct]
    starts = [0, *ends[:-1]]
    spans = zip(starts, ends, strict=True) if texts else ()
    return [[term for piece in which[a:b] for term in terms[piece]] for a, b in spans]


@pytest.mark.parametrize("name", ANALYZERS)
@given(texts=LIVELY)
@example(texts=["U.S.A. 3.14, 10,000. don't 'quoted' l’État x.y a''b 1'000 aujourd'hui", "", "."])
@example(texts=["=\u0338a", "a\u0301", " \u0301b", "\u0338"])
def test_pieces_give_the_terms_of_the_texts(name, texts):
    analyzer = ANALYZERS[name]
    assert through_pieces(texts, analyzer) == [analyzer(text) for text in texts]


def test_equal_pieces_are_one_and_different_ones_are_not():
    texts = [" ".join(f"word{i % 30_000}" for i in range(100_000))]  # more than the first table holds
    distinct, which, _ = find_surfaces(texts, ANALYZERS["standard"].classes)
    assert len(distinct) == 30_000
    assert [distinct[i].decode() for i in which[:40_000]] == texts[0].split(" ")[:40_000]
    distinct, _, _ = find_surfaces(["pi is 3.14. 'It' isn't 3,2."], ANALYZERS["standard"].classes)
    assert distinct == [b"pi", b"is", b"3.14", b"It", b"isn't", b"3,2"]


def test_forgetting_the_tokens_seen_changes_nothing(tmp_path):
    remembering, forgetful = (RunMaker(Analyzer.parse("english"), most_surfaces=n) for n in (1 << 20, 50))
    for seed in (5, 6):
        remembering.make(words(seed, 100), 0, tmp_path / "remembered")
        forgetful.make(words(seed, 100), 0, tmp_path / "forgotten")
        assert (tmp_path / "remembered").read_bytes() == (tmp_path / "forgotten").read_bytes()
    assert remembering.vocabulary == forgetful.vocabulary


def test_the_index_holds_what_the_analyzer_makes_of_the_documents(tmp_path):
    texts = ["The cats' 300 naps", "L'été", "", "cat cat " * 130]
    titled = Doc("titled", "naps", "Cats", "u")
    index = build_index([titled, *docs(texts)], tmp_path / "i", analyzer="english", workers=1)
    [segment] = index.segments
    terms = [segment.terms[number] for number in range(len(segment.terms))]
    lists = [segment.postings.read(np.array([number])) for number in range(len(terms))]
    postings = {
        (term, int(row)): int(tf)
        for term, held in zip(terms, lists, strict=True)
        for row, tf in zip(*held, strict=True)
    }
    documents = list(terms_of(index).values())
    expected = {(term, row): held.count(term) for row, held in enumerate(documents) for term in held}
    assert documents[0] == ["cat", "nap"]
    assert postings == expected
    assert postings["cat", 4] == 260
    assert terms == sorted({term for term, _ in expected})
    assert segment.lengths.tolist() == list(map(len, documents))
    assert (index.statistics.documents, index.statistics.tokens) == (4, sum(map(len, documents)))
    assert index.docs["titled"] == titled


def test_building_tells_how_far_it_is(tmp_path):
    calls = []
    index = build_index(
        docs(words(6, 2500)), tmp_path / "index", workers=1, progress=lambda *call: calls.append(call)
    )
    assert [done for what, done, _ in calls if what == "indexing"] == [1000, 2000]
    folded = [(done, total) for what, done, total in calls if what == "folding"]
    assert folded[-1] == (int(index.segments[0].offsets[-1]),) * 2


@pytest.mark.process
def test_a_process_that_dies_is_an_error_and_not_a_wait(tmp_path):
    def deadly(fatal: list[int], moment: int) -> Iterator[Doc]:
        for number, doc in enumerate([*docs(words(7, 1500)), None]):
            if number == moment:
                processes.extend(working())
                for which in fatal:
                    processes[which].kill()
            if doc:
                yield doc

    for fatal, moment in (([0], 150), ([0, 1], 400), ([1], 1500)):
        processes: list[psutil.Process] = []
        with pytest.raises(IndexFault, match="an analysing process ended before its work"):
            build_in_stretches(deadly(fatal, moment), tmp_path / "index")
        assert len(processes) == 2
        assert gone(processes)
        assert list((tmp_path / "index/segments").iterdir()) == []


def test_what_fails_in_a_process_or_in_the_documents_is_raised_here_and_ends_the_processes(tmp_path):
    def spoiling() -> Iterator[Doc]:
        for number, doc in enumerate(docs(words(9, 1500))):
            if number == 300:
                [scratch] = (tmp_path / "index/segments").glob("*/runs")
                scratch.rename(tmp_path / "elsewhere")
            yield doc

    def failing() -> Iterator[Doc]:
        yield from docs(words(10, 400))
        raise LookupError("the collection ends in the middle")

    for source, error, said in (
        (spoiling(), IndexFault, r"No such file or directory.*\.run"),
        (failing(), LookupError, "ends in the middle"),
    ):
        with pytest.raises(error, match=said):
            build_in_stretches(source, tmp_path / "index")
        assert working() == []


ENDLESS = """
import itertools, signal, sys
from telerank.sparse.writer import IndexWriter
from telerank.text import PRESETS, Analyzer
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
