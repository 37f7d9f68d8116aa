"""The gates of BERT-DMN and DMN: how much each episode attends to a passage's sentences (section 7)."""

from __future__ import annotations

import math
import textwrap
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure

from telerank.errors import CollectionError, ModelError
from telerank.models.pairs.pair import PairBatch, batch_of
from telerank.models.rerankers.kinds import GatesFunction
from telerank.models.rerankers.reranker import Reranker
from telerank.reranking.texts import sentences_with_tokens
from telerank.show.plots import STYLE
from telerank.show.report import Report
from telerank.show.tables import Cell, Table, count_noun
from telerank.text.sentences import split_sentences

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
        rows: list[list[str | Cell]] = [
            [
                " ".join(sentence.text.split()),
                *(
                    Cell(f"{gate:.2f}", strong=gate == most)
                    for gate, most in zip(sentence.gates, highest, strict=False)
                ),
                *["not read"] * (self.episodes - len(sentence.gates)),
            ]
            for sentence in self.sentences
        ]
        columns = ("sentence", *map(str, range(1, self.episodes + 1)))
        notes = [f"{count_noun(self.cut, 'token')} too many: not read"] * bool(self.cut)
        return [Table.of(columns, rows, caption=f"{self.query}  (logit {self.logit:.4f})", notes=notes)]

    def record(self) -> dict[str, object]:
        return asdict(self)

    def plot(self) -> Figure:
        """A heat map: a row for each sentence, a column for each episode; a higher gate is darker."""
        sentences = [_wrap(sentence.text) for sentence in self.sentences]
        edges = list(accumulate((text.count("\n") + 1.6 for text in sentences), initial=0.0))
        with rc_context({**STYLE, "axes.grid": False}):
            height = max(2.0, 1.1 + 0.17 * edges[-1])
            figure = Figure(figsize=(4.6 + 0.75 * self.episodes, height), layout="constrained")
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
    count = int(pair.sentences.max(initial=-1)) + 1
    rows = iter(gates[0, :, :count].T.tolist())  # (E, S) -> S rows
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
