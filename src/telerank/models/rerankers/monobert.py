"""monoBERT: a transformer with its own classification layer over the pair (Nogueira & Cho 2019)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification

from telerank.errors import ModelError
from telerank.models.loading import architecture_of, check_weights, read_config, read_weights
from telerank.models.pairs.pair import PairBatch
from telerank.models.precision import in_float32
from telerank.models.rerankers.kinds import Dropout, Loaded, ModelParts, RerankerKind, Vocabulary
from telerank.models.rerankers.transformer_ranker import TransformerRanker, inputs_of, read_pair_tokenizer

if TYPE_CHECKING:
    from telerank.models.rerankers.reranker import Shape

_LAYERS = ("classifier.out_proj", "classifier")
"""Names of the layer that gives the logits, by architecture; RoBERTa's is the second of two layers."""


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
        # CrossEncoder gives the logit then; its default is a sigmoid
        classifier.config.sentence_transformers = {"activation_fn": "torch.nn.modules.linear.Identity"}

    def transformer(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        """Tokens of pairs, each (B, L) -> what the last layer reads, (B, H).

        If an architecture names that layer otherwise: its logits, (B, labels).
        """
        inputs = inputs_of(self.classifier, input_ids, attention_mask, token_type_ids)
        layer, read = self._layer(), list[Tensor]()
        if layer is None:
            logits: Tensor = self.classifier(**inputs).logits
            return logits
        hook = layer.register_forward_pre_hook(lambda _, given: read.append(given[0]))
        try:
            self.classifier(**inputs)
        finally:
            hook.remove()
        return read[0]

    @in_float32
    def finish(self, outputs: Tensor, batch: PairBatch) -> Tensor:  # noqa: ARG002 — as of every re-ranker
        layer = self._layer()
        logits = outputs.float() if layer is None else layer(outputs.float())
        return logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]

    def token_outputs(self, batch: PairBatch) -> Tensor:
        """The last hidden state of each token, (B, L, H).

        Raises ModelError if the architecture does not separate its transformer from its last layer.
        """
        classifier: Any = self.classifier
        base = getattr(classifier, classifier.base_model_prefix, None)  # classifier.bert, classifier.roberta
        if base is None:
            name = type(classifier).__name__
            raise ModelError(f"{name} does not separate its transformer from its last layer")
        inputs = inputs_of(classifier, batch.input_ids, batch.attention_mask, batch.token_type_ids)
        outputs: Tensor = base(**inputs).last_hidden_state
        return outputs

    def _layer(self) -> nn.Linear | None:
        modules = dict(self.classifier.named_modules())
        layers = (modules.get(name) for name in _LAYERS)
        return next((layer for layer in layers if isinstance(layer, nn.Linear)), None)


class ClassifierKind(RerankerKind):
    """Transformers with their own classification layer."""

    takes_settings: ClassVar[bool] = False

    def create(self, start: Path, shape: Shape, dropout: Dropout, _keep: Vocabulary, /) -> Loaded:
        model = MonoBert(read_classifier(start, dropout))
        return model, read_pair_tokenizer(start, model, shape)

    def load(self, folder: Path, shape: Shape, dropout: Dropout, /) -> Loaded:
        model = MonoBert(read_classifier(folder, dropout, whole=True))
        return model, read_pair_tokenizer(folder, model, shape)

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
    model, missing = read_weights(AutoModelForSequenceClassification, folder, config)
    own = f"{model.base_model_prefix}."
    check_weights(
        folder, [key for key in missing if whole or (key.startswith(own) and ".pooler." not in key)]
    )
    return model


KIND = ClassifierKind(
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
