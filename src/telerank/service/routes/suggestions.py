"""What a person may be typing."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from telerank.service.errors import ERRORS, NotServed, Unprocessable
from telerank.service.routes.fields import ApiRecord, CleanText, IndexName
from telerank.service.state import CurrentServed, CurrentSnapshot
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
