"""Processes that start with everything loaded: a parent imports it once, and forks them.

Importing torch and the trainings takes seconds, a fork milliseconds. A forked process ends like any other:
its exit functions run, and an error has its traceback and status 1.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

LOADED = (
    "transformers.models.bert.modeling_bert",
    "telerank.cli.main",
    "telerank.cli.encode",
    "telerank.verbs.encode",
    "telerank.cli.runs.fuse",
    "telerank.verbs.rerank",
    "telerank.training.bi_encoder.train",
    "telerank.training.late_interaction.train",
    "telerank.training.splade.train",
    "telerank.training.term_weights.train",
    "telerank.training.reranker.train",
    "telerank.training.reader.train",
    "telerank.training.log",
    "telerank.training.reranker.iteration_results",
)
SECONDS = 540  # after which a process that still waits for another is ended


class Ended(NamedTuple):
    status: int
    output: str
    errors: str


class ForkingParent:
    """Runs scripts, each in one process or in several with the variables that ``torchrun`` sets."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, script: str, *words: object, processes: int = 1, cwd: Path | None = None) -> list[Ended]:
        """How each process ended, in which the script's text was run with these words."""
        with tempfile.TemporaryDirectory() as folder:
            record = {
                "script": script,
                "words": [*map(str, words)],
                "folder": folder,
                "cwd": str(cwd or folder),
            }
            record["launched"] = launched(processes)
            self._process.stdin.write(json.dumps(record) + "\n")
            self._process.stdin.flush()
            statuses = json.loads(self._process.stdout.readline())
            return [
                Ended(status, *((Path(folder) / f"{rank}.{name}").read_text() for name in ("out", "err")))
                for rank, status in enumerate(statuses)
            ]

    def compute(self, script: str, folder: Path, *words: object, processes: int = 2) -> list:
        """What each process writes; scripts see ``folder``, ``processes`` once they joined, and ``write``."""
        for rank, ended in enumerate(self.run(WRITING + script, folder, *words, processes=processes)):
            assert ended.status == 0, f"process {rank}: {ended.errors}"
        return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(processes)]

    def close(self) -> None:
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


WRITING = """
import json, os, sys
from pathlib import Path
import torch
folder = Path(sys.argv[1])
def write(values):
    (folder / f"{os.environ.get('RANK', 0)}.json").write_text(json.dumps(values))
"""


def free_ports(count: int) -> list[str]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [str(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def launched(processes: int) -> list[dict[str, str]]:
    """The variables of each process; a process alone is not launched."""
    if processes == 1:
        return [{}]
    shared = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_ports(1)[0]}
    return [shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(processes)]


def serve() -> None:
    """Fork the processes of one request a line, and say how they ended; return in each of them, to its script."""
    for line in sys.stdin:
        request = json.loads(line)
        children = []
        for rank, variables in enumerate(request["launched"]):
            children.append(os.fork())
            if not children[-1]:
                begin(rank, variables, request)
                exec(compile(request["script"], "script.py", "exec"), {"__name__": "__main__"})
                return
        statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        print(json.dumps(statuses), flush=True)


def begin(rank: int, variables: dict[str, str], request: dict) -> None:
    """Give a forked process its variables, its output and its folder."""
    signal.alarm(SECONDS)
    os.environ |= variables
    os.chdir(request["cwd"])
    sys.argv = ["script.py", *request["words"]]
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in ((1, "out"), (2, "err")):
        path = Path(request["folder"]) / f"{rank}.{name}"
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)


if __name__ == "__main__":
    sys.path[:0] = json.loads(sys.argv[1])
    os.environ |= {"COLUMNS": "200", "CUDA_VISIBLE_DEVICES": ""}

    for name in LOADED:
        import_module(name)
    gc.freeze()
    serve()
