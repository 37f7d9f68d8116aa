"""Writers that are killed, that meet, or that find the disk full: what is read is the old index or the new one."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from dying import CHANGES, prepare
from small import retriever

from accidents import Dying
from telerank.errors import IndexFault
from telerank.sparse.index import IndexManifest, SparseIndex
from telerank.sparse.weights.retriever import CountedTerms, ImpactRetriever
from telerank.sparse.writer import IndexWriter, build_index
from telerank.types import Doc

HERE = Path(__file__).parent
SMALL = ["rebuild", "add", "delete", "merge", "first", "weigh"]


@pytest.fixture(scope="module")
def dying():
    process = Dying(HERE / "dying.py")
    yield process
    process.close()


@pytest.fixture(scope="session")
def old(tmp_path_factory):
    folder = tmp_path_factory.mktemp("old") / "index"
    prepare(folder)
    return folder


def state(folder: Path) -> object:
    """What an index says, every checksum of it compared; nothing where there is none."""
    if not (folder / "manifest.json").exists():
        with pytest.raises(IndexFault, match="no index here"):
            SparseIndex(folder)
        return None
    index = SparseIndex(folder)
    index.verify()
    found = list(retriever(index).search("a b c w7 v7"))
    if index.manifest.term_weights is not None:
        found += ImpactRetriever(index, CountedTerms()).search("t3 t5")
    return list(index.docs.values()), found


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def swept(folder: Path) -> None:
    """Open the next writer; then there is nothing but what the manifest names."""
    if (folder / "manifest.json").exists():
        IndexWriter(folder).close()
    else:
        with pytest.raises(Exception, match="there is no document"):
            build_index([], folder, workers=1)
        assert files(folder) == {"write.lock"}
        return
    named = {
        f"segments/{entry.name}/{name}"
        for entry in IndexManifest.read(folder).segments
        for name in entry.files
    }
    assert files(folder) == named | {"manifest.json", "write.lock"}


def copied(old: Path, folder: Path, change: str) -> Path:
    """A folder for a change: a copy of the old index, or for the first build nothing."""
    if change != "first":
        shutil.copytree(old, folder)
    return folder


def outcomes(old: Path, folder: Path, change: str) -> tuple[object, object]:
    """What the index says before a change and after it."""
    at = copied(old, folder, change)
    before = state(at)
    CHANGES[change](at)
    return before, state(at)


def count_steps(dying: Dying, change: str, folder: Path, accident: str) -> int:
    return int(re.fullmatch(r"done after (\d+)", dying.change(change, folder, accident=accident).said)[1])


@pytest.mark.parametrize("accident", ["kill", "interrupt"])
@pytest.mark.parametrize("change", SMALL)
def test_a_change_killed_or_interrupted_at_any_step_leaves_the_old_index_or_the_new(
    dying, old, tmp_path, change, accident
):
    """Also between the commit and its end, where what was committed must not be taken back."""
    before, after = outcomes(old, tmp_path / "whole", change)
    assert before != after
    steps = count_steps(dying, change, copied(old, tmp_path / "counted", change), accident)
    met = []
    for step in (*range(1, steps - 9, -(-steps // 10)), *range(max(steps - 9, 2), steps + 1)):
        folder = copied(old, tmp_path / f"s{step}", change)
        death = dying.change(change, folder, accident=accident, at=step)
        assert (death.said, death.status) in (("interrupted", 0), ("", -signal.SIGKILL))
        met.append(state(folder))
        assert met[-1] in (before, after)
        swept(folder)
        assert state(folder) == met[-1]
    assert met[0] == before
    assert met[-1] == after
    assert all(each == after for each in met[met.index(after) :])  # never back again


@pytest.mark.parametrize("change", SMALL)
def test_a_full_disk_at_any_step_is_one_clear_error_and_leaves_the_index_as_it_was(
    dying, old, tmp_path, change
):
    before, after = outcomes(old, tmp_path / "whole", change)
    steps = count_steps(dying, change, copied(old, tmp_path / "counted", change), "full")
    faults = 0
    for step in range(1, steps + 1, -(-steps // 10)):
        folder = copied(old, tmp_path / f"s{step}", change)
        said = dying.change(change, folder, accident="full", at=step).said
        failed = re.search(r"^fault.*: (the change failed|cannot be written to): .*[Nn]o space", said)
        assert failed or not said.startswith("fault")
        assert state(folder) == (before if failed else after)  # it was tidying up, which can wait
        faults += bool(failed)
        swept(folder)
    assert faults > 2


@pytest.mark.parametrize("accident", ["interrupt", "full"])
def test_a_writer_goes_on_after_a_failure_from_what_is_on_the_disk(dying, old, tmp_path, accident):
    steps = count_steps(dying, "insist", copied(old, tmp_path / "counted", "insist"), accident)
    sizes = set()
    for step in (*range(8, steps - 5, -(-steps // 6)), *range(steps - 5, steps + 1)):
        folder = copied(old, tmp_path / f"s{step}", "insist")
        assert dying.change("insist", folder, accident=accident, at=step).said.startswith("done")
        documents, _ = state(folder)
        assert documents[-1] == Doc("z", "z")
        sizes.add(len(documents))
    assert sizes == {60, 100}


def test_a_file_that_may_not_grow_is_one_clear_error(dying, old, tmp_path):
    folder = copied(old, tmp_path / "index", "grow")
    before = state(folder)
    for most in (0, 1000, 100_000, 200_000):
        death = dying.change("grow", folder, accident="large file", at=most)
        assert death.status == 0
        assert death.said.startswith(f"fault {folder}: the change failed: ")
        assert state(folder) == before
        swept(folder)


@pytest.fixture
def small_disk(tmp_path):
    """A file system in memory whose size can be set; only some may make one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no file system may be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_disk_that_is_really_full_is_one_clear_error(dying, old, small_disk):
    """Also where the room runs out under mapped files, which kills a process that has not seen to it."""
    folder = copied(old, small_disk / "index", "grow")
    before, faults = state(folder), 0
    used = shutil.disk_usage(small_disk).used
    for more in range(0, 3_000_000, 256 << 10):
        size = f"remount,size={used + more}"
        subprocess.run(["mount", "-o", size, str(small_disk)], check=True)
        death = dying.change("grow", folder, accident="none")
        assert death.status == 0
        if death.said.startswith("done"):
            break
        faults += 1
        assert death.said == f"fault {folder}: the change failed: no space is left on the disk"
        assert state(folder) == before
        swept(folder)
    assert faults > 3
    assert len(SparseIndex(folder)) == 3059
