"""Embeddings as the clients of other services ask for them."""

from __future__ import annotations

import base64
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, BeforeValidator, Field

from telerank.service.batching.waiting import TextsToEncode
from telerank.service.errors import ERRORS, OPENAI_ERRORS, BackendFault
from telerank.service.routes.fields import (
    ApiRecord,
    Calls,
    ClientRequest,
    ModelRequest,
    TextOrTexts,
    Truncate,
    Usage,
    as_list,
    reply_example,
)

Dimensions = Annotated[
    int | None, Field(ge=1, description="First numbers of each vector that are kept; default: all.")
]
PromptName = Literal["query", "document", "passage"]
InputType = Literal["query", "document", "passage", "search_query", "search_document"]


def _refuse_tokens(given: Any) -> Any:
    """Numbers of another vocabulary would be other words here."""
    if isinstance(given, list) and any(isinstance(text, int | list) for text in given):
        raise ValueError("expected texts, got tokens (of LangChain: set check_embedding_ctx_length=False)")
    return given


class EmbeddingsRequest(ModelRequest):
    """OpenAI's request."""

    input: Annotated[TextOrTexts, BeforeValidator(_refuse_tokens)]
    encoding_format: Literal["float", "base64"] | None = Field(
        None, description="base64: the bytes of float32 numbers, little-endian."
    )
    dimensions: Dimensions = None
    input_type: InputType | None = Field(
        None, description="Whether these are queries or documents (default); other services have it, too."
    )
    user: str | None = Field(None, description="Not used.")
    truncate: Truncate = None


class EmbedRequest(ModelRequest):
    """The request of text-embeddings-inference."""

    inputs: TextOrTexts
    normalize: bool = Field(default=True, description="Whether vectors have length 1.")
    prompt_name: PromptName | None = Field(
        None, description="Whether these are queries or documents (default), with the prompt of those."
    )
    dimensions: Dimensions = None
    truncate: Truncate = None
    truncation_direction: Literal["Right", "right"] = Field("Right", description="A text loses its end.")


class SparseRequest(ClientRequest):
    """The request of text-embeddings-inference for sparse vectors."""

    inputs: TextOrTexts


class EmbeddingItem(BaseModel):
    """A vector: numbers, or base64; ``truncated`` if the text was cut."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str
    truncated: Literal[True] | None = None


class EmbeddingsReply(ApiRecord):
    """Vectors in the order of the texts."""

    object: Literal["list"] = "list"
    model: str
    data: list[EmbeddingItem]
    usage: Usage


router = APIRouter(tags=["embedding"], responses=ERRORS)
_Vectors = npt.NDArray[np.float32]
_openai_route = partial(
    router.post, summary="Embed texts (OpenAI)", response_model=EmbeddingsReply, responses=OPENAI_ERRORS
)


@_openai_route("/v1/embeddings")
@_openai_route("/embeddings")
async def embeddings(body: EmbeddingsRequest, calls: Calls) -> Response:
    """The vectors of texts in OpenAI's form; with ``dimensions`` their first numbers, of length 1 again."""
    texts = TextsToEncode(as_list(body.input), queries=_are_queries(body.input_type))
    name, reply = await calls.encode(
        body.model, texts, dimensions=body.dimensions, may_cut=body.truncate is not False
    )
    vectors = reply.results if body.dimensions is None else _normalise(reply.results[:, : body.dimensions])
    encoded = vectors.tolist()
    if body.encoding_format == "base64":
        encoded = [base64.b64encode(vector.tobytes()).decode() for vector in vectors.astype("<f4")]
    usage = {"prompt_tokens": reply.tokens, "total_tokens": reply.tokens}
    data = [
        {"object": "embedding", "index": index, "embedding": vector} | ({"truncated": True} if cut else {})
        for index, (vector, cut) in enumerate(zip(encoded, reply.cut.tolist(), strict=True))
    ]
    return _respond(calls, {"object": "list", "model": name, "data": data, "usage": usage})


@router.post(
    "/embed",
    summary="Embed texts (text-embeddings-inference)",
    response_model=list[list[float]],
    responses=reply_example([[0.6, -0.8]]),
)
async def embed(body: EmbedRequest, calls: Calls) -> Response:
    """The vectors of texts; the header ``x-truncated-texts`` counts the texts that were cut."""
    texts = TextsToEncode(as_list(body.inputs), _are_queries(body.prompt_name), body.normalize)
    _, reply = await calls.encode(
        body.model, texts, dimensions=body.dimensions, may_cut=body.truncate is not False
    )
    vectors = reply.results[:, : body.dimensions]
    return _respond(calls, (_normalise(vectors) if body.normalize else vectors).tolist())


@router.post(
    "/embed_sparse",
    summary="Sparse vectors of texts: not served",
    response_model=list[list[dict[str, Any]]],
    responses=reply_example([[{"index": 1012, "value": 0.5}]]),
)
async def embed_sparse(_: SparseRequest) -> Response:
    """424: no model that is served gives sparse vectors."""
    raise BackendFault("no model here gives sparse vectors: for weights of terms search with bm25")


def _are_queries(kind: str | None) -> bool:
    return kind in ("query", "search_query")


def _normalise(vectors: _Vectors) -> _Vectors:
    """Vectors of length 1; those that have it stay as they are, and so does zero."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    lengths[(np.abs(lengths - 1) < 1e-6) | (lengths == 0)] = 1
    return np.asarray(vectors / lengths, np.float32)


def _respond(calls: Calls, content: Any) -> Response:
    """A reply as it is: to check a hundred thousand numbers takes longer than to compute them."""
    return JSONResponse(content, headers=dict(calls.response.headers))
