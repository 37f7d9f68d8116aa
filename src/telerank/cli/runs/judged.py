"""Runs and qrels of the commands that measure runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from telerank.cli import console
from telerank.cli.options import check_one_dash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from telerank.verbs.judge import JudgedRuns


def open_runs(
    qrels: str,
    runs: Sequence[str],
    split: str | None,
    *,
    format: str | None,  # noqa: A002
    encoding: str,
    depth: int | None = None,
) -> JudgedRuns:
    """The runs with their qrels, as the options name them; prints remarks about them."""
    import telerank as tr
    from telerank.verbs.judge import judge

    check_one_dash([qrels, *runs])
    plain = format is None and encoding == "utf-8"
    data = qrels if plain else tr.collection(qrels, format=format, encoding=encoding)
    judged = judge(runs, data, split=split, depth=depth)
    for remark in judged.remarks:
        console.say(remark)
    return judged
