"""``telerank run``: a table or figure of a paper, measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from telerank.cli import console
from telerank.cli.options import AsJson, parse_numbers
from telerank.errors import CollectionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from telerank.recipes.recipe import Served


def run(
    recipe: Annotated[
        list[Path],
        typer.Argument(metavar="RECIPE", help="YAML files, such as `recipes/repbert/table1.yaml`."),
    ],
    *,
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            help="Where data is: `NAME=PATH`, or a folder of collections by their names; repeat for several. "
            "Besides, the folder that the variable TELERANK_DATA names.",
        ),
    ] = None,
    only: Annotated[
        str | None, typer.Option("--on", help="Which of the recipe's data; default: the first that is there.")
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option(
            "--system", help="`NAME=PATH`: a run file or a model's folder for a system of the recipe."
        ),
    ] = None,
    start: Annotated[
        list[str] | None,
        typer.Option(
            "--start",
            help="Where encoders and word vectors are that trainings start from: `NAME=FOLDER`, or a folder "
            "of them by their names. Besides, the folder that the variable TELERANK_MODELS names.",
        ),
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option("--skip", help="A system to leave out; repeat for several.")
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(help="Train with each of these seeds, as `0,1,2`; default: those of the recipe."),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A folder for results, indexes and vectors.")
    ] = Path("telerank-runs"),
    as_json: AsJson = False,
) -> None:
    """Measure what a table or figure of a paper shows, on its data or on what is here, beside its values.

    Example: `telerank run recipes/repbert/table1.yaml --on scifact --skip MiniLM`

    Example: `telerank run recipes/repbert/table3.yaml --on scifact --system MiniLM=dfr.run`

    Example: `telerank run recipes/bert-dmn/table2.yaml --start bert-base-uncased=my-encoder`
    """
    from telerank.recipes.places import STARTS, Places
    from telerank.recipes.recipe import Order, run_recipe, system_names
    from telerank.recipes.schema import read_recipe

    asked = parse_numbers("--seeds", seeds, least=0)
    places, starts = Places.of(data or []), Places.of(start or [], STARTS)
    given, left_out = _named(system or []), skip or []
    read = [(path, read_recipe(path)) for path in recipe]  # all of them before the work
    _check_names([*given, *left_out], [name for _, one in read for name in system_names(one)])
    if asked and not any(one.trained for _, one in read):
        raise CollectionError("--seeds: no system of these recipes is trained")
    for path, one in read:
        own = system_names(one)
        wanted = one.with_seeds(asked) if asked else one
        mine = {name: place for name, place in given.items() if name in own}
        order = Order(places, output, only, starts, mine, tuple(one for one in left_out if one in own))
        with console.progress() as progress:
            name = f"{path.resolve().parent.name}-{path.stem}"
            served = run_recipe(wanted, name, order, progress=progress)
        if as_json:
            print((served.folder / "results.json").read_text(encoding="utf-8"), end="")  # noqa: T201
        else:
            _show(served)


def _check_names(asked: Sequence[str], known: Sequence[str]) -> None:
    """A name may belong to one of several recipes."""
    for name in asked:
        if name not in known:
            raise CollectionError(
                f"no recipe here has a system {name!r}; there are: {', '.join(dict.fromkeys(known))}"
            )


def _named(given: Sequence[str]) -> dict[str, str]:
    found = {}
    for one in given:
        name, equals, path = one.partition("=")
        if not equals or not path:
            raise CollectionError(f"--system {one}: expected NAME=PATH")
        found[name] = path
    return found


def _show(served: Served) -> None:
    from telerank.show.tables import render_terminal

    console.out.print(f"{served.recipe.title}\n", style="bold", markup=False)
    for table in served.result.tables:
        console.out.print(render_terminal(table))
        console.out.print()
    for note in served.notes:
        console.out.print(f"- {note}", markup=False)
    console.say(f"tables, plots and figures in {served.folder}")
