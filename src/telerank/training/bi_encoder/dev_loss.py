"""The loss on queries that are not learned from, on batches that are the same in every evaluation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from telerank.corpus.collection import Collection
from telerank.models.encoders.bi_encoder import BiEncoder
from telerank.models.encoders.tokens import Tokenizers
from telerank.training.bi_encoder.batches import Batches, EncoderBatch
from telerank.training.bi_encoder.config import BiEncoderDev, BiEncoderTraining
from telerank.training.bi_encoder.dev import encode_side
from telerank.training.examples.read_groups import read_groups
from telerank.training.examples.reading import Reading, candidate_lists, relevant_pairs
from telerank.training.settings import NegativeSettings
from telerank.training.task import TrainingDevice, evaluating
from telerank.types import Progress


@dataclass(frozen=True, eq=False)
class DevLoss:
    """The first ``count`` batches, which have every pair of dev; the last one is filled with pairs again.

    There are none if no query has a relevant document, and in processes that are not the first.
    """

    batches: Batches | Sequence[EncoderBatch]
    count: int

    def value(
        self,
        model: BiEncoder,
        tokenizers: Tokenizers,
        objective: nn.Module,
        hardware: TrainingDevice,
        progress: Progress,
    ) -> float | None:
        """The mean of ``objective`` over the batches, without dropout; losses are in float32.

        Several processes compute the batches of the first one. None if there are none.
        """

        def compute(batches: Sequence[EncoderBatch]) -> list[float]:
            losses = []
            for batch in batches:
                sides = (
                    (model.encode_queries, tokenizers.queries, batch.queries),
                    (model.encode_documents, tokenizers.documents, batch.documents),
                )
                with hardware.precision():
                    queries, documents = (encode_side(*side, device=model.device) for side in sides)
                losses.append(float(objective(queries, documents, batch)))
            return losses

        total, done = 0.0, 0
        with evaluating(model), evaluating(objective):
            batches = (self.batches[number] for number in range(self.count))
            for own in hardware.processes.share_out(compute, batches, 1):
                for loss in own:
                    total, done = total + loss, done + 1
                    progress("computing the dev loss", done, self.count)
        return hardware.processes.first(lambda: total / done if done else None)


NO_BATCHES = DevLoss((), 0)


def read_dev_loss(
    config: BiEncoderTraining, dev: BiEncoderDev, qids: frozenset[str], reading: Reading
) -> DevLoss:
    """Batches of the relevant pairs of the dev queries ``qids``, made as those that are learned from.

    Their negatives come from where those of the training come from, if it has lists for dev; or else they are
    the documents of the batch alone, as they are with triples. ``reading`` is the training's: its counts tell
    which.
    """
    collection = reading.collection
    relevant = relevant_pairs(collection, dev.split)
    known = {qid: relevant[qid] for qid in qids if qid in relevant}
    if not known:
        return NO_BATCHES
    negatives = _dev_negatives(collection, config.data.negatives, dev.split, known)
    changes = {"split": dev.split, "negatives": negatives, "triples": None, "queries": None, "pairs": None}
    data = config.data.model_copy(update=changes)
    others = frozenset(relevant.keys() - qids)
    own = Reading(data, reading.seed, collection, others, reading.progress)
    groups = read_groups(own, Path())  # without triples, which alone need a folder
    left = "relevant pairs" if negatives else "relevant pairs, without negatives besides their batch's"
    own.counts[left] = own.counts.pop("relevant pairs")
    own.counts.pop("queries kept back for dev and test", None)
    reading.counts.update({f"dev loss: {what}": count for what, count in own.counts.items()})
    size = config.optimisation.batch // data.group_size
    return DevLoss(Batches(groups, size, relevant), math.ceil(len(groups) / size))


def _dev_negatives(
    collection: Collection,
    negatives: NegativeSettings | None,
    split: str,
    relevant: Mapping[str, Iterable[str]],
) -> NegativeSettings | None:
    """The settings of the training's negatives, if these queries have any by them."""
    if negatives is None or negatives.random:
        return negatives
    if negatives.pool and f"{split}/{negatives.pool}" not in collection.pools:
        return None
    lists = candidate_lists(collection, split, run=negatives.run, pool=negatives.pool)
    own = (ranking for ranking in lists if ranking.query.qid in relevant)
    has = any({*ranking.docnos[: negatives.depth]}.difference(relevant[ranking.query.qid]) for ranking in own)
    return negatives if has else None
