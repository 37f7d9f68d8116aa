"""What a person may be typing."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from telerank.service.errors import ERRORS, NotServed, Unprocessable
from telerank.service.indexes import ServedIndex
from telerank.service.routes.fields import ApiRecord, CleanText, IndexName
from telerank.service.state import CurrentServed, CurrentSnapshot
from telerank.syntax.acronyms import acronym_lines, find_acronyms
from telerank.vocabulary.suggestions import MOST
from telerank.vocabulary.suggestions import suggest as find_suggestions


class SuggestionItem(BaseModel, from_attributes=True):
    """A title, or what was typed with its last word completed; ``documents`` have the title or the word."""

    text: str
    kind: str
    documents: int


class SuggestionsReply(ApiRecord):
    """The suggestions, titles first."""

    index: str
    generation: int
    suggestions: list[SuggestionItem]


router = APIRouter(prefix="/v1", tags=["search"], responses=ERRORS)
_ACRONYM_CHARACTERS = 10_000_000  # of documents that are read for acronyms: a second or two


class AcronymItem(BaseModel, from_attributes=True):
    """An acronym, what it stands for, and how many documents say so."""

    short: str
    long: str
    documents: int


class AcronymsReply(ApiRecord):
    """The acronyms of the ``read`` documents, those of most first, and ``lines`` of a file of synonyms."""

    index: str
    generation: int
    read: int
    acronyms: list[AcronymItem]
    lines: list[str]


@router.get("/acronyms", summary="List acronyms that the documents explain")
async def acronyms(
    served: CurrentServed,
    snapshot: CurrentSnapshot,
    *,
    index: Annotated[IndexName, Query()] = None,
    least: Annotated[int, Query(ge=1, description="Documents that explain an acronym, at least.")] = 1,
) -> AcronymsReply:
    """Acronyms that the texts explain themselves, `carte nationale d'identité (CNI)`, to edit as synonyms.

    The first 10 million characters of the documents are read.
    """
    opened = snapshot.served_index(index)
    if not opened.index.has_texts:
        raise NotServed(f"the index {opened.name} holds vectors alone, without words")
    return await served.search(_list_acronyms, opened, least)


def _list_acronyms(opened: ServedIndex, least: int) -> AcronymsReply:
    docs, room = [], _ACRONYM_CHARACTERS
    for doc in opened.index.docs.values():
        docs.append(doc)
        room -= len(doc.full_text)
        if room < 0:
            break
    listed = find_acronyms(docs, least)
    items = [AcronymItem.model_validate(each) for each in listed]
    return AcronymsReply(
        index=opened.name,
        generation=opened.generation,
        read=len(docs),
        acronyms=items,
        lines=list(acronym_lines(listed)),
    )


@router.get("/suggest", summary="Suggest while typing")
async def suggest(
    served: CurrentServed,
    snapshot: CurrentSnapshot,
    *,
    query: Annotated[CleanText, Query(description="What was typed.", examples=["impr"])],
    index: Annotated[IndexName, Query()] = None,
    k: Annotated[int, Query(ge=1, le=100, description="Suggestions, at most.")] = MOST,
) -> SuggestionsReply:
    """Titles that begin as what was typed, and frequent words of the documents that end it.

    None for a key that does not see all documents.
    """
    most = served.settings.limits.query_characters
    if len(query) > most:
        raise Unprocessable(f"query: at most {most:,} characters, got {len(query):,}")
    opened = snapshot.served_index(index)
    if not opened.index.has_texts:
        raise NotServed(f"the index {opened.name} holds vectors alone, without words")
    if opened.chosen is not None:  # words and titles may be those of documents that the key does not see
        return SuggestionsReply(index=opened.name, generation=opened.generation, suggestions=[])
    suggestions = await served.search(find_suggestions, opened.index.sparse, query, k)
    items = [SuggestionItem.model_validate(each) for each in suggestions]
    return SuggestionsReply(index=opened.name, generation=opened.generation, suggestions=items)
