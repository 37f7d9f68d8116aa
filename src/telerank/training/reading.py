"""Read the texts that a training needs from a collection."""

from __future__ import annotations

from collections.abc import Collection as Container
from collections.abc import Iterable

from telerank.corpus.collection import Collection
from telerank.errors import CollectionError
from telerank.types import Progress, silent


def read_texts(collection: Collection, docnos: Container[str], progress: Progress = silent) -> dict[str, str]:
    """The texts of these documents, read in one pass; documents that the collection lacks are left out."""
    texts = {}
    for number, doc in enumerate(collection.docs(), 1):
        if doc.docno in docnos:
            texts[doc.docno] = doc.full_text
        if number % 10_000 == 0:
            progress("reading documents", number, collection.size)
    return texts


def check_complete(
    needed: Iterable[str],
    present: Container[str],
    problem: str,
    reason: str = "that its qrels, lists or triples name",
) -> None:
    """Check that every needed name is present; the message reads ``problem 'name' reason``.

    Raises CollectionError if a name is missing.
    """
    missing = [name for name in needed if name not in present]
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise CollectionError(f"{problem} {min(missing)!r}{more} {reason}")
