"""How well the sparse models rank seven collections: at defaults and tuned, with and without preprocessing.

``python benchmarks/sparse_quality.py --data ../shared/data`` prints Markdown; ``--write`` puts it into
``docs/results.md``. Tuned means cross-validated: each question is answered by the setting that the other four
fifths of the questions chose, so that every question counts and none has chosen its own setting. Settings are
chosen by nDCG@10 on ten retrieved documents, which is all that this measure looks at; what is measured is
retrieved to a depth of 1,000. A collection takes one core.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

from results_page import write

from telerank.corpus.formats import open_collection
from telerank.evaluate.tune import Folds
from telerank.recipes.sparse import DEFAULT, FAMILIES, GIVEN, TUNED, Outcome, Plan, System, Task, run_plan
from telerank.recipes.sparse_report import versions
from telerank.recipes.sparse_tables import effect_table, label, tuning_table
from telerank.show.tables import Cell, Table, render_markdown
from telerank.sparse.similarities import BM25

MEASURES = ("RR@10", "AP", "nDCG@10", "R@1", "R@10", "R@100")
OBJECTIVE = "nDCG@10"
FOLDS = Folds(5, seed=0)
NAMED = BM25(0.9, 0.4)
EXPECTED = ("SciFact", System(repr(NAMED), GIVEN, "english"), 0.67)
"""A figure of the literature: BM25 with these parameters, English stemming and stop words."""


@dataclass(frozen=True)
class Collection:
    title: str
    folder: str
    split: str
    analyzer: str
    note: str = ""


CAPITALS = "Its queries are in capitals: without preprocessing no term of theirs is in a document."
TITLE_CASE = (
    "Each word of its questions has a capital, which without preprocessing costs most of the matches."
)
LONG = "Documents of about 900 words; the best of BM25 and LMDirichlet stand at the edge of their grids."
COLLECTIONS = (  # what takes longest comes first
    Collection("PIAF", "piaf", "all", "french"),
    Collection("InsuranceQA", "insuranceqa-v2", "test", "english", TITLE_CASE),
    Collection("DILA", "dila", "test", "french", LONG),
    Collection("FQuAD", "fquad", "valid", "french"),
    Collection("SciFact", "scifact", "test", "english"),
    Collection("Vaswani", "vaswani", "all", "english", CAPITALS),
    Collection("Cranfield", "cranfield", "all", "english"),
)
TITLES = ("SciFact", "DILA", "PIAF", "FQuAD", "InsuranceQA", "Cranfield", "Vaswani")


@dataclass(frozen=True)
class Result:
    collection: Collection
    documents: int
    unjudged: int
    outcome: Outcome
    seconds: float


def main() -> None:
    given = _options()
    chosen = [one for one in COLLECTIONS if not given.only or one.title in given.only]
    results: dict[str, Result] = {}
    with ProcessPoolExecutor(given.jobs) as pool:
        for done in as_completed(pool.submit(run, one, given.data) for one in chosen):
            result = done.result()
            results[result.collection.title] = result
            print(f"{result.collection.title}: {result.seconds:.0f} s", file=sys.stderr)
    ordered = [results[title] for title in TITLES if title in results]
    text = report(ordered)
    print(text)
    if given.write:
        write("sparse quality", text)
    check(results)


def run(collection: Collection, data: Path) -> Result:
    began = time.perf_counter()
    task = Task.of(open_collection(data / collection.folder), collection.split)
    analyzers = {collection.analyzer: collection.analyzer, "none": "none"}
    outcome = run_plan(task, Plan(analyzers, MEASURES, OBJECTIVE, FOLDS, given=(NAMED,)))
    return Result(
        collection, sum(1 for _ in task.docs()), task.unjudged, outcome, time.perf_counter() - began
    )


def report(results: list[Result]) -> str:
    used = ", ".join(f"{name} {number}" for name, number in versions().items())
    how = (
        f"Tuned: {FOLDS.k} folds (seed {FOLDS.seed}); each question is answered by the setting that the "
        f"other folds chose by {OBJECTIVE}. Documents retrieved: 1,000."
    )
    parts = [
        f"`python benchmarks/sparse_quality.py --write`: {used}.",
        how,
        render_markdown(overview(results)),
    ]
    for one in results:
        skipped = f" ({one.unjudged:,} without a judgment left out)" if one.unjudged else ""
        counts = f"{one.outcome.test:,} questions{skipped}, {one.documents:,} documents. "
        parts += [
            f"### {one.collection.title}",
            f"Split `{one.collection.split}`: {counts}{one.collection.note}",
            render_markdown(replace(effect_table(one.outcome, MEASURES), caption="")),
            render_markdown(replace(tuning_table(one.outcome), caption="")),
        ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def overview(results: list[Result]) -> Table:
    """The objective of all systems on all collections."""
    systems = [(model, how) for model in FAMILIES for how in (DEFAULT, TUNED)] + [(repr(NAMED), GIVEN)]
    rows: list[list[str | Cell]] = []
    for preprocessed in (True, False):
        for model, how in systems:
            means = [_mean(one, model, how, preprocessed=preprocessed) for one in results]
            rows.append([label(model), "yes" if preprocessed else "no", how, *means])
    columns = ["model", "preprocessing", "parameters", *(one.collection.title for one in results)]
    notes = ["Preprocessing: stop words and stemming, of English or French. Bold: the best of a collection."]
    return Table.of(columns, rows, caption=f"{OBJECTIVE} on all collections", notes=notes, left=3)


def _mean(result: Result, model: str, how: str, *, preprocessed: bool) -> Cell:
    analyzer = result.collection.analyzer if preprocessed else "none"
    means = {system: f"{one.mean[OBJECTIVE]:.4f}" for system, one in result.outcome.evaluations.items()}
    shown = means[System(model, how, analyzer)]
    return Cell(shown, strong=shown == max(means.values()))


def check(results: dict[str, Result]) -> None:
    """Hold the one figure that is known from elsewhere."""
    title, system, least = EXPECTED
    if title not in results:
        return
    value = results[title].outcome.evaluations[system].mean[OBJECTIVE]
    print(f"{title}, {system}: {OBJECTIVE} {value:.4f}, expected at least {least}", file=sys.stderr)
    if value < least:
        sys.exit(1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    data = os.environ.get("TELERANK_DATA")
    parser.add_argument(
        "--data", type=Path, default=data, required=data is None, help="the collections' folder"
    )
    parser.add_argument("--only", nargs="+", choices=TITLES, metavar="NAME", help=f"of {', '.join(TITLES)}")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="collections at the same time")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/results.md")
    given = parser.parse_args()
    if given.write and given.only:
        parser.error("--write is for all collections")
    return given


if __name__ == "__main__":
    main()
