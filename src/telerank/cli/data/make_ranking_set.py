"""``telerank data make-ranking-set``: question-answering sets into a set to train and test rankers on."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from telerank.cli import console
from telerank.cli.options import AsJson, Encoding, FormatOption
from telerank.types import Doc, Progress

if TYPE_CHECKING:
    from telerank.corpus.ranking_sets.ranking_set import RankingSet
    from telerank.stage import Stage


class Negatives(StrEnum):
    bm25 = "bm25"
    random = "random"
    gold = "gold"


class SplitBy(StrEnum):
    question = "question"
    paragraph = "paragraph"


def make_ranking_set(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write.")],
    sets: Annotated[list[str], typer.Argument(metavar="SET", help="Collections with questions and qrels.")],
    *,
    negatives: Annotated[Negatives, typer.Option(help="Where negatives come from.")] = Negatives.bm25,
    depth: Annotated[int, typer.Option(min=1, help="Negatives for each question.")] = 10,
    split_by: Annotated[SplitBy, typer.Option(help="What no two parts share.")] = SplitBy.question,
    seed: Annotated[int, typer.Option(help="Seed of the split and of the draws.")] = 0,
    analyzer: Annotated[
        str, typer.Option("--analyzer", "-a", help="Analyzer of the first stage.")
    ] = "standard",
    model: Annotated[str, typer.Option(help="The first stage of `--negatives bm25`.")] = "bm25",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the set that is there.")] = False,
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Merge question-answering sets, drop duplicate questions, split 80/10/10, find negatives.

    Split by question, nearly every paragraph of the test questions has been trained on with another
    question: the last column counts them. Split by paragraph, none has, and negatives stay in their part.

    Example: `telerank data make-ranking-set french-apart piaf fquad --analyzer french --split-by paragraph`
    """
    from telerank.corpus.formats import open_collection
    from telerank.corpus.ranking_sets import ranking_set
    from telerank.sparse.similarities import parse_similarity
    from telerank.text import Analyzer

    used = f"{model} over {analyzer}" if negatives is Negatives.bm25 else ""
    settings = ranking_set.RankingSetSettings(negatives.value, depth, split_by.value, seed, used)
    if used:  # a mistake in them is told before the work begins
        Analyzer.parse(analyzer)
        parse_similarity(model)
    ranking_set.check_target(out, overwrite=overwrite)
    opened = [open_collection(one, format=format, encoding=encoding) for one in sets]
    with console.progress() as progress:

        def first_stage(docs: Iterable[Doc]) -> AbstractContextManager[Stage]:
            return _indexed(docs, analyzer, model, progress)

        made = ranking_set.make_ranking_set(opened, settings, first_stage=first_stage, progress=progress)
        ranking_set.write_ranking_set(out, made, overwrite=overwrite)
    if as_json:
        print(json.dumps(made.manifest(), ensure_ascii=False))  # noqa: T201
    else:
        _show(made)


@contextmanager
def _indexed(docs: Iterable[Doc], analyzer: str, model: str, progress: Progress) -> Iterator[Stage]:
    from telerank.sparse.retriever import SparseRetriever
    from telerank.sparse.similarities import parse_similarity
    from telerank.sparse.writer import build_index

    with tempfile.TemporaryDirectory(prefix="telerank-") as folder:
        index = build_index(docs, Path(folder) / "index", analyzer=analyzer, progress=progress)
        yield SparseRetriever(index, parse_similarity(model))


def _show(made: RankingSet) -> None:
    tally, leaks = made.merged.tally, made.leaks
    console.out.print(
        f"{tally.questions:,} questions; left out: {tally.duplicate_questions:,} duplicates, "
        f"{tally.without_positive:,} without a relevant document"
    )
    console.out.print(
        f"{tally.documents:,} documents; merged: {tally.duplicate_documents:,} of the same text; "
        f"refused as negatives for holding the answer: {made.refused.get('holds the answer', 0):,}"
    )
    table = Table()
    table.add_column("part")
    for name in ("questions", "pairs", f"< {made.settings.depth} negatives", "paragraphs", "also in train"):
        table.add_column(name, justify="right", no_wrap=True)
    for part, counts in made.counts().items():
        leak = leaks.get(part)
        shown = (f"{leak.documents:,}", _share(leak.in_train, leak.documents)) if leak else ("", "")
        pairs = counts["positives"] + counts["negatives"]
        numbers = (counts["questions"], pairs, counts["short_of_negatives"])
        table.add_row(part, *(f"{number:,}" for number in numbers), *shown)
    console.out.print(table)


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({100 * part / whole:.1f} %)" if whole else "0"
