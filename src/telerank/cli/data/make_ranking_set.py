"""``telerank data make-ranking-set``: make a ranking set from question-answering sets."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge
from rich.table import Column, Table

from telerank.cli import console, options
from telerank.cli.derive import derive
from telerank.cli.options import Format, PrintJson, Texts
from telerank.parameters import Flags, Help

if TYPE_CHECKING:
    from telerank.corpus.derived.ranking_set import RankingSet


class Negatives(StrEnum):
    bm25 = "bm25"
    random = "random"
    gold = "gold"


class SplitBy(StrEnum):
    question = "question"
    paragraph = "paragraph"


@derive
def make_ranking_set(
    out: Annotated[Path, Flags("OUT"), Help("The folder to write.")],
    sets: Annotated[list[str], Flags("SET"), Help("Collections with questions and qrels.")],
    *,
    negatives: Annotated[Negatives, Help("How negatives are chosen.")] = Negatives.bm25,
    depth: Annotated[int, Ge(1), Help("Number of negatives for each question.")] = 10,
    split_by: Annotated[SplitBy, Help("No two parts share one of these.")] = SplitBy.question,
    seed: Annotated[int, Help("Seed of the split and of random negatives.")] = 0,
    analyzer: Annotated[str, Flags("-a"), Help("Analyzer for `--negatives bm25`.")] = "standard",
    model: Annotated[str, Help("Sparse model for `--negatives bm25`.")] = "bm25",
    titles: Annotated[
        bool, Help("Keep the titles of documents, which are searched with their texts.")
    ] = True,
    overwrite: Annotated[bool, Help("Replace an existing ranking set.")] = False,
    format: Format = None,  # noqa: A002
    encoding: Texts = "utf-8",
    as_json: PrintJson = False,
) -> None:
    """Merge question-answering sets, remove duplicate questions, split 80/10/10 and find negatives.

    If the set is split by question, nearly every paragraph of the test questions also occurs in train, with
    another question; the last column counts them. If it is split by paragraph, none does, and negatives are
    of the same part.

    Example: `telerank data make-ranking-set french-apart piaf fquad --analyzer french --split-by paragraph`
    """
    from telerank.show.progress import show_progress
    from telerank.verbs.data import TemporaryIndex
    from telerank.verbs.data import ranking_set as sets_of

    description = f"{model} over {analyzer}" if negatives is Negatives.bm25 else ""
    settings = sets_of.RankingSetSettings(negatives.value, depth, split_by.value, seed, description, titles)
    sets_of.check_target(out, overwrite=overwrite)
    with show_progress() as progress:
        first_stage = TemporaryIndex(analyzer, model, progress) if description else None
        opened = [options.open_collection(name, format, encoding) for name in sets]
        ranking_set = sets_of.make_ranking_set(opened, settings, first_stage=first_stage, progress=progress)
        sets_of.write_ranking_set(out, ranking_set, overwrite=overwrite)
    if as_json:
        console.print_json(ranking_set.manifest())
    else:
        _show(ranking_set)


def _show(ranking_set: RankingSet) -> None:
    tally, leaks = ranking_set.merged.tally, ranking_set.leaks
    console.out.print(
        f"{tally.questions:,} questions; left out: {tally.duplicate_questions:,} duplicates, "
        f"{tally.without_positive:,} without a relevant document"
    )
    console.out.print(
        f"{tally.documents:,} documents; merged: {tally.duplicate_documents:,} of the same text; "
        f"refused as negatives for holding the answer: {ranking_set.refused.get('holds the answer', 0):,}"
    )
    short = f"< {ranking_set.settings.depth} negatives"
    names = ("questions", "pairs", short, "paragraphs", "also in train")
    table = Table("part", *(Column(name, justify="right", no_wrap=True) for name in names))
    for part, counts in ranking_set.counts().items():
        leak = leaks.get(part)
        shown = (f"{leak.documents:,}", _share(leak.in_train, leak.documents)) if leak else ("", "")
        pairs = counts["positives"] + counts["negatives"]
        numbers = (counts["questions"], pairs, counts["short_of_negatives"])
        table.add_row(part, *(f"{number:,}" for number in numbers), *shown)
    console.out.print(table)


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({100 * part / whole:.1f} %)" if whole else "0"
