"""A process whose children change an index and are killed, or find the disk full, on the way.

It reads one request a line, forks, and says how the child ended. The child starts with everything loaded, so
that what a test measures and kills is the change alone. Accidents: ``kill``, ``interrupt`` and ``full`` (no
space on the disk) at a step, ``large file`` for files beyond so many bytes.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from small import docs

from telerank.errors import IndexFault
from telerank.sparse import build
from telerank.sparse.writer import IndexWriter, build_index
from telerank.types import Doc

OLD = [f"a b w{number}" for number in range(60)]
NEW = [f"a c v{number}" for number in range(40)]
WRITING = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate"}


class Accidents:
    may_happen = True


def prepare(folder: Path) -> None:
    """Two segments, one of them with a deletion."""
    build_index(docs(OLD[:40]), folder, analyzer="none", workers=1)
    with IndexWriter(folder, workers=1) as writer:
        writer.add(docs(OLD[40:], 40))
        writer.delete(["d3"])


def rebuild(folder: Path) -> None:
    build_index(docs(NEW), folder, analyzer="none", overwrite=True, workers=1)


def add(folder: Path) -> None:
    with IndexWriter(folder, workers=1) as writer:
        writer.add(docs(NEW, 50), update=True)


def delete(folder: Path) -> None:
    with IndexWriter(folder) as writer:
        writer.delete(["d4", "d44"])


def merge(folder: Path) -> None:
    with IndexWriter(folder) as writer:
        writer.merge()


def first(folder: Path) -> None:
    build_index(docs(NEW), folder, analyzer="none", workers=1)


def grow(folder: Path) -> None:
    """Add a quarter of a mebibyte of postings."""
    with IndexWriter(folder, workers=1) as writer:
        writer.add(docs((" ".join(f"x{n + m}" for m in range(20)) for n in range(3000)), 100))


def insist(folder: Path) -> None:
    """Go on with the same writer after a failure."""
    with IndexWriter(folder, workers=1) as writer:
        with suppress(IndexFault, KeyboardInterrupt):
            writer.add(docs(NEW, 100))
        Accidents.may_happen = False
        writer.add([Doc("z", "z")])


CHANGES: dict[str, Callable[[Path], None]] = {
    change.__name__: change for change in (rebuild, add, delete, merge, first, grow, insist)
}


def main() -> None:
    build._STRETCH = 10_000  # more than one run
    with tempfile.TemporaryDirectory() as warm:
        prepare(Path(warm) / "index")
        for change in (add, delete, merge, rebuild):
            change(Path(warm) / "index")
    for line in sys.stdin:
        request = json.loads(line)
        began = time.perf_counter()
        child = os.fork()
        if not child:
            _work(request)
        if request["after"] is not None:
            time.sleep(request["after"])
            os.kill(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        _tell(f"ended {status} {time.perf_counter() - began}")


def _work(request: dict[str, object]) -> None:
    """Be the child: change the index, with the accident that was asked for, and say what happened."""
    folder = Path(str(request["folder"]))
    accident, at = str(request["accident"]), int(str(request["at"]))
    if accident == "large file":
        resource.setrlimit(resource.RLIMIT_FSIZE, (at, at))
    steps = _hooked(folder, accident, at)
    try:
        CHANGES[str(request["change"])](folder)
        _tell(f"done after {len(steps)}")
    except IndexFault as error:
        _tell(f"fault {error}")
    except KeyboardInterrupt:
        _tell("interrupted")
    except BaseException as error:  # noqa: BLE001 — the test is to see it
        _tell(f"raised {error!r}")
    os._exit(0)


def _hooked(folder: Path, accident: str, at: int) -> list[str]:
    """Let the accident happen at a step of the change: whatever opens, makes, moves or removes a file."""
    steps: list[str] = []

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        writes = event in WRITING or (
            event == "open" and int(str(arguments[2] or 0)) & (os.O_WRONLY | os.O_RDWR)
        )
        reads = event == "open" and accident == "kill"
        ours = str(arguments[0]).startswith(str(folder))
        if not (writes or reads) or not ours or not Accidents.may_happen:
            return
        steps.append(event)
        if len(steps) == at and accident == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if len(steps) == at and accident == "interrupt":
            raise KeyboardInterrupt
        if len(steps) == at and accident == "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(arguments[0]))

    sys.addaudithook(hook)
    return steps


def _tell(what: str) -> None:
    os.write(1, f"{what}\n".encode())  # in one piece, whatever else goes to standard output


if __name__ == "__main__":
    main()
