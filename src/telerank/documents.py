"""Documents looked up by docno, which stages read the texts of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Protocol

from telerank.errors import CollectionError
from telerank.types import Doc, Ranking


class Docs(Protocol):
    """Documents, or their full texts, by docno: ``index.docs``, a docstore, a mapping ``docno -> text``.

    Stages are compared by their documents, too, so they should compare as values.
    """

    def __getitem__(self, docno: str, /) -> Doc | str: ...

    def __contains__(self, docno: str, /) -> bool: ...


def read_doc(docs: Docs, docno: str) -> Doc:
    """The document of a docno; a full text has no title. Raises KeyError if there is no such document."""
    doc = docs[docno]
    return Doc(docno, doc) if isinstance(doc, str) else doc


def read_candidates(ranking: Ranking, docs: Docs) -> Iterator[Doc]:
    """The documents of a ranking, lazily; raises CollectionError if one is not among them."""
    for docno in ranking.docnos:
        try:
            yield read_doc(docs, docno)
        except KeyError as error:
            missing = sum(candidate not in docs for candidate in ranking.docnos)
            many = f" ({missing} of its {len(ranking)} candidates are not)" if missing > 1 else ""
            raise CollectionError(
                f"query {ranking.query.qid}: document {docno!r} is not among the documents{many}"
            ) from error


def identify_docs(docs: Docs) -> str:
    """The checksum of texts in memory, or the text of a docstore."""
    if not isinstance(docs, Mapping):
        return repr(docs)
    digest = hashlib.sha256()
    for docno in docs:
        digest.update(repr((docno, read_doc(docs, docno).full_text)).encode())
    return digest.hexdigest()
