"""Replies about the models that are served."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from telerank.service.schemas.clients import ClientRequest, ModelName, TextOrTexts


class ModelCard(BaseModel):
    """A model, as OpenAI lists it; ``kind`` says what it does."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "telerank"
    kind: Literal["re-ranker", "encoder", "reader"]


class ModelsReply(BaseModel):
    """The models by name."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"object": "list", "data": [{"id": "monobert", "kind": "re-ranker"}]}]
        }
    )

    object: Literal["list"] = "list"
    data: list[ModelCard]


class ModelInfo(BaseModel):
    """The model of routes whose requests name none, and limits, as text-embeddings-inference has them."""

    model_config = ConfigDict(
        protected_namespaces=(),
        json_schema_extra={
            "examples": [
                {
                    "model_id": "monobert",
                    "model_sha": None,
                    "model_dtype": "float32",
                    "model_type": {"reranker": {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}},
                    "max_concurrent_requests": 512,
                    "max_input_length": 512,
                    "max_batch_tokens": 2048,
                    "max_client_batch_size": 1000,
                    "auto_truncate": True,
                    "version": "0.1.0",
                }
            ]
        },
    )

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

    model_config = ConfigDict(json_schema_extra={"examples": [{"inputs": "What is a passport?"}]})

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
