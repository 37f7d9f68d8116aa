"""monoBERT: a transformer with its own classification layer over the pair (Nogueira & Cho 2019)."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModelForSequenceClassification

from telerank.errors import ModelError
from telerank.models.loading import architecture_of, read_config, read_weights
from telerank.models.pairs.pair import PairBatch
from telerank.models.precision import in_float32
from telerank.models.rerankers.kinds import Loaded, ModelParts, RerankerKind, Shape
from telerank.models.rerankers.transformer_ranker import TransformerRanker, inputs_of, read_pair_tokenizer

_LAYERS = ("classifier.out_proj", "classifier")
"""Names of the layer that gives the logits, by architecture; RoBERTa's is the second of two layers."""


class LastLayer(nn.Linear):
    """The layer that gives the logits; within the classifier it changes nothing.

    So the classifier gives what the layer reads, without a hook, which compilers of graphs refuse.
    """

    @classmethod
    def of(cls, layer: nn.Linear) -> LastLayer:
        """The layer that shares the weights of another."""
        last = cls(layer.in_features, layer.out_features, bias=False, device="meta")
        last.weight, last.bias = layer.weight, layer.bias
        return last

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 — the name in torch
        return input

    def answer(self, outputs: Tensor) -> Tensor:
        """What the layer reads, (B, H) -> logits, (B, labels)."""
        return functional.linear(outputs, self.weight, self.bias)


class MonoBert(TransformerRanker):
    """The logit of relevance of ``[CLS] q [SEP] d [SEP]``, from one linear layer on the ``[CLS]`` output.

    ``classifier`` is what ``AutoModelForSequenceClassification`` makes with one label, so that the folder
    opens in ``sentence_transformers.CrossEncoder``. What lies between encoder and layer is the architecture's
    own: BERT's pooler, a dense layer in RoBERTa's and CamemBERT's. The paper's softmax over two classes is a
    sigmoid of one logit, their difference, and its cross-entropy the binary one; a ``classifier`` with two
    labels, not relevant and relevant, gives that difference.
    """

    pooled = True

    def __init__(self, classifier: Any) -> None:
        super().__init__()
        self.classifier = classifier
        modules = dict(classifier.named_modules())
        name = next((name for name in _LAYERS if isinstance(modules.get(name), nn.Linear)), "")
        if name:
            classifier.set_submodule(name, LastLayer.of(modules[name]))
        self._last_name = name
        # CrossEncoder gives the logit then; its default is a sigmoid
        classifier.config.sentence_transformers = {"activation_fn": "torch.nn.modules.linear.Identity"}

    def transformer(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        """Tokens of pairs, each (B, L) -> what the last layer reads, (B, H).

        If an architecture names that layer otherwise: its logits, (B, labels).
        """
        inputs = inputs_of(self.classifier, input_ids, attention_mask, token_type_ids)
        outputs: Tensor = self.classifier(**inputs).logits
        return outputs

    @property
    def last_layers(self) -> LastLayer | None:
        return self.classifier.get_submodule(self._last_name) if self._last_name else None

    @in_float32
    def finish(self, outputs: Tensor, batch: PairBatch) -> Tensor:  # noqa: ARG002 — as of every re-ranker
        layer = self.last_layers
        logits = outputs.float() if layer is None else layer.answer(outputs.float())
        return logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]

    def token_outputs(self, batch: PairBatch) -> Tensor:
        """The last hidden state of each token, (B, L, H).

        Raises ModelError if the architecture does not separate its transformer from its last layer.
        """
        classifier: Any = self.classifier
        base = getattr(classifier, classifier.base_model_prefix, None)  # classifier.bert, classifier.roberta
        if base is None:
            raise ModelError(
                f"{type(classifier).__name__} does not separate its transformer from its last layer"
            )
        inputs = inputs_of(base, batch.input_ids, batch.attention_mask, batch.token_type_ids)
        outputs: Tensor = base(**inputs).last_hidden_state
        return outputs


class ClassifierKind(RerankerKind):
    """Transformers with their own classification layer."""

    takes_settings: ClassVar[bool] = False

    def create(
        self, start: Path, shape: Shape, dropout: float | None, _keep: Collection[str] | None, /
    ) -> Loaded:
        model = MonoBert(read_classifier(start, dropout))
        return model, read_pair_tokenizer(start, model, shape.max_query, shape.max_length)

    def load(self, folder: Path, shape: Shape, dropout: float | None, /) -> Loaded:
        model = MonoBert(read_classifier(folder, dropout, whole=True))
        return model, read_pair_tokenizer(folder, model, shape.max_query, shape.max_length)

    def parts(self, model: MonoBert) -> ModelParts:
        return ModelParts(model.classifier)


def read_classifier(folder: Path, dropout: float | None, *, whole: bool = False) -> Any:
    """A transformer with its classification layer, in float32.

    An encoder's folder lacks the layer, and perhaps a pooler: they are drawn at random, unless the classifier
    must be ``whole``. Raises ModelError if it cannot be read, other weights are missing, or it has more than
    two labels.
    """
    config = read_config(folder, dropout)
    if not architecture_of(config).endswith("ForSequenceClassification"):
        config.num_labels = 1
    if config.num_labels > 2:
        raise ModelError(f"{folder}: expected one or two labels, got {config.num_labels}")
    return read_weights(AutoModelForSequenceClassification, folder, config, whole=whole)


KIND = ClassifierKind(
    reads_parts=False,
    # Nogueira & Cho, section 3.1: 16 groups of two are its batch of 32 pairs
    training={
        "model": {"start": "bert-large-uncased"},
        "loss": {"objective": "pointwise"},
        "optimisation": {
            "steps": 400_000,
            "batch": 16,
            "learning_rate": 3e-6,
            "warm_up": 10_000,
            "max_gradient_norm": 1.0,  # not in the paper; BERT's own optimiser, which it trains with
        },
    },
)
