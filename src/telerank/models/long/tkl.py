"""TKL: kernels of words in context, over the best regions of a long document (Hofstätter et al. 2020).

======  ===================================================
``B``   pairs of a query and a document
``N``   words of a query
``T``   words of a document
``C``   chunks of all documents, each of ``K`` words
``W``   windows of a document: one begins at every other word
======  ===================================================

The order of steps and all numbers are those of the authors' program for the paper.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from telerank.errors import ArgumentError
from telerank.models.pairs.pair import PairBatch
from telerank.models.pairs.words import UNKNOWN, Words
from telerank.models.precision import in_float32
from telerank.models.rerankers.kinds import ModelExplanation
from telerank.models.rerankers.knrm import DEVIATIONS, MEANS
from telerank.models.rerankers.word_ranker import WordKind, make_embedding, split_sides
from telerank.types import Phrase

WINDOW, STEP = 30, 2
"""Words of a window, and from one window to the next."""
_NEIGHBOURS = (0, -1, 1, -2, 2)
"""The windows that count beside a region's best one."""
_LEAST = 1e-10  # the least sum of a kernel


def make_positions(length: int, width: int) -> Tensor:
    """Sines and cosines of positions, (length, width), from which learned positions begin."""
    half = max(1, width // 2)
    rates = torch.exp(torch.arange(half) * -(math.log(1e4) / max(1, half - 1)))
    angles = torch.arange(length).unsqueeze(1) * rates
    return functional.pad(torch.cat([angles.sin(), angles.cos()], 1), (0, width))[:, :width]


class Contextualiser(nn.Module):
    """λ t + (1 - λ) TF(t + p): words mixed with what a transformer makes of the words around them.

    A text is cut into chunks of ``chunk`` words, which see ``overlap`` further ones on each side, no others.
    By default there are as many ``heads``, ten at most, as divide the width (10 of GloVe's 50 or 300).
    """

    def __init__(
        self,
        width: int,
        *,
        heads: int | None = None,
        layers: int = 2,
        inner: int = 100,
        chunk: int = 40,
        overlap: int = 5,
    ) -> None:
        super().__init__()
        heads = next(n for n in range(10, 0, -1) if width % n == 0) if heads is None else heads
        if any(type(size) is not int for size in (heads, layers, inner, chunk, overlap)):
            raise ArgumentError("heads, layers, inner, chunk and overlap must be whole numbers")
        if min(chunk, layers, heads) < 1 or overlap < 0 or width % heads:
            sizes = f"{heads} heads on vectors of {width}, {layers} layers"
            raise ArgumentError(f"{sizes}, chunks of {chunk} words and {overlap} on each side")
        self.chunk, self.overlap = chunk, overlap
        self.mix = nn.Parameter(torch.tensor(0.5))
        self.positions = nn.Parameter(make_positions(chunk + 2 * overlap, width))
        shape = (width, heads, inner, 0.0)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(*shape, batch_first=True) for _ in range(layers)
        )

    def forward(self, words: Tensor, known: Tensor) -> Tensor:
        """Vectors, (B, T, E), and which words are known, (B, T) -> vectors in context; unknown ones are 0."""
        length, size = words.shape[1], self.chunk + 2 * self.overlap
        behind = -length % self.chunk + self.overlap
        padded = functional.pad(words, (0, 0, self.overlap, behind))
        mask = functional.pad(known, (self.overlap, behind))
        chunks = padded.unfold(1, size, self.chunk).transpose(2, 3)  # (B, chunks, K, E)
        masks = mask.unfold(1, size, self.chunk)  # (B, chunks, K)
        inside = slice(self.overlap, self.overlap + self.chunk)
        chosen = masks[:, :, inside].any(2)  # chunks without a word are not computed
        if not chosen.any():
            return torch.zeros_like(words)
        own, own_mask = chunks[chosen], masks[chosen]  # (C, K, E)
        context = own + self.positions
        for layer in self.layers:
            context = layer(context, src_key_padding_mask=~own_mask)
        mixed = (self.mix * own + (1 - self.mix) * context) * own_mask.unsqueeze(-1)
        result = words.new_zeros(*chosen.shape, self.chunk, words.shape[2])
        result[chosen] = mixed[:, inside].to(result.dtype)
        return result.flatten(1, 2)[:, :length]


class Saturation(nn.Module):
    """a s^(1/b) - c of a kernel's sum s over a window; at the start it is about the logarithm of s.

    a, b and c are linear functions of the query word's weight, a product with its vector, and of the number
    of words in the window, both normalised together.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.salience = nn.Linear(width, 1, bias=False)
        self.norm = nn.LayerNorm(2)
        self.numbers = nn.Linear(2, 3)
        nn.init.uniform_(self.numbers.weight, -0.014, 0.014)
        nn.init.constant_(self.numbers.bias, 100.0)

    def forward(self, sums: Tensor, query: Tensor, lengths: Tensor) -> Tensor:
        """Sums, (B, N, W, kernels), of query words, (B, N, E), in windows of ``lengths`` words, (B, W)."""
        weight = self.salience(query).expand(-1, -1, sums.shape[2])  # (B, N, W)
        length = lengths.to(weight.dtype).unsqueeze(1).expand_as(weight)
        factor, root, shift = self.numbers(self.norm(torch.stack([weight, length], -1))).split(1, -1)
        saturated: Tensor = factor * sums.clamp(min=_LEAST) ** (1 / root) - shift
        return saturated


class Tkl(nn.Module):
    """The weighted sum of the scores of a document's best regions.

    A window's score is w · Σ_i sat(K_k(i)), over the query's words i: K_k(i) is the sum over the window's
    words j of exp(-(M_ij - μ_k)² / 2 σ_k²), and M_ij the cosine of both words in context. ``regions`` windows
    are chosen, the best first, none within a window's length of another; each counts with its two neighbours
    on each side, by weights that are learned. An unknown word is similar to no word.

    ``vectors`` (V, E) are rows as :class:`telerank.models.pairs.words.Words` has them; they are trained, too,
    unless ``frozen``. ``context`` has the settings of the :class:`Contextualiser`, which reads a query of
    more words than its chunks have in chunks, too.
    """

    def __init__(self, vectors: Tensor, *, regions: int = 3, frozen: bool = False, **context: Any) -> None:
        super().__init__()
        if regions < 1:
            raise ArgumentError(f"a document has at least one region, got {regions}")
        width = vectors.shape[1]
        self.regions = regions
        self.words = make_embedding(vectors, frozen=frozen)
        self.context = Contextualiser(width, **context)
        self.saturation = Saturation(width)
        self.weight = nn.Linear(len(MEANS), 1, bias=False)
        nn.init.uniform_(self.weight.weight, -0.014, 0.014)
        self.shares = nn.Parameter(torch.ones(regions, len(_NEIGHBOURS)))

    def forward(self, batch: PairBatch) -> Tensor:
        """Pairs -> scores, (B,)."""
        return self.with_regions(batch)[0].sum(1)

    @in_float32
    def with_regions(self, batch: PairBatch) -> tuple[Tensor, Tensor]:
        """What each region adds to the score, (B, regions), and the number of its best window, -1 if none."""
        texts = split_sides(batch)
        query_known = texts.query_mask & (texts.query != UNKNOWN)
        known = texts.passage_mask & (texts.passage != UNKNOWN)
        query = self.context(self.words(texts.query), query_known)
        passage = self.context(self.words(texts.passage), known)
        sums, lengths = self._pool(query, passage, known)
        saturated = self.saturation(sums, query, lengths) * query_known[:, :, None, None]
        scores = self.weight(saturated.sum(1)).squeeze(-1)  # (B, W)
        return self._choose(scores.masked_fill(lengths == 0, -torch.inf))

    def _pool(self, query: Tensor, passage: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """The sum of each kernel over each window, (B, N, W, kernels), and its known words, (B, W)."""
        behind = WINDOW + STEP  # the last window has no word, whatever else is in the batch
        query, passage = functional.normalize(query, dim=-1), functional.normalize(passage, dim=-1)
        cosines = functional.pad(query @ passage.transpose(1, 2), (0, behind))  # (B, N, T + behind)
        real = functional.pad(known, (0, behind)).to(cosines.dtype).unsqueeze(1)
        pooled = [
            functional.avg_pool1d(torch.exp(-((cosines - mean) ** 2) / (2 * width**2)) * real, WINDOW, STEP)
            for mean, width in zip(MEANS, DEVIATIONS, strict=True)
        ]
        lengths = functional.avg_pool1d(real, WINDOW, STEP).squeeze(1) * WINDOW
        return torch.stack(pooled, -1) * WINDOW, lengths.round()

    def _choose(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """See :meth:`with_regions`; windows without a word have a score of -inf."""
        rest, numbers = scores.detach().clone(), torch.arange(scores.shape[1], device=scores.device)
        offsets = torch.tensor(_NEIGHBOURS, device=scores.device)
        finite = scores.masked_fill(scores == -torch.inf, 0.0)
        added, chosen = [], []
        for region in range(self.regions):
            best = rest.argmax(1, keepdim=True)  # (B, 1)
            exists = rest.gather(1, best) > -torch.inf
            around = (best + offsets).clamp(0, scores.shape[1] - 1)  # (B, neighbours)
            added.append((finite.gather(1, around) * self.shares[region]).sum(1) * exists.squeeze(1))
            chosen.append(best.masked_fill(~exists, -1).squeeze(1))
            rest = rest.masked_fill((numbers - best).abs() < WINDOW // STEP, -torch.inf)
        return torch.stack(added, 1), torch.stack(chosen, 1)

    def explain(self, words: Words, batch: PairBatch) -> ModelExplanation:  # noqa: ARG002 — as of every kind
        """What each of the best regions adds, in a batch of one pair."""
        added, chosen = self.with_regions(batch)
        template = "words {first} to {last}, the best window and its neighbours"
        length = int(split_sides(batch).passage_mask.sum())
        shares = []
        for value, number in zip(added[0].tolist(), chosen[0].tolist(), strict=True):
            if number >= 0:
                first = max(0, STEP * (number - 2)) + 1
                last = min(length, STEP * (number + 2) + WINDOW)
                shares.append((value, Phrase(template, first=first, last=last)))
        return ModelExplanation("the score is the sum over regions of the document", tuple(shares))


TRAINING: Mapping[str, Any] = {
    "model": {"max_query": 30, "max_length": 4030},  # 4,000 words of a document (table 1 of Kim et al.)
    "loss": {"objective": "margin", "margin": 1.0, "of": "logit"},
    "optimisation": {
        "epochs": 10.0,
        "batch": 32,
        "optimiser": "adam",
        "learning_rate": 1e-4,
        "weight_decay": 0.0,
        "warm_up": 0,
        "schedule": "constant",
    },
}
KIND = WordKind(Tkl, training=TRAINING, explain=Tkl.explain)
