"""A weighted sum of runs whose weights are chosen on other queries than those that it answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from telerank.evaluate.tune import Folds
from telerank.fuse.join import join_runs
from telerank.fuse.methods import Fusion
from telerank.fuse.tuning import tune_weights
from telerank.trec import read_run
from telerank.types import Qrels, Ranking


def held_out_sum(
    runs: Sequence[Path], qrels: Qrels, measure: str, *, folds: Folds, depth: int = 1000
) -> tuple[list[Ranking], str]:
    """The fused lists of the judged queries; and how their weights were chosen, in words.

    The weights of each fold of the queries are those of the grid, of step 0.1 (Piaf report, section 6.5),
    that are best on the other folds by ``measure``.
    """
    result = tune_weights({str(one): read_run(one) for one in runs}, qrels, measure, folds=folds).result
    chosen = {
        qid: weights for weights, fold in zip(result.choices, result.folds, strict=True) for qid in fold
    }
    fused = [
        Fusion("linear", chosen[rankings[0].query.qid])(rankings).cut(depth)
        for rankings in join_runs([read_run(one) for one in runs])
        if rankings[0].query.qid in chosen
    ]
    counts = Counter(result.choices).most_common()
    weights = ", ".join(f"{'/'.join(f'{one:g}' for one in found)} ({times})" for found, times in counts)
    return fused, f"weights by {measure} of the other {folds.k - 1} of {folds.k} folds: {weights}"
