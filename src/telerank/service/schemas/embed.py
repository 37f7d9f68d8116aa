"""Requests for embeddings as other services have them, and their replies."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from telerank.service.schemas.clients import ClientRequest, ModelName, TextOrTexts, Truncate, Usage

_TEXTS: list[JsonValue] = ["Gutenberg prints with movable type about 1450.", "A passport costs 86 euros."]
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


class EmbeddingsRequest(ClientRequest):
    """OpenAI's request."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"model": "minilm", "input": _TEXTS}]})

    model: ModelName = None
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


class EmbedRequest(ClientRequest):
    """The request of text-embeddings-inference."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"inputs": _TEXTS, "prompt_name": "query"}]})

    model: ModelName = None
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

    model_config = ConfigDict(json_schema_extra={"examples": [{"inputs": _TEXTS}]})

    inputs: TextOrTexts


class EmbeddingItem(BaseModel):
    """A vector: numbers, or base64; ``truncated`` if the text was cut."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str
    truncated: Literal[True] | None = None


class EmbeddingsReply(BaseModel):
    """Vectors in the order of the texts."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "object": "list",
                    "model": "minilm",
                    "data": [{"object": "embedding", "index": 0, "embedding": [0.6, -0.8]}],
                    "usage": {"prompt_tokens": 12, "total_tokens": 12},
                }
            ]
        }
    )

    object: Literal["list"] = "list"
    model: str
    data: list[EmbeddingItem]
    usage: Usage
