"""monoBERT: a transformer with its own classification layer over the pair (Nogueira & Cho 2019)."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from telerank.models.encoders.bi_encoder import token_types
from telerank.models.pairs.pair import PairBatch
from telerank.models.precision import in_float32

_LAYERS = ("classifier.out_proj", "classifier")
"""Where architectures have the layer that gives the logits; RoBERTa's is the second of two."""


class MonoBert(nn.Module):
    """The logit of relevance of ``[CLS] q [SEP] d [SEP]``, from one linear layer on the ``[CLS]`` output.

    ``classifier`` is what ``AutoModelForSequenceClassification`` makes with one label, so that the folder
    opens in ``sentence_transformers.CrossEncoder``. What lies between encoder and layer is the architecture's
    own: BERT's pooler, a dense layer in RoBERTa's and CamemBERT's. The paper's softmax over two classes is a
    sigmoid of one logit, their difference, and its cross-entropy the binary one; a ``classifier`` with two
    labels, not relevant and relevant, gives that difference.
    """

    def __init__(self, classifier: nn.Module) -> None:
        super().__init__()
        self.classifier = classifier

    def transformer(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        """Tokens of pairs, each (B, L) -> what the last layer reads, (B, H).

        Where an architecture has that layer elsewhere, its logits, (B, labels).
        """
        inputs: dict[str, Any] = {"input_ids": input_ids, "attention_mask": attention_mask}
        if token_types(self.classifier) > 1:
            inputs["token_type_ids"] = token_type_ids
        layer = self._layer()
        if layer is None:
            logits: Tensor = self.classifier(**inputs).logits
            return logits
        read: list[Tensor] = []
        hook = layer.register_forward_pre_hook(lambda _, given: read.append(given[0]))
        try:
            self.classifier(**inputs)
        finally:
            hook.remove()
        return read[0]

    @in_float32
    def finish(self, outputs: Tensor, batch: PairBatch) -> Tensor:  # noqa: ARG002 — as of every re-ranker
        """What :meth:`transformer` gave -> logits, (B,)."""
        layer = self._layer()
        logits = outputs.float() if layer is None else layer(outputs.float())
        return logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]

    def _layer(self) -> nn.Linear | None:
        modules = dict(self.classifier.named_modules())
        found = (modules.get(name) for name in _LAYERS)
        return next((one for one in found if isinstance(one, nn.Linear)), None)

    def forward(self, batch: PairBatch) -> Tensor:
        """Pairs -> logits, (B,)."""
        outputs = self.transformer(batch.input_ids, batch.attention_mask, batch.token_type_ids)
        return self.finish(outputs, batch)
