"""Are gates faithful: does the sentence that an episode looks at most matter more to the score than another?

For each pair the sentence with the highest gate is deleted, and one of the others, drawn by a seed; each time
the pair is scored anew. Were gates but decoration, the two deletions would lower the score equally often.

A long sentence, deleted, takes more of the passage away than a short one, whatever a gate says: so the
longest sentence stands among the choices, as what gates must surpass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from telerank.errors import CollectionError
from telerank.inspect.gates import check_gates, gated
from telerank.inspect.token_outputs import BATCH, batches
from telerank.models.pairs.pair import PASSAGE, QUERY, Pair, PairTexts, Passage
from telerank.models.rerankers.reranker import Reranker
from telerank.types import Progress, silent

MEAN, LONGEST = "mean of the episodes", "longest sentence"
_RESAMPLES = 10_000
_NOISE = 1e-5  # what another batch changes of a logit
_AT_ONCE = 4_000_000  # drawn queries held at once by the bootstrap
_Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rates:
    """Shares of the pairs whose score the deletion of a sentence lowers: of the chosen one, of another one.

    ``low`` and ``high`` bound ``difference``, chosen less other, with 95 % confidence; NaN for one query.
    ``chosen_drop`` and ``other_drop`` are how far the logit falls in the mean.
    """

    chosen: float
    other: float
    low: float
    high: float
    chosen_drop: float
    other_drop: float

    @property
    def difference(self) -> float:
        return self.chosen - self.other


@dataclass(frozen=True)
class Faithfulness:
    """``rates`` by what chooses the sentence; ``skipped`` pairs had one sentence, ``cut`` were too long."""

    rates: Mapping[str, Rates]
    pairs: int
    queries: int
    skipped: int
    cut: int


def faithfulness(
    reranker: Reranker,
    pairs: Sequence[Pair],
    qids: Sequence[str],
    *,
    seed: int = 0,
    batch_tokens: int = BATCH,
    progress: Progress = silent,
) -> Faithfulness:
    """Rates for the gate of each episode, for their mean, and for the longest sentence in place of a gate.

    Deleted are a sentence's tokens, of those that the model read; what was cut off stays off. The intervals
    are percentiles of 10,000 samples of the queries, each with all its pairs.

    Raises
    ------
    CollectionError
        where no pair has two sentences.
    ModelError
        where the re-ranker has no gates.
    """
    check_gates(reranker)
    kept = [place for place, pair in enumerate(pairs) if sentences_of(pair) > 1]
    if not kept:
        raise CollectionError(f"of {len(pairs)} passages none has two sentences: nothing can be deleted")
    whole = [pairs[place] for place in kept]
    scores, gates = _read(reranker, whole, batch_tokens, progress)
    random = np.random.default_rng(seed)
    trials = [_trial(pair, one, random) for pair, one in zip(whole, gates, strict=True)]
    drops = _drops(reranker, whole, trials, scores, batch_tokens=batch_tokens, progress=progress)
    names = np.unique([qids[place] for place in kept], return_inverse=True)[1].reshape(-1)
    found = [[[drops[i, one] for one in trial[what]] for i, trial in enumerate(trials)] for what in trials[0]]
    rates = dict(zip(trials[0], _rates(np.array(found), names, seed), strict=True))
    cut = sum(one.cut > 0 for one in whole)
    return Faithfulness(rates, len(whole), int(names.max()) + 1, len(pairs) - len(whole), cut)


def sentences_of(pair: Pair) -> int:
    """How many sentences of the passage are in the pair."""
    return int(pair.sentences.max(initial=-1)) + 1


def without(texts: PairTexts, pair: Pair, sentence: int) -> Pair:
    """The pair, its passage without the tokens of a sentence."""
    kept = (pair.parts == PASSAGE) & (pair.sentences != sentence)
    numbers = np.unique(pair.sentences[kept], return_inverse=True)[1].astype(np.int32).reshape(-1)
    return texts.pair(pair.ids[pair.parts == QUERY], Passage(pair.ids[kept], numbers))


def _read(
    reranker: Reranker, pairs: Sequence[Pair], batch_tokens: int, progress: Progress
) -> tuple[_Values, list[_Values]]:
    """The logit of each pair, (pairs,), and its gates, (episodes, its sentences)."""
    scores, gates = np.empty(len(pairs)), [np.empty((0, 0))] * len(pairs)
    found = batches(pairs, reranker.texts.pad_id, batch_tokens, what="reading pairs", progress=progress)
    for places, batch in found:
        logits, of_batch = gated(reranker, batch)  # (B,), (B, E, S)
        scores[places] = logits
        for place, one in zip(places, of_batch, strict=True):
            gates[place] = one[:, : sentences_of(pairs[place])]
    return scores, gates


def _trial(pair: Pair, gates: _Values, random: np.random.Generator) -> dict[str, tuple[int, int]]:
    """The sentence that each way to choose takes, and another: the first of one order that is not it."""
    order = random.permutation(gates.shape[1]).tolist()
    lengths = np.bincount(pair.sentences[pair.parts == PASSAGE])
    ways = {f"episode {number}": one for number, one in enumerate(gates, 1)}
    ways |= {MEAN: gates.mean(0), LONGEST: lengths}
    chosen = {what: int(values.argmax()) for what, values in ways.items()}
    return {what: (one, next(each for each in order if each != one)) for what, one in chosen.items()}


def _drops(
    reranker: Reranker,
    pairs: Sequence[Pair],
    trials: Sequence[Mapping[str, tuple[int, int]]],
    scores: _Values,
    *,
    batch_tokens: int,
    progress: Progress,
) -> dict[tuple[int, int], float]:
    """How far the logit of each pair falls where one of its sentences is deleted, by pair and sentence."""
    asked = [(i, one) for i, trial in enumerate(trials) for one in sorted({*chain(*trial.values())})]
    texts = reranker.texts
    cut = [without(texts, pairs[i], one) for i, one in asked]
    found = {}
    for places, batch in batches(cut, texts.pad_id, batch_tokens, what="deleting", progress=progress):
        logits, _ = gated(reranker, batch)
        for place, logit in zip(places, logits.tolist(), strict=True):
            i, _ = asked[place]
            found[asked[place]] = float(scores[i]) - logit
    return found


def _rates(drops: _Values, queries: npt.NDArray[np.int64], seed: int) -> list[Rates]:
    """Of drops by the chosen sentence and by the other, (ways, pairs, 2), and each pair's query, (pairs,)."""
    lowered = (drops > _NOISE).astype(float)
    bounds = _intervals(lowered[..., 0] - lowered[..., 1], queries, seed)
    means = zip(lowered.mean(1).tolist(), drops.mean(1).tolist(), bounds, strict=True)
    return [Rates(chosen, other, low, high, *falls) for (chosen, other), falls, (low, high) in means]


def _intervals(values: _Values, queries: npt.NDArray[np.int64], seed: int) -> list[tuple[float, float]]:
    """Bounds of the mean of each row of (ways, pairs), from samples of the queries with replacement."""
    counts = np.bincount(queries)  # pairs of each of Q queries
    sums = np.stack([np.bincount(queries, row) for row in values])  # (ways, Q)
    size = len(counts)
    if size < 2:
        return [(math.nan, math.nan)] * len(values)
    random = np.random.default_rng(seed)
    means = []
    for begin in range(0, _RESAMPLES, step := max(1, _AT_ONCE // size)):
        rows = min(step, _RESAMPLES - begin)
        drawn = random.integers(size, size=(rows, size)) + size * np.arange(rows)[:, None]
        times = np.bincount(drawn.ravel(), minlength=rows * size).reshape(rows, size)
        means.append(times @ sums.T / (times @ counts)[:, None])  # (rows, ways)
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5], axis=0)
    return list(zip(low.tolist(), high.tolist(), strict=True))
