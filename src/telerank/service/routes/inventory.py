"""What is served: documents, indexes, models and their tokens; whether it is ready, what it has counted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, Field

from telerank.service.errors import ERRORS, OPENAI_ERRORS, NotServed, TooLarge, Unready
from telerank.service.routes.fields import (
    ApiRecord,
    Docno,
    IndexName,
    ModelRequest,
    TextOrTexts,
    as_list,
    reply_example,
)
from telerank.service.state import CurrentServed, CurrentSnapshot, Snapshot
from telerank.stored import versions
from telerank.types import columns_record

if TYPE_CHECKING:
    from telerank.dense.encoder import TorchEncoder
    from telerank.dense.static import StaticEncoder
    from telerank.reranking.scorer import Scorer


class Document(BaseModel, from_attributes=True):
    """A document as it was indexed."""

    docno: str
    title: str = ""
    url: str = ""
    text: str = ""
    columns: dict[str, Any] | None = None


class DocumentsReply(ApiRecord):
    """The documents of these names, in their order."""

    index: str
    generation: int
    documents: list[Document]


class IndexReply(ApiRecord, from_attributes=True):
    """An index; ``pipelines`` and ``answering`` are texts by name, ``unavailable`` why others cannot run.

    ``lacking`` counts the documents that have no vector, and are not found, by the names of vectors;
    ``columns`` has the kinds of the documents' columns.
    """

    name: str
    generation: int
    documents: int
    analyzer: str | None
    default: str
    default_answer: str | None
    pipelines: dict[str, str]
    answering: dict[str, str]
    unavailable: dict[str, str]
    vectors: list[str]
    lacking: dict[str, int]
    columns: dict[str, str]


class IndexesReply(ApiRecord):
    """The indexes that are served, the default first, and the models by kind."""

    indexes: list[IndexReply]
    rerankers: list[str]
    encoders: list[str]
    readers: list[str]


documents_router = APIRouter(prefix="/v1", tags=["search"], responses=ERRORS)


@documents_router.get("/documents", summary="Documents by name", response_model_exclude_none=True)
async def documents(
    snapshot: CurrentSnapshot,
    served: CurrentServed,
    docno: Annotated[list[Docno], Query(description="Names of documents.", examples=[["1507"]])],
    index: Annotated[IndexName, Query()] = None,
) -> DocumentsReply:
    """The documents of these names; 404 if one of them is not in the index."""
    if len(docno) > served.settings.limits.documents:
        raise TooLarge(f"{len(docno):,} documents, at most {served.settings.limits.documents:,}")
    opened = snapshot.served_index(index)
    if not opened.index.has_texts:
        raise NotServed(f"the index {opened.name} holds vectors alone, without documents")
    docs = opened.index.docs
    missing = [name for name in docno if name not in docs]
    if missing:
        raise NotServed(f"no document {missing[0]!r} in the index {opened.name}")
    own = [docs[name] for name in docno]
    columns: Any = [columns_record(doc.columns) or None for doc in own]
    shown: Any = [replace(doc, columns=each) for doc, each in zip(own, columns, strict=True)]
    return DocumentsReply(index=opened.name, generation=opened.generation, documents=shown)


@documents_router.get("/indexes", summary="What is served")
async def indexes(snapshot: CurrentSnapshot) -> IndexesReply:
    """The indexes with their pipelines, and the models by kind."""
    models = snapshot.models
    return IndexesReply(
        indexes=[IndexReply.model_validate(index) for index in snapshot.indexes.values()],
        rerankers=models.rerankers.names,
        encoders=models.encoders.names,
        readers=models.readers.names,
    )


@documents_router.get("/indexes/{name}", summary="One index")
async def one_index(snapshot: CurrentSnapshot, name: str) -> IndexReply:
    """An index with its pipelines."""
    return IndexReply.model_validate(snapshot.served_index(name))


class ModelCard(BaseModel):
    """A model, as OpenAI lists it; ``kind`` says what it does."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "telerank"
    kind: Literal["re-ranker", "encoder", "reader", "sparse encoder"]


class ModelsReply(ApiRecord):
    """The models by name."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


class ModelInfo(ApiRecord, protected_namespaces=()):
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


class TokenizeRequest(ModelRequest):
    """The request of text-embeddings-inference."""

    inputs: TextOrTexts
    add_special_tokens: bool = True


class SimpleToken(BaseModel):
    """A token of a text: characters ``start`` to ``stop``, not included; none if it is special."""

    id: int
    text: str
    special: bool
    start: int | None = Field(None)
    stop: int | None = Field(None)


models_router = APIRouter(tags=["models"], responses=ERRORS)


@models_router.get("/v1/models", summary="The models (OpenAI)", responses=OPENAI_ERRORS)
@models_router.get("/models", summary="The models (OpenAI)", responses=OPENAI_ERRORS)
async def models(snapshot: CurrentSnapshot) -> ModelsReply:
    """The names that requests may give as ``model``."""
    families = snapshot.models.families
    return ModelsReply(
        data=[ModelCard(id=name, kind=family.kind) for family in families for name in family.names]
    )


@models_router.get("/info", summary="The first model (text-embeddings-inference)")
async def info(snapshot: CurrentSnapshot, served: CurrentServed) -> ModelInfo:
    """The first re-ranker, or else the first encoder, and the limits of a request."""
    name, model = _find(snapshot, None)
    from telerank.reranking.scorer import Scorer

    if isinstance(model, Scorer):
        facts: dict[str, Any] = {
            "model_dtype": model.computes_in,
            "model_type": {"reranker": {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}},
            "max_input_length": model.reranker.shape.max_length,
            "max_batch_tokens": model.budget,
        }
    else:
        facts = {
            "model_dtype": model.settings["precision"],
            "model_type": {"embedding": {"pooling": model.settings["model"]["pooling"]}},
            "max_input_length": model.settings["model"]["document"]["max_length"],
            "max_batch_tokens": model.batch_tokens,
        }
    return ModelInfo(
        model_id=name,
        max_concurrent_requests=served.settings.limits.queue,
        max_client_batch_size=served.settings.limits.texts,
        version=versions().get("telerank", ""),
        **facts,
    )


@models_router.post(
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
    _, model = _find(snapshot, body.model)

    def read() -> Any:
        return served.batchers.tokenizer_of(model).read(texts, special=body.add_special_tokens)

    tokens: list[list[SimpleToken]] = await served.search(read)
    return tokens


def _find(snapshot: Snapshot, name: str | None) -> tuple[str, Scorer | TorchEncoder | StaticEncoder]:
    """A re-ranker or encoder and its name; None: the first re-ranker, else the first encoder."""
    families = (snapshot.models.rerankers, snapshot.models.encoders)
    for family in families:
        if name in family.names or (name is None and family.names):
            return name or family.names[0], family.find(name)
    raise NotServed.named("re-ranker or encoder", name or "", [each for f in families for each in f.names])


class Health(ApiRecord):
    """The state of the process."""

    status: Literal["live", "ready"]


operations_router = APIRouter(tags=["operations"])


@operations_router.get("/health/live", summary="Whether the process answers")
async def live() -> Health:
    """200 from the start to the end of the process."""
    return Health(status="live")


@operations_router.get("/health", summary="Whether the service is ready", responses={503: ERRORS[503]})
@operations_router.get("/health/ready", summary="Whether the service is ready", responses={503: ERRORS[503]})
async def ready(served: CurrentServed) -> Health:
    """200 if the indexes and the models are open and warm, else 503."""
    served.snapshot()
    if served.readiness is not None and not served.readiness.is_complete:
        raise Unready("not ready: other processes are opening")
    return Health(status="ready")


@operations_router.get(
    "/metrics",
    summary="Numbers for Prometheus",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {"example": "telerank_requests_waiting 0.0"}}},
        **{status: ERRORS[status] for status in (401, 421, 429)},
    },
)
def metrics(served: CurrentServed) -> Response:
    """What the processes have counted: requests, times of stages, waiting requests, changes of indexes."""
    return Response(served.metrics.render(), media_type=CONTENT_TYPE_LATEST)
