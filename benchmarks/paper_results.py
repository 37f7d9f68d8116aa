"""What the packaged experiments of a paper measured, beside what it prints, for a page of ``docs/results``.

``python benchmarks/paper_results.py FOLDER repbert`` prints, for every experiment of RepBERT with results in
FOLDER (the ``--output`` of ``telerank experiment``), its command, its data, its tables and its notes.
``--write`` puts each between its markers in ``docs/results/repbert.md``; the text around them is not changed.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from results_page import write

from telerank.experiments.packaged import list_experiments

_LEFT_OUT = re.compile(r"It took|Measured on|The published values|Not measured: .*\(not given")
"""Notes that the text around the tables has."""


def main() -> None:
    """Print or write the results of a paper."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the results of experiments are")
    parser.add_argument("paper", help="repbert, monobert, bert-dmn or piaf")
    parser.add_argument("--write", action="store_true", help="put them into docs/results/PAPER.md")
    options = parser.parse_args()
    names = [entry.name for entry in list_experiments([]) if entry.name.startswith(f"{options.paper}/")]
    for name in names:
        text = "\n\n".join(_describe(name, folder) for folder in _find(options.folder, name))
        if not text:
            print(f"{name}: not run")
        elif options.write:
            write(options.paper, name, text)
        else:
            print(f"## {name}\n\n{text}\n")


def _find(folder: Path, name: str) -> Iterator[Path]:
    """The folders of an experiment's results, on each data, whole and small."""
    for path in sorted(folder.glob(f"{name.replace('/', '-')}-*/results.json")):
        yield path.parent


def _describe(name: str, folder: Path) -> str:
    record = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    small = " --small" if record["size"] == "small copy" else ""
    command = f"`telerank experiment {name}{small} --on {record['data']['name']}`"
    measured = next(note for note in record["notes"] if note.startswith("Measured on"))
    tables = (folder / "tables.md").read_text(encoding="utf-8").partition("\n")[2]
    tables = tables.partition("\n- Measured on")[0].strip()
    notes = [
        f"- {note}"
        for note in record["notes"]
        if not _LEFT_OUT.match(note) and not _is_pipeline(note, record)
    ]
    return "\n\n".join(filter(None, (f"{command}: {_minutes(record)}. {measured}", tables, "\n".join(notes))))


def _is_pipeline(note: str, record: dict[str, Any]) -> bool:
    """Whether a note only repeats the pipeline of a system, as the file has it."""
    systems = record["experiment"]["systems"]
    return any(note == f"{name}: {text}." for name, text in systems.items())


def _minutes(record: dict[str, Any]) -> str:
    seconds = record["seconds"]
    return f"{seconds / 60:.0f} minutes" if seconds >= 60 else f"{seconds:.0f} seconds"


if __name__ == "__main__":
    main()
