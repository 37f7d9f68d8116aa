"""``telerank experiment``: tables and figures of papers, and files of one's own; ``telerank demo``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from telerank.cli import console
from telerank.cli.commands import derive, group
from telerank.cli.console import write_text
from telerank.cli.options import PrintJson, parse_numbers
from telerank.errors import CollectionError
from telerank.model_names import READER, is_here
from telerank.parameters import Flags, Help

if TYPE_CHECKING:
    from telerank.experiments.schema import Experiment
    from telerank.verbs.experiment import ExperimentOutcome, PooledOutcome


_QUESTION = "Combien pèse un rhinocéros ?"

_Data = Annotated[
    list[str] | None,
    Help(
        "Where collections are: `NAME=PATH`, or a folder of them; repeat for several. Folders in the "
        "variable TELERANK_DATA are searched, too."
    ),
]


@derive
def ls(*, data: _Data = None) -> None:
    """List the packaged experiments, what each needs, and what of that is here.

    Example: `telerank experiment ls`
    """
    from telerank.show.tables import Table, render_terminal
    from telerank.verbs.experiment import list_experiments

    rows = [
        [
            entry.name,
            entry.spec.title,
            ", ".join(entry.here) or "none",
            ", ".join(entry.missing),
            _small_time(entry.small),
        ]
        for entry in list_experiments(data or [])
    ]
    columns = ("name", "title", "data here", "data missing", "--small")
    console.out().print(render_terminal(Table.of(columns, rows, left=len(columns))))


def _small_time(small: Experiment | None) -> str:
    if small is None or small.minutes is None:
        return "no" if small is None else "yes"
    minutes = max(small.minutes.values()) if isinstance(small.minutes, Mapping) else small.minutes
    return "1 minute" if minutes <= 1 else f"{minutes:,.0f} minutes"


@derive
def run(
    files: Annotated[list[str], Flags("NAME|FILE"), Help("Packaged experiments by name, or YAML files.")],
    *,
    small: Annotated[bool, Help("The copy for two cores, instead of the paper's own size.")] = False,
    show: Annotated[bool, Help("Print the resolved file instead of running it.")] = False,
    data: _Data = None,
    on: Annotated[
        list[str] | None,
        Help(
            "Run on this data of the experiment; repeat for several. Default: all data of the paper that are "
            "here, or else the first that is."
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        Help(
            "Where models are, and what trainings start from: `NAME=FOLDER`, or a folder of them. Those in "
            "the variable TELERANK_MODELS are searched, too."
        ),
    ] = None,
    system: Annotated[
        list[str] | None, Help("`NAME=PATH`: a run file or a model's folder for a system.")
    ] = None,
    skip: Annotated[list[str] | None, Help("A system to leave out; repeat for several.")] = None,
    seeds: Annotated[
        str | None, Help("Train with these seeds, as `0,1,2`; default: those of the experiment.")
    ] = None,
    precision: Annotated[
        str,
        Help(
            "Train with this precision of matrix products, as float32 on a processor that does not compute "
            "in bfloat16; default: that of the experiment."
        ),
    ] = "",
    output: Annotated[Path, Flags("-o"), Help("A folder for results, indexes, vectors and models.")] = Path(
        "telerank-experiments"
    ),
    as_json: PrintJson = False,
) -> None:
    """Run experiments, and show the paper's values beside the measured ones.

    Example: `telerank experiment repbert/table3 --small --on scifact --skip RepBERT --system DeepCT=bm25.run`

    Example: `telerank experiment run bert-dmn/table2 --small --show`
    """
    from telerank.verbs.experiment import expected_time, run_experiment, show_experiment

    chosen_seeds = parse_numbers("--seeds", seeds, least=0)
    if show:
        print("---\n".join(show_experiment(file, small=small, on=on or []) for file in files), end="")
        return
    for file in files:
        if expected := expected_time(file, small=small):
            console.say(f"{file}: {expected}")
        for outcome in run_experiment(
            file,
            small=small,
            data=data or [],
            on=on or [],
            models=model or [],
            systems=_pairs(system or []),
            skip=skip or [],
            seeds=chosen_seeds,
            precision=precision,
            output=output,
        ):
            if as_json:
                write_text((outcome.folder / "results.json").read_text(encoding="utf-8"), "-")
            else:
                print_outcome(outcome)
                console.say(f"tables, plots and values in {outcome.folder}")


def _pairs(options: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for text in options:
        name, equals, path = text.partition("=")
        if not equals or not path:
            raise CollectionError(f"--system {text}: expected NAME=PATH")
        pairs[name] = path
    return pairs


def print_outcome(outcome: ExperimentOutcome | PooledOutcome) -> None:
    """Print the tables and the notes of an experiment."""
    from telerank.show.tables import render_terminal

    console.out().print(f"{outcome.title}\n", style="bold", markup=False)
    for result in outcome.results:
        for table in result.tables:
            console.out().print(render_terminal(table))
            console.out().print()
    for note in outcome.notes:
        console.out().print(f"- {note}", markup=False)
    console.out().print(f"- It took {outcome.time}.", markup=False)


@derive
def demo(
    *,
    output: Annotated[Path, Flags("-o"), Help("A folder for the report, its plots and the indexes.")] = Path(
        "telerank-demo"
    ),
) -> None:
    """Try everything on a French collection that is installed with telerank, without a network.

    On paragraphs that its models have not learned from: BM25, dense vectors, their sum, re-ranked and
    answered, in one table; then five sparse models, with and without preprocessing, at their defaults and
    tuned. The first part needs the extras `neural` and `e5`. It says first what it does and how long that
    takes, and writes `report.html`. It is the packaged experiment `demo` (`telerank experiment demo --show`).

    Example: `telerank demo --output telerank-demo`
    """
    from telerank.verbs.experiment import expected_time, run_experiment

    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a model that is not here is not fetched
    _say_what_follows(output, expected_time("demo"))
    (outcome,) = run_experiment("demo", output=output)
    print_outcome(outcome)
    console.out().print(f"\nThe report: {outcome.folder / 'report.html'}\n", markup=False, soft_wrap=True)
    index = output / "piaf-held-out" / "index-french"
    console.out().print("Next, in the index that is there now, and on files of your own:")
    for line in (
        f'telerank search {index} --query "{_QUESTION}" -k 3',
        *[f'telerank answer {index} --query "{_QUESTION}"'] * is_here(READER),
        "telerank index MY_FILES my-index --analyzer french",
        'telerank search my-index --query "…" --explain',
        'telerank tune my-index MY_COLLECTION --model dfr -m "AP@15"',
    ):
        console.out().print(f"  {line}", markup=False, soft_wrap=True)
    console.out().print(
        "MY_FILES: a folder of texts, or JSONL, CSV, TREC, BEIR, MS MARCO or SQuAD files. "
        "MY_COLLECTION: the same with questions and qrels. `telerank data show` looks into either."
    )


def _say_what_follows(output: Path, time: str) -> None:
    """What the demo does, how long that takes, and what is not installed for it."""
    models = "BM25, dense vectors (e5-small), their sum, re-ranked (reranker-fr-en), answered (reader-fr-en)"
    lines = [
        "Questions about paragraphs of the French Wikipedia (PIAF) that no model here has learned from;",
        "one half of them chooses weights and parameters, the other half measures.",
        f"  1. {models}",
        "  2. five sparse models, with and without preprocessing, at their defaults and tuned",
    ]
    if is_here("e5-small") and find_spec("torch") is not None:
        lines.append(f"It takes {time}. All is written to {output}.")
    else:
        lines.append(
            "The first part needs two extras, pip install 'telerank[neural,e5]'; the second a few seconds."
        )
    for line in lines:
        console.out().print(line, markup=False, highlight=False, soft_wrap=True)
    console.out().print()


@group(ls, run, default="run")
def experiment() -> None:
    """Run experiments: tables and figures of papers, or YAML files of your own.

    `telerank experiment NAME` is short for `telerank experiment run NAME`.

    Example: `telerank experiment repbert/figure2 --small --on scifact --skip RepBERT`
    """
