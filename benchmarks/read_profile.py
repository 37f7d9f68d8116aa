# ruff: noqa: I001 — read_speed sets the number of threads before libraries are loaded
"""Where the time of reading goes: tokenising, windows, the transformer's operations, the choice of spans.

The texts, the readers of random last layers, and transformers called plainly are those of ``read_speed.py``;
times are of one core's processor. torch's profiler says how the transformer's time is divided in torch; the
other back ends compute it in one call. Answers are not compared here: ``read_speed.py`` does.
"""

from __future__ import annotations

import read_speed
from read_speed import BATCH, LENGTH, LONGEST, PLAIN, STRIDE, Plain, real_pairs

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from results_page import write
from torch.profiler import ProfilerActivity, profile

from telerank.answers import scorer
from telerank.answers.scorer import SpanReader
from telerank.batches import batch_by_length
from telerank.models.loading import quiet
from telerank.models.readers import ReaderSettings, fresh_reader, save_reader
from telerank.show.tables import Table, render_markdown

STARTS = {"minilm": "MiniLM-L6", "e5-small": "multilingual-e5-small"}
TOKENISING, WINDOWS, BATCHES, MODEL, SPANS, REST = (
    "tokenising",
    "windows, edges of words",
    "padding into batches",
    "transformer",
    "choosing spans",
    "rest",
)
PRODUCTS, ATTENTION, OTHER = "… products of layers", "… attention", "… other operations"
PARTS = (TOKENISING, WINDOWS, BATCHES, MODEL, PRODUCTS, ATTENTION, OTHER, SPANS, REST)
SIZE = 1536  # of a matrix
FUNCTIONS = {
    "tokenize_contexts": TOKENISING,
    "find_bounds": WINDOWS,
    "cut_windows": WINDOWS,
    "batch_of": BATCHES,
    "best_spans": SPANS,
}
"""Functions of the reader that are timed, and the part that each is."""


@dataclass
class Parts:
    """Seconds of the processor in each part."""

    seconds: dict[str, float] = field(default_factory=dict)

    def time(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, timed."""

        def timed(*values: Any, **named: Any) -> Any:
            began = time.process_time()
            result = function(*values, **named)
            self.seconds[part] = self.seconds.get(part, 0.0) + time.process_time() - began
            return result

        return timed

    def finish(self, began: float) -> dict[str, float]:
        """The parts, and what is left of the time since ``began``."""
        total = time.process_time() - began
        return {**self.seconds, REST: total - sum(self.seconds.values())}


def profile_reader(reader: SpanReader, pairs: Sequence[tuple[str, str]]) -> dict[str, float]:
    """The seconds of each part of reading; the parts of the transformer, too, if torch computes it."""
    parts = Parts()
    with timed_functions(parts, reader):
        began = time.process_time()
        prepared = reader.prepare(pairs)
        reader.read_prepared(prepared)
        seconds = parts.finish(began)
    if reader.backend == "torch":
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            reader.read_prepared(prepared)
        shares = {PRODUCTS: 0.0, ATTENTION: 0.0, OTHER: 0.0}
        for event in profiled.key_averages():
            kind = PRODUCTS if event.key in ("aten::addmm", "aten::mm", "aten::bmm") else OTHER
            shares[ATTENTION if "scaled_dot_product" in event.key else kind] += event.self_cpu_time_total
        seconds |= {part: seconds[MODEL] * own / sum(shares.values()) for part, own in shares.items()}
    return seconds


@contextmanager
def timed_functions(parts: Parts, reader: SpanReader) -> Iterator[None]:
    """Time the functions of a reader."""
    compute = parts.time(MODEL, reader._compute)
    with patch.multiple(
        scorer, **{name: parts.time(part, getattr(scorer, name)) for name, part in FUNCTIONS.items()}
    ):
        object.__setattr__(reader, "_compute", compute)
        yield


def profile_plain(plain: Plain, pairs: list[tuple[str, str]]) -> dict[str, float]:
    """The seconds of each part of transformers called plainly; what is left are tables of starts and ends."""
    parts = Parts()
    plain.tokenizer, plain.model = (
        parts.time(TOKENISING, plain.tokenizer),
        parts.time(MODEL, plain.model),
    )
    names = {"most_context": WINDOWS, "word_edges": WINDOWS}
    timed = {name: parts.time(part, getattr(read_speed, name)) for name, part in names.items()}
    with patch.multiple(read_speed, **timed):
        began = time.process_time()
        plain(pairs)
        seconds = parts.finish(began)
    return {**seconds, SPANS: seconds[REST], REST: 0.0}


def report(start: str, folder: Path, pairs: list[tuple[str, str]]) -> Table:
    reader = fresh_reader(start, ReaderSettings(LENGTH, STRIDE, 64, LONGEST))
    with torch.no_grad():
        reader.model.qa_outputs.weight *= 20
    save_reader(reader, folder)
    columns: dict[str, dict[str, float]] = {}
    for backend in ("torch", "openvino"):
        own = SpanReader(folder, backend, "float32", threads=1, device="cpu")
        own.read(pairs[:4])  # loads, compiles
        columns[f"{backend}/float32"] = profile_reader(own, pairs)
    plain = Plain(folder, padding=True)
    plain(pairs[:4])
    columns[PLAIN] = profile_plain(plain, pairs)
    windows = [[len(window.pair) for window in own.windows] for own in own.prepare(pairs)]
    count = sum(map(len, windows))
    rows = [(part, *(_cell(seconds, part, count) for seconds in columns.values())) for part in PARTS]
    rows.append(("all", *(f"{1000 * _total(seconds) / count:.1f}" for seconds in columns.values())))
    ours, plainly = _padded(windows, own.budget)
    each = 2 * _weights(reader.model) / 1e9  # operations of a token, in billions
    tokens = {name: plainly if name == PLAIN else ours for name in columns}
    rates = [each * tokens[name] / seconds[MODEL] for name, seconds in columns.items()]
    rows.append(("10⁹ operations of products a second", *(f"{rate:.0f}" for rate in rates)))
    rate = each * ours / columns["torch/float32"][PRODUCTS]
    note = (
        f"Milliseconds of one core for each of {count} windows ({len(pairs)} questions), and percent. Tokens "
        f"that are computed: {ours:,}, {100 * (1 - sum(map(sum, windows)) / ours):.0f} % of them padding; "
        f"{plainly:,} where transformers is called plainly. Operations are those of the products of layers, "
        f"over the transformer's time; over their own time they are {rate:.0f} in torch, and a product of "
        f"two matrices of {SIZE} x {SIZE} alone has {_product_rate():.0f}."
    )
    return Table.of((STARTS[start], *columns), rows, notes=(note,), left=1)


def _padded(windows: Sequence[Sequence[int]], budget: int) -> tuple[int, int]:
    """Tokens that are computed: of batches by length, and of batches in the order of the questions."""
    lengths = [length for own in windows for length in own]
    ours = sum(max(lengths[row] for row in rows) * len(rows) for rows in batch_by_length(lengths, budget))
    plain = 0
    for first in range(0, len(windows), BATCH):
        batch = [length for own in windows[first : first + BATCH] for length in own]
        plain += max(batch) * len(batch)
    return ours, plain


def _weights(model: torch.nn.Module) -> int:
    """The weights that each token is multiplied with."""
    layers = (part for part in model.modules() if isinstance(part, torch.nn.Linear))
    return sum(layer.in_features * layer.out_features for layer in layers)


def _product_rate() -> float:
    """Billions of operations a second of a product of large matrices: the best of several."""
    one = torch.rand(SIZE, SIZE)
    seconds = []
    for _ in range(10):
        began = time.process_time()
        one @ one
        seconds.append(time.process_time() - began)
    return 2 * SIZE**3 / min(seconds) / 1e9


def _total(seconds: dict[str, float]) -> float:
    return sum(own for part, own in seconds.items() if not part.startswith("…"))


def _cell(seconds: dict[str, float], part: str, count: int) -> str:
    if part not in seconds:
        return ""
    return f"{1000 * seconds[part] / count:.2f} ({100 * seconds[part] / _total(seconds):.1f} %)"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/results/speed.md")
    given = parser.parse_args()
    if "TELERANK_DATA" not in os.environ:
        sys.exit("TELERANK_DATA is not set: no real texts here")
    torch.set_num_threads(1)
    pairs = real_pairs(Path(os.environ["TELERANK_DATA"]) / "xquad-en", given.questions)
    with tempfile.TemporaryDirectory() as folder, quiet():
        os.environ["XDG_CACHE_HOME"] = folder
        tables = [render_markdown(report(start, Path(folder) / start, pairs)) for start in STARTS]
    options = "" if given.questions == parser.get_default("questions") else f" --questions {given.questions}"
    text = "\n\n".join([f"```sh\npython benchmarks/read_profile.py{options}\n```", *tables])
    print(text)
    if given.write:
        write("speed", "read profile", text)


if __name__ == "__main__":
    main()
