"""Requests for rankings, documents and explanations, and their replies."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from telerank.types import Explanation


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


class Body(BaseModel):
    """A request; an unknown key is an error, and so is a value of another type."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class SearchRequest(Body):
    """A search."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "Qui a inventé l'imprimerie ?", "k": 5, "highlight": True}]}
    )

    query: QueryText
    index: IndexName = None
    pipeline: PipelineText = None
    k: int = Field(10, ge=1, le=1_000_000, description="Documents of a page.")
    page: int = Field(1, ge=1, le=1_000_000, description="Number of the page, from 1.")
    text: bool = Field(default=True, description="Whether hits have the text of the document.")
    highlight: bool = Field(
        default=False, description="Whether hits have the places of the query's terms, and a snippet."
    )
    segment: bool = Field(
        default=False,
        description="Whether hits have the segment that counts most; the pipeline scores segments.",
    )
    explain: bool = Field(default=False, description="Whether hits have an explanation of the score.")


class SearchParameters(SearchRequest):
    """A search as an address has it, in which every value is a text."""

    model_config = ConfigDict(strict=False)


class ExplanationNode(BaseModel):
    """How a number was computed: its value, a description, and the numbers it was computed from."""

    value: float
    what: str
    parts: list[ExplanationNode] = []

    @classmethod
    def of(cls, explanation: Explanation) -> ExplanationNode:
        return cls.model_construct(
            value=explanation.value, what=explanation.what, parts=[cls.of(part) for part in explanation.parts]
        )


class HighlightedTerm(BaseModel):
    """A term of the query in the document's text: characters ``start`` to ``end``, not included."""

    term: str
    start: int
    end: int


class Snippet(BaseModel):
    """A piece of a snippet; ``kind`` is ``match``, ``cut`` (an ellipsis) or empty."""

    text: str
    kind: str = ""


class HitSegment(BaseModel):
    """The segment that counts most: its number (from 0), its characters in the document's text, its score."""

    number: int
    count: int
    start: int
    end: int
    text: str
    score: float


class Timing(BaseModel):
    """How long a stage took."""

    stage: str
    milliseconds: float


class Hit(BaseModel):
    """A document of a ranking."""

    rank: int
    docno: str
    score: float
    title: str = ""
    url: str = ""
    text: str | None = None
    terms: list[HighlightedTerm] | None = None
    snippet: list[Snippet] | None = None
    segment: HitSegment | None = None
    explanation: ExplanationNode | None = None


_HIT: dict[str, Any] = {
    "rank": 1,
    "docno": "1507",
    "score": 14.2,
    "title": "Imprimerie",
    "url": "",
    "text": "Vers 1450, Gutenberg invente l'imprimerie à caractères mobiles.",
}


class SearchReply(BaseModel):
    """A page of a ranking. ``generation`` is that of the index: it grows with every change."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "query": "Qui a inventé l'imprimerie ?",
                    "index": "piaf",
                    "generation": 1,
                    "pipeline": "bm25",
                    "page": 1,
                    "k": 5,
                    "more": True,
                    "milliseconds": 1.9,
                    "stages": [{"stage": "bm25 % 6", "milliseconds": 1.2}],
                    "hits": [_HIT],
                }
            ]
        }
    )

    query: str
    index: str
    generation: int
    pipeline: str
    page: int
    k: int
    more: bool
    milliseconds: float
    stages: list[Timing]
    hits: list[Hit]


class Document(BaseModel):
    """A document as it was indexed."""

    docno: str
    title: str = ""
    url: str = ""
    text: str = ""


class DocumentsReply(BaseModel):
    """The documents of these names, in their order."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"index": "piaf", "generation": 1, "documents": [{"docno": "1507", "text": "Vers 1450 …"}]}
            ]
        }
    )

    index: str
    generation: int
    documents: list[Document]


class ExplainRequest(Body):
    """A query and a document."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"query": "imprimerie", "docno": "1507"}]})

    query: QueryText
    docno: Docno
    index: IndexName = None
    pipeline: PipelineText = None


class ExplainParameters(ExplainRequest):
    """The same as an address has it."""

    model_config = ConfigDict(strict=False)


class ExplainReply(BaseModel):
    """Why a document has the score that a pipeline gives it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
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
                }
            ]
        }
    )

    query: str
    index: str
    generation: int
    pipeline: str
    docno: str
    explanation: ExplanationNode


class IndexReply(BaseModel):
    """An index; ``pipelines`` and ``answering`` are texts by name, ``unavailable`` why others cannot run."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
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
                }
            ]
        }
    )

    name: str
    generation: int
    documents: int
    analyzer: str | None
    default: str
    default_answer: str | None
    pipelines: dict[str, str]
    answering: dict[str, str]
    unavailable: dict[str, str]
    vectors: list[str]


class IndexesReply(BaseModel):
    """The indexes that are served, the default first, and the models by kind."""

    indexes: list[IndexReply]
    rerankers: list[str]
    encoders: list[str]
    readers: list[str]
