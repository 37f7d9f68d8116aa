"""Train a bi-encoder on batches of pairs, from a configuration to a folder."""

from __future__ import annotations

import copy
import warnings
from functools import partial
from pathlib import Path

from torch import Tensor, nn

from telerank.dense.static import find_static
from telerank.errors import ModelError, UnlikelySetting
from telerank.models.encoders.bi_encoder import BiEncoder, BiEncoderSettings, Side, Tokenizers
from telerank.models.encoders.folders import (
    fresh_bi_encoder,
    is_for_cosines,
    load_bi_encoder,
    read_settings,
    save_bi_encoder,
)
from telerank.models.losses import PairClassifier, cosine_regression, multi_label_margin
from telerank.training.bi_encoder.config import BiEncoderLoss, BiEncoderStart, BiEncoderTraining
from telerank.training.encoders.batches import EncoderBatch
from telerank.training.encoders.encoder import EncoderSide, TrainableEncoder
from telerank.training.encoders.objectives import Pairwise, build_losses
from telerank.training.encoders.train import EncoderContext, Learner, train_encoder
from telerank.training.kinds import TrainingKind


class DenseLearner(TrainableEncoder):
    """A bi-encoder that learns."""

    def __init__(self, model: BiEncoder, tokenizers: Tokenizers) -> None:
        self.module: BiEncoder = model
        self.tokenizers = tokenizers
        self.queries = EncoderSide.of(tokenizers.queries, model.encode_queries)
        self.documents = EncoderSide.of(tokenizers.documents, model.encode_documents)

    def without_normalising(self) -> DenseLearner:
        """The same weights, whose vectors keep their lengths."""
        return DenseLearner(self.module.without_normalising(), self.tokenizers)

    def save(self, folder: Path) -> None:
        save_bi_encoder(self.module, self.tokenizers, folder)


def open_bi_encoder(config: BiEncoderTraining, begun: Path | None, context: EncoderContext) -> Learner:
    """The encoder before its first update, or in the folder of a checkpoint."""
    start = config.model
    check_start(start.start, start.document_start)
    is_chosen = start.fresh or "similarity" in start.model_fields_set
    if context.hardware.processes.leads and begun is None and not is_chosen and is_for_cosines(start.start):
        warnings.warn(
            f"{start.start} was trained for cosines, and starts worse with inner products: "
            "set model.similarity to cosine, or to inner_product to keep it",
            UnlikelySetting,
            stacklevel=2,
        )
    learner = DenseLearner(*(start_model(start, config.seed) if begun is None else load_bi_encoder(begun)))
    objective = build_objective(config.loss, learner)
    # Sentence-BERT's losses see u and v as they are, and the cosine only ranks
    vectors = learner.without_normalising() if isinstance(objective, Pairwise) else None
    return Learner(learner, objective, vectors)


def build_objective(settings: BiEncoderLoss, learner: DenseLearner) -> nn.Module:
    """The objective that the settings name."""
    if settings.objective == "classification":
        return Pairwise(PairClassifier(learner.module.width))
    if settings.objective == "cosine":
        return Pairwise(cosine_regression)

    def margin(products: Tensor, batch: EncoderBatch) -> Tensor:
        return multi_label_margin(products, batch.relevant, settings.margin)

    return build_losses(settings, learner.score, {"margin": margin})


def check_start(*names: str | None) -> None:
    """Raise ModelError if one is a static encoder."""
    for name in filter(None, names):
        if find_static(name) is not None:
            raise ModelError(f"{name} is a static encoder, which is searched as it is: start from another")


def start_model(start: BiEncoderStart, seed: int) -> tuple[BiEncoder, Tokenizers]:
    """The model before its first update.

    Raises ModelError if there is no such encoder, or it does not take these settings.
    """
    query_prompt, prompt, segment = start.query_prompt, start.document_prompt, start.document_segment
    if query_prompt is None:
        query_prompt = read_settings(start.start).query.prompt
    if prompt is None:
        prompt = read_settings(start.document_start or start.start).document.prompt
    if segment is None:
        segment = 0 if prompt else 1  # one of them tells the sides apart
    settings = BiEncoderSettings(
        start.pooling,
        normalise=start.similarity == "cosine",
        query=Side(start.query_length, start.query_segment, query_prompt),
        document=Side(start.document_length, segment, prompt),
    )

    def load(name: str, seed: int) -> tuple[BiEncoder, Tokenizers]:
        if start.fresh:
            return fresh_bi_encoder(name, seed, settings, dropout=start.dropout)
        return load_bi_encoder(name, settings, dropout=start.dropout)

    model, tokenizers = load(start.start, seed)
    if start.towers == "shared":
        if not model.shared:
            raise ModelError(f"{start.start} has two towers, which cannot become one: set towers to two")
        return model, tokenizers
    if start.document_start is not None:
        other, others = load(start.document_start, seed + 1)
        document = other.document_encoder or other.query_encoder
        tokenizers = Tokenizers(tokenizers.queries, others.documents)
    elif model.document_encoder is not None:
        return model, tokenizers
    else:
        document = copy.deepcopy(model.query_encoder)
    return BiEncoder(model.query_encoder, document, settings=settings), tokenizers


train_bi_encoder = partial(train_encoder, open_bi_encoder)
KIND = TrainingKind(BiEncoderTraining, train_bi_encoder)
