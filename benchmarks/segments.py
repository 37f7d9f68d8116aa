# ruff: noqa: E402 — how many threads there are is read when libraries are loaded
"""Ranking long documents by their segments beside plain pairs: pairs a second, and peak memory.

100 documents of 3,000 words, of passages of the MS MARCO slice in TELERANK_DATA, are ranked for one query
by `maxp(rerank(MODEL))`. A plain pair is the query and a passage that is the text of one segment, which the
same scorer is given as text. Both are measured in turns, tokenising among them, as wall time and as time of
the processor, which other programs on the machine do not lengthen as much. The scores of a segment and of
its plain pair agree where no window cuts a word. Peak memory is that of a process of its own for each
number of documents; documents are made when they are read.
"""

from __future__ import annotations

import os

for name in ("OMP", "OPENBLAS", "MKL", "RAYON"):
    os.environ.setdefault(f"{name}_NUM_THREADS", "1")
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import argparse
import gzip
import json
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from results_page import write

from telerank.models.rerankers.kinds import Shape
from telerank.models.rerankers.reranker import fresh_reranker, save_reranker
from telerank.reranking.scorer import Scorer
from telerank.reranking.stage import CrossReranker
from telerank.segments.settings import Aggregate, named_segments
from telerank.segments.stage import SegmentReranker
from telerank.show.tables import Cell, Table, render_markdown
from telerank.types import Doc, Query, Ranking

TARGET = 0.9  # of the pairs a second of plain pairs
MAX_QUERY, MAX_LENGTH = 64, 320  # tokens
MOST_GROWTH = 1.1  # of peak memory, from the fewest to the most documents, and to four queries
QUERY = "what is the most common cause of pain in the lower back"


class LongDocuments:
    """Documents of so many words, made of passages when they are read; a function of the docno."""

    def __init__(self, folder: Path, words: int) -> None:
        with gzip.open(folder / "collection.tsv.gz", "rt", encoding="utf-8") as lines:
            self.passages = [line.rstrip("\n").split("\t", 1)[1] for line in islice(lines, 20_000)]
        self.words = words

    def __contains__(self, docno: str) -> bool:
        return docno.isdecimal()

    def __getitem__(self, docno: str) -> Doc:
        draw, words = random.Random(docno), list[str]()
        while len(words) < self.words:
            words += draw.choice(self.passages).split()
        return Doc(docno, " ".join(words[: self.words]))


def stage_of(model: Path, docs: LongDocuments, window: str, backend: str) -> SegmentReranker:
    scorer = Scorer(model, backend, device="cpu", threads=1)
    return SegmentReranker(CrossReranker(scorer, docs, name="m"), Aggregate("max"), named_segments(window))


def candidates(count: int, queries: int = 1) -> Iterator[Ranking]:
    for number in range(queries):
        docnos = [str(number * count + i) for i in range(count)]
        yield Ranking(Query(f"q{number}", QUERY), docnos, list(range(count, 0, -1)))


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock and of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - clock, time.process_time() - processor


def speed(
    model: Path, docs: LongDocuments, window: str, given: argparse.Namespace
) -> tuple[list[str], float]:
    """A row of the table, and the ratio of the processor's times."""
    stage = stage_of(model, docs, window, given.backend)
    cutter, scorer = stage.scorer.segmenter, Scorer(model, given.backend, device="cpu", threads=1)
    segments = [cutter(docs[str(i)]) for i in range(given.documents)]
    plain = [(QUERY, own.text(n)) for own in segments for n in range(len(own))]
    alone = scorer.score(plain[:64])
    in_segments = stage.scorer.score(QUERY, docs["0"])[1]
    deviation = float(np.abs(alone[: len(in_segments)] - in_segments[: len(alone)]).max())
    seconds: dict[str, list[tuple[float, float]]] = {"segments": [], "plain": []}
    for _ in range(given.rounds):
        seconds["plain"].append(timed(lambda: scorer.score(plain)))
        fresh = stage_of(model, docs, window, given.backend)
        fresh.scorer.score(QUERY, docs["0"])  # loads the model
        seconds["segments"].append(timed(lambda fresh=fresh: list(fresh(candidates(given.documents)))))
    rates = {name: len(plain) / np.array(own) for name, own in seconds.items()}
    clock, processor = np.median(rates["segments"] / rates["plain"], axis=0).tolist()
    row = [
        window,
        f"{len(plain):,}",
        *(f"{np.median(rates[name], axis=0)[1]:.1f}" for name in ("plain", "segments")),
        f"{processor:.3f}",
        f"{clock:.3f}",
        f"{deviation:.0e}",
    ]
    return row, processor


def peak(count: int, queries: int, model: Path, given: argparse.Namespace) -> float:
    """Peak memory in MiB of a process that ranks so many documents for each of so many queries."""
    arguments = ["--peak-of", str(count), "--queries", str(queries), "--model-folder", str(model)]
    settings = ["--words", str(given.words), "--backend", given.backend]
    ran = subprocess.run(
        [sys.executable, __file__, *arguments, *settings], capture_output=True, text=True, check=True
    )
    return float(json.loads(ran.stdout)["peak"])


def measure_peak(given: argparse.Namespace) -> None:
    docs = LongDocuments(Path(os.environ["TELERANK_DATA"]) / "msmarco-slice", given.words)
    stage = stage_of(Path(given.model_folder), docs, "best", given.backend)
    for _ in stage(candidates(given.peak_of, given.queries)):
        pass
    status = Path("/proc/self/status").read_text()  # getrusage would say what the process before it had
    print(json.dumps({"peak": int(status.split("VmHWM:")[1].split()[0]) / 1024}))


def memory(folder: Path, given: argparse.Namespace) -> tuple[Table, float]:
    """Peak memory by the number of documents, with a model of two small layers."""
    small = saved("bert-tiny-splade", folder / "tiny")
    rows, peaks = [], []
    for count, queries in [(count, 1) for count in given.memory] + [(given.memory[0], 4)]:
        peaks.append(peak(count, queries, small, given))
        rows.append([f"{count:,}", str(queries), f"{peaks[-1]:,.0f}"])
    notes = [
        f"Documents of {given.words:,} words, bert-tiny, {given.backend}; with the passages that make them."
    ]
    heads = ("documents of a query", "queries", "peak memory, MiB")
    growth = max(peaks[-2:]) / peaks[0]  # of the most documents and queries: others would add noise
    return Table.of(heads, rows, notes=notes, left=0), growth


def saved(start: str, folder: Path) -> Path:
    save_reranker(
        fresh_reranker(start, Shape("monobert", max_query=MAX_QUERY, max_length=MAX_LENGTH)), folder
    )
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--words", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", default="minilm", help="an encoder, which gets a layer drawn at random")
    parser.add_argument("--backend", default="torch")
    parser.add_argument("--windows", nargs="+", default=["best", "parade"])
    parser.add_argument(
        "--memory", nargs="*", type=int, default=[100, 400, 1600], help="numbers of documents"
    )
    parser.add_argument("--write", action="store_true", help="put the tables into docs/results/speed.md")
    for name in ("--peak-of", "--queries"):
        parser.add_argument(name, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--model-folder", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if "TELERANK_DATA" not in os.environ:
        sys.exit("TELERANK_DATA is not set: no passages here")
    torch.set_num_threads(1)
    if given.peak_of:
        measure_peak(given)
        return
    docs = LongDocuments(Path(os.environ["TELERANK_DATA"]) / "msmarco-slice", given.words)
    failed, tables = [], []
    with tempfile.TemporaryDirectory() as folder:
        model = saved(given.model, Path(folder) / "model")
        rows = []
        for window in given.windows:
            row, ratio = speed(model, docs, window, given)
            rows.append([*row[:4], Cell(row[4], strong=True), *row[5:]])
            print(*row, file=sys.stderr, flush=True)
            failed += [f"{window}: {ratio:.3f} of plain pairs, not {TARGET}"] if ratio < TARGET else []
        heads = (
            "segments",
            "pairs",
            "plain pairs a second",
            "of segments",
            "ratio",
            "by the clock",
            "deviation",
        )
        scored = f"one query, {given.model} ({given.backend})"
        what = f"{given.documents} documents of {given.words:,} words, {scored}"
        lengths = f"queries of {MAX_QUERY} and pairs of {MAX_LENGTH} tokens at most"
        time_of = f"processor time of one core, medians of {given.rounds} rounds"
        versions = f"torch {version('torch')}, Python {platform.python_version()}"
        cut_words = (
            "Where a window begins or ends within a word, its text has other tokens: then scores deviate."
        )
        notes = [f"{what}, {lengths}; {time_of}. {versions}.", cut_words]
        tables.append(Table.of(heads, rows, notes=notes, left=1))
        if given.memory:
            table, growth = memory(Path(folder), given)
            tables.append(table)
            failed += [f"peak memory grows {growth:.2f} times"] if growth > MOST_GROWTH else []
    usual = vars(parser.parse_args([]))
    changed = {key: own for key, own in vars(given).items() if key != "write" and own != usual[key]}
    options = (
        f" --{key} {' '.join(map(str, own)) if isinstance(own, list) else own}"
        for key, own in changed.items()
    )
    command = f"```sh\npython benchmarks/segments.py{''.join(options)}\n```"
    text = "\n\n".join((command, *map(render_markdown, tables)))
    print(text)
    if given.write:
        write("speed", "segments", text)
    sys.exit("\n".join(failed) or 0)


if __name__ == "__main__":
    main()
