"""What requests of other services' clients have in common."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from telerank.errors import shorten
from telerank.service.schemas.search import CleanText

ModelName = Annotated[
    CleanText | None, Field(description="Name of the model; default: the first that the service was given.")
]
Truncate = Annotated[
    bool | None,
    Field(
        description="false refuses texts that are longer than the model reads; otherwise they are cut, "
        "and the reply says so."
    ),
]
TextOrTexts = Annotated[CleanText | list[CleanText], Field(description="A text, or several.")]


class ClientRequest(BaseModel):
    """A request of another service's client, whose other fields are named in the reply, but not read."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)

    @property
    def warnings(self) -> list[str]:
        """The fields that were not read."""
        return [f"{shorten(name)[1:-1]} is not read" for name in self.model_extra or {}]


class Usage(BaseModel):
    """The tokens that were read, special ones among them."""

    prompt_tokens: int
    total_tokens: int

    @classmethod
    def of(cls, tokens: int) -> Usage:
        return cls(prompt_tokens=tokens, total_tokens=tokens)


def reply_example(value: Any) -> dict[int | str, dict[str, Any]]:
    """The example of a reply that is no object, for ``responses=`` of a route."""
    return {200: {"content": {"application/json": {"example": value}}}}


def as_list(texts: str | list[str]) -> list[str]:
    """Several texts, or one in a list."""
    return [texts] if isinstance(texts, str) else texts
