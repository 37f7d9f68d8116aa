"""The documents that are most like one, as its page lists them."""

from __future__ import annotations

from typing import Any

from telerank.feedback.like import LIKE
from telerank.service.page.pages import Pages
from telerank.types import Query

_SHOWN = 5


def list_similar(pages: Pages, docno: str) -> list[dict[str, Any]]:
    """The sources of the documents most like one, among those that the key and the filter let pass."""
    if not pages.index.has_texts or docno not in pages.index.docs:
        return []
    stage = pages.served.pipeline(LIKE, None, pages.inquiry.filter) % _SHOWN
    return [pages.source(pages.doc(other)) for other in stage.search(Query(LIKE, docno)).docnos]
