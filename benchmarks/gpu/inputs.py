"""Models and texts: MiniLM's weights if they are here, everything else drawn by a fixed seed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from transformers import AutoConfig, AutoModel, BertTokenizer

from telerank.errors import TelerankError
from telerank.models.loading import locate, quiet, read_tokenizer
from telerank.models.pairs.words import save_vocabulary
from telerank.reranking.texts import TextPair

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".")
VOCABULARY = 30_522
MINILM, BASE = "MiniLM-L6", "BERT-base"
SHAPES = {  # layers, width, inner width, heads
    MINILM: (6, 384, 1536, 12),
    BASE: (12, 768, 3072, 12),
}
PASSAGES = 100  # of a query
POOL_TOKENS = 4_000_000  # of the pairs of one length


@dataclass(frozen=True)
class Shape:
    layers: int
    width: int
    inner: int

    def operations(self, lengths: np.ndarray) -> float:
        """Of the products of a forward pass over texts of these lengths: with weights, and in attention."""
        n = np.asarray(lengths, np.float64)
        token = 8 * self.width**2 + 4 * self.width * self.inner
        return float(self.layers * (n * token + 4 * n * n * self.width).sum())


@dataclass(frozen=True, eq=False)
class Inputs:
    """``small`` ones are for a processor."""

    folder: Path
    device: torch.device
    small: bool
    lengths: dict[int, np.ndarray] = field(default_factory=dict)
    _texts: dict[tuple[int, int], list[TextPair]] = field(default_factory=dict)

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    @cached_property
    def minilm(self) -> Path | None:
        """The weights of MiniLM; None if they are not on this machine."""
        try:
            return locate("minilm")
        except TelerankError:
            return None

    @cached_property
    def tokenizer(self):
        if self.minilm is not None:
            return read_tokenizer(self.minilm)
        draw = np.random.default_rng(0)
        syllables = [a + b for a in "bcdfghklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "il")]
        words = dict.fromkeys(SPECIAL)
        while len(words) < VOCABULARY:
            words["".join(draw.choice(syllables, draw.integers(2, 5)))] = None
        return BertTokenizer(vocab={word: row for row, word in enumerate(words)}, model_max_length=512)

    @cached_property
    def words(self) -> np.ndarray:
        """Words that are a token each."""
        known = sorted(word for word in self.tokenizer.get_vocab() if re.fullmatch("[a-z]{3,9}", word))
        return np.array(known, object)

    def shape(self, name: str) -> Shape:
        layers, width, inner, _ = SHAPES[name]
        return Shape(2 if self.small and name == BASE else layers, width, inner)

    def encoder(self, name: str) -> Path:
        """The folder of an encoder."""
        if name == MINILM and self.minilm is not None:
            return self.minilm
        made = self.folder / name
        if not made.exists():
            _, width, inner, heads = SHAPES[name]
            torch.manual_seed(0)
            with quiet():
                config = AutoConfig.for_model(
                    "bert",
                    vocab_size=len(self.tokenizer),
                    num_hidden_layers=self.shape(name).layers,
                    hidden_size=width,
                    intermediate_size=inner,
                    num_attention_heads=heads,
                )
                AutoModel.from_config(config).save_pretrained(made)
            self.tokenizer.save_pretrained(made)
        return made

    @cached_property
    def vectors(self) -> Path:
        """The folder of word vectors of 300 dimensions."""
        made = self.folder / "words"
        made.mkdir()
        table = np.random.default_rng(0).standard_normal((len(self.words), 300), np.float32)
        np.save(made / "vectors.npy", 0.3 * table)
        save_vocabulary(made / "vocab.txt", self.words)
        return made

    def pairs(self, tokens: int, most: int = 0) -> list[TextPair]:
        """Queries of 5 to 12 words with 100 passages each; pairs have about so many tokens in the mean.

        Their lengths lie between half and one and a half of that. With 512, all are cut there.
        """
        count = most or max(64, POOL_TOKENS // tokens // (100 if self.small else 1))
        if (tokens, count) not in self._texts:
            draw = np.random.default_rng(tokens)
            low, high = (560, 600) if tokens == 512 else (tokens // 2 - 10, tokens * 3 // 2 - 13)
            queries = [_text(draw, self.words, size) for size in draw.integers(5, 13, -(-count // PASSAGES))]
            lengths = draw.integers(low, high, count)
            passages = [_text(draw, self.words, size) for size in lengths]
            pairs = [(queries[row // PASSAGES], passage) for row, passage in enumerate(passages)]
            self._texts[tokens, count] = pairs
        return self._texts[tokens, count]


def _text(draw: np.random.Generator, words: np.ndarray, count: int) -> str:
    """Sentences of 14 words."""
    chosen = words[draw.integers(0, len(words), count)]
    sentences = (" ".join(chosen[first : first + 14]) for first in range(0, count, 14))
    return " ".join(f"{sentence.capitalize()}." for sentence in sentences)
