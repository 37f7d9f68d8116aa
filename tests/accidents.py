"""A process whose children change files and are killed, or find the disk full, on the way.

A script calls :func:`serve` with its changes. It reads one request a line, forks, and says how the child
ended. The child starts with everything loaded, so that what a test measures and kills is the change alone.
Accidents: ``kill``, ``interrupt`` and ``full`` (no space on the disk) at a step, ``large file`` for files
beyond so many bytes. :class:`Dying` is such a process as a test sees it.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from telerank.errors import TelerankError

WRITING = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate"}
Change = Callable[[Path], None]


class Accidents:
    may_happen = True


class Death(NamedTuple):
    said: str  # by the child, "" where it was killed
    status: int


class Dying:
    """The process of a script that serves changes."""

    def __init__(self, script: Path) -> None:
        paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [sys.executable, script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )

    def change(self, name: str, folder: Path, *, accident: str = "kill", at: int = 0) -> Death:
        """Have a change made, with an accident at a step of it."""
        request = {"change": name, "folder": str(folder), "accident": accident, "at": at}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        said = ""
        for line in self._process.stdout:
            if line.startswith("ended "):
                return Death(said, int(line.split()[1]))
            said = line.strip()
        raise AssertionError("the process has ended")

    def close(self) -> None:
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def serve(changes: Mapping[str, Change]) -> None:
    gc.freeze()  # what is loaded stays in the memory that the children share
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            _work(changes[request["change"]], request)
        _tell(f"ended {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}")


def _work(change: Change, request: Mapping[str, object]) -> None:
    """Be the child: make the change, with the accident that was asked for, and say what happened."""
    folder = Path(str(request["folder"]))
    accident, at = str(request["accident"]), int(str(request["at"]))
    if accident == "large file":
        resource.setrlimit(resource.RLIMIT_FSIZE, (at, at))
    steps = _hooked(folder, accident, at)
    try:
        change(folder)
        _tell(f"done after {len(steps)}")
    except TelerankError as error:
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
        # shutil.rmtree names what it removes by the open folder that it is in
        ours = str(arguments[0]).startswith(str(folder)) or (
            event in ("os.remove", "os.rmdir") and arguments[1] != -1
        )
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
