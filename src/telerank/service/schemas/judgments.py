"""Judgments as JSON."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from telerank.types import HIGHEST_GRADE, LEAST_GRADE

_QUESTION = "Qui peut demander la prime d'activité ?"


class JudgmentRequest(BaseModel):
    """A grade of a document for a query: above 0 if it is relevant, 0 if it is not."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"query": _QUESTION, "docno": "F2882", "grade": 1, "index": "dila"}],
        },
    )

    query: str = Field(min_length=1)
    docno: str = Field(min_length=1)
    grade: int = Field(ge=LEAST_GRADE, le=HIGHEST_GRADE, strict=True)
    index: str | None = None


class JudgmentReply(BaseModel):
    """The judgment that was saved; ``qid`` is the same for the same words."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "qid": "q7d3f6a1b2c4e5f60",
                    "query": _QUESTION,
                    "docno": "F2882",
                    "grade": 1,
                    "time": "2026-11-22T09:30:00Z",
                    "index": "dila",
                }
            ]
        }
    )

    qid: str
    query: str
    docno: str
    grade: int
    time: str
    index: str
