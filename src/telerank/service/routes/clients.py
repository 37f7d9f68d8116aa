"""Re-ranking and embedding as the clients of other services ask for them, all in the same batches."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from functools import partial
from time import time
from typing import Annotated, Any, Literal
from uuid import uuid4

import numpy as np
import numpy.typing as npt
from fastapi import APIRouter, Body
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, BeforeValidator, Discriminator, Field, Tag

from telerank.fusion.lists import sigmoid
from telerank.service.batching.waiting import PairsToScore, TextsToEncode, TokenizedWork
from telerank.service.errors import ERRORS, OPENAI_ERRORS, BadRequest, Unprocessable
from telerank.service.routes.fields import (
    EXAMPLES,
    ApiRecord,
    Calls,
    CleanText,
    ModelRequest,
    TextOrTexts,
    Truncate,
    Usage,
    as_list,
    reply_example,
)


class DocumentsToRerank(ModelRequest):
    """The request of Cohere (v1 and v2), Jina, infinity, vLLM and llama.cpp.

    A document that is an object has its text in ``rank_fields``, one after the other, else in ``text``.
    """

    query: CleanText
    documents: list[CleanText | dict[str, Any]]
    top_n: int | None = Field(None, ge=0, description="Documents of the reply; default, and 0: all.")
    return_documents: bool | None = Field(None, description="Whether the reply has the documents.")
    rank_fields: list[CleanText] | None = Field(None, description="Fields of a document that are read.")
    max_tokens_per_doc: int | None = Field(None, ge=1, description="Tokens of a document that are read.")
    max_chunks_per_doc: int | None = Field(
        None, ge=1, description="Chunks of a document: here it is always one."
    )
    raw_scores: bool | None = Field(None, description="Logits instead of their sigmoids.")
    truncate: Truncate = None


class TextsToRerank(ModelRequest):
    """The request of text-embeddings-inference."""

    query: CleanText
    texts: list[CleanText]
    raw_scores: bool = Field(default=False, description="Logits instead of their sigmoids.")
    return_text: bool = Field(default=False, description="Whether the reply has the texts.")
    truncate: Truncate = None
    truncation_direction: Literal["Left", "left", "Right", "right"] = Field(
        "Right", description="Whether a text that is cut loses its beginning or its end."
    )


def _family(body: Any) -> str | None:
    fields = body if isinstance(body, dict) else getattr(body, "__dict__", ())
    return next((name for name in ("documents", "texts") if name in fields), None)


RerankBody = Annotated[
    Annotated[DocumentsToRerank, Tag("documents")] | Annotated[TextsToRerank, Tag("texts")],
    Discriminator(
        _family,
        custom_error_type="documents_or_texts",
        custom_error_message="expected documents (Cohere, Jina) or texts (text-embeddings-inference)",
    ),
]


class PairsRequest(ModelRequest):
    """vLLM's request for the scores of pairs: one text and several, or as many as there are of the other."""

    text_1: TextOrTexts
    text_2: TextOrTexts
    truncate: Truncate = None


class TextScore(BaseModel):
    """A text of the request, by its position; ``truncated`` if it was cut."""

    index: int
    score: float
    text: str | None = None
    truncated: Literal[True] | None = None


class RerankedDocument(BaseModel):
    """A document of the request, by its position, with its ``id`` if it has one."""

    index: int
    relevance_score: float = Field(description="Between 0 and 1: the sigmoid of the model's logit.")
    document: dict[str, Any] | None = None
    id: str | int | None = None
    truncated: Literal[True] | None = None


class ApiVersion(BaseModel):
    """Cohere's version of the route."""

    version: str


class TokenCounts(BaseModel):
    """Cohere's counts of tokens."""

    input_tokens: int
    output_tokens: int = 0


class RerankMeta(BaseModel):
    """What Cohere's clients read; ``warnings`` say what was cut, and which fields were not read."""

    api_version: ApiVersion
    tokens: TokenCounts
    warnings: list[str] | None = None


class RerankReply(ApiRecord):
    """Documents, the most relevant first."""

    id: str
    object: Literal["rerank"] = "rerank"
    model: str
    results: list[RerankedDocument]
    usage: Usage
    meta: RerankMeta


class PairScore(BaseModel):
    """The score of a pair, by its position; ``truncated`` if it was cut."""

    index: int
    object: Literal["score"] = "score"
    score: float
    truncated: Literal[True] | None = None


class ScoresReply(ApiRecord):
    """The scores of pairs, in their order."""

    id: str
    object: Literal["list"] = "list"
    created: int
    model: str
    data: list[PairScore]
    usage: Usage


rerank_router = APIRouter(tags=["re-ranking"], responses=ERRORS)
_BODY: Any = Body(
    openapi_examples={
        "documents": {"summary": "Cohere, Jina", "value": EXAMPLES["DocumentsToRerank"]},
        "texts": {"summary": "text-embeddings-inference", "value": EXAMPLES["TextsToRerank"]},
    }
)
_route = partial(
    rerank_router.post,
    summary="Re-rank texts",
    response_model_exclude_none=True,
    responses=reply_example([{"index": 0, "score": 0.98}, {"index": 1, "score": 0.02}]),
)


@_route("/rerank")
@_route("/v1/rerank")
@_route("/v2/rerank")
@_route("/reranking")
async def rerank(body: Annotated[RerankBody, _BODY], calls: Calls) -> RerankReply | list[TextScore]:
    """The texts, the most relevant first.

    A body with ``documents`` gets the object of Cohere and Jina, one with ``texts`` the array of
    text-embeddings-inference.
    """
    if not body.query.strip():
        raise BadRequest("query: it is empty")
    if isinstance(body, TextsToRerank):
        texts, left, most = body.texts, body.truncation_direction.lower() == "left", None
    else:
        texts = [_read_text(number, doc, body.rank_fields) for number, doc in enumerate(body.documents)]
        left, most = False, body.max_tokens_per_doc
    pairs = PairsToScore([(body.query, text) for text in texts], most, left)
    name, reply = await calls.compute(body.model, pairs, truncate=body.truncate)
    scores = reply.results if body.raw_scores else sigmoid(reply.results)
    # by logit, which sigmoids may round to one; equal ones in their order
    best = list(map(int, np.argsort(-reply.results, kind="stable")))
    if not isinstance(body, TextsToRerank):
        return _reply_documents(body, calls, name, reply, {index: scores[index] for index in best})
    return [
        TextScore(
            index=index,
            score=scores[index],
            text=texts[index] if body.return_text else None,
            truncated=bool(reply.cut[index]) or None,
        )
        for index in best
    ]


def _read_text(number: int, doc: str | Mapping[str, Any], fields: Sequence[str] | None) -> str:
    """What is read of a document: as of documents of an index, its fields with blanks between them."""
    if isinstance(doc, str):
        return doc
    names = ["text"] if fields is None else fields
    texts = [doc[name] for name in names if name in doc]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise Unprocessable(f"documents.{number}: expected a text in {' or '.join(names) or 'rank_fields'}")
    return " ".join(texts)


def _reply_documents(
    body: DocumentsToRerank, calls: Calls, name: str, reply: TokenizedWork[Any], scores: Mapping[int, float]
) -> RerankReply:
    """The reply of Cohere and Jina; ``scores`` are those of the documents, by position, the best first."""
    results = []
    for index in list(scores)[: body.top_n or None]:
        doc = body.documents[index]
        fields: dict[str, Any] = {"text": doc} if isinstance(doc, str) else doc
        results.append(
            RerankedDocument(
                index=index,
                relevance_score=scores[index],
                document=fields if body.return_documents else None,
                id=fields["id"] if isinstance(fields.get("id"), str | int) else None,
                truncated=bool(reply.cut[index]) or None,
            )
        )
    warnings, count = body.warnings, int(reply.cut.sum())
    if count:
        warnings.append(f"{count} of {len(scores)} texts are longer than is read: their ends were cut")
    meta = RerankMeta(
        api_version=ApiVersion(version="2" if calls.request.url.path.endswith("/v2/rerank") else "1"),
        tokens=TokenCounts(input_tokens=reply.tokens),
        warnings=warnings or None,
    )
    usage = Usage(prompt_tokens=reply.tokens, total_tokens=reply.tokens)
    return RerankReply(id=uuid4().hex, model=name, results=results, usage=usage, meta=meta)


@rerank_router.post("/score", summary="Score pairs of texts", response_model_exclude_none=True)
@rerank_router.post("/v1/score", summary="Score pairs of texts", response_model_exclude_none=True)
async def score(body: PairsRequest, calls: Calls) -> ScoresReply:
    """The scores of pairs between 0 and 1, in their order, as vLLM has them."""
    first, second = as_list(body.text_1), as_list(body.text_2)
    if len(first) == 1:
        first *= len(second)
    if len(first) != len(second):
        raise Unprocessable(f"text_1 has {len(first)} texts, text_2 {len(second)}: expected one, or as many")
    pairs = PairsToScore(list(zip(first, second, strict=True)))
    name, reply = await calls.compute(body.model, pairs, truncate=body.truncate)
    rows = zip(sigmoid(reply.results).tolist(), reply.cut.tolist(), strict=True)
    data = [
        PairScore(index=index, score=score, truncated=cut or None) for index, (score, cut) in enumerate(rows)
    ]
    usage = Usage(prompt_tokens=reply.tokens, total_tokens=reply.tokens)
    return ScoresReply(id=f"score-{uuid4().hex}", created=int(time()), model=name, data=data, usage=usage)


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


class SparseRequest(ModelRequest):
    """The request of text-embeddings-inference for sparse vectors."""

    inputs: TextOrTexts
    prompt_name: PromptName | None = Field(
        None, description="Whether these are queries or documents (default), as the model knows them."
    )


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


embed_router = APIRouter(tags=["embedding"], responses=ERRORS)
_openai_route = partial(
    embed_router.post, summary="Embed texts (OpenAI)", response_model=EmbeddingsReply, responses=OPENAI_ERRORS
)
_QUERIES = ("query", "search_query")  # the kinds of texts that are encoded as queries


@_openai_route("/v1/embeddings")
@_openai_route("/embeddings")
async def embeddings(body: EmbeddingsRequest, calls: Calls) -> Response:
    """The vectors of texts in OpenAI's form; with ``dimensions`` their first numbers, of length 1 again."""
    texts = TextsToEncode(as_list(body.input), body.input_type in _QUERIES)
    name, reply = await calls.compute(body.model, texts, truncate=body.truncate, dimensions=body.dimensions)
    vectors = reply.results if body.dimensions is None else _normalise(reply.results[:, : body.dimensions])
    encoded = vectors.tolist()
    if body.encoding_format == "base64":
        encoded = [base64.b64encode(vector.tobytes()).decode() for vector in vectors.astype("<f4")]
    data = [
        {"object": "embedding", "index": index, "embedding": vector} | ({"truncated": True} if cut else {})
        for index, (vector, cut) in enumerate(zip(encoded, reply.cut.tolist(), strict=True))
    ]
    usage = {"prompt_tokens": reply.tokens, "total_tokens": reply.tokens}
    content = {"object": "list", "model": name, "data": data, "usage": usage}
    # unchecked: to check a hundred thousand numbers takes longer than to compute them
    return JSONResponse(content, headers=dict(calls.response.headers))


@embed_router.post(
    "/embed",
    summary="Embed texts (text-embeddings-inference)",
    response_model=list[list[float]],
    responses=reply_example([[0.6, -0.8]]),
)
async def embed(body: EmbedRequest, calls: Calls) -> Response:
    """The vectors of texts; the header ``x-truncated-texts`` counts the texts that were cut."""
    texts = TextsToEncode(as_list(body.inputs), body.prompt_name in _QUERIES, body.normalize)
    _, reply = await calls.compute(body.model, texts, truncate=body.truncate, dimensions=body.dimensions)
    vectors = reply.results[:, : body.dimensions]
    content = (_normalise(vectors) if body.normalize else vectors).tolist()
    return JSONResponse(content, headers=dict(calls.response.headers))


@embed_router.post(
    "/embed_sparse",
    summary="Sparse vectors of texts (text-embeddings-inference)",
    response_model=list[list[dict[str, Any]]],
    responses=reply_example([[{"index": 1012, "value": 0.5}]]),
)
async def embed_sparse(body: SparseRequest, calls: Calls) -> Response:
    """The weights above 0 of texts, by the numbers of pieces of the model's vocabulary.

    The models are those of indexes' weights, and of ``impact(MODEL)`` in pipelines; without any: 424. The
    header ``x-truncated-texts`` counts the texts that were cut.
    """
    vectors = await calls.compute_sparse(
        body.model, as_list(body.inputs), queries=body.prompt_name in _QUERIES
    )
    content = [
        [
            {"index": index, "value": value}
            for index, value in zip(each.numbers.tolist(), each.weights.tolist(), strict=True)
        ]
        for each in vectors
    ]
    return JSONResponse(content, headers=dict(calls.response.headers))


def _normalise(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Vectors of length 1; those that have it stay as they are, and so does zero."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    lengths[(np.abs(lengths - 1) < 1e-6) | (lengths == 0)] = 1
    return np.asarray(vectors / lengths, np.float32)
