"""What requests have in common: their fields, and the calls of models that those of other services need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from telerank.errors import shorten
from telerank.retrieval.group import Column
from telerank.service.batching.waiting import PairsToScore, TextsToEncode, TokenizedWork
from telerank.service.errors import BackendFault, BadRequest, TooLarge, Unprocessable
from telerank.service.models import ModelFamily
from telerank.service.observe import note
from telerank.service.state import CurrentServed, CurrentSnapshot
from telerank.syntax.parser import Syntax

if TYPE_CHECKING:
    from telerank.models.encoders.sparse import SparseVector


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
History = Annotated[
    list[CleanText],
    Field(
        max_length=100,
        description="The questions before it, the last one last, by which a follow-up is completed; the last "
        "five count. Nothing is kept of them.",
    ),
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
FilterText = Annotated[
    CleanText | None,
    Field(
        max_length=8192,
        description="Only documents that pass: a filter of their columns.",
        examples=['type == "fiche" and date >= 2024-01-01'],
    ),
]
SyntaxName = Annotated[
    Syntax,
    Field(
        description='`simple`: the query may have `"exact phrase"`, `-word`, `word*`, `title:word`, '
        "`type:fiche`, AND, OR, NOT (ET, OU, SAUF) and parentheses; what cannot be read is words."
    ),
]
FacetNames = Annotated[
    list[CleanText] | None,
    Field(
        max_length=16,
        description="Columns whose values are counted in what is found: `type`, `date:year`, `date:month`.",
    ),
]
GroupName = Annotated[
    Column | None,
    Field(
        description="`file`: a hit is the best passage of a file, and says how many further ones there are."
    ),
]
Docno = Annotated[
    CleanText, Field(min_length=1, max_length=4096, description="The document's name.", examples=["42"])
]


EXAMPLES: dict[str, JsonValue] = {
    "AnswerRequest": {"query": "Qui a inventé l'imprimerie ?", "k": 1},
    "AnswerReply": {
        "query": "Qui a inventé l'imprimerie ?",
        "index": "piaf",
        "generation": 1,
        "pipeline": "bm25 % 20 >> read(my-reader)",
        "milliseconds": 90.1,
        "stages": [
            {"stage": "bm25 % 20", "milliseconds": 1.3},
            {"stage": "read(my-reader) % 1", "milliseconds": 88.0},
        ],
        "no_answer": -4.2,
        "answers": [
            {
                "text": "Gutenberg",
                "confidence": 0.93,
                "score": 11.5,
                "docno": "1507",
                "title": "Imprimerie",
                "start": 11,
                "end": 20,
                "before": "Vers 1450, ",
                "after": " invente l'imprimerie à caractères mobiles.",
                "sources": [{"docno": "1507", "start": 11}],
            }
        ],
    },
    "DocumentsReply": {
        "index": "piaf",
        "generation": 1,
        "documents": [{"docno": "1507", "text": "Vers 1450 …"}],
    },
    "IndexReply": {
        "name": "piaf",
        "generation": 1,
        "documents": 3835,
        "analyzer": "french",
        "default": "best",
        "default_answer": None,
        "pipelines": {"best": "bm25(k1=1.2, b=0.5)"},
        "answering": {},
        "unavailable": {},
        "vectors": [],
        "lacking": {},
        "columns": {"type": "string", "date": "date"},
    },
    "IndexesReply": {
        "indexes": [
            {
                "name": "piaf",
                "generation": 1,
                "documents": 3835,
                "analyzer": "french",
                "default": "best",
                "default_answer": None,
                "pipelines": {"best": "bm25(k1=1.2, b=0.5)"},
                "answering": {},
                "unavailable": {},
                "vectors": [],
                "lacking": {},
                "columns": {"type": "string", "date": "date"},
            }
        ],
        "rerankers": ["my-reranker"],
        "encoders": [],
        "readers": [],
    },
    "EmbeddingsRequest": {
        "model": "minilm",
        "input": ["Gutenberg prints with movable type about 1450.", "A passport costs 86 euros."],
    },
    "EmbedRequest": {
        "inputs": ["Gutenberg prints with movable type about 1450.", "A passport costs 86 euros."],
        "prompt_name": "query",
    },
    "SparseRequest": {
        "inputs": ["Gutenberg prints with movable type about 1450.", "A passport costs 86 euros."]
    },
    "EmbeddingsReply": {
        "object": "list",
        "model": "minilm",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.6, -0.8]}],
        "usage": {"prompt_tokens": 12, "total_tokens": 12},
    },
    "JudgmentRequest": {
        "query": "Qui peut demander la prime d'activité ?",
        "docno": "F2882",
        "grade": 1,
        "index": "dila",
    },
    "JudgmentReply": {
        "qid": "q7d3f6a1b2c4e5f60",
        "query": "Qui peut demander la prime d'activité ?",
        "docno": "F2882",
        "grade": 1,
        "time": "2026-11-22T09:30:00Z",
        "index": "dila",
    },
    "ModelsReply": {"object": "list", "data": [{"id": "monobert", "kind": "re-ranker"}]},
    "ModelInfo": {
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
    },
    "TokenizeRequest": {"inputs": "What is a passport?"},
    "Health": {"status": "ready"},
    "DocumentsToRerank": {
        "query": "Who invented printing?",
        "documents": ["Gutenberg prints with movable type about 1450.", "A passport costs 86 euros."],
        "top_n": 1,
    },
    "TextsToRerank": {
        "query": "Who invented printing?",
        "texts": ["Gutenberg prints with movable type about 1450.", "A passport costs 86 euros."],
    },
    "PairsRequest": {
        "text_1": "Who invented printing?",
        "text_2": ["Gutenberg prints with movable type about 1450.", "A passport costs 86 euros."],
    },
    "RerankReply": {
        "id": "0b1f8a52c9e04c2f8d8e7f3a4a5b6c7d",
        "object": "rerank",
        "model": "monobert",
        "results": [{"index": 0, "relevance_score": 0.98}],
        "usage": {"prompt_tokens": 41, "total_tokens": 41},
        "meta": {"api_version": {"version": "2"}, "tokens": {"input_tokens": 41}},
    },
    "ScoresReply": {
        "id": "score-7d1f",
        "object": "list",
        "created": 1795305600,
        "model": "my-reranker",
        "data": [{"index": 0, "object": "score", "score": 0.98}],
        "usage": {"prompt_tokens": 24, "total_tokens": 24},
    },
    "SearchRequest": {"query": "Qui a inventé l'imprimerie ?", "k": 5, "highlight": True, "group": "file"},
    "SearchReply": {
        "query": "Qui a inventé l'imprimerie ?",
        "index": "piaf",
        "generation": 1,
        "pipeline": "bm25(k1=1.2, b=0.75) >> group(file, depth=1000)",
        "page": 1,
        "k": 5,
        "more": False,
        "total": 2,
        "milliseconds": 1.9,
        "stages": [
            {"stage": "bm25(k1=1.2, b=0.75) % 1000", "milliseconds": 1.2},
            {"stage": "group(file)", "milliseconds": 0.1},
        ],
        "hits": [
            {
                "rank": 1,
                "docno": "1507",
                "score": 14.2,
                "title": "Imprimerie",
                "url": "",
                "text": "Vers 1450, Gutenberg invente l'imprimerie à caractères mobiles.",
            },
            {
                "rank": 2,
                "docno": "livre.pdf#7",
                "score": 12.9,
                "title": "Histoire du livre",
                "url": "",
                "text": "L'imprimerie arrive à Paris en 1470.",
                "group": {"file": "livre.pdf", "more": 2, "docnos": ["livre.pdf#9", "livre.pdf#2"]},
            },
        ],
    },
    "SuggestionsReply": {
        "index": "piaf",
        "generation": 1,
        "suggestions": [
            {"text": "Imprimerie", "kind": "title", "documents": 3},
            {"text": "imprimeur", "kind": "word", "documents": 14},
        ],
    },
    "AcronymsReply": {
        "index": "sheets",
        "generation": 1,
        "read": 300,
        "acronyms": [{"short": "CNI", "long": "carte nationale d'identité", "documents": 12}],
        "lines": ["# 12 documents", "CNI, carte nationale d'identité"],
    },
    "ExplainRequest": {"query": "imprimerie", "docno": "1507"},
    "ExplainReply": {
        "query": "imprimerie",
        "index": "piaf",
        "generation": 1,
        "pipeline": "bm25",
        "docno": "1507",
        "explanation": {
            "value": 7.1,
            "what": "bm25 of a document of 90 terms",
            "parts": [{"value": 7.1, "what": "'imprim': tf 3, df 12, cf 40", "parts": []}],
        },
    },
}
"""The examples of requests and replies, by the names of their records: OpenAPI and its page show them."""


def _add_example(schema: dict[str, Any], model: type[BaseModel]) -> None:
    if model.__name__ in EXAMPLES:
        schema["examples"] = [EXAMPLES[model.__name__]]


class ApiRecord(BaseModel):
    """What is sent or replied; its example is in :data:`EXAMPLES`."""

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

    async def compute(
        self,
        name: str | None,
        work: PairsToScore | TextsToEncode,
        *,
        truncate: bool | None,
        dimensions: int | None = None,
    ) -> tuple[str, TokenizedWork[Any]]:
        """The name of a re-ranker and its logits of pairs, or of an encoder and its vectors of texts.

        ``name`` None: the first. Vectors have all their dimensions: ``dimensions`` is only checked.

        Raises
        ------
        ServiceError
            If there is no such model, or there are too many or too long texts, or as the batcher raises.
        """
        models, texts = self.snapshot.models, work.texts
        family: ModelFamily[Any] = models.rerankers if isinstance(work, PairsToScore) else models.encoders
        model = family.find(name)
        name = name or family.names[0]
        self._check_sizes(texts, len(work))
        if dimensions is not None and dimensions > model.dimension:
            raise Unprocessable(f"dimensions: {name} has {model.dimension}, got {dimensions}")
        reply = await self.served.batchers.of(name, model).submit(work, may_cut=truncate is not False)
        cut, seconds = int(reply.cut.sum()), reply.seconds
        note(texts=len(texts), tokens=reply.tokens, truncated=cut)
        times = {
            "queue": seconds["queue"],
            "tokenization": seconds["tokenise"],
            "inference": seconds["infer"],
            "total": sum(seconds.values()),
        }
        self.response.headers.update(
            {
                "x-compute-tokens": str(reply.tokens),
                "x-compute-characters": str(sum(map(len, texts))),
                "x-truncated-texts": str(cut),
                **{f"x-{step}-time": f"{1000 * each:.1f}" for step, each in times.items()},
            }
        )
        return name, reply

    async def compute_sparse(
        self, name: str | None, texts: Sequence[str], *, queries: bool
    ) -> list[SparseVector]:
        """The vectors of texts, by a sparse encoder; ``name`` None: the first. A header counts texts cut.

        Raises
        ------
        ServiceError
            If there is no such model, or there are too many or too long texts.
        """
        family = self.snapshot.models.sparse_encoders
        if not family.names:
            raise BackendFault("no model here gives sparse vectors: serve an index with weights of a model")
        model = family.find(name)
        if not texts:
            raise BadRequest("there are no texts")
        self._check_sizes(texts, len(texts))
        if await self.served.compute(lambda: model.has_words):
            raise Unprocessable("the model weighs words, which have no numbers: impact searches them")
        vectors: list[SparseVector] = await self.served.compute(partial(model.encode, texts, queries=queries))
        cut = sum(vector.is_cut for vector in vectors)
        note(texts=len(texts), truncated=cut)
        self.response.headers["x-truncated-texts"] = str(cut)
        return vectors

    def _check_sizes(self, texts: Sequence[str], count: int) -> None:
        """Raise TooLarge if there are too many texts, ``count``, or one is too long."""
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
