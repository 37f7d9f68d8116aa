"""Measure what this machine's GPU makes of telerank, print a row as soon as it is measured, write a file.

Run ``python -m benchmarks.gpu`` in the repository, with telerank installed (or ``PYTHONPATH=src``). It needs
no network and no other file; MiniLM's weights are used if they are installed or in TELERANK_MODELS, and drawn
if not, which changes no time. Without a GPU, or with ``--small``, everything is small: that shows only that
it works.

Pairs, texts and queries a second are of a whole pass: tokenising, copying and writing, too. Operations are
counted from the model's shape on tokens that are no padding (a training: three times a forward pass), and
their share is of the largest product of bfloat16 matrices, which is measured first. A step is an update,
65,536 tokens scored or encoded, the tokens of a batch of stored features, or a search of a batch of queries.
Synchronisations are calls that torch knows to wait for the GPU; memory is the peak of what torch gave out.
"""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path

import torch

from telerank.models.precision import device_of
from telerank.show.tables import Table, render_markdown

from .inputs import Inputs
from .measuring import Limits, Probe, measure_limits, release
from .scoring import Row, compiled_rows, encoding_rows, scoring_rows
from .searching import searching_rows
from .training import compiled_training_rows, training_rows

PARTS = {
    "scoring": scoring_rows,
    "encoding": encoding_rows,
    "training": training_rows,
    "search": searching_rows,
}
ON_REQUEST = (compiled_rows, compiled_training_rows)  # with --only compiled: the first batches take a minute
PACKAGES = ("telerank", "torch", "transformers", "tokenizers", "numpy", "numba")
COLUMNS = ("row", "a second", "tokens/s", "TFLOP/s", "of peak", "syncs a step", "GB")


def main() -> None:
    given = _arguments()
    device = device_of(given.device)
    small = given.small or device.type != "cuda"
    if device.type == "cpu":
        torch.set_num_threads(1)
    began, record = time.perf_counter(), _describe(device, small=small)
    limits = measure_limits(device, small=small)
    record |= {"limits": asdict(limits), "rows": []}
    print(
        f"{record['device']['name']}, torch {record['versions']['torch']}: {_of_limits(limits)}", flush=True
    )
    given.output.with_suffix(".profile.txt").unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        inputs = Inputs(Path(folder), device, small)
        record["weights of MiniLM"] = "drawn" if inputs.minilm is None else "its own"
        for row in _chosen(inputs, given.only):
            if given.seconds and time.perf_counter() - began > given.seconds:
                print(
                    f"{given.seconds} seconds are over: {row.part}: {row.name} and all after it are left out"
                )
                break
            record["rows"].append(_measure(row, device, limits, given))
            record["seconds"] = round(time.perf_counter() - began, 1)
            given.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"\n{render_markdown(_table(record['rows']))}\n{given.output}: {record['seconds']:.0f} s in all")
    sys.exit("some rows have failed" if any("error" in row for row in record["rows"]) else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", default="auto", help="default: the GPU if there is one")
    parser.add_argument("--small", action="store_true", help="small sizes, as without a GPU")
    parser.add_argument(
        "--only",
        help="parts or parts of names, with commas: scoring,k-nrm; compiled rows are only on request",
    )
    parser.add_argument("--profile", action="store_true", help="kernels and lines of each row, in a file")
    parser.add_argument("--seconds", type=float, help="begin no row after that many seconds")
    parser.add_argument("--output", type=Path, default=Path("gpu.json"), help="the file to write")
    return parser.parse_args()


def _chosen(inputs: Inputs, only: str | None) -> Iterator[Row]:
    words = [word.strip() for word in only.split(",")] if only else [""]
    parts = (*PARTS.values(), *(ON_REQUEST if "compiled" in words else ()))
    rows = chain.from_iterable(part(inputs) for part in parts)
    chosen = [row for row in rows if any(word in f"{row.part}: {row.name}" for word in words)]
    if not chosen:
        sys.exit(f"no row has one of these in its name: {only}")
    yield from chosen


def _measure(row: Row, device: torch.device, limits: Limits, given: argparse.Namespace) -> dict:
    """The values of a row, printed."""
    probe, began = Probe(device, given.profile), time.perf_counter()
    values = {"part": row.part, "name": row.name, "unit": row.unit}
    try:
        amount = row.run(probe)
    except Exception as error:  # noqa: BLE001 — the other rows are measured
        values["error"] = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    else:
        rate = amount.count / probe.seconds
        values |= {"a second": rate, "tokens a second": amount.tokens / probe.seconds or None}
        if amount.operations is not None:
            reached = amount.operations / probe.seconds / 1e12
            values |= {"TFLOP/s": reached, "share of peak": reached / limits.peak}
        values |= {
            "synchronisations a step": probe.synchronisations,
            "GB": probe.memory,
            "timed": {"count": amount.count, "steps": amount.steps, "seconds": probe.seconds},
            "waits by line": dict(probe.lines.most_common(8)),
        }
    release(device)
    values["seconds"] = round(time.perf_counter() - began, 2)
    print(_line(values), flush=True)
    if probe.profile:
        with given.output.with_suffix(".profile.txt").open("a", encoding="utf-8") as file:
            file.write(f"## {row.part}: {row.name}\n\n{probe.profile}")
    return values


def _cells(values: dict) -> tuple[str, ...]:
    def shown(name: str, form: str) -> str:
        return "–" if values.get(name) is None else form.format(values[name])

    return (
        f"{values['a second']:,.{0 if values['a second'] >= 100 else 1}f} {values['unit']}",
        shown("tokens a second", "{:,.0f}"),
        shown("TFLOP/s", "{:.3g}"),
        shown("share of peak", "{:.1%}"),
        shown("synchronisations a step", "{:.1f}"),
        shown("GB", "{:.2f}"),
    )


def _line(values: dict) -> str:
    name = f"{values['part']}: {values['name']}"
    if "error" in values:
        return f"{name:78} {values['error']}"
    sizes = (18, 11, 7, 7, 6, 6)
    cells = " ".join(f"{cell:>{size}}" for cell, size in zip(_cells(values), sizes, strict=True))
    return f"{name:78} {cells}  {values['seconds']:.0f} s"


def _table(rows: list[dict]) -> Table:
    lines = []
    for values in rows:
        empty = (values.get("error", ""), *([""] * (len(COLUMNS) - 2)))
        lines.append(
            (f"{values['part']}: {values['name']}", *(empty if "error" in values else _cells(values)))
        )
    return Table.of(COLUMNS, lines, left=1)


def _of_limits(limits: Limits) -> str:
    products = ", ".join(f"{name} {value:.3g}" for name, value in limits.products.items())
    copies = f"; copies {limits.copies:,.0f} GB/s, a launch {limits.launch:.1f} µs" if limits.copies else ""
    return f"products of matrices, TFLOP/s: {products}{copies}"


def _describe(device: torch.device, *, small: bool) -> dict:
    """Versions and machine."""
    machine = {"name": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        machine |= {
            "name": properties.name,
            "GB": properties.total_memory / 1e9,
            "multiprocessors": properties.multi_processor_count,
            "capability": f"{properties.major}.{properties.minor}",
            "CUDA": torch.version.cuda,
        }
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "versions": versions,
        "device": machine,
        "small": small,
        "arguments": sys.argv[1:],
    }


def _commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


if __name__ == "__main__":
    main()
