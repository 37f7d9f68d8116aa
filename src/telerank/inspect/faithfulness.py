"""Are gates faithful: does the sentence with the highest gate matter more to the score than another?

For each pair the sentence with the highest gate is deleted, and another one, drawn by a seed; each time the
pair is scored again. If gates were only decoration, both deletions would lower the score equally often.

Deleting a long sentence removes more of the passage than deleting a short one, whatever its gate. Therefore
the longest sentence is one of the choices: a baseline that gates must surpass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from telerank.errors import CollectionError
from telerank.evaluation.statistics import bootstrap_intervals
from telerank.inspect.drawn_pairs import describe_cut
from telerank.inspect.gates import compute_gates, find_gates
from telerank.inspect.token_outputs import BATCH, iterate_batches
from telerank.models.pairs.pair import PASSAGE, QUERY, Pair, PairTexts, Passage
from telerank.models.rerankers.reranker import Reranker
from telerank.show.report import Report
from telerank.show.tables import Cell, Table, count_noun
from telerank.types import Progress, silent

MEAN, LONGEST = "mean of the episodes", "longest sentence"
_NOISE = 1e-5  # by how much a logit depends on its batch
_Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rates:
    """Shares of the pairs whose score falls when a sentence is deleted: the chosen one, or another.

    ``low`` and ``high`` bound ``difference``, chosen minus other, with 95 % confidence; NaN for a single
    query. ``chosen_drop`` and ``other_drop`` are the mean drops of the logit.
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
    """``rates`` by the choice of sentence; ``skipped`` pairs have one sentence, ``cut`` are too long."""

    rates: Mapping[str, Rates]
    pairs: int
    queries: int
    skipped: int
    cut: int


@dataclass(frozen=True, eq=False)
class FaithfulnessReport(Report):
    """The faithfulness of a model's gates; ``drawn`` says which pairs were read."""

    title: ClassVar[str] = "Faithfulness of gates"
    model: str
    result: Faithfulness
    drawn: Mapping[str, object]

    def tables(self) -> list[Table]:
        """A row for each choice of the deleted sentence."""
        rows = [
            (
                choice,
                rates.chosen,
                rates.other,
                Cell(f"{rates.difference:+.3f}", strong=rates.low > 0 or rates.high < 0),
                f"[{rates.low:+.3f}, {rates.high:+.3f}]",
                f"{rates.chosen_drop:+.3f}",
                f"{rates.other_drop:+.3f}",
            )
            for choice, rates in self.result.rates.items()
        ]
        pairs = count_noun(self.result.pairs, "pair")
        skipped = f"{count_noun(self.result.skipped, 'pair')} of one sentence skipped"
        caption = f"How often a deletion lowers the score, {pairs} of {self.drawn['collection']}"
        queries = f"{self.result.queries:,} queries"
        notes = [
            f"Deleted: the sentence of the highest gate (chosen), another at random (other); {skipped}.",
            f"Interval of the difference at 95 %, bootstrap over {queries}; strong: without 0.",
            "drop: how far the logit falls in the mean.",
        ]
        columns = ("sentence chosen by", "chosen", "other", "difference", "interval", "drop", "other's")
        return [Table.of(columns, rows, caption=caption, notes=notes)]

    @property
    def remarks(self) -> list[str]:
        return describe_cut(self.result.cut, self.result.pairs, self.model)

    def record(self) -> dict[str, object]:
        return {**self.drawn, "model": self.model, **asdict(self.result)}


def measure_faithfulness(
    reranker: Reranker,
    pairs: Sequence[Pair],
    qids: Sequence[str],
    *,
    seed: int = 0,
    batch_tokens: int = BATCH,
    progress: Progress = silent,
) -> Faithfulness:
    """Rates for the gate of each episode, for their mean, and for the longest sentence instead of a gate.

    A sentence's tokens are deleted from those that the model read; text that was cut off stays cut off. The
    intervals are percentiles of 10,000 samples of the queries, each with all its pairs.

    Raises
    ------
    CollectionError
        If no pair has two sentences.
    ModelError
        If the re-ranker has no gates.
    """
    find_gates(reranker)
    kept = [row for row, pair in enumerate(pairs) if count_sentences(pair) > 1]
    if not kept:
        raise CollectionError(f"of {len(pairs)} passages none has two sentences: nothing can be deleted")
    whole = [pairs[row] for row in kept]
    scores, gates = _score(reranker, whole, batch_tokens, progress)
    random = np.random.default_rng(seed)
    trials = [_trial(pair, own, random) for pair, own in zip(whole, gates, strict=True)]
    deletions = [
        (i, sentence) for i, trial in enumerate(trials) for sentence in sorted({*chain(*trial.values())})
    ]
    shorter = [delete_sentence(reranker.texts, whole[i], sentence) for i, sentence in deletions]
    after, _ = _score(reranker, shorter, batch_tokens, progress, "deleting")
    drops = {(i, sentence): scores[i] - logit for (i, sentence), logit in zip(deletions, after, strict=True)}
    queries = np.unique([qids[row] for row in kept], return_inverse=True)[1].reshape(-1)
    by_choice = [
        [[drops[i, sentence] for sentence in trial[choice]] for i, trial in enumerate(trials)]
        for choice in trials[0]
    ]
    rates = dict(zip(trials[0], _rates(np.array(by_choice), queries, seed), strict=True))
    cut = sum(pair.cut > 0 for pair in whole)
    return Faithfulness(rates, len(whole), int(queries.max()) + 1, len(pairs) - len(whole), cut)


def count_sentences(pair: Pair) -> int:
    """Number of sentences of the passage in the pair."""
    return int(pair.sentences.max(initial=-1)) + 1


def delete_sentence(texts: PairTexts, pair: Pair, sentence: int) -> Pair:
    """The pair without the tokens of one sentence of its passage."""
    kept = (pair.parts == PASSAGE) & (pair.sentences != sentence)
    numbers = np.unique(pair.sentences[kept], return_inverse=True)[1].astype(np.int32).reshape(-1)
    return texts.pair(pair.ids[pair.parts == QUERY], Passage(pair.ids[kept], numbers))


def _score(
    reranker: Reranker,
    pairs: Sequence[Pair],
    batch_tokens: int,
    progress: Progress,
    label: str = "reading pairs",
) -> tuple[_Values, list[_Values]]:
    """The logit of each pair, (pairs,), and its gates, (episodes, sentences) each."""
    scores, gates = np.empty(len(pairs)), [np.empty((0, 0))] * len(pairs)
    for rows, batch in iterate_batches(pairs, reranker.texts.pad_id, batch_tokens, progress, label):
        scores[rows], batch_gates = compute_gates(reranker, batch)  # (B,), (B, E, S)
        for row, own in zip(rows, batch_gates, strict=True):
            gates[row] = own[:, : count_sentences(pairs[row])]
    return scores, gates


def _trial(pair: Pair, gates: _Values, random: np.random.Generator) -> dict[str, tuple[int, int]]:
    """By choice, the chosen sentence and another: the first of a random order that is not the chosen one."""
    order = random.permutation(gates.shape[1]).tolist()
    lengths = np.bincount(pair.sentences[pair.parts == PASSAGE])
    weights = {f"episode {number}": own for number, own in enumerate(gates, 1)}
    weights |= {MEAN: gates.mean(0), LONGEST: lengths}
    return {
        choice: (chosen, next(other for other in order if other != chosen))
        for choice, chosen in ((choice, int(values.argmax())) for choice, values in weights.items())
    }


def _rates(drops: _Values, queries: npt.NDArray[np.int64], seed: int) -> list[Rates]:
    """Rates from the drops of chosen and other sentences, (choices, pairs, 2), and queries, (pairs,)."""
    lowered = (drops > _NOISE).astype(float)
    counts = np.bincount(queries)  # pairs of each of Q queries
    sums = [np.bincount(queries, row) for row in lowered[..., 0] - lowered[..., 1]]  # (Q,) for each choice
    bounds = (
        bootstrap_intervals(sums, counts, seed=seed) if len(counts) > 1 else [(np.nan, np.nan)] * len(sums)
    )
    return [Rates(*row) for row in np.hstack([lowered.mean(1), bounds, drops.mean(1)]).tolist()]
