"""Running a recipe: data found, systems made, analysed, and what others need to believe it written."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from telerank.corpus.formats import open_collection
from telerank.errors import CollectionError
from telerank.experiments.provenance import machine, versions
from telerank.recipes.analyses import Bench, Result, analyse
from telerank.recipes.made import Made, plain
from telerank.recipes.places import Places
from telerank.recipes.schema import Data, Recipe
from telerank.recipes.systems import Own, Workshop
from telerank.show.tables import Table, render_html_page, render_markdown
from telerank.types import Progress, silent

_FIGURES = ("svg", "png")


@dataclass(frozen=True)
class Order:
    """How a recipe is run: where its data is, and where results go.

    ``only`` names one of its data; ``starts`` are places of what trainings start from; ``given`` are the
    user's systems by name, ``skip`` names those left out.
    """

    places: Places
    folder: Path
    only: str | None = None
    starts: Places = field(default_factory=lambda: Places({}, ()))
    given: Mapping[str, str] = field(default_factory=dict)
    skip: tuple[str, ...] = ()


@dataclass(frozen=True)
class Served:
    """What came of a recipe; ``lacking`` says why systems are missing, ``folder`` holds the results."""

    recipe: Recipe
    data: Data
    queries: int
    documents: int
    made: Mapping[str, Made]
    lacking: Mapping[str, str]
    result: Result
    folder: Path

    @property
    def notes(self) -> tuple[str, ...]:
        """What must be known to read the tables."""
        ran = f"Measured on {self.data.name}: {self.data.about}"
        counts = f"{self.documents:,} documents, {self.queries:,} judged queries (split {self.data.split})"
        notes = [f"{ran} ({counts})."]
        if self.recipe.analysis.published and not self.data.of_paper:
            notes.append(f"The paper's values ({self.recipe.source}) are of other data: a rough guide.")
        notes += [f"{name}: {one.how}." for name, one in self.made.items() if one.how != name]
        for why in dict.fromkeys(self.lacking.values()):
            names = [name for name, reason in self.lacking.items() if reason == why]
            notes.append(f"Not measured: {', '.join(names)} ({why}).")
        return (*notes, *self.result.notes, f"Machine: {machine()}.")


def run_recipe(recipe: Recipe, name: str, order: Order, *, progress: Progress = silent) -> Served:
    """Find data, make systems, analyse, and write the results into a folder of ``order.folder``.

    Indexes and vectors stay under the collection's name in ``order.folder``, where the next recipe finds
    them. Beside tables and plots, ``results.json`` has every figure, the resolved recipe, versions, seed
    and machine.

    Raises
    ------
    CollectionError
        where no data is found, or a system that the analysis needs cannot be had.
    TelerankError
        as indexing, encoding and reading do.
    """
    _check_names(recipe, (*order.given, *order.skip))
    data, place = order.places.find(recipe.data, order.only, order.folder, progress)
    collection = open_collection(place)
    qrels = collection.judged(data.split)
    queries = tuple(one for one in collection.split_queries(data.split) if one.qid in qrels)
    if not queries:
        raise CollectionError(f"{data.name}: no query of the split {data.split} is judged")
    if recipe.queries is not None and recipe.queries < len(queries):
        drawn = set(random.Random(recipe.seed).sample(range(len(queries)), recipe.queries))
        queries = tuple(query for number, query in enumerate(queries) if number in drawn)
    judged = {query.qid: qrels[query.qid] for query in queries}
    folder = order.folder / f"{plain(name)}-{plain(data.name)}"
    own = Own(order.given, order.skip, order.starts)
    shelf = order.folder / plain(data.name)
    workshop = Workshop(data, str(place), collection, queries, judged, shelf, own, progress)
    made, lacking = workshop.make(recipe, folder / "runs")
    bench = Bench(recipe, workshop, judged, made, progress)
    documents = collection.size or sum(1 for _ in collection.docs())
    served = Served(recipe, data, len(queries), documents, made, lacking, analyse(bench), folder)
    _write(served)
    return served


def system_names(recipe: Recipe) -> tuple[str, ...]:
    """The names of all its systems and re-rankers."""
    return (*recipe.systems, *getattr(recipe.analysis, "rerankers", ()))


def _check_names(recipe: Recipe, names: Sequence[str]) -> None:
    known = system_names(recipe)
    for name in names:
        if name not in known:
            raise CollectionError(f"the recipe has no system {name!r}; it has: {', '.join(known)}")


def _write(served: Served) -> None:
    from telerank.show.plots import save_plot

    folder, title = served.folder, served.recipe.title
    text = [
        f"# {title}\n",
        *map(render_markdown, served.result.tables),
        *(f"- {note}" for note in served.notes),
    ]
    (folder / "tables.md").write_text("\n".join(text) + "\n", encoding="utf-8")
    tables = [*served.result.tables, _notes_table(served.notes)]
    (folder / "tables.html").write_text(render_html_page(title, tables), encoding="utf-8")
    for name, figure in served.result.plots.items():
        for form in _FIGURES:
            save_plot(figure, folder / f"{name}.{form}")
    record = json.dumps(_finite(_record(served)), ensure_ascii=False, allow_nan=False, indent=1)
    (folder / "results.json").write_text(f"{record}\n", encoding="utf-8")


def _notes_table(notes: tuple[str, ...]) -> Table:
    return Table.of(("notes",), [[note] for note in notes])


def _record(served: Served) -> dict[str, Any]:
    return {
        "recipe": served.recipe.model_dump(mode="json"),
        "data": served.data.model_dump(mode="json"),
        "queries": served.queries,
        "documents": served.documents,
        "systems": {name: one.how for name, one in served.made.items()},
        "lacking": dict(served.lacking),
        "results": served.result.record,
        "notes": served.notes,
        "seed": served.recipe.seed,
        "versions": versions(),
        "machine": machine(),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _finite(value: object) -> object:
    """JSON has no NaN: null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return value
