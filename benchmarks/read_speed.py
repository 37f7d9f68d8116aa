# ruff: noqa: E402 — how many threads there are is read when libraries are loaded
"""Reading beside transformers called plainly: one core, one run, taking turns, answers equal.

The texts are real ones of uneven length: questions of XQuAD (in TELERANK_DATA) with their paragraphs and, for
windows, a few paragraphs joined. Weights are MiniLM's under a layer for starts and ends drawn at random.
Plainly is what transformers' own example does: batches in the order of the questions, windows of 384 tokens
that share 128, each padded to the longest of its batch (or, as the example does by default, to 384), then for
each window the table of all starts and ends. Times are those of the processor, tokenising among them. All
answers are compared before any time is believed; other answers, or a ratio below its target, fail.
"""

from __future__ import annotations

import os

for name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "RAYON"):
    os.environ[f"{name}_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import argparse
import math
import platform
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from results_page import write
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

import telerank as tr
from telerank.answers.scorer import SpanReader
from telerank.errors import TelerankError
from telerank.models.loading import quiet
from telerank.models.readers import ReaderSettings, fresh_reader, save_reader
from telerank.show.tables import Cell, Table, render_markdown

LENGTH, STRIDE, LONGEST, BATCH = 384, 128, 30, 32
PLAIN, PADDED = "transformers, plainly", "transformers, padded to 384"
CLOSE = 1e-4  # scores that may be swapped by rounding
Answer = tuple[int, int, float]
"""First character, end, score of a best span."""


@dataclass(frozen=True)
class Row:
    """A back end; ``target`` is how many times as fast as plainly it should be."""

    backend: str
    precision: str
    target: float | None = None

    @property
    def name(self) -> str:
        return f"{self.backend}/{self.precision}"


ROWS = (
    Row("torch", "float32"),
    Row("torch", "float32-fast"),
    Row("onnx", "float32"),
    Row("openvino", "float32", 3.0),
)


def real_pairs(folder: Path, count: int) -> list[tuple[str, str]]:
    """Questions with the paragraph that answers them, every tenth in the middle of six paragraphs."""
    data = tr.collection(folder)
    texts = {doc.docno: doc.text for doc in data.docs()}
    grades = data.judged(None)
    questions = [(query.text, next(iter(grades[query.qid]))) for query in data.split_queries(None)]
    draw = random.Random(0)
    draw.shuffle(questions)
    docnos = list(texts)
    pairs = []
    for number, (question, docno) in enumerate(questions[:count]):
        around = draw.choices(docnos, k=5) if number % 10 == 0 else []
        pairs.append((question, "\n".join(texts[one] for one in [*around[:3], docno, *around[3:]])))
    return pairs


class Plain:
    """The best answers by transformers' model, with one table of all starts and ends for each window."""

    def __init__(self, folder: Path, padding: bool | str) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForQuestionAnswering.from_pretrained(folder).eval()
        self.padding = padding

    def __call__(self, pairs: list[tuple[str, str]]) -> list[Answer]:
        answers: list[Answer] = []
        for first in range(0, len(pairs), BATCH):
            answers += self._batch(pairs[first : first + BATCH])
        return answers

    def _batch(self, pairs: list[tuple[str, str]]) -> list[Answer]:
        questions, texts = map(list, zip(*pairs, strict=True))
        tokens = self.tokenizer(
            questions,
            texts,
            truncation="only_second",
            max_length=LENGTH,
            stride=STRIDE,
            padding=self.padding,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            return_tensors="pt",
        )
        samples, offsets = (
            tokens.pop("overflow_to_sample_mapping").tolist(),
            tokens.pop("offset_mapping").numpy(),
        )
        with torch.no_grad():
            outputs = self.model(**tokens)
        logits = zip(outputs.start_logits.numpy(), outputs.end_logits.numpy(), strict=True)
        inside = [np.array([part == 1 for part in tokens.sequence_ids(row)]) for row in range(len(samples))]
        counts = most_context(samples, inside, offsets)
        best: list[Answer] = [(0, 0, -math.inf)] * len(pairs)
        for row, (starts, ends) in enumerate(logits):
            text = texts[samples[row]]
            begins, stops = word_edges(text, offsets[row], inside[row])
            table = starts[:, None].astype(np.float64) + ends[None, :]
            allowed = (begins & counts[row])[:, None] & stops[None, :]
            allowed &= np.triu(np.ones_like(allowed)) & ~np.triu(np.ones_like(allowed), LONGEST)
            table = np.where(allowed, table, -np.inf)
            i, j = np.unravel_index(int(table.argmax()), table.shape)
            if table[i, j] > best[samples[row]][2]:
                best[samples[row]] = int(offsets[row][i][0]), int(offsets[row][j][1]), float(table[i, j])
        return best


def most_context(samples: list[int], inside: list[np.ndarray], offsets: np.ndarray) -> list[np.ndarray]:
    """Which tokens of each window have most context there."""
    best: dict[tuple[int, int], tuple[int, int]] = {}
    around = []
    for row, (sample, part) in enumerate(zip(samples, inside, strict=True)):
        numbers = np.flatnonzero(part)
        context = np.minimum(np.arange(len(numbers)), np.arange(len(numbers))[::-1])
        around.append((numbers, context))
        for number, size in zip(numbers.tolist(), context.tolist(), strict=True):
            key = sample, int(offsets[row][number][0])
            best[key] = max(best.get(key, (-1, 0)), (size, -row))
    counts = []
    for row, (numbers, _) in enumerate(around):
        own = np.zeros(len(inside[row]), bool)
        own[numbers] = [best[samples[row], int(offsets[row][n][0])][1] == -row for n in numbers.tolist()]
        counts.append(own)
    return counts


def word_edges(text: str, offsets: np.ndarray, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether each token begins a word, and ends one."""
    begins, stops = inside.copy(), inside.copy()
    for number in np.flatnonzero(inside).tolist():
        start, end = offsets[number].tolist()
        begins[number] = not within_word(text, start)
        stops[number] = not within_word(text, end)
    return begins, stops


def within_word(text: str, at: int) -> bool:
    """Whether letters or digits, or the digits around a point, are on both sides."""
    if not 0 < at < len(text):
        return False
    return _joins(text, at - 1) and _joins(text, at)


def _joins(text: str, at: int) -> bool:
    between = 0 < at < len(text) - 1 and text[at - 1].isdigit() and text[at + 1].isdigit()
    return text[at].isalnum() or (text[at] in ".," and between)


def compare(answers: list[Answer], expected: list[Answer]) -> int:
    """How many answers differ by more than rounding."""
    return sum(
        abs(one[2] - other[2]) > (CLOSE if one[:2] != other[:2] else 10 * CLOSE)
        for one, other in zip(answers, expected, strict=True)
    )


def engines_of(
    folder: Path, pairs: list[tuple[str, str]]
) -> tuple[dict[str, Callable[[], list[Answer]]], list[str]]:
    """Plainly, and every row that this machine can compute; a line for each that it cannot."""
    engines: dict[str, Callable[[], list[Answer]]] = {}
    for name, padding in ((PLAIN, True), (PADDED, "max_length")):
        plain = Plain(folder, padding)
        engines[name] = lambda plain=plain: plain(pairs)
    skipped = []
    for row in ROWS:
        reader = SpanReader(folder, row.backend, row.precision, threads=1, device="cpu")
        try:
            reader.read(pairs[:4])
        except TelerankError as error:
            skipped.append(f"{row.name} is left out: {error}")
            continue

        def read(reader: SpanReader = reader) -> list[Answer]:
            best = [reading.spans[0] for reading in reader.read(pairs)]
            return [(span.start, span.end, span.score) for span in best]

        engines[row.name] = read
    return engines, skipped


def report(folder: Path, pairs: list[tuple[str, str]], rounds: int) -> tuple[Table, list[str]]:
    engines, skipped = engines_of(folder, pairs)
    answers = {name: engine() for name, engine in engines.items()}  # loads, compiles
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(rounds):
        for name, engine in engines.items():
            began = time.process_time()
            engine()
            seconds[name].append(time.process_time() - began)
            print(f"{name}: {seconds[name][-1]:.2f} s", file=sys.stderr, flush=True)
    prepared = SpanReader(folder).prepare(pairs)
    windows = [len(window.pair) for pair in prepared for window in pair.windows]
    targets = {row.name: row.target or 0.0 for row in ROWS}
    rows, failed = [], []
    for name in engines:
        taken = np.array(seconds[name])
        ratio = float(np.median(np.array(seconds[PLAIN]) / taken))
        wrong = compare(answers[name], answers[PLAIN])
        said = {
            f"gives {wrong} other answers": wrong > 0,
            f"is {ratio:.2f} times as fast, not {targets.get(name)}": ratio < targets.get(name, 0.0),
        }
        failed += [f"{name} {what}" for what, so in said.items() if so]
        rates = len(windows) / taken
        shown = Cell(f"{ratio:.2f}", strong=bool(targets.get(name)))
        span = f"{rates.min():.1f} to {rates.max():.1f}"
        rows.append((name, f"{np.median(rates):.1f}", span, shown, str(wrong)))
    lengths = f"{np.mean(windows):.0f} tokens in the mean, {min(windows)} to {max(windows)}"
    packages = ("torch", "transformers", "openvino", "onnxruntime")
    notes = (
        f"{len(pairs):,} questions, {len(windows):,} windows: {lengths}. Rounds of one core: {rounds}.",
        f"Other answers: best spans with other characters than {PLAIN} gives, beyond rounding.",
        *skipped,
        f"{', '.join(f'{one} {version(one)}' for one in packages)}, Python {platform.python_version()}.",
    )
    columns = ("MiniLM-L6", "windows a second", "from to", "times plainly", "other answers")
    return Table.of(columns, rows, notes=notes, left=1), failed


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the table into docs/results/speed.md")
    given = parser.parse_args()
    if "TELERANK_DATA" not in os.environ:
        sys.exit("TELERANK_DATA is not set: no real texts here")
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pairs = real_pairs(Path(os.environ["TELERANK_DATA"]) / "xquad-en", given.questions)
    with tempfile.TemporaryDirectory() as folder, quiet():
        os.environ["XDG_CACHE_HOME"] = folder
        save_reader(drawn_reader(), Path(folder) / "reader")
        table, failed = report(Path(folder) / "reader", pairs, given.rounds)
    usual: dict[str, Any] = vars(parser.parse_args([]))
    changed = {key: one for key, one in vars(given).items() if key != "write" and one != usual[key]}
    options = "".join(f" --{key} {one}" for key, one in changed.items())
    text = f"```sh\npython benchmarks/read_speed.py{options}\n```\n\n{render_markdown(table)}"
    print(text)
    if given.write:
        write("speed", "read speed", text)
    sys.exit("\n".join(failed) or 0)


def drawn_reader() -> Any:
    """MiniLM under a layer that tells tokens apart as much as a trained one does."""
    reader = fresh_reader("minilm", ReaderSettings(LENGTH, STRIDE, 64, LONGEST))
    with torch.no_grad():
        reader.model.qa_outputs.weight *= 20
    return reader


if __name__ == "__main__":
    main()
