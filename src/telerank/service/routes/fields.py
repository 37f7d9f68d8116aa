"""What requests have in common: their fields, and the calls of models that those of other services need."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from telerank.errors import shorten
from telerank.service.batching.waiting import BatchedReply, PairsToScore, TextsToEncode
from telerank.service.errors import TooLarge, Unprocessable
from telerank.service.observe import note
from telerank.service.routes.examples import EXAMPLES
from telerank.service.state import CurrentServed, CurrentSnapshot


def check_characters(text: str) -> str:
    """Refuse what UTF-8 cannot encode: half of a surrogate pair, as JSON may escape it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"half of a surrogate pair at character {error.start}") from None
    return text


CleanText = Annotated[str, AfterValidator(check_characters)]
QueryText = Annotated[
    CleanText, Field(description="What is searched for.", examples=["Qui a inventé l'imprimerie ?"])
]
IndexName = Annotated[
    CleanText | None, Field(description="Name of the index; default: the first.", examples=["piaf"])
]
PipelineText = Annotated[
    CleanText | None,
    Field(
        description="Name or text of the pipeline; default: the one that the service was started with. "
        "It may name only models that the service was started with.",
        examples=["bm25 % 100"],
    ),
]
Docno = Annotated[
    CleanText, Field(min_length=1, max_length=4096, description="The document's name.", examples=["42"])
]


def _add_example(schema: dict[str, Any], model: type[BaseModel]) -> None:
    if model.__name__ in EXAMPLES:
        schema["examples"] = [EXAMPLES[model.__name__]]


class ApiRecord(BaseModel):
    """What is sent or replied; its example is in :data:`~telerank.service.routes.examples.EXAMPLES`."""

    model_config = ConfigDict(json_schema_extra=_add_example)


class Body(ApiRecord, extra="forbid", allow_inf_nan=False, strict=True):
    """A request; an unknown key is an error, and so is a value of another type."""


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


class PipelineReply(ApiRecord):
    """What the replies of pipelines begin with. ``generation`` of the index grows with every change."""

    query: str
    index: str
    generation: int
    pipeline: str


class ClientRequest(ApiRecord, extra="allow", strict=True, allow_inf_nan=False):
    """A request of another service's client, whose other fields are named in the reply, but not read."""

    @property
    def warnings(self) -> list[str]:
        """The fields that were not read."""
        return [f"{shorten(name)[1:-1]} is not read" for name in self.model_extra or {}]


class ModelRequest(ClientRequest):
    """One that may name a model."""

    model: ModelName = None


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


@dataclass(frozen=True, eq=False)
class ModelCalls:
    """Calls of models for one request; the headers are those of text-embeddings-inference, milliseconds."""

    request: Request
    response: Response
    served: CurrentServed
    snapshot: CurrentSnapshot

    async def score(
        self, model: str | None, pairs: PairsToScore, *, may_cut: bool
    ) -> tuple[str, BatchedReply]:
        """The name of the re-ranker and the logits of pairs; ``model`` None: the first.

        Raises
        ------
        ServiceError
            If there is no such re-ranker, or there are too many or too long texts, or as the batcher raises.
        """
        scorer = self.snapshot.models.rerankers.find(model)
        name = model or self.snapshot.models.rerankers.names[0]
        texts = list(dict.fromkeys(query for query, _ in pairs.pairs)) + [text for _, text in pairs.pairs]
        self._check(len(pairs), texts)
        batcher = self.served.batchers.of_reranker(name, scorer)
        return name, await self._reply(batcher.submit(pairs, may_cut=may_cut), texts)

    async def encode(
        self, model: str | None, texts: TextsToEncode, *, dimensions: int | None = None, may_cut: bool
    ) -> tuple[str, BatchedReply]:
        """The name of the encoder and the vectors of texts; raises as :meth:`score` does.

        Vectors have all their dimensions: ``dimensions`` is only checked.
        """
        encoder = self.snapshot.models.encoders.find(model)
        name = model or self.snapshot.models.encoders.names[0]
        self._check(len(texts), texts.texts)
        if dimensions is not None and dimensions > encoder.dimension:
            raise Unprocessable(f"dimensions: {name} has {encoder.dimension}, got {dimensions}")
        batcher = self.served.batchers.of_encoder(name, encoder)
        return name, await self._reply(batcher.submit(texts, may_cut=may_cut), texts.texts)

    async def _reply(self, work: Coroutine[Any, Any, BatchedReply], texts: Sequence[str]) -> BatchedReply:
        reply = await work
        cut, seconds = int(reply.cut.sum()), reply.seconds
        note(texts=len(texts), tokens=reply.tokens, truncated=cut)
        counts = {
            "compute-tokens": reply.tokens,
            "compute-characters": sum(map(len, texts)),
            "truncated-texts": cut,
        }
        self.response.headers.update({f"x-{name}": str(count) for name, count in counts.items()})
        names = {"queue": "queue", "tokenise": "tokenization", "infer": "inference"}
        times = {names[step]: each for step, each in seconds.items()} | {"total": sum(seconds.values())}
        self.response.headers.update({f"x-{name}-time": f"{1000 * each:.1f}" for name, each in times.items()})
        return reply

    def _check(self, count: int, texts: Sequence[str]) -> None:
        limits = self.served.settings.limits
        if count > limits.texts:
            raise TooLarge(f"{count:,} texts, at most {limits.texts:,}")
        longest = max(map(len, texts), default=0)
        if longest > limits.text_characters:
            raise TooLarge(f"a text of {longest:,} characters, at most {limits.text_characters:,}")


async def _model_calls(
    request: Request, response: Response, served: CurrentServed, snapshot: CurrentSnapshot
) -> ModelCalls:
    """The calls of a request; a coroutine, as all of :mod:`telerank.service.state`."""
    return ModelCalls(request, response, served, snapshot)


Calls = Annotated[ModelCalls, Depends(_model_calls)]
