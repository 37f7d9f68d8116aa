"""Quality of the sparse models on seven collections: runs ``telerank experiment sparse-quality``.

``python benchmarks/sparse_quality.py`` prints Markdown: the objective on all collections, which are in the
folder that ``TELERANK_DATA`` names, then the tables of each. ``--write`` puts it into
``docs/results/sparse.md``. A collection takes one core.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from results_page import write

from telerank.experiments.analyses.tuning import SparseSystem
from telerank.show.tables import Cell, Table, render_markdown

NAMES = ("insuranceqa-v2", "piaf", "dila", "fquad", "scifact", "vaswani", "cranfield")  # the longest first
SHOWN = ("scifact", "dila", "piaf", "fquad", "insuranceqa-v2", "cranfield", "vaswani")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SHOWN, metavar="NAME", help=f"of {', '.join(SHOWN)}")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="collections at the same time")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/results/sparse.md")
    options = parser.parse_args()
    if options.write and options.only:
        parser.error("--write is for all collections")
    names = [name for name in NAMES if not options.only or name in options.only]
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(options.jobs) as pool:
        folders = dict(
            zip(names, pool.map(lambda name: run(name, Path(temporary) / name), names), strict=True)
        )
        text = report([folders[name] for name in SHOWN if name in folders])
    print(text)
    if options.write:
        write("sparse", "sparse quality", text)


def run(name: str, output: Path) -> Path:
    """The folder with the results of the experiment on one collection."""
    command = [sys.executable, "-m", "telerank", "experiment", "sparse-quality", "--on", name]
    subprocess.run([*command, "--output", str(output)], check=True, stdout=subprocess.DEVNULL)
    return next(output.rglob("results.json")).parent


def report(folders: Sequence[Path]) -> str:
    """The overview, and the tables and notes of each collection under its name."""
    records = [json.loads((folder / "results.json").read_text(encoding="utf-8")) for folder in folders]
    versions = ", ".join(f"{name} {number}" for name, number in records[0]["versions"].items())
    parts = [
        f"`python benchmarks/sparse_quality.py --write`: {versions}.",
        render_markdown(overview(records)),
    ]
    for folder, record in zip(folders, records, strict=True):
        _, _, tables = (folder / "tables.md").read_text(encoding="utf-8").partition("\n\n")
        parts += [f"## {record['data']['name']}", tables]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def overview(records: Sequence[dict[str, Any]]) -> Table:
    """The objective of every system on every collection."""
    columns = [means(record) for record in records]
    best = [max(column.values()) for column in columns]
    rows: list[list[str | Cell]] = []
    for model, parameters, preprocessed in sorted(columns[0], key=lambda key: not key[2]):
        values = [column[model, parameters, preprocessed] for column in columns]
        label = SparseSystem(model, parameters, "").label
        cells = [Cell(value, strong=value == top) for value, top in zip(values, best, strict=True)]
        rows.append([label, "yes" if preprocessed else "no", parameters, *cells])
    objective = records[0]["results"][0]["objective"]
    heads = ("model", "preprocessing", "parameters", *(record["data"]["name"] for record in records))
    note = "Preprocessing: stop words and stemming, of English or French. Bold: the best of a collection."
    return Table.of(heads, rows, caption=f"{objective} on all collections", notes=[note], left=3)


def means(record: dict[str, Any]) -> dict[tuple[str, str, bool], str]:
    """The objective's mean by model, parameters, and whether texts were preprocessed."""
    (result,) = record["results"]
    return {
        (system["model"], system["parameters"], system["analyzer"] != "none"): (
            f"{system['means'][result['objective']]:.4f}"
        )
        for system in result["systems"]
    }


if __name__ == "__main__":
    main()
