"""The service under load: searches, re-ranking, answers, swaps, memory, hostile clients.

The service is ``telerank serve`` in a process of its own, on an index made here of --data, with MiniLM under
a classification layer drawn at random as its re-ranker. Users ask over loopback, each on a connection that is
kept, again as soon as they have their reply. What they send is made before, and of replies only status and
length are read while times are taken, so that the client takes little of the processor: its share is in the
table, the server's processor time of a request, too. Server and client share the machine's cores.

Each part has a table of its own in docs/results/serving.md: load, filters, swaps, memory, hostile. Searches
must have no error and a p99 of at most 3 times p50; each swap must be taken up without a failed request, and
no reply may have texts of two generations; memory must not grow; hostile clients may see documented statuses
alone, and users beside them no error.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import psutil
from results_page import write

from serve_load import parts
from serve_load.inputs import RERANKER, Texts, generations, index_docs, save_reranker
from serve_load.server import Server, running
from telerank.show.tables import render_markdown

PARTS = ("load", "filters", "swaps", "memory", "hostile")
SMALL = {"searches": 400, "models": 20, "swaps": 3, "memory": 1_000, "seconds": 4.0, "swapped": 200}
FOLDERS = ("--data", "--reranker", "--reader")  # the page names none of this machine's


def main() -> None:
    given = _arguments()
    texts, failed = Texts.of(given.data), []
    with tempfile.TemporaryDirectory() as folder:
        for name, part in _measure(given, texts, Path(folder)):
            text = f"`{_command(name)}`\n\n{render_markdown(part.table)}\n\n{_machine()}"
            failed += part.failed
            print(text, *part.failed, sep="\n", flush=True)
            if given.write:
                write("serving", f"serve {name}", text)
    sys.exit("\n".join(failed) or 0)


def _command(part: str) -> str:
    """The command that measures a part as it was measured now."""
    own = [one for one in sys.argv[1:] if one != "--write"]
    if "--parts" in own:
        first = own.index("--parts")
        own = [*own[:first], *itertools.dropwhile(PARTS.__contains__, own[first + 1 :])]
    for option, folder in itertools.pairwise(own):
        if option in FOLDERS:
            own[own.index(folder)] = option.removeprefix("--").upper()
    return " ".join(["python benchmarks/serve_load", *own, "--parts", part])


def _machine() -> str:
    memory, load = psutil.virtual_memory().total / 1e9, os.getloadavg()[0]
    packages = ", ".join(f"{one} {version(one)}" for one in ("fastapi", "uvicorn", "torch"))
    machine = f"{os.cpu_count()} cores, {memory:.0f} GB, load {load:.1f} at the end"
    return f"{machine}; {packages}, Python {platform.python_version()}."


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="serve_load", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", help="a collection; default: piaf of TELERANK_DATA")
    parser.add_argument("--analyzer", default="french")
    parser.add_argument("--reranker", type=Path, help="folder of a re-ranker; default: one of MiniLM")
    parser.add_argument("--backend", default="torch", help="of the re-ranker")
    parser.add_argument("--reader", type=Path, help="folder of a reader; without one nothing is answered")
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--searches", type=int, default=10_000)
    parser.add_argument("--models", type=int, default=200, help="requests of re-ranking, and of answers")
    parser.add_argument("--swaps", type=int, default=100)
    parser.add_argument("--swapped", type=int, default=1_000, help="documents of the index that is swapped")
    parser.add_argument("--memory", type=int, default=100_000, help="searches over which memory is measured")
    parser.add_argument("--seconds", type=float, default=30.0, help="of the hostile clients")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument(
        "--small", action="store_true", help="a try of less than a minute; no speed is judged"
    )
    parser.add_argument("--write", action="store_true", help="put the tables into docs/results/serving.md")
    given = parser.parse_args()
    if given.small:
        vars(given).update({name: min(most, vars(given)[name]) for name, most in SMALL.items()})
    if given.data is None:
        if "TELERANK_DATA" not in os.environ:
            sys.exit("TELERANK_DATA is not set, and there is no --data")
        given.data = Path(os.environ["TELERANK_DATA"]) / "piaf"
    return given


def _measure(given: argparse.Namespace, texts: Texts, folder: Path) -> Iterator[tuple[str, parts.Part]]:
    """The parts that are asked for, each with its name, as they are measured."""
    index = partial(index_docs, file=folder / "docs.jsonl", analyzer=given.analyzer)
    swapped = list(texts.docs[: given.swapped])
    index(texts.docs, index=folder / "data")
    settings = {"indexes": {"data": str(folder / "data")}, "watch": 0.1}
    if "load" in given.parts:
        settings["rerankers"] = {RERANKER: str(given.reranker or save_reranker(folder / RERANKER))}
        settings["backend"] = given.backend
        if given.reader is not None:
            settings["readers"] = {"reader": str(given.reader)}
        else:
            print("no --reader: answers are left out", file=sys.stderr)
    if "swaps" in given.parts:
        index(next(generations(swapped)), index=folder / "swapped")
    judged = not given.small
    with running(folder, settings) as server:
        measures: dict[str, Callable[[], parts.Part]] = {
            "load": lambda: _load(given, texts, server),
            "filters": lambda: parts.measure_load(
                server,
                parts.filter_requests(texts.queries, given.searches // 5),
                given.users,
                judged=not given.small,
            ),
            "memory": lambda: parts.measure_memory(
                server, texts.queries, _marks(given.memory), given.users, judged=judged
            ),
            "hostile": lambda: parts.measure_hostile(
                server, texts.queries, given.seconds, max(1, given.users // 5)
            ),
        }
        for name, measure in measures.items():
            if name in given.parts:
                yield name, _timed(name, measure)
    if "swaps" in given.parts:
        settings = {"indexes": {"swapped": str(folder / "swapped")}, "watch": 0.1}
        with running(folder, settings) as server:
            make = partial(index, index=folder / "swapped")
            yield (
                "swaps",
                _timed("swaps", lambda: parts.measure_swaps(server, swapped, given.swaps, given.users, make)),
            )


def _load(given: argparse.Namespace, texts: Texts, server: Server) -> parts.Part:
    counts = {"search": given.searches, "models": given.models}
    reader = None if given.reader is None else "reader"
    requests = parts.load_requests(texts.queries, [doc.text for doc in texts.docs], counts, reader)
    return parts.measure_load(server, requests, given.users, judged=not given.small)


def _marks(most: int) -> list[int]:
    return [min(1_000, most), *(share * most // 10 for share in range(1, 11) if share * most // 10 > 1_000)]


def _timed(name: str, measure: Callable[[], parts.Part]) -> parts.Part:
    began = time.perf_counter()
    part = measure()
    print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    return part


if __name__ == "__main__":
    main()
