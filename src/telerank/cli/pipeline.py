"""``telerank pipeline``: pipelines that are saved with an index."""

from __future__ import annotations

from typing import Annotated

from telerank.cli import console
from telerank.cli.commands import derive, group
from telerank.cli.options import IndexName, PrintJson
from telerank.parameters import Flags, Help

_Name = Annotated[str, Flags("NAME"), Help("Name of the pipeline.")]


@derive
def save(
    index: IndexName,
    name: _Name,
    text: Annotated[str, Flags("PIPELINE"), Help("Text of the pipeline.")],
) -> None:
    """Save a pipeline with an index; a pipeline of that name is replaced.

    Example: `telerank pipeline save idx best "bm25 % 100 >> rerank(my-reranker) % 10"`
    """
    import telerank as tr
    from telerank.pipelines.functions import save_pipeline

    console.say(f"saved {name}: {save_pipeline(tr.open(index), name, text)}")


@derive
def ls(index: IndexName, *, as_json: PrintJson = False) -> None:
    """List the pipelines that are saved with an index.

    Example: `telerank pipeline ls idx`
    """
    import telerank as tr

    saved = tr.open(index).pipelines
    if as_json:
        console.print_json(saved)
    elif saved:
        console.write_columns(list(saved.items()))
    else:
        console.say(f"{index} has no saved pipelines")


@derive
def show(index: IndexName, name: _Name) -> None:
    """Print the text of a saved pipeline.

    Example: `telerank pipeline show idx best`
    """
    import telerank as tr
    from telerank.pipelines.functions import saved_pipeline

    print(saved_pipeline(tr.open(index), name))


@derive
def rm(index: IndexName, name: _Name) -> None:
    """Remove a saved pipeline.

    Example: `telerank pipeline rm idx best`
    """
    import telerank as tr
    from telerank.pipelines.functions import remove_pipeline

    remove_pipeline(tr.open(index), name)
    console.say(f"removed {name}")


@group(save, ls, show, rm)
def pipeline() -> None:
    """Save pipelines with an index by name, list, show and remove them.

    The name of a saved pipeline stands for it in `--model` and in other pipelines.

    Example: `telerank pipeline save idx best "bm25(k1=0.9, b=0.4) % 100"`
    """
