"""Questions and their answers."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from telerank.service.schemas.search import (
    Body,
    CleanText,
    ExplanationNode,
    IndexName,
    PipelineText,
    QueryText,
    Timing,
)


class AnswerRequest(Body):
    """A question."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "Qui a inventé l'imprimerie ?", "k": 1}]}
    )

    query: QueryText
    index: IndexName = None
    pipeline: PipelineText = None
    reader: CleanText | None = Field(
        default=None, description="Name of the reader, if the pipeline does not end in read(READER)."
    )
    depth: int | None = Field(
        default=None, ge=1, le=1_000_000, description="Documents that are read, with `reader`; default: 20."
    )
    k: int = Field(3, ge=1, le=1_000, description="Answers, at most.")
    explain: bool = Field(default=False, description="Whether answers have an explanation.")


class AnswerSource(BaseModel):
    """A document that gives the same answer, and the character where it begins there."""

    docno: str
    start: int


class AnswerHit(BaseModel):
    """A span of a document: characters ``start`` to ``end`` (not included) of its text.

    ``before`` and ``after`` are the rest of the sentences that it is in.
    """

    text: str
    confidence: float
    score: float
    docno: str
    title: str = ""
    url: str = ""
    start: int
    end: int
    before: str
    after: str
    sources: list[AnswerSource]
    explanation: ExplanationNode | None = None


class AnswerReply(BaseModel):
    """The answers, best first; none if the documents that were read have none.

    ``no_answer`` is the score of no answer minus that of the best span, in the first document that has a
    span; missing if none has. ``warnings`` say that the question is longer than the reader reads, and how
    many tokens were not read; missing if nothing was cut.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
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
                }
            ]
        }
    )

    query: str
    index: str
    generation: int
    pipeline: str
    milliseconds: float
    stages: list[Timing]
    no_answer: float | None = None
    warnings: list[str] | None = None
    answers: list[AnswerHit]
