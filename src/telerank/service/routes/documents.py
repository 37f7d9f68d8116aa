"""Documents by name, and the indexes that have them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, JsonValue

from telerank.service.errors import ERRORS, NotServed, TooLarge
from telerank.service.routes.fields import Docno, IndexName
from telerank.service.state import CurrentSettings, CurrentSnapshot


class Document(BaseModel, from_attributes=True):
    """A document as it was indexed."""

    docno: str
    title: str = ""
    url: str = ""
    text: str = ""


class DocumentsReply(Record):
    """The documents of these names, in their order."""

    index: str
    generation: int
    documents: list[Document]


_INDEX: dict[str, JsonValue] = {
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


class IndexReply(Record, from_attributes=True):
    """An index; ``pipelines`` and ``answering`` are texts by name, ``unavailable`` why others cannot run."""

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


_SERVED: dict[str, JsonValue] = {
    "indexes": [_INDEX],
    "rerankers": ["my-reranker"],
    "encoders": [],
    "readers": [],
}


class IndexesReply(Record):
    """The indexes that are served, the default first, and the models by kind."""

    indexes: list[IndexReply]
    rerankers: list[str]
    encoders: list[str]
    readers: list[str]


router = APIRouter(prefix="/v1", tags=["search"], responses=ERRORS)


@router.get("/documents", summary="Documents by name")
async def documents(
    snapshot: CurrentSnapshot,
    settings: CurrentSettings,
    docno: Annotated[list[Docno], Query(description="Names of documents.", examples=[["1507"]])],
    index: Annotated[IndexName, Query()] = None,
) -> DocumentsReply:
    """The documents of these names; 404 if one of them is not in the index."""
    if len(docno) > settings.limits.documents:
        raise TooLarge(f"{len(docno):,} documents, at most {settings.limits.documents:,}")
    opened = snapshot.served_index(index)
    if not opened.index.has_texts:
        raise NotServed(f"the index {opened.name} holds vectors alone, without documents")
    docs = opened.index.docs
    missing = [name for name in docno if name not in docs]
    if missing:
        raise NotServed(f"no document {missing[0]!r} in the index {opened.name}")
    shown: Any = [docs[name] for name in docno]
    return DocumentsReply(index=opened.name, generation=opened.generation, documents=shown)


@router.get("/indexes", summary="What is served")
async def indexes(snapshot: CurrentSnapshot) -> IndexesReply:
    """The indexes with their pipelines, and the models by kind."""
    models = snapshot.models
    return IndexesReply(
        indexes=[IndexReply.model_validate(index) for index in snapshot.indexes.values()],
        rerankers=models.rerankers.names,
        encoders=models.encoders.names,
        readers=models.readers.names,
    )


@router.get("/indexes/{name}", summary="One index")
async def one_index(snapshot: CurrentSnapshot, name: str) -> IndexReply:
    """An index with its pipelines."""
    return IndexReply.model_validate(snapshot.served_index(name))
