"""What the commands that measure runs share: qrels from anywhere, names of runs, tables to anywhere."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from telerank.cli import console
from telerank.errors import CollectionError, FormatError, MeasureError

if TYPE_CHECKING:
    from telerank.corpus.collection import Collection
    from telerank.evaluate.measures import Evaluation
    from telerank.show.tables import Table
    from telerank.types import Qrels, Ranking


class Form(StrEnum):
    """What a table is written as."""

    terminal = "terminal"
    markdown = "markdown"
    latex = "latex"
    html = "html"


MEASURES = "RR@10 R@1000 AP nDCG@10 P@1"

QrelsArgument = Annotated[
    str, typer.Argument(metavar="QRELS", help="A qrels file (`-`: standard input), or a collection.")
]
RunArguments = Annotated[list[str], typer.Argument(metavar="RUN", help="Run files; `-`: standard input.")]
Measures = Annotated[str, typer.Option("--measures", "-m", help="Names as ir_measures writes them.")]
FormOption = Annotated[
    Form | None,
    typer.Option("--as", help="Form of the tables; default: what the output's name says."),
]
Output = Annotated[str, typer.Option("--output", "-o", help="A file for the tables; `-`: standard output.")]

_FORMS = {".md": Form.markdown, ".tex": Form.latex, ".html": Form.html, ".htm": Form.html}
_PACKED, _RUN = {".gz", ".xz"}, {".run", ".trec", ".txt", ".res"}
_LOOKED_AT = 100  # queries of a run that tell which split it answers
_WIDE = 400  # columns of what is not a terminal: nothing is folded


@dataclass(frozen=True)
class Source:
    """Where qrels come from, as the command line says it."""

    where: str
    split: str | None = None
    format: str | None = None
    encoding: str = "utf-8"


def load_qrels(source: Source, runs: Sequence[str] = ()) -> Qrels:
    """The grades of a qrels file as they are, or else those of a collection's split to measure with.

    Where a collection has several splits and none is named, it is the one whose qrels judge the
    queries that the runs begin with, if there is but one.

    Raises
    ------
    CollectionError
        where the place is neither, the collection has no such split, or there are no qrels in it.
    FormatError
        where qrels, once recognised, are malformed.
    """
    from telerank import trec

    qrels: Qrels
    if _is_qrels(source):
        if source.split is not None:
            raise CollectionError(f"{source.where} is a qrels file: it has no split {source.split!r}")
        qrels = trec.load_qrels(trec.read_qrels(source.where))
    else:
        qrels = _of_collection(source, runs)
    if not qrels:
        raise CollectionError(f"{source.where} holds no qrels")
    return qrels


def evaluate_runs(
    runs: Sequence[str], qrels: Qrels, measures: Sequence[str], where: str
) -> dict[str, Evaluation]:
    """The evaluation of each run by its name; what does not count, or counts 0, is said on standard error.

    Raises
    ------
    CollectionError
        where no query of a run is judged in ``where``.
    """
    from telerank.evaluate.measures import measure
    from telerank.trec import read_run

    evaluations = {}
    with console.progress() as progress:
        for name, path in named(runs).items():
            evaluations[name] = measure(read_run(path), qrels, measures, progress=progress)
            if evaluations[name].unjudged and len(evaluations[name].missing) == len(qrels):
                first = evaluations[name].unjudged[0]
                raise CollectionError(f"{path}: no query of it is judged in {where} (the first is {first!r})")
    _tell(evaluations, len(qrels))
    return evaluations


def named(runs: Sequence[str]) -> dict[str, str]:
    """The runs' files by short names: ``bm25`` for ``runs/bm25.run.gz``, unless two would share one.

    Raises
    ------
    CollectionError
        where a file is given twice.
    """
    if len(set(runs)) < len(runs):
        raise CollectionError("a run is given twice")
    short = [_short(run) for run in runs]
    return {name if short.count(name) == 1 else run: run for name, run in zip(short, runs, strict=True)}


def write_tables(tables: Sequence[Table], output: str, form: Form | None, title: str) -> None:
    """Tables to a file or to standard output, as ``form`` or the file's name says."""
    from telerank.show.tables import (
        render_html,
        render_html_page,
        render_latex,
        render_markdown,
        render_terminal,
    )

    chosen = form or _FORMS.get(Path(output).suffix.lower(), Form.terminal)
    if chosen is Form.terminal:
        plain = output != "-" or not console.out.is_terminal
        with _text_console(output) if plain else _screen() as target:
            for place, table in enumerate(tables):
                target.print(*[""] * bool(place), render_terminal(table), sep="\n")
        return
    renderers = {Form.markdown: render_markdown, Form.latex: render_latex, Form.html: render_html}
    text = (
        render_html_page(title, tables) if chosen is Form.html else "\n".join(map(renderers[chosen], tables))
    )
    write_text(text, output)


def write_text(text: str, output: str) -> None:
    from telerank.trec import open_text

    with open_text(output, "w") as file:
        file.write(text)


def write_json(value: object, output: str) -> None:
    """JSON of its own kind only: what is infinite or not a number is null."""
    write_text(json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, indent=1) + "\n", output)


def write_json_lines(rankings: Iterable[Ranking], output: str) -> None:
    """A line for each query, as `{"qid": …, "ranking": [[docno, score], …]}`; ``-`` is standard output."""
    from telerank.trec import open_text

    with open_text(output, "w") as file:
        for one in rankings:
            file.write(json.dumps({"qid": one.query.qid, "ranking": list(one)}, ensure_ascii=False) + "\n")


def check_one_dash(names: Sequence[str]) -> None:
    """Standard input can be read once.

    Raises
    ------
    CollectionError
        where ``-`` stands for more than one thing.
    """
    if list(names).count("-") > 1:
        raise CollectionError("standard input (-) can be read once only")


def parse_depths(text: str) -> list[int]:
    """Rising whole numbers with commas between; ``1,3,…,15`` goes on in the same steps.

    Raises
    ------
    MeasureError
        where they are not.
    """
    wrong = MeasureError(f"expected rising depths such as 1,5,10 or 1,3,…,15, got {text!r}")
    depths: list[int] = []
    going = False
    for piece in text.replace("...", "…").split(","):
        if piece.strip() == "…" and len(depths) > 1:
            going = True
            continue
        if not piece.strip().isdecimal():
            raise wrong
        last = int(piece)
        step = depths[-1] - depths[-2] if going else 0
        depths += range(depths[-1] + step, last, step) if going else ()
        if going and last != depths[-1] + step:
            raise wrong
        depths.append(last)
        going = False
    if going or depths[0] < 1 or sorted(set(depths)) != depths:
        raise wrong
    return depths


def _is_qrels(source: Source) -> bool:
    from telerank.trec import read_qrels

    if source.where == "-":
        return True
    if source.format is not None or not Path(source.where).is_file():
        return False
    try:
        next(read_qrels(source.where), None)
    except FormatError:
        return False
    return True


def _of_collection(source: Source, runs: Sequence[str]) -> Qrels:
    from telerank.corpus.formats import open_collection

    try:
        collection = open_collection(source.where, format=source.format, encoding=source.encoding)
    except CollectionError as error:
        if source.format is None and Path(source.where).is_file():
            raise CollectionError(
                f"{source.where}: its first line is no qrel, nor is it a collection"
            ) from error
        raise
    if collection.relevant_from > 1:
        grade = collection.relevant_from
        console.say(f"{collection.name}: grades from {grade} up are relevant; lower grades count as 0")
    return collection.judged(source.split or _judging(collection, runs))


def _judging(collection: Collection, runs: Sequence[str]) -> str | None:
    """The one of several splits that judges what the runs answer; none where that is not plain."""
    from telerank.trec import read_run

    if len(collection.qrels) < 2:
        return next(iter(collection.qrels), None)
    files = [run for run in runs if run != "-"]
    asked = {ranking.query.qid for run in files for ranking in islice(read_run(run), _LOOKED_AT)}
    found = [name for name, qrels in collection.qrels.items() if any(qrel.qid in asked for qrel in qrels())]
    if len(found) != 1:
        return None
    console.say(f"split {found[0]}: the only one of {collection.name} that judges these runs")
    return found[0]


def _tell(evaluations: Mapping[str, Evaluation], queries: int) -> None:
    unanswerable = next(iter(evaluations.values())).unanswerable
    if unanswerable:
        told = "queries of the qrels have no relevant document: they count 0"
        console.say(f"{len(unanswerable)} of {queries} {told}")
    for name, one in evaluations.items():
        if one.missing:
            told = f"{len(one.missing)} of {queries} queries of the qrels have no document: they count 0"
            console.say(f"{name}: {told}")
        if one.unjudged:
            console.say(f"{name}: {len(one.unjudged)} queries are not in the qrels: they do not count")


def _short(run: str) -> str:
    path = Path(run)
    if path.suffix in _PACKED:
        path = path.with_suffix("")
    return path.stem if path.suffix in _RUN else path.name


@contextmanager
def _text_console(output: str) -> Iterator[Console]:
    text = io.StringIO()
    yield Console(file=text, width=_WIDE, highlight=False)
    write_text("\n".join(line.rstrip() for line in text.getvalue().split("\n")), output)


@contextmanager
def _screen() -> Iterator[Console]:
    yield console.out


def _finite(value: object) -> object:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {key: _finite(one) for key, one in value.items()}
        case list() | tuple():
            return [_finite(one) for one in value]
        case _:
            return value
