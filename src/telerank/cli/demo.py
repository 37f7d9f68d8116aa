"""``telerank demo``: first stages on the collection that is installed with telerank."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from telerank.cli import console

if TYPE_CHECKING:
    from telerank.corpus.collection import Collection
    from telerank.recipes.dense import FusedOutcome
    from telerank.recipes.head import HeadOutcome
    from telerank.recipes.sparse import Outcome, Task
    from telerank.recipes.sparse_report import View
    from telerank.sparse.similarities import Similarity
    from telerank.types import Progress

_DEPTHS = tuple(range(1, 16, 2))
_MEASURES = ("R@1", "R@5", "R@15", "AP@15")
_PANELS = ("R@1", "AP@15")
_RELEVANT = (
    "Here one paragraph answers each question, so that R@k is the share of questions answered in the first k."
)
_DEV, _TEST = 500, 2000
_QUESTION = "Qui a inventé l'imprimerie ?"
_MODEL, _ANALYZER = "minilm", "french"
_ENGLISH = "MiniLM was trained on English; these texts are French."


def demo(
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A folder for the report, its figures and the indexes.")
    ] = Path("telerank-demo"),
) -> None:
    """Try everything on a French collection that is already here: about a minute, no network.

    Indexes PIAF with and without preprocessing, retrieves with five sparse models, tunes them on some
    questions, compares them on others, and writes `report.html`. With the extras `neural` and `minilm` it
    adds dense vectors and fusion, and trains a re-ranker, a BERT-DMN head on a frozen encoder: then
    two minutes or more.

    Example: `telerank demo --output telerank-demo`
    """
    from telerank.corpus.bundled import piaf
    from telerank.recipes.sparse import Parts, Plan, Task, run_plan

    began = time.perf_counter()
    collection = piaf()
    task = Task.of(collection)
    measures = [f"{name}@{depth}" for name in ("R", "AP") for depth in _DEPTHS]
    plan = Plan({"french": "french", "none": "none"}, measures, "AP@15", Parts(_DEV, _TEST))
    output.mkdir(parents=True, exist_ok=True)
    _introduce(collection, task)
    with console.progress() as progress:
        outcome = run_plan(task, plan, folder=output / "indexes", progress=progress)
        fused = _fused(task, outcome, output / "indexes" / _ANALYZER, progress)
        head = _head(task, outcome, output, progress) if fused else None
    view = _view(collection, task)
    _show(outcome, fused, head)
    _write((outcome, fused, head), view, output)
    seconds, report = time.perf_counter() - began, escape(str(output / "report.html"))
    console.out.print(f"\nThat took {seconds:.0f} s. The report: [bold]{report}[/]\n", soft_wrap=True)
    _next(output)


def _introduce(collection: Collection, task: Task) -> None:
    console.say(f"{collection.name}, {_counts(collection, task)}, from the French Wikipedia")
    console.say(f"{_DEV:,} questions choose the parameters, {_TEST:,} others measure\n")


def _fused(task: Task, outcome: Outcome, place: Path, progress: Progress) -> FusedOutcome | None:
    """Tuned BM25 beside dense vectors; nothing where the extras are not installed."""
    import telerank
    from telerank.dense.encoder import TorchEncoder
    from telerank.errors import MissingExtra
    from telerank.recipes.dense import Fused, encoded, run_fused
    from telerank.recipes.sparse import Parts

    index, encoder = telerank.open(place), TorchEncoder(_MODEL)
    try:
        dense = encoded(index.sparse, encoder, progress=progress)
    except MissingExtra:
        return None
    what = Fused("BM25 tuned", "MiniLM", _MEASURES, outcome.plan.objective)
    stages = (index.retriever(_tuned(outcome)), dense)
    return run_fused(task, Parts(_DEV, _TEST), stages, what, progress=progress)


def _head(task: Task, outcome: Outcome, output: Path, progress: Progress) -> HeadOutcome:
    import telerank
    from telerank.corpus.bundled import PIAF
    from telerank.recipes.head import trained_head

    first = telerank.open(output / "indexes" / _ANALYZER).retriever(_tuned(outcome))
    folder = output / "reranker"
    return trained_head(task, (PIAF, "all"), first, folder, model=_MODEL, progress=progress)


def _tuned(outcome: Outcome) -> Similarity:
    return next(one.best for one in outcome.tunings if (one.model, one.analyzer) == ("bm25", _ANALYZER))


def _view(collection: Collection, task: Task) -> View:
    from telerank.recipes.sparse_report import View

    facts = {
        "Collection": f"{collection.name}: {_counts(collection, task)}",
        "Source": collection.source,
        "Licence": collection.licence,
    }
    return View("Sparse retrieval on PIAF", facts, _DEPTHS, _MEASURES, _PANELS, _RELEVANT)


def _counts(collection: Collection, task: Task) -> str:
    return f"{sum(1 for _ in collection.docs()):,} paragraphs, {len(task.queries):,} questions"


def _show(outcome: Outcome, fused: FusedOutcome | None, head: HeadOutcome | None) -> None:
    from telerank.recipes.dense import fused_findings, fused_table
    from telerank.recipes.head import head_findings, head_table
    from telerank.recipes.sparse_report import findings
    from telerank.recipes.sparse_tables import depth_tables, effect_table, tuning_table
    from telerank.show.tables import render_terminal

    tables = [*depth_tables(outcome, _DEPTHS), effect_table(outcome, _MEASURES), tuning_table(outcome)]
    more = [*([fused_table(fused)] if fused else []), *([head_table(head)] if head else [])]
    for table in (*tables, *more):
        console.out.print(render_terminal(table))
        console.out.print()
    console.out.print(_RELEVANT)
    found = [*(fused_findings(fused) if fused else []), *(head_findings(head) if head else [])]
    for finding in (*findings(outcome), *found, *([_ENGLISH] if found else [])):
        console.out.print(f"- {finding}")
    if fused is None:
        console.out.print(
            "- pip install 'telerank[neural,minilm]' adds vectors, fusion and a re-ranker.",
            markup=False,
        )


def _write(found: tuple[Outcome, FusedOutcome | None, HeadOutcome | None], view: View, output: Path) -> None:
    from telerank.recipes.sparse_report import page, record

    outcome, fused, head = found
    (output / "report.html").write_text(page(outcome, view, fused, head), encoding="utf-8")
    figures = json.dumps(record(outcome, view, fused, head), ensure_ascii=False, indent=1)
    (output / "report.json").write_text(f"{figures}\n", encoding="utf-8")


def _next(output: Path) -> None:
    console.out.print("Next, in the index that is there now, and on files of your own:")
    for line in (
        f'telerank search {output / "indexes" / "french"} --query "{_QUESTION}" -k 3',
        "telerank index MY_FILES my-index --analyzer french",
        'telerank search my-index --query "…" --explain',
        'telerank tune my-index MY_COLLECTION --model dfr --measure "AP@15"',
    ):
        console.out.print(f"  {line}", markup=False, soft_wrap=True)
    console.out.print(
        "MY_FILES: a folder of texts, or JSONL, CSV, TREC, BEIR, MS MARCO or SQuAD files. "
        "MY_COLLECTION: the same with questions and qrels. `telerank data show` looks into either."
    )
