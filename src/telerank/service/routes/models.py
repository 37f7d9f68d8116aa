"""Which models there are, and the tokens that they read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from telerank.service.errors import ERRORS, OPENAI_ERRORS, NotServed, TooLarge
from telerank.service.routes.fields import ClientRequest, ModelName, TextOrTexts, as_list, reply_example
from telerank.service.state import CurrentServed, CurrentSettings, CurrentSnapshot, Snapshot
from telerank.stored import versions

if TYPE_CHECKING:
    from telerank.dense.encoder import TorchEncoder
    from telerank.reranking.scorer import Scorer


class ModelCard(BaseModel):
    """A model, as OpenAI lists it; ``kind`` says what it does."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "telerank"
    kind: Literal["re-ranker", "encoder", "reader"]


class ModelsReply(Record):
    """The models by name."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


class ModelInfo(Record, protected_namespaces=()):
    """The model of routes whose requests name none, and limits, as text-embeddings-inference has them."""

    model_id: str
    model_sha: str | None = None
    model_dtype: str
    model_type: dict[str, Any]
    max_concurrent_requests: int
    max_input_length: int
    max_batch_tokens: int
    max_batch_requests: int | None = None
    max_client_batch_size: int
    auto_truncate: bool = True
    version: str


class TokenizeRequest(ClientRequest):
    """The request of text-embeddings-inference."""

    model: ModelName = None
    inputs: TextOrTexts
    add_special_tokens: bool = True


class SimpleToken(BaseModel):
    """A token of a text: characters ``start`` to ``stop``, not included; none if it is special."""

    id: int
    text: str
    special: bool
    start: int | None = Field(None)
    stop: int | None = Field(None)


router = APIRouter(tags=["models"], responses=ERRORS)


@router.get("/v1/models", summary="The models (OpenAI)", responses=OPENAI_ERRORS)
@router.get("/models", summary="The models (OpenAI)", responses=OPENAI_ERRORS)
async def models(snapshot: CurrentSnapshot) -> ModelsReply:
    """The names that requests may give as ``model``."""
    served = snapshot.models
    kinds: Any = (("re-ranker", served.rerankers), ("encoder", served.encoders), ("reader", served.readers))
    cards = [ModelCard(id=name, kind=kind) for kind, family in kinds for name in family.names]
    return ModelsReply(data=cards)


@router.get("/info", summary="The first model (text-embeddings-inference)")
async def info(snapshot: CurrentSnapshot, settings: CurrentSettings) -> ModelInfo:
    """The first re-ranker, or else the first encoder, and the limits of a request."""
    names = [*snapshot.models.rerankers.names, *snapshot.models.encoders.names]
    model = _find(snapshot, None)
    limits = settings.limits
    return ModelInfo(
        model_id=names[0],
        max_concurrent_requests=limits.queue,
        max_client_batch_size=limits.texts,
        version=versions().get("telerank", ""),
        **_describe(model),
    )


@router.post(
    "/tokenize",
    summary="The tokens of texts (text-embeddings-inference)",
    responses=reply_example([[{"id": 2054, "text": "what", "special": False, "start": 0, "stop": 4}]]),
)
async def tokenize(
    body: TokenizeRequest, snapshot: CurrentSnapshot, served: CurrentServed
) -> list[list[SimpleToken]]:
    """The tokens of each text, none of them cut, of a re-ranker or an encoder; default: the first."""
    texts, limits = as_list(body.inputs), served.settings.limits
    if len(texts) > limits.texts:
        raise TooLarge(f"{len(texts):,} texts, at most {limits.texts:,}")
    model = _find(snapshot, body.model)

    def read() -> list[list[SimpleToken]]:
        tokenizer = served.batchers.tokenizer_of(model)
        return [
            [
                SimpleToken(
                    id=token.number,
                    text=token.form,
                    special=token.special,
                    start=None if token.special else token.start,
                    stop=None if token.special else token.stop,
                )
                for token in tokens
            ]
            for tokens in tokenizer.read(texts, special=body.add_special_tokens)
        ]

    return await served.search(read)


def _find(snapshot: Snapshot, name: str | None) -> Scorer | TorchEncoder:
    """The re-ranker or encoder of a name; None: the first re-ranker, else the first encoder."""
    rerankers, encoders = snapshot.models.rerankers.names, snapshot.models.encoders.names
    if name in rerankers or (name is None and rerankers):
        return snapshot.models.rerankers.find(name)
    if name in encoders or (name is None and encoders):
        return snapshot.models.encoders.find(name)
    raise NotServed.named("re-ranker or encoder", name or "", [*rerankers, *encoders])


def _describe(model: Scorer | TorchEncoder) -> dict[str, Any]:
    """What text-embeddings-inference says of a model."""
    from telerank.reranking.scorer import Scorer

    if isinstance(model, Scorer):
        labels = {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
        return {
            "model_dtype": model.computes_in,
            "model_type": {"reranker": labels},
            "max_input_length": model.reranker.shape.max_length,
            "max_batch_tokens": model.budget,
        }
    settings = model.settings
    return {
        "model_dtype": settings["precision"],
        "model_type": {"embedding": {"pooling": settings["model"]["pooling"]}},
        "max_input_length": settings["model"]["document"]["max_length"],
        "max_batch_tokens": model.batch_tokens,
    }
