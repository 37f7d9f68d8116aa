"""The gates of BERT-DMN and DMN: what they attend to in a passage, and whether it matters.

Gates are faithful if the sentence with the highest gate matters more to the score than another. For each pair
that sentence is deleted, and another one, drawn by a seed; each time the pair is scored again. If gates were
only decoration, both deletions would lower the score equally often. Deleting a long sentence removes more of
the passage than deleting a short one, whatever its gate. Therefore the longest sentence is one of the
choices: a baseline that gates must surpass.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, chain, pairwise
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.figure import Figure

from telerank.errors import CollectionError, ModelError, count_noun
from telerank.evaluation.statistics import bootstrap_intervals
from telerank.inspect.drawn_pairs import BATCH, describe_cut, iterate_batches
from telerank.models.pairs.pair import PASSAGE, QUERY, Pair, PairBatch, PairTexts, Passage, batch_of
from telerank.models.rerankers.kinds import GatesFunction
from telerank.models.rerankers.reranker import Reranker
from telerank.reranking.texts import sentences_with_tokens
from telerank.show.plots import new_figure
from telerank.show.report import Report
from telerank.show.tables import Cell, Table
from telerank.text.sentences import split_sentences
from telerank.types import Progress, silent

_LINE = 60  # characters of a sentence in a line
_LINES = 3  # of a sentence
_Values: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True)
class GatedSentence:
    """A sentence and its gate in each episode, in order; no gates if the model does not read it."""

    text: str
    gates: tuple[float, ...] = ()


@dataclass(frozen=True)
class Gates(Report):
    """The gates of a pair; ``cut`` counts the tokens that the model does not read."""

    title: ClassVar[str] = "Gates"
    query: str
    sentences: tuple[GatedSentence, ...]
    logit: float
    episodes: int
    cut: int

    def tables(self) -> list[Table]:
        """A row for each sentence, a column for each episode, its highest gate strong."""
        read = [sentence.gates for sentence in self.sentences if sentence.gates]
        highest = [max(gates) for gates in zip(*read, strict=True)]
        rows: list[list[str | Cell]] = []
        for sentence in self.sentences:
            cells = [Cell(f"{g:.2f}", g == most) for g, most in zip(sentence.gates, highest, strict=False)]
            missing = ["not read"] * (self.episodes - len(cells))
            rows.append([" ".join(sentence.text.split()), *cells, *missing])
        columns = ("sentence", *map(str, range(1, self.episodes + 1)))
        return [
            Table.of(
                columns,
                rows,
                caption=f"{self.query}  (logit {self.logit:.4f})",
                notes=[f"{count_noun(self.cut, 'token')} too many: not read"] * bool(self.cut),
            )
        ]

    def record(self) -> dict[str, object]:
        return asdict(self)

    def plot(self) -> Figure:
        """A heat map: a row for each sentence, a column for each episode; a higher gate is darker."""
        sentences = [_wrap(sentence.text) for sentence in self.sentences]
        edges = list(accumulate((text.count("\n") + 1.6 for text in sentences), initial=0.0))
        height = max(2.0, 1.1 + 0.17 * edges[-1])
        with new_figure(4.6 + 0.75 * self.episodes, height, **{"axes.grid": False}) as figure:
            panel: Any = figure.subplots()
            values = [sentence.gates or (math.nan,) * self.episodes for sentence in self.sentences]
            drawn = panel.pcolormesh(
                range(self.episodes + 1), edges, values, cmap="Blues", vmin=0, vmax=1, edgecolors="white"
            )
            middles = [(low + high) / 2 for low, high in pairwise(edges)]
            for middle, row in zip(middles, values, strict=True):
                for episode, gate in enumerate(row):
                    colour = "white" if gate > 0.55 else "black"
                    shown = "–" if math.isnan(gate) else f"{gate:.2f}"  # the model does not read the sentence
                    panel.text(episode + 0.5, middle, shown, ha="center", va="center", color=colour)
            panel.invert_yaxis()
            panel.set_yticks(middles, sentences, fontsize=8)
            panel.set_xticks(np.arange(self.episodes) + 0.5, range(1, self.episodes + 1))
            panel.tick_params(length=0)
            panel.spines[:].set_visible(False)
            panel.set_xlabel("episode")
            panel.set_title(_wrap(self.query), fontsize=10, loc="left")
            figure.colorbar(drawn, ax=panel, label="gate", shrink=min(1.0, 2.0 / height + 0.4))
        return figure


def _wrap(text: str) -> str:
    return "\n".join(textwrap.wrap(text, _LINE, max_lines=_LINES, placeholder=" …")) or " "


def read_gates(reranker: Reranker, query: str, passage: str) -> Gates:
    """The gates of a pair, for every sentence of the passage.

    Raises
    ------
    CollectionError
        If the passage has no sentence.
    ModelError
        If the re-ranker has no gates, or a token spans several sentences, so that gates match no sentence.
    """
    texts = reranker.texts
    spans = split_sentences(passage, reranker.shape.language)
    if not spans:
        raise CollectionError("the passage has no sentence")
    (tokens,) = texts.passages([passage], [spans])
    pair = texts.pair(texts.queries([query])[0], tokens)
    logits, gates = compute_gates(reranker, batch_of([pair], texts.pad_id))
    rows = iter(gates[0, :, : count_sentences(pair)].T.tolist())  # (E, S) -> S rows
    sentences = tuple(
        GatedSentence(passage[start:end], tuple(next(rows, ())) if has_words else ())
        for (start, end), has_words in zip(
            spans, sentences_with_tokens(texts, passage, spans, tokens), strict=True
        )
    )
    return Gates(query, sentences, float(logits[0]), gates.shape[1], pair.cut)


def find_gates(reranker: Reranker) -> GatesFunction:
    """The function that computes the gates of a model.

    Raises
    ------
    ModelError
        If the re-ranker has no gates.
    """
    if reranker.kind.gates is None:
        raise ModelError(f"a {reranker.shape.kind} has no gates")
    return reranker.kind.gates


@torch.no_grad()
def compute_gates(reranker: Reranker, batch: PairBatch) -> tuple[_Values, _Values]:
    """The logits of a batch, (B,), and the gates, (B, episodes, S): 0 if there is no sentence."""
    logits, gates = find_gates(reranker)(reranker.model, batch.to(reranker.device))
    return logits.double().cpu().numpy(), gates.double().cpu().numpy()


MEAN, LONGEST = "mean of the episodes", "longest sentence"
_NOISE = 1e-5  # by how much a logit depends on its batch


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
            {
                "sentence chosen by": choice,
                "chosen": rates.chosen,
                "other": rates.other,
                "difference": Cell(f"{rates.difference:+.3f}", strong=rates.low > 0 or rates.high < 0),
                "interval": f"[{rates.low:+.3f}, {rates.high:+.3f}]",
                "drop": f"{rates.chosen_drop:+.3f}",
                "other's": f"{rates.other_drop:+.3f}",
            }
            for choice, rates in self.result.rates.items()
        ]
        skipped = f"{count_noun(self.result.skipped, 'pair')} of one sentence skipped"
        queries = f"{self.result.queries:,} queries"
        notes = [
            f"Deleted: the sentence of the highest gate (chosen), another at random (other); {skipped}.",
            f"Interval of the difference at 95 %, bootstrap over {queries}; strong: without 0.",
            "drop: how far the logit falls in the mean.",
        ]
        pairs = f"{count_noun(self.result.pairs, 'pair')} of {self.drawn['collection']}"
        return [Table.of_rows(rows, caption=f"How often a deletion lowers the score, {pairs}", notes=notes)]

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
    after, _ = _score(
        reranker,
        [delete_sentence(reranker.texts, whole[i], sentence) for i, sentence in deletions],
        batch_tokens,
        progress,
        "deleting",
    )
    drops = {(i, sentence): scores[i] - logit for (i, sentence), logit in zip(deletions, after, strict=True)}
    queries = np.unique([qids[row] for row in kept], return_inverse=True)[1].reshape(-1)
    by_choice = [
        [[drops[i, sentence] for sentence in trial[choice]] for i, trial in enumerate(trials)]
        for choice in trials[0]
    ]
    rates = dict(zip(trials[0], _rates(np.array(by_choice), queries, seed), strict=True))
    return Faithfulness(
        rates,
        len(whole),
        int(queries.max()) + 1,
        len(pairs) - len(whole),
        sum(pair.cut > 0 for pair in whole),
    )


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
