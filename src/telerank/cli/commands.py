"""The commands by name; a command's module is imported when the command runs or its own help is shown."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from telerank.cli.derive import CommandGroup

SHORT_HELPS = {
    "index": "Build an index, add to it, update it, delete, merge, verify, describe.",
    "encode": "Encode the documents of a collection or an index into a folder of vectors, to search them.",
    "search": "Search an index or vectors with a pipeline: write a run over a collection's queries, or "
    "answer one.",
    "answer": "Answer questions from the documents of an index: rank them, read the first ones, mark the "
    "answers.",
    "serve": "Serve indexes and models over HTTP: a page for people, an API for programs.",
    "pipeline": "Save pipelines with an index by name, list, show and remove them.",
    "rerank": "Score the documents of a run again with a re-ranker, and write the new run.",
    "fuse": "Fuse runs into one: in turns, by weighted scores, or by ranks.",
    "evaluate": "Measure runs over all queries of the qrels, or predicted answers over all questions of a "
    "collection.",
    "compare": "Compare runs with baselines: paired t-test with Holm's correction, effect size, bootstrap "
    "interval.",
    "tune": "Tune pipelines and analyzers, by cross-validation or on one split for another.",
    "tune-fusion": "Tune the weights of `fuse --method linear` over a grid, by cross-validation.",
    "train": "Train models: `bi-encoder`, `reranker`, `reader`.",
    "inspect": "See why re-rankers score as they do: outputs of tokens, embeddings of pairs, gates over "
    "sentences.",
    "depth": "Re-rank the first n documents of each run by a re-ranker's scores, and measure at each "
    "depth n.",
    "consistency": "Consistency factor C(f, n): the mean share of a run's first n that is among the "
    "reference's candidates.",
    "combine": "Fuse all ordered pairs of runs, and show what each run adds to each other.",
    "experiment": "Run experiments: tables and figures of papers, or YAML files of your own.",
    "data": "List, show, convert and describe collections; make ranking sets and long documents.",
    "analyze-text": "Show the output of each step of an analyzer for a text.",
    "demo": "Try everything on a French collection that is installed with telerank, without a network.",
}
"""The first lines of the commands' docstrings, in the order in which the commands are used.

Command ``a-b`` is ``a_b`` of the module ``telerank.cli.a_b``.
"""
_MODULES = {
    "demo": "experiment",
    **dict.fromkeys(("compare", "depth", "consistency"), "evaluate"),
    **dict.fromkeys(("tune", "tune-fusion", "combine"), "fuse"),
}
"""The modules of other names."""


class Commands(CommandGroup):
    """The group of all commands; its help needs none of their modules."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            commands=[click.Command(name, help=text) for name, text in SHORT_HELPS.items()], **settings
        )

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SHORT_HELPS:
            return None
        function = cmd_name.replace("-", "_")
        module = import_module(f"telerank.cli.{_MODULES.get(cmd_name, function)}")
        command: click.Command = getattr(module, function)
        return command
