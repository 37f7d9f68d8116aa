"""Documents by name, and the indexes that have them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from telerank.service.depends import CurrentSettings, CurrentSnapshot
from telerank.service.errors import ERRORS, NotServed, TooLarge
from telerank.service.indexes import ServedIndex
from telerank.service.schemas.search import (
    Docno,
    Document,
    DocumentsReply,
    IndexesReply,
    IndexName,
    IndexReply,
)

router = APIRouter(prefix="/v1", tags=["search"], responses=ERRORS)
_INDEX_EXAMPLE = IndexReply.model_config["json_schema_extra"]["examples"][0]  # type: ignore[index]


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
    shown = [docs[name] for name in docno]
    return DocumentsReply(
        index=opened.name,
        generation=opened.generation,
        documents=[Document(docno=d.docno, title=d.title, url=d.url, text=d.text) for d in shown],
    )


@router.get(
    "/indexes",
    summary="What is served",
    responses={
        200: {
            "content": {
                "application/json": {
                    "example": {
                        "indexes": [_INDEX_EXAMPLE],
                        "rerankers": ["my-reranker"],
                        "encoders": [],
                        "readers": [],
                    }
                }
            }
        }
    },
)
async def indexes(snapshot: CurrentSnapshot) -> IndexesReply:
    """The indexes with their pipelines, and the models by kind."""
    models = snapshot.models
    return IndexesReply(
        indexes=[_describe(index) for index in snapshot.indexes.values()],
        rerankers=models.rerankers.names,
        encoders=models.encoders.names,
        readers=models.readers.names,
    )


@router.get("/indexes/{name}", summary="One index")
async def one_index(snapshot: CurrentSnapshot, name: str) -> IndexReply:
    """An index with its pipelines."""
    return _describe(snapshot.served_index(name))


def _describe(served: ServedIndex) -> IndexReply:
    return IndexReply(
        name=served.name,
        generation=served.generation,
        documents=served.documents,
        analyzer=served.index.analyzer.name if served.index.has_texts else None,
        default=served.default,
        default_answer=served.default_answer,
        pipelines=served.pipelines,
        answering=served.answering,
        unavailable=served.unavailable,
        vectors=served.vectors,
    )
