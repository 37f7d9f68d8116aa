"""Re-ranking as the clients of other services ask for it; all on the same models and batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from time import time
from typing import Annotated, Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
from fastapi import APIRouter, Body

from telerank.segments.aggregate import sigmoid
from telerank.service.batching.work import BatchedReply, PairsToScore
from telerank.service.errors import ERRORS, BadRequest, Unprocessable
from telerank.service.model_calls import Calls
from telerank.service.schemas.clients import Usage, as_list, reply_example
from telerank.service.schemas.rerank import (
    RERANK_EXAMPLES,
    ApiVersion,
    DocumentsToRerank,
    PairScore,
    PairsRequest,
    RerankBody,
    RerankedDocument,
    RerankMeta,
    RerankReply,
    ScoresReply,
    TextScore,
    TextsToRerank,
    TokenCounts,
)

router = APIRouter(tags=["re-ranking"], responses=ERRORS)


_BODY: Any = Body(openapi_examples=RERANK_EXAMPLES)
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
    pairs = PairsToScore(list(zip(first, second, strict=True)))
    name, reply = await calls.score(body.model, pairs, may_cut=body.truncate is not False)
    data = [
        PairScore(index=index, score=score, truncated=cut or None)
        for index, (score, cut) in enumerate(
            zip(sigmoid(reply.results).tolist(), reply.cut.tolist(), strict=True)
        )
    ]
    usage = Usage.of(reply.tokens)
    return ScoresReply(id=f"score-{uuid4().hex}", created=int(time()), model=name, data=data, usage=usage)


async def _rerank_texts(body: TextsToRerank, calls: Calls) -> list[TextScore]:
    pairs = [(body.query, text) for text in body.texts]
    left = body.truncation_direction.lower() == "left"
    asking = PairsToScore(pairs, left=left)
    _, reply = await calls.score(body.model, asking, may_cut=body.truncate is not False)
    scores = reply.results if body.raw_scores else sigmoid(reply.results)
    return [
        TextScore(
            index=index,
            score=float(scores[index]),
            text=body.texts[index] if body.return_text else None,
            truncated=True if reply.cut[index] else None,
        )
        for index in _best_first(reply.results)
    ]


async def _rerank_documents(body: DocumentsToRerank, calls: Calls) -> RerankReply:
    texts = [_read_text(number, doc, body.rank_fields) for number, doc in enumerate(body.documents)]
    pairs = PairsToScore([(body.query, text) for text in texts], body.max_tokens_per_doc)
    name, reply = await calls.score(body.model, pairs, may_cut=body.truncate is not False)
    scores = reply.results if body.raw_scores else sigmoid(reply.results)
    results = [
        _describe(index, float(scores[index]), body, cut=bool(reply.cut[index]))
        for index in _best_first(reply.results)[: body.top_n or None]
    ]
    version = "2" if calls.request.url.path.endswith("/v2/rerank") else "1"
    return RerankReply(
        id=uuid4().hex,
        model=name,
        results=results,
        usage=Usage.of(reply.tokens),
        meta=RerankMeta(
            api_version=ApiVersion(version=version),
            tokens=TokenCounts(input_tokens=reply.tokens),
            warnings=[*body.warnings, *_describe_cut(reply)] or None,
        ),
    )


def _describe(index: int, score: float, body: DocumentsToRerank, *, cut: bool) -> RerankedDocument:
    doc = body.documents[index]
    fields: Mapping[str, Any] = {"text": doc} if isinstance(doc, str) else doc
    identifier = fields.get("id")
    return RerankedDocument(
        index=index,
        relevance_score=score,
        document=dict(fields) if body.return_documents else None,
        id=identifier if isinstance(identifier, str | int) else None,
        truncated=True if cut else None,
    )


def _read_text(number: int, doc: str | Mapping[str, Any], fields: Sequence[str] | None) -> str:
    """What is read of a document: as of documents of an index, its fields with blanks between them."""
    if isinstance(doc, str):
        return doc
    names = ["text"] if fields is None else fields
    texts = [doc[name] for name in names if name in doc]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise Unprocessable(f"documents.{number}: expected a text in {' or '.join(names) or 'rank_fields'}")
    return " ".join(texts)


def _describe_cut(reply: BatchedReply) -> list[str]:
    count = int(reply.cut.sum())
    return (
        [f"{count} of {len(reply.cut)} texts are longer than is read: their ends were cut"] if count else []
    )


def _best_first(logits: npt.NDArray[np.float64]) -> list[int]:
    """The positions of texts by logit, which sigmoids may round to one; equal ones in their order."""
    order: list[int] = np.argsort(-logits, kind="stable").tolist()
    return order
