"""What the packaged experiments of a paper measured, beside what it prints, for a page of ``docs/results``.

``python benchmarks/paper_results.py FOLDER repbert`` prints, for every experiment of RepBERT with results in
FOLDER (the ``--output`` of ``telerank experiment``), its command, its data, its tables and its notes.
``--write`` puts each between its markers in ``docs/results/repbert.md``; the text around them is not changed.
What a data set is, and a table or a note that comes again, stand only where they come first. Tests between
all pairs of systems and values by question are left to the report. Of pooled folds only the pooled values are
shown.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from results_page import RESULTS, write

from telerank.experiments.packaged import FOLDER, list_experiments
from telerank.experiments.schema import read_experiment
from telerank.show.tables import Table, render_markdown
from telerank.verbs.experiment import expected_time

_LEFT_OUT = re.compile(
    r"It took|Machine:|Measured on|The published values|[^:]+: training of|"
    r".* tokens were not read"
)
"""Notes that the text around the tables has, the machine, and what was cut, which the report says."""
_MEASURED = re.compile(r"Measured on (?P<name>[^:(]+?)(?P<about>: .*)? \((?P<counts>[^()]*)\)[.]", re.DOTALL)
_IN_THE_REPORT = re.compile(
    r"[*]{2}(Paired t-tests|.*: (by (question word|answer length)|Best thresholds.*))[*]{2}"
)
"""Captions of tables that are too long for a page."""
_OUTLOOKS = {"ranker-causes": "piaf", "repbert-segments": "repbert"}
"""The papers of experiments beyond their tables."""


def main() -> None:
    """Print or write the results of a paper."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the results of experiments are; any with --printed")
    parser.add_argument("paper", help="repbert, monobert, bert-dmn, piaf or best")
    parser.add_argument(
        "--printed", action="store_true", help="what the paper prints of data that are not here"
    )
    parser.add_argument("--write", action="store_true", help="put them into docs/results/PAPER.md")
    options = parser.parse_args()
    names = [entry.name for entry in list_experiments([]) if _paper(entry.name) == options.paper]
    if options.printed:
        text = list_printed(sorted(names, key=_place))
        write(options.paper, "printed", text) if options.write else print(text)
        return
    said: set[str] = set()
    for name in sorted(names, key=_place):
        text = "\n\n".join(describe_results(name, folder, said) for folder in _find(options.folder, name))
        if not text:
            print(f"{name}: not run")
        elif options.write:
            write(_page(name), name, text)
        else:
            print(f"## {name}\n\n{text}\n")


def list_printed(names: Sequence[str]) -> str:
    """What a paper's tables print of data that have no values here: those behind an experiment's first."""
    tables = []
    for name in names:
        if "/table" not in name:  # their values are those of tables
            continue
        published = read_experiment(FOLDER / f"{name}.yaml").published
        for data, rows in [*published.items()][1:]:
            measures = dict.fromkeys(measure for row in rows.values() for measure in row)
            lines = [
                [row, *(_show_printed(values.get(each)) for each in measures)] for row, values in rows.items()
            ]
            tables.append(Table.of(("", *measures), lines, caption=f"{name}, {data}"))
    return "\n\n".join(map(render_markdown, tables))


def _show_printed(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}" if value < 1 else f"{value:,.10g}"


def _paper(name: str) -> str:
    return _OUTLOOKS.get(name) or name.partition("/")[0]


def _page(name: str) -> str:
    """The page of an experiment: that of its paper; experiments with answers have their own."""
    return "answers" if "answers" in name else _paper(name)


def _place(name: str) -> int:
    """The place of an experiment in its page, or behind all if it has no markers."""
    page = (RESULTS / f"{_page(name)}.md").read_text(encoding="utf-8")
    return page.find(f"<!-- {name}: begin -->") % (len(page) + 1)


def _find(folder: Path, name: str) -> Iterator[Path]:
    """The folders of an experiment's results, on each data, whole and small; not those of pooled folds."""
    every = [path.parent for path in sorted(folder.glob(f"{name.replace('/', '-')}-*/results.json"))]
    records = {path: json.loads((path / "results.json").read_text(encoding="utf-8")) for path in every}
    folds = {fold for record in records.values() for fold in record.get("folds", ())}
    for path, record in records.items():
        data = record["pool"] if "pool" in record else record["data"]["name"]
        stem = name.replace("/", "-")
        if path.name not in folds and path.name in (f"{stem}-{data}", f"{stem}-small-{data}"):
            yield path


def describe_results(name: str, folder: Path, said: set[str]) -> str:
    """The results in a folder; of what was ``said`` before, nothing, and what is new is added to it."""
    record = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    if "pool" in record:
        return _describe_pooled(name, folder, record)
    small = " --small" if record["size"] == "small copy" else ""
    command = f"`telerank experiment {name}{small} --on {record['data']['name']}`"
    measured = _MEASURED.match(next(note for note in record["notes"] if note.startswith("Measured on")))
    assert measured is not None
    about = measured["about"] or ""
    tables = (folder / "tables.md").read_text(encoding="utf-8").partition("\n")[2]
    parts = re.split(r"\n(?=[*]{2}.*[*]{2}\n)", tables.partition("\n- Measured on")[0])
    shown = [part.strip() for part in parts if part.strip() not in said]
    shown = [part for part in shown if not _IN_THE_REPORT.match(part)]
    notes = [note for note in record["notes"] if not _LEFT_OUT.match(note) and not _is_pipeline(note, record)]
    new = [f"- {note}" for note in notes if note not in said]
    took = expected_time(name, small=bool(small))
    first = f"{command}{f': {took}' if took else ''}. Measured on {measured['name']}"
    began = f"{first}{'' if about in said else about} ({measured['counts']})."
    said.update(notes, shown, (about,))
    return "\n\n".join(filter(None, (began, *shown, "\n".join(new))))


def _describe_pooled(name: str, folder: Path, record: dict[str, Any]) -> str:
    """The pooled values, with their intervals: a table for each analysis, a row for each system."""
    small = " --small" if f"-small-{record['pool']}" in folder.name else ""
    folds = f"{len(record['folds'])} folds of the pool {record['pool']}"
    parts = [f"`telerank experiment {name}{small} --on {record['pool']}`. Measured on the {folds}."]
    for analysis in record["results"]:
        if "compared" in analysis:
            parts += [f"**{analysis['title']}**"] * bool(analysis["title"]) + [_differences(analysis)]
            continue
        columns = analysis["columns"]
        rows = list(dict.fromkeys(row for own in columns.values() for row in own))
        lines = (
            ["| system |", *(f" {column} |" for column in columns)],
            ["| :-- |", *(" --: |" for _ in columns)],
        )
        table = ["".join(line) for line in lines]
        cells = [_pooled_cells(own, rows, marked="marks" in analysis) for own in columns.values()]
        table += [f"| {row} | {' | '.join(own)} |" for row, *own in zip(rows, *cells, strict=True)]
        parts += [f"**{analysis['title']}**"] * bool(analysis["title"]) + ["\n".join(table)]
        if marks := analysis.get("marks"):
            parts.append(marks.replace("<", "\\<"))
    kept = [f"- {note}" for note in record["notes"] if not note.startswith(("Pooled over", "It took"))]
    return "\n\n".join([*parts, *["\n".join(kept)] * bool(kept)])


def _differences(analysis: dict[str, Any]) -> str:
    """The table of two systems over groups of queries, of pooled folds."""
    heads = ("measure", "relevant text", "queries", *analysis["compared"], "difference", "p", "p, Holm")
    lines = [f"| {' | '.join(heads)} |", f"| :-- | :-- |{' --: |' * (len(heads) - 2)}"]
    for row in analysis["differences"]:
        difference = f"{row['difference']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]"
        means = f"{row['baseline']:.3f} | {row['system']:.3f}"
        tests = f"{row['p']:.4f} | {row['p_holm']:.4f}"
        lines.append(
            f"| {row['measure']} | {row['group']} | {row['queries']:,} | {means} | {difference} | {tests} |"
        )
    return "\n".join(lines)


def _pooled_cells(values: dict[str, Any], rows: list[str], *, marked: bool) -> Iterator[str]:
    """A cell for each row of a column; ``marked`` by the tests, with the best in bold."""
    best = max(round(value["pooled"], 3) for value in values.values())
    for row in rows:
        if row not in values:
            yield "–"
            continue
        value = values[row]
        pooled = f"{value['pooled']:.3f}"
        pooled = f"**{pooled}**" if marked and round(value["pooled"], 3) == best else pooled
        marks = f"<sup>{value['marks']}</sup>" if value.get("marks") else ""
        yield f"{pooled}{marks} [{value['low']:.3f}, {value['high']:.3f}]"


def _is_pipeline(note: str, record: dict[str, Any]) -> bool:
    """Whether a note only repeats the pipeline of a system, as the file has it."""
    systems = record["experiment"]["systems"]
    return any(note == f"{name}: {text}." for name, text in systems.items())


if __name__ == "__main__":
    main()
