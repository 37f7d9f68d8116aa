"""A weighted sum in a recipe whose weights are chosen on other queries than those that it answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from telerank.evaluate.tune import Folds
from telerank.fuse.joined import joined
from telerank.fuse.methods import fusion_of
from telerank.fuse.tuning import Weights, tune_fusion
from telerank.recipes.made import Made
from telerank.recipes.schema import Recipe
from telerank.trec import read_run, write_run
from telerank.types import Qrels, Ranking

_FOLDS = 5


def tuned_fusion(parts: Sequence[Made], qrels: Qrels, recipe: Recipe, path: Path) -> str:
    """Write the run; how its weights were chosen, in words.

    The weights of each fold of the queries are those of the grid, of step 0.1 (Piaf report, section 6.5),
    that are best on the other folds by the last measure of the recipe's analysis.
    """
    measures = getattr(recipe.analysis, "measures", None) or (getattr(recipe.analysis, "measure", "AP"),)
    runs = [read_run(one.run) for one in parts]
    result = tune_fusion(runs, qrels, measures[-1], folds=Folds(_FOLDS, recipe.seed)).result
    chosen = {
        qid: result.settings[place]
        for place, fold in zip(result.places, result.folds, strict=True)
        for qid in fold
    }
    write_run(path, _fused(parts, chosen, recipe.depth))
    counts = Counter(result.settings[place] for place in result.places).most_common()
    weights = ", ".join(f"{'/'.join(f'{one:g}' for one in found)} ({times})" for found, times in counts)
    return f"weights by {measures[-1]} of the other {_FOLDS - 1} of {_FOLDS} folds: {weights}"


def _fused(parts: Sequence[Made], chosen: dict[str, Weights], depth: int) -> Iterator[Ranking]:
    for rankings in joined([read_run(one.run) for one in parts]):
        weights = chosen.get(rankings[0].query.qid)
        if weights is not None:
            yield fusion_of("linear", weights)(rankings).cut(depth)
