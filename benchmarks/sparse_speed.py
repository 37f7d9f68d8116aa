"""Sparse search and indexing beside Lucene, bm25s and tantivy, in one run.

On the passages of ``msdocs``, one core each, the engines taking turns; a query's time is its median over the
rounds. Rankings are compared with an exhaustive float64 reference before any time is believed. The peers are
given analysed queries, telerank their texts: analysis is in its times alone. The peers answer with row
numbers, as ``telerank-rows`` does; ``telerank`` goes on to docnos. Targets are held to rows against rows.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from peers import check, corpus
from peers.engine import Built, Found, Peer, open_peer
from peers.interleave import Times, interleaved
from results_page import write

from telerank.show.tables import Cell, Table, render_markdown
from telerank.sparse.similarities.families import parse_similarity
from telerank.text import Analyzer

BM25 = "bm25(k1=0.9, b=0.4)"
OTHERS = (
    "lm_dirichlet(mu=1000)",
    "lm_jelinek_mercer(lambda=0.1)",
    "dfr(basic_model=in, after_effect=l, normalization=h2(c=1))",
    "dfi(independence=chisquared)",
)
TANTIVY = "bm25(k1=1.2, b=0.75)"  # it has no other
TARGETS = {("lucene", BM25, 10): 1.8, ("lucene", BM25, 1000): 2.5, ("bm25s", BM25, 1000): 2.0} | {
    ("lucene", model, 1000): 4.0 for model in OTHERS
}
LOSSY = {"lucene": 1e-5, "tantivy": 1e-5}  # relative errors that float32 sums leave, lengths being rounded
OURS = "telerank"
EXACT = {OURS: 1e-4, "telerank-rows": 1e-4, "bm25s": 1e-5}  # telerank: steps of 2^-20, of scores from 0.01 up


@dataclass(frozen=True)
class Setting:
    """What the engines are given."""

    documents: Path
    texts: Path
    queries: tuple[str, ...]
    analysed: tuple[list[str], ...]
    checked: int
    rounds: int
    rows: list[tuple[str, ...]] = field(default_factory=list)
    truths: dict[tuple[str, bool, bool], check.Reference] = field(default_factory=dict)


def main() -> None:
    options = _options()
    analyze = Analyzer.parse("english")
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch, ExitStack() as stack:
        folder = Path(scratch)
        count = corpus.write(corpus.passages(options.passages, options.documents), folder / "texts")
        corpus.write_analysed(corpus.lines(folder / "texts"), analyze, folder / "documents")
        texts = corpus.queries(corpus.lines(folder / "texts"), analyze, count, options.queries)
        analysed = tuple(analyze(text) for text in texts)
        setting = Setting(
            folder / "documents", folder / "texts", tuple(texts), analysed, options.checked, options.rounds
        )
        words = sum(map(len, analysed)) / len(texts)
        about = f"{count:,} passages, {len(texts)} queries of {words:.1f} terms, {options.rounds} rounds"
        names = [OURS, "telerank-rows", *options.peers]
        peers = {name: stack.enter_context(open_peer(name, options.core)) for name in names}
        built = render_markdown(_builds(peers, setting, folder))
        print(about, built, sep="\n\n", flush=True)
        for model in (BM25, *OTHERS):
            names = [name for name in peers if model == BM25 or name.startswith(("telerank", "lucene"))]
            _measure({name: peers[name] for name in names}, model, setting)
        searched, threads = render_markdown(_table(setting)), _threads(folder / OURS, setting)
        print(searched, threads, sep="\n")
        if options.write:
            write(
                "speed",
                "sparse speed",
                "\n\n".join((f"{_command()}: {about}; {_machine()}.", built, searched, threads)),
            )


def _command() -> str:
    return f"`python {' '.join(['benchmarks/sparse_speed.py', *sys.argv[1:]])}`"


def _machine() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    machine = f"{model or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return f"{machine}, load {os.getloadavg()[0]:.1f} at the end"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(os.environ.get("TELERANK_DATA", ".")) / "msdocs" / "passages.tsv.xz"
    parser.add_argument("--passages", type=Path, default=default, help="number, source, text; xz-packed")
    parser.add_argument("--documents", type=int, help="only the first so many")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--checked", type=int, default=60, help="queries whose rankings are compared")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--scratch", type=Path, help="where to put indexes, instead of the system's place")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/results/speed.md")
    parser.add_argument("--peers", nargs="*", default=["lucene", "bm25s", "tantivy"])
    return parser.parse_args()


def _builds(peers: dict[str, Peer], setting: Setting, folder: Path) -> Table:
    """From texts on one core: reading, analysing, and for telerank storing the texts, are in the time."""
    rows = []
    built: dict[str, Built] = {}
    for name, peer in peers.items():
        if name == OURS:
            built[name] = peer.build(setting.texts, folder / name)
        elif not name.startswith(OURS):
            peer.build(setting.documents, folder / name)
            with open_peer(f"{name}-text", 0) as from_text:
                built[name] = from_text.build(setting.texts, folder / f"{name}-text")
        peer.open(folder / (OURS if name.startswith(OURS) else name))
    for name, one in built.items():
        texts = sum(path.stat().st_size for path in (folder / name).rglob("docs.*"))
        ratio = one.documents_per_second / built["bm25s"].documents_per_second if "bm25s" in built else 0
        numbers = [
            f"{one.documents_per_second:,.0f}",
            f"{ratio:.2f}",
            f"{(one.disk_bytes - texts) / 1e6:.0f}",
        ]
        rows.append([f"{name} {peers[name].version}", *numbers, f"{one.peak_bytes / 1e6:,.0f}"])
    columns = ["build from texts", "documents a second and core", "to bm25s", "MB without texts", "peak MB"]
    return Table.of(columns, rows)


def _measure(peers: dict[str, Peer], model: str, setting: Setting) -> None:
    for k in (10, 1000):
        searches = {name: partial(_search, peer, model, k, setting) for name, peer in peers.items()}
        for name, search in searches.items():
            _compare(name, model, k, search(), setting)
        times = interleaved(searches, rounds=setting.rounds)
        for name, taken in times.items():
            setting.rows.append((model, f"top-{k}", name, *_row(taken, times, TARGETS.get((name, model, k)))))


def _search(peer: Peer, model: str, k: int, setting: Setting) -> Found:
    if peer.name.startswith(OURS):
        return peer.search([[text] for text in setting.queries], k, model)
    return peer.search(setting.analysed, k, TANTIVY if peer.name == "tantivy" else model)


def _compare(name: str, model: str, k: int, found: Found, setting: Setting) -> None:
    """Hold the first rankings to the reference; a wrong one ends the run."""
    asked = TANTIVY if name == "tantivy" else model
    some = setting.analysed[: setting.checked]
    key = (asked, name in LOSSY, name in ("bm25s", "tantivy"))
    if key not in setting.truths:
        rounded = check.one_byte if key[1] else check.exact
        lines = corpus.lines(setting.documents)
        setting.truths[key] = check.reference(
            lines, some, parse_similarity(asked), rounded, count_empty=key[2]
        )
    truth = setting.truths[key]
    first = Found(found.times[: len(some)], found.rows[: len(some)], found.scores[: len(some)])
    agreed = check.agreement(first, truth, k, 2.2 if name == "tantivy" else 1.0)  # tantivy keeps k1 + 1
    allowed = (EXACT | LOSSY)[name]
    print(f"{asked} top-{k} {name}: {agreed}", flush=True)
    if max(agreed.by_rank, agreed.by_document) > allowed:
        raise SystemExit(f"{name} does not rank by {asked}: no time of it is believed")


def _row(taken: Times, times: dict[str, Times], target: float | None) -> Iterable[str]:
    to_rows, to_docnos = (taken.mean / times[name].mean for name in ("telerank-rows", OURS))
    wanted = "" if target is None else f"{target:.1f}: {'reached' if to_rows >= target else 'missed'}"
    shown = (f"{taken.median:.3f}", f"{taken.p99:.3f}", f"{taken.mean:.3f}")
    return *shown, f"{to_rows:.2f}", wanted, f"{to_docnos:.2f}"


def _table(setting: Setting) -> Table:
    columns = [
        "model",
        "depth",
        "engine",
        "p50 ms",
        "p99 ms",
        "mean ms",
        "to telerank-rows",
        "target",
        "to telerank",
    ]
    rows = [[Cell(text) for text in row] for row in setting.rows]
    return Table.of(columns, rows, left=3)


def _threads(folder: Path, setting: Setting) -> str:
    if len(os.sched_getaffinity(0)) < 2:
        return "two threads: this process may use one core only"
    with open_peer("telerank", "0,1") as one, open_peer("telerank-2", "0,1") as two:
        for peer in (one, two):
            peer.open(folder)
        asked = [[text] for text in setting.queries]
        lines = []
        for k in (10, 1000):
            times = interleaved({peer.name: partial(peer.search, asked, k, BM25) for peer in (one, two)})
            ratio = times["telerank"].mean / times["telerank-2"].mean
            lines.append(f"Two threads answer {ratio:.2f} times the queries of one (top-{k})")
        return "; ".join(lines) + "."


if __name__ == "__main__":
    main()
