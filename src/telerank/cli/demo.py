"""``telerank demo``: an experiment on the collection that is installed with telerank."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from telerank.cli import console
from telerank.cli.derive import derive
from telerank.cli.experiment import print_outcome
from telerank.parameters import Flags, Help

_QUESTION = "Qui a inventé l'imprimerie ?"


@derive
def demo(
    *,
    output: Annotated[Path, Flags("-o"), Help("A folder for the report, its plots and the indexes.")] = Path(
        "telerank-demo"
    ),
) -> None:
    """Try everything on a French collection that is installed with telerank, without a network.

    Indexes PIAF with and without preprocessing, retrieves with five sparse models, tunes them on some
    questions, compares them on others, and writes `report.html`. With the extras `neural` and `e5` (or
    `minilm`, an English encoder) it adds dense vectors and fusion, and trains a re-ranker, a BERT-DMN head
    on a frozen encoder. Without extras it takes about a minute, with them several. It is the packaged
    experiment `demo` (`telerank experiment demo --show`).

    Example: `telerank demo --output telerank-demo`
    """
    from telerank.verbs.experiment import run_experiment

    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a model that is not here is not fetched
    (outcome,) = run_experiment("demo", output=output)
    print_outcome(outcome)
    report = outcome.folder / "report.html"
    console.out.print(f"\nThe report: {report}\n", markup=False, soft_wrap=True)
    console.out.print("Next, in the index that is there now, and on files of your own:")
    for line in (
        f'telerank search {output / "piaf" / "index-french"} --query "{_QUESTION}" -k 3',
        "telerank index MY_FILES my-index --analyzer french",
        'telerank search my-index --query "…" --explain',
        'telerank tune my-index MY_COLLECTION --model dfr -m "AP@15"',
    ):
        console.out.print(f"  {line}", markup=False, soft_wrap=True)
    console.out.print(
        "MY_FILES: a folder of texts, or JSONL, CSV, TREC, BEIR, MS MARCO or SQuAD files. "
        "MY_COLLECTION: the same with questions and qrels. `telerank data show` looks into either."
    )
