"""Random features of pairs, uneven in queries and passages; and pairs of random words."""

from __future__ import annotations


def random_features(pairs=5, width=12, sentences=6, words=7, seed=0):
    """Each pair has at least one sentence and one word of a query; the first has the most of both."""
    import torch

    from telerank.models.pairs.pair import PairFeatures

    draw = torch.Generator().manual_seed(seed)

    def side(most):
        counts = torch.randint(1, most + 1, (pairs, 1), generator=draw)
        counts[0] = most
        mask = torch.arange(most) < counts
        return torch.randn(pairs, most, width, generator=draw) * mask.unsqueeze(-1), mask

    cls = torch.randn(pairs, width, generator=draw)
    return PairFeatures(cls, *side(words), *side(sentences))


def random_word_pairs(pairs=6, vocabulary=20, width=8, seed=0):
    """The pairs of a batch and their word vectors: passages of one to four sentences, one without a word."""
    import numpy as np
    import torch

    from telerank.models.pairs.words import SPECIAL, Words

    draw = np.random.default_rng(seed)
    texts = Words([f"w{number}" for number in range(vocabulary)], max_query=8, max_length=40)
    drawn = []
    for number in range(pairs):
        query = draw.integers(1, SPECIAL + vocabulary, draw.integers(1, 6)).astype(np.int32)
        counts = draw.integers(1, 6, 1 + number % 4) if number else []
        sentences = np.repeat(np.arange(len(counts)), counts).astype(np.int32)
        rows = draw.integers(1, SPECIAL + vocabulary, len(sentences)).astype(np.int32)
        drawn.append(texts.pair(query, type(texts.passages([""])[0])(rows, sentences)))
    table = torch.from_numpy(draw.normal(0, 1, (SPECIAL + vocabulary, width)).astype(np.float32))
    table[0] = 0
    return drawn, table
