"""Masks on windows of pieces: which are chosen, and what stands in their place (Devlin et al., 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.training.mlm.config import Masks

Ids: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PieceWindow:
    """The pieces of a window, special ones among them, (L,), and the first place of each word, ascending.

    The places from ``end`` on, and those before the first word, are special.
    """

    ids: Ids
    words: Ids
    end: int


@dataclass(frozen=True, eq=False)
class MaskedWindow:
    """A window in which other pieces stand at some of the ``chosen`` places, (M,), whose were ``targets``."""

    ids: Ids
    chosen: Ids
    targets: Ids


@dataclass(frozen=True, eq=False)
class Masker:
    """Masks windows. ``choices`` are the pieces that are to be named, and those drawn in their place."""

    settings: Masks
    mask_id: int
    choices: Ids
    allowed: npt.NDArray[np.bool_]
    """(V,): which pieces of the vocabulary are choices."""

    @classmethod
    def of(cls, settings: Masks, mask_id: int, choices: Ids, vocabulary: int) -> Masker:
        allowed = np.zeros(vocabulary, bool)
        allowed[choices] = True
        return cls(settings, mask_id, choices, allowed)

    def __call__(self, windows: Sequence[PieceWindow], seed: tuple[int, ...]) -> list[MaskedWindow]:
        """The windows, masked; a function of the seed."""
        random = np.random.default_rng(seed)
        return [self._mask(window, random) for window in windows]

    def _mask(self, window: PieceWindow, random: np.random.Generator) -> MaskedWindow:
        chosen = self._choose(window, random)
        targets, ids = window.ids[chosen], window.ids.copy()
        draws = random.random(len(chosen))
        others = self.choices[random.integers(len(self.choices), size=len(chosen))]
        masked, drawn = self.settings.masked, self.settings.masked + self.settings.random
        ids[chosen] = np.where(draws < masked, self.mask_id, np.where(draws < drawn, others, targets))
        return MaskedWindow(ids, chosen, targets)

    def _choose(self, window: PieceWindow, random: np.random.Generator) -> Ids:
        """The places of whole words in random order, as long as they fit into the share.

        A word that does not fit is passed over, as in BERT's own program; if none fits, the first one of
        which all pieces are choices is taken.
        """
        words = list(pairwise([*window.words.tolist(), window.end]))
        most = max(1, round(self.settings.share * (window.end - words[0][0]))) if words else 0
        chosen: list[int] = []
        too_long: tuple[int, int] | None = None
        for number in random.permutation(len(words)).tolist():
            begin, end = words[number]
            if len(chosen) >= most:
                break
            if not self.allowed[window.ids[begin:end]].all():
                continue
            if len(chosen) + end - begin <= most:
                chosen.extend(range(begin, end))
            elif too_long is None:
                too_long = begin, end
        if not chosen and too_long is not None:
            chosen.extend(range(*too_long))
        return np.sort(np.array(chosen, np.int64))
