"""Dev by perplexity: the exponential of the mean loss of a piece, over all that is not learned from."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from telerank.show.tables import Table
from telerank.training.log import read_log
from telerank.training.task import Task, TrainingDevice, evaluating
from telerank.training.trained import LOG
from telerank.types import Progress

_LARGEST = 700.0  # of which the exponential is a number


class PerplexityTask(Task):
    """A task whose dev measure is a perplexity; the processes share its batches out, and the first sums."""

    hardware: TrainingDevice
    _known: tuple[float | None, ...] = ()
    """The dev loss that was computed for the perplexity, and is asked for next."""

    @abstractmethod
    def dev_batches(self) -> Sequence[Any] | None:
        """What the first process shares out, which alone may have it; None in all of them without dev."""

    @abstractmethod
    def measure_batches(self, batches: Sequence[Any]) -> list[tuple[float, int]]:
        """The summed loss and the number of pieces of each batch, without dropout."""

    def dev(self, progress: Progress) -> float | None:
        self._known = (loss := self.dev_loss(progress),)
        return None if loss is None else math.exp(min(loss, _LARGEST))

    def dev_loss(self, progress: Progress) -> float | None:
        if self._known:
            [loss], self._known = self._known, ()
            return loss
        batches = self.dev_batches()
        if batches is None:
            return None
        total, count, done = 0.0, 0, 0
        [[model]] = self.models
        with evaluating(model):
            for part in self.hardware.processes.share_out(self.measure_batches, batches, 1):
                for summed, pieces in part:
                    total, count, done = total + summed, count + pieces, done + 1
                    progress("computing the perplexity", done, len(batches))
        return self.hardware.processes.first(lambda: total / count if count else None)


def tabulate_perplexities(output: Path, of: str) -> list[Table]:
    """The perplexity of dev by update, if it was computed; ``of`` what the loss is."""
    records = [record for record in read_log(output / LOG) if record.dev is not None]
    rows = [(f"{record.step:,}", record.dev) for record in records]
    caption = f"The exponential of the mean loss of {of}"
    return [Table.of(("update", "perplexity"), rows, caption=caption, form=".2f")] if rows else []
