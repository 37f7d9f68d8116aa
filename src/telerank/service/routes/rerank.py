"""Re-ranking as the clients of other services ask for it; all on the same models and batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from time import time
from typing import Annotated, Any, Literal
from uuid import uuid4

import numpy as np
from fastapi import APIRouter, Body
from pydantic import BaseModel, Discriminator, Field, Tag

from telerank.fusion.lists import sigmoid
from telerank.service.batching.waiting import BatchedReply, PairsToScore
from telerank.service.errors import ERRORS, BadRequest, Unprocessable
from telerank.service.routes.examples import EXAMPLES
from telerank.service.routes.fields import (
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
    for name in ("documents", "texts"):
        if (name in body) if isinstance(body, dict) else hasattr(body, name):
            return name
    return None


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


router = APIRouter(tags=["re-ranking"], responses=ERRORS)


_BODY: Any = Body(
    openapi_examples={
        "documents": {"summary": "Cohere, Jina", "value": EXAMPLES["DocumentsToRerank"]},
        "texts": {"summary": "text-embeddings-inference", "value": EXAMPLES["TextsToRerank"]},
    }
)
_route = partial(
    router.post,
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
        return await _rerank_texts(body, calls)
    return await _rerank_documents(body, calls)


@router.post("/score", summary="Score pairs of texts", response_model_exclude_none=True)
@router.post("/v1/score", summary="Score pairs of texts", response_model_exclude_none=True)
async def score(body: PairsRequest, calls: Calls) -> ScoresReply:
    """The scores of pairs between 0 and 1, in their order, as vLLM has them."""
    first, second = as_list(body.text_1), as_list(body.text_2)
    if len(first) == 1:
        first *= len(second)
    if len(first) != len(second):
        raise Unprocessable(f"text_1 has {len(first)} texts, text_2 {len(second)}: expected one, or as many")
    name, reply = await calls.score(
        body.model, PairsToScore(list(zip(first, second, strict=True))), may_cut=body.truncate is not False
    )
    scores, cuts = sigmoid(reply.results).tolist(), reply.cut.tolist()
    data = [
        PairScore(index=index, score=score, truncated=cut or None)
        for index, (score, cut) in enumerate(zip(scores, cuts, strict=True))
    ]
    return ScoresReply(
        id=f"score-{uuid4().hex}", created=int(time()), model=name, data=data, usage=Usage.of(reply.tokens)
    )


async def _rerank_texts(body: TextsToRerank, calls: Calls) -> list[TextScore]:
    left = body.truncation_direction.lower() == "left"
    _, reply = await calls.score(
        body.model,
        PairsToScore([(body.query, text) for text in body.texts], left=left),
        may_cut=body.truncate is not False,
    )
    scores = reply.results if body.raw_scores else sigmoid(reply.results)
    return [
        TextScore(
            index=index,
            score=scores[index],
            text=body.texts[index] if body.return_text else None,
            truncated=bool(reply.cut[index]) or None,
        )
        for index in _best_first(reply)
    ]


async def _rerank_documents(body: DocumentsToRerank, calls: Calls) -> RerankReply:
    texts = [_read_text(number, doc, body.rank_fields) for number, doc in enumerate(body.documents)]
    name, reply = await calls.score(
        body.model,
        PairsToScore([(body.query, text) for text in texts], body.max_tokens_per_doc),
        may_cut=body.truncate is not False,
    )
    scores = reply.results if body.raw_scores else sigmoid(reply.results)
    results = []
    for index in _best_first(reply)[: body.top_n or None]:
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
        warnings.append(f"{count} of {len(texts)} texts are longer than is read: their ends were cut")
    meta = RerankMeta(
        api_version=ApiVersion(version="2" if calls.request.url.path.endswith("/v2/rerank") else "1"),
        tokens=TokenCounts(input_tokens=reply.tokens),
        warnings=warnings or None,
    )
    return RerankReply(id=uuid4().hex, model=name, results=results, usage=Usage.of(reply.tokens), meta=meta)


def _read_text(number: int, doc: str | Mapping[str, Any], fields: Sequence[str] | None) -> str:
    """What is read of a document: as of documents of an index, its fields with blanks between them."""
    if isinstance(doc, str):
        return doc
    names = ["text"] if fields is None else fields
    texts = [doc[name] for name in names if name in doc]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise Unprocessable(f"documents.{number}: expected a text in {' or '.join(names) or 'rank_fields'}")
    return " ".join(texts)


def _best_first(reply: BatchedReply) -> list[int]:
    """The positions of texts by logit, which sigmoids may round to one; equal ones in their order."""
    return list(map(int, np.argsort(-reply.results, kind="stable")))
