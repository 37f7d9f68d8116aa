"""monoBERT: a transformer with its own classification layer over the pair (Nogueira & Cho 2019)."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from telerank.models.bi_encoder import token_types
from telerank.models.pairs import PairBatch


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
        """Tokens of pairs, each (B, L) -> (B, labels)."""
        inputs: dict[str, Any] = {"input_ids": input_ids, "attention_mask": attention_mask}
        if token_types(self.classifier) > 1:
            inputs["token_type_ids"] = token_type_ids
        logits: Tensor = self.classifier(**inputs).logits
        return logits

    def finish(self, outputs: Tensor, batch: PairBatch) -> Tensor:  # noqa: ARG002 — as of every re-ranker
        """What :meth:`transformer` gave -> logits, (B,)."""
        logits = outputs.float()
        return logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]

    def forward(self, batch: PairBatch) -> Tensor:
        """Pairs -> logits, (B,)."""
        outputs = self.transformer(batch.input_ids, batch.attention_mask, batch.token_type_ids)
        return self.finish(outputs, batch)
