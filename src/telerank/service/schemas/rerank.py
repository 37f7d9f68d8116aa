"""Requests for re-ranking as other services have them, and their replies."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag

from telerank.service.schemas.clients import ClientRequest, ModelName, TextOrTexts, Truncate, Usage
from telerank.service.schemas.search import CleanText

_DOCUMENTS: list[JsonValue] = ["Gutenberg prints with movable type about 1450.", "A passport costs 86 euros."]
_QUERY = "Who invented printing?"


class DocumentsToRerank(ClientRequest):
    """The request of Cohere (v1 and v2), Jina, infinity, vLLM and llama.cpp.

    A document that is an object has its text in ``rank_fields``, one after the other, else in ``text``.
    """

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": _QUERY, "documents": _DOCUMENTS, "top_n": 1}]}
    )

    model: ModelName = None
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


class TextsToRerank(ClientRequest):
    """The request of text-embeddings-inference."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"query": _QUERY, "texts": _DOCUMENTS}]})

    model: ModelName = None
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


RERANK_EXAMPLES: dict[str, Any] = {
    "documents": {"summary": "Cohere, Jina", "value": {"query": _QUERY, "documents": _DOCUMENTS, "top_n": 1}},
    "texts": {"summary": "text-embeddings-inference", "value": {"query": _QUERY, "texts": _DOCUMENTS}},
}


class PairsRequest(ClientRequest):
    """vLLM's request for the scores of pairs: one text and several, or as many as there are of the other."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text_1": _QUERY, "text_2": _DOCUMENTS}]})

    model: ModelName = None
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


class RerankReply(BaseModel):
    """Documents, the most relevant first."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "0b1f8a52c9e04c2f8d8e7f3a4a5b6c7d",
                    "object": "rerank",
                    "model": "monobert",
                    "results": [{"index": 0, "relevance_score": 0.98}],
                    "usage": {"prompt_tokens": 41, "total_tokens": 41},
                    "meta": {"api_version": {"version": "2"}, "tokens": {"input_tokens": 41}},
                }
            ]
        }
    )

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


class ScoresReply(BaseModel):
    """The scores of pairs, in their order."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "score-7d1f",
                    "object": "list",
                    "created": 1795305600,
                    "model": "my-reranker",
                    "data": [{"index": 0, "object": "score", "score": 0.98}],
                    "usage": {"prompt_tokens": 24, "total_tokens": 24},
                }
            ]
        }
    )

    id: str
    object: Literal["list"] = "list"
    created: int
    model: str
    data: list[PairScore]
    usage: Usage
