"""Arguments and options that several commands share, and how their values are parsed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from errno import ENOENT
from os import strerror
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge

from telerank.cli import console
from telerank.errors import CollectionError, MeasureError, ModelError
from telerank.parameters import Check, Flags, Help, Split
from telerank.show.report import Form

if TYPE_CHECKING:
    from telerank.corpus.collection import Collection
    from telerank.show.report import Report
    from telerank.verbs.judge import JudgedRuns

_DEPTHS, _DIGITS, _SHOWN = 1_000, 9, 60  # depths, their digits, and characters of a text that is refused
_NAMED = 5  # files beside a collection that are named


def check_output(output: str | None) -> str | None:
    """Refuse a file whose folder cannot be made, before the work starts."""
    folder = Path(output or "-").parent
    if not (folder.is_dir() or folder.parent.is_dir()):
        raise FileNotFoundError(ENOENT, strerror(ENOENT), str(folder))
    return output


def check_tables(output: str) -> str | None:
    """Refuse a file whose suffix is of other files than tables, too."""
    from telerank.show.report import form_of

    form_of(output)
    return check_output(output)


def check_plot(plot: str | None) -> str | None:
    """Refuse the name of a plot with an unknown suffix, too."""
    if plot is not None:
        from telerank.show.plots import check_plot_name

        check_plot_name(plot)
    return check_output(plot)


Format = Annotated[
    str | None,
    Help(
        "Format of the collection, if it is not recognised; `telerank data ls` lists the formats. "
        "Of several files of a kind it names one: `smart(documents=MED.ALL, judgments=MED.REL)`."
    ),
]
Texts = Annotated[str, Help("Encoding of the collection's texts, or of the topics.")]


IndexName = Annotated[str, Flags("INDEX"), Help("The folder of the index.")]


CollectionName = Annotated[
    str,
    Flags("COLLECTION"),
    Help("A folder, a file or an ir_datasets id; `-`: JSON lines from standard input."),
]


@dataclass
class CollectionOptions:
    """A collection, and how it is read."""

    collection: CollectionName
    format: Format = None
    encoding: Texts = "utf-8"

    def open(self) -> Collection:
        return open_collection(self.collection, self.format, self.encoding)


@dataclass
class JudgedCollectionOptions(CollectionOptions):
    """A collection with judged queries, and how it is read."""

    collection: Annotated[
        str,
        Flags("COLLECTION", "--qrels"),
        Help(
            "A folder, a file, such as a table of judged questions, or an ir_datasets id; "
            "`--qrels COLLECTION` is the same."
        ),
    ]


Runs = Annotated[list[str], Flags("RUN"), Help("Run files; `-`: standard input.")]


@dataclass
class JudgedOptions:
    """Runs, and the qrels that they are measured by."""

    qrels: Annotated[
        str,
        Flags("QRELS", "--qrels"),
        Help(
            "A qrels file (`-`: standard input), a table of judged questions or a collection; "
            "`--qrels QRELS` is the same."
        ),
    ]
    run: Runs
    split: Split = None
    format: Format = None
    encoding: Texts = "utf-8"
    strict: Annotated[bool, Help("Refuse lines that only trec_eval reads, instead of warning of them.")] = (
        False
    )

    def open(self, *others: str) -> JudgedRuns:
        """The runs with their qrels; prints remarks about them. ``others`` are files that are read, too."""
        from telerank.verbs.judge import judge

        check_one_dash([self.qrels, *self.run, *others])
        is_plain = self.format is None and self.encoding == "utf-8"
        data = self.qrels if is_plain else open_collection(self.qrels, self.format, self.encoding)
        judged = judge(self.run, data, split=self.split, strict=self.strict)
        for remark in judged.remarks:
            console.say(remark)
        return judged


Pipeline = Annotated[
    str | None,
    Flags("--model"),
    Help(
        "Pipeline: `bm25(k1=0.9, b=0.4)`, `dense(minilm)`, `bm25 % 100 >> rerank(my-reranker) % 10`, or the "
        "name of a saved one. Default: `bm25`; for a folder of vectors `dense`."
    ),
]
FilterText = Annotated[
    str | None,
    Flags("--filter"),
    Help("Only documents that pass: `type == 'fiche' and date >= 2024-01-01 and 'emploi' in topics`."),
]
SynonymFile = Annotated[
    str | None,
    Help("File of synonyms of queries, such as `cni, carte d'identité`; the index stays as it is."),
]
SyntaxName = Annotated[
    Literal["none", "simple"],
    Help(
        'Syntax of queries. simple: `"exact phrase"`, `-word`, `word*`, `title:word`, `type:fiche`, AND, OR, '
        "NOT (ET, OU, SAUF), parentheses; single words rank, the rest are conditions."
    ),
]
RunFile = Annotated[
    str,
    Flags("-o"),
    Check(check_output),
    Help("File for the run (.gz packs it); `-`: standard output."),
]
PrintJson = Annotated[bool, Flags("--json"), Help("Print JSON instead of text.")]
Kept = Annotated[int | None, Ge(1), Flags("-k"), Help("Documents kept for each query.")]


@dataclass
class ReportOptions:
    """Where a report is written, and how."""

    form: Annotated[
        Form | None,
        Flags("--as"),
        Help("Format of the tables; default: by the suffix of --output, else text."),
    ] = None
    output: Annotated[
        str,
        Flags("-o"),
        Check(check_tables),
        Help("File for the tables: .md, .tex, .html, .csv, .json or text; `-`: standard output."),
    ] = "-"
    as_json: PrintJson = False

    def write(self, report: Report) -> None:
        """Write a report as tables or JSON; its remarks go to standard error."""
        from telerank.show.report import form_of

        for remark in report.remarks:
            console.say(remark)
        form = "json" if self.as_json else self.form or form_of(self.output)
        if form == "json":
            console.write_text(report.render(form), self.output)
        else:
            console.write_tables(report.tables(), self.output, form, report.title)


@dataclass
class PlottedReportOptions(ReportOptions):
    """A report with a plot."""

    plot: Annotated[str | None, Check(check_plot), Help("File for a plot: .png, .svg or .pdf.")] = None

    def write(self, report: Any) -> None:
        if self.plot is not None:
            from telerank.show.plots import save_plot

            save_plot(report.plot(), self.plot)
            console.say(f"plot in {self.plot}")
        super().write(report)


def open_collection(name: str, form: str | None, encoding: str) -> Collection:
    """Open the collection that the options name; name the files beside it that are not read."""
    import telerank as tr

    collection = tr.collection(name, format=form, encoding=encoding)
    if collection.unread:
        rest = ", …" if len(collection.unread) > _NAMED else ""
        console.say(f"note: not read in {name}: {', '.join(collection.unread[:_NAMED])}{rest}")
    return collection


def check_one_dash(names: Sequence[str]) -> None:
    """Raise CollectionError if standard input (``-``) is given more than once."""
    if list(names).count("-") > 1:
        raise CollectionError("standard input (-) can be read only once")


def parse_numbers(option: str, text: str | None, *, least: int) -> tuple[int, ...]:
    """Parse an option's different whole numbers, such as `0,1,2`; empty if the option is not given."""
    if text is None:
        return ()
    try:
        numbers = tuple(int(piece) for piece in text.replace(",", " ").split())
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < least or len(set(numbers)) < len(numbers):
        raise ModelError(f"{option}: expected different whole numbers of at least {least}, got {text!r}")
    return numbers


def parse_depths(text: str) -> list[int]:
    """Parse rising whole numbers separated by commas; ``1,3,…,15`` continues in the same steps."""
    shown = repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
    wrong = MeasureError(f"expected rising depths such as 1,5,10 or 1,3,…,15, got {shown}")
    many = MeasureError(f"expected at most {_DEPTHS:,} depths of at most {_DIGITS} digits, got {shown}")
    depths: list[int] = []
    pieces = [piece.strip() for piece in text.replace("...", "…").split(",")]
    for before, piece in zip(["", *pieces], pieces, strict=False):
        if piece == "…" and len(depths) > 1:
            continue
        if not piece.isdecimal():
            raise wrong
        if len(piece) > _DIGITS:
            raise many
        if before == "…":
            last, step = depths[-1], max(depths[-1] - depths[-2], 1)
            if (int(piece) - last) // step + len(depths) > _DEPTHS:
                raise many
            if int(piece) <= last or (int(piece) - last) % step:
                raise wrong
            depths += range(last + step, int(piece), step)
        depths.append(int(piece))
    if pieces[-1] == "…" or depths[0] < 1 or sorted(set(depths)) != depths:
        raise wrong
    return depths
