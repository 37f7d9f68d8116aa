"""The process that reads files: ``python -m telerank.corpus.readers.files.worker``, reached through pipes.

It is ended, and started anew, if a file takes too long or makes it crash. Requests and answers are lines of
JSON, which, unlike pickled objects, cannot run anything in the process that asks.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from telerank.corpus.readers.files.kinds import read_file
from telerank.corpus.readers.files.limits import FileLimits
from telerank.corpus.readers.files.passages import cut_passages
from telerank.corpus.readers.files.text import Problem, UnreadableFile

_SHOWN = 200  # characters of a reason


def main() -> None:
    """Answer requests on standard input until it ends; the first argument is the limit of memory in bytes."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # prints must not go between the answers
    logging.disable(logging.CRITICAL)  # what libraries log about files
    _limit_memory(int(sys.argv[1]))
    for line in sys.stdin.buffer:
        answers.write(json.dumps(_answer(json.loads(line))) + "\n")
        answers.flush()


def _limit_memory(limit: int) -> None:
    if sys.platform == "win32":
        return
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform != "darwin":  # which has no such limit
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))


def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """The passages of a file and what was left out, or the problem with it."""
    try:
        file = read_file(Path(request["path"]), request["encoding"], FileLimits(**request["limits"]))
        return {"counts": dict(file.counts), "passages": cut_passages(file, request["words"])}
    except UnreadableFile as error:
        return _problem(error.problem, error.reason)
    except MemoryError:
        return _problem(Problem.too_large, "reading it takes too much memory")
    except OSError as error:
        return _problem(Problem.broken, error.strerror or str(error))
    except Exception as error:  # noqa: BLE001 — libraries raise anything about hostile files
        return _problem(Problem.broken, f"{type(error).__name__}: {error}")


def _problem(problem: Problem, reason: str) -> dict[str, Any]:
    return {"problem": problem, "reason": " ".join(reason.split())[:_SHOWN]}


if __name__ == "__main__":
    main()
