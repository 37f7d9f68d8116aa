"""``telerank train reranker``: a model that scores pairs learns from a collection, and is measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from telerank.cli import console
from telerank.cli.options import numbers
from telerank.cli.train import losses
from telerank.errors import ModelError

if TYPE_CHECKING:
    from telerank.training.reranker.grid import Grid, GridTraining
    from telerank.training.reranker.study import Study, Variant

PLOT = "sizes.png"


def reranker(
    config: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG",
            help="A YAML file; it must have `data: {collection: …, negatives: …}`, or triples, and of a "
            "model on word vectors `model: {start: …}`.",
        ),
    ],
    *,
    output: Annotated[
        str, typer.Option("--output", "-o", help="The folder of the model, its checkpoints and its log.")
    ] = "trained",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoint there; what is done stays.")
    ] = False,
    seeds: Annotated[
        str | None,
        typer.Option(help="Train with each of these seeds, as `0,1,2`: mean and spread of the test."),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Train on each of these numbers of queries, as `100,1000`: a table and a plot of the test."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what the test measured as JSON.")] = False,
) -> None:
    """Train a re-ranker: monoBERT, BERT-DMN, frozen or fine-tuned rankers, or one on word vectors.

    With the section `test` it is measured beside the order that it was given, and the table is printed. With
    `folds`, a `grid` of settings, or several seeds or sizes, each training has a folder of its own below the
    output.

    Example: `telerank train reranker monobert.yaml --output monobert`

    Example: `telerank train reranker monobert.yaml --output seeds --seeds 0,1`
    """
    asked = numbers("--seeds", seeds, least=0), numbers("--sizes", sizes, least=1)

    from telerank.training.reranker.grid import GridTraining
    from telerank.training.reranker.study import Variant
    from telerank.training.settings import read_settings

    told = read_settings(config, GridTraining)
    if told.grid or told.test is not None or any(asked) or told.folds is not None:
        _several(told, output, *asked, resume=resume, as_json=as_json)
        return
    from telerank.training.reranker.train import train_reranker

    wanted = Variant().of(told)
    with console.progress() as progress:
        model = train_reranker(wanted, output, resume=resume, report=losses.lines(), progress=progress)
    _say_counts(model.parent)
    losses.say_trained(model)


def _several(
    told: GridTraining,
    output: str,
    seeds: Sequence[int],
    sizes: Sequence[int],
    *,
    resume: bool,
    as_json: bool,
) -> None:
    """Trainings that are compared, and of a grid the choice before."""
    from telerank.show.tables import render_terminal
    from telerank.training.parallel import is_first_process

    with console.progress() as progress:
        how = {"resume": resume, "report": losses.lines(), "progress": progress}
        grid, trainings, study = _compared(told, output, seeds, sizes, how)
    if not is_first_process():
        return
    for one in trainings:
        _say_counts(Path(output) / one.folder, str(one.folder))
    if study is not None and len(study.sizes) > 1:
        _draw(study, Path(output) / PLOT)
    told_of = [some for some in (grid, study) if some is not None]
    if as_json:  # a grid's record has that of its study
        print(json.dumps(told_of[0].record(), indent=2))  # noqa: T201
        return
    for some in told_of:
        console.out.print(render_terminal(some.table()))


def _compared(
    told: GridTraining, output: str, seeds: Sequence[int], sizes: Sequence[int], how: Mapping[str, Any]
) -> tuple[Grid | None, Sequence[Variant], Study | None]:
    from telerank.training.reranker.grid import run_grid
    from telerank.training.reranker.study import Variant, run_study, variants

    if not told.grid:
        wanted = Variant().of(told)
        trainings = variants(wanted, seeds=seeds, sizes=sizes)
        return None, trainings, run_study(wanted, output, trainings, **how)
    if sizes:
        raise ModelError("--sizes: a grid chooses first; then train what was chosen with these sizes")
    grid = run_grid(told, output, seeds=seeds, **how)
    return grid, grid.best, grid.study


def _say_counts(folder: Path, name: str = ".") -> None:
    """What was learned from, and what not."""
    from telerank.training.parallel import is_first_process

    if is_first_process():
        counts = json.loads((folder / "data.json").read_text(encoding="utf-8"))
        told = "; ".join(f"{what}: {count:,}" for what, count in counts.items() if count)
        console.say(told if name == "." else f"{name}: {told}")


def _draw(study: Study, path: Path) -> None:
    """Each measure by the number of training queries, the mean over seeds."""
    from statistics import fmean

    from telerank.show.plots import line_plot, save_plot

    panels = {
        name: {"re-ranked": [fmean(study.values(size, name)) for size in study.sizes]}
        for name in study.measures
    }
    save_plot(line_plot(panels, study.sizes, x_label="training queries"), path)
    console.say(f"plot in {path}")
