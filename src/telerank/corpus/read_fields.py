"""What models read of documents: title and text, one blank between them, or fields that are named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from telerank.columns.kinds import TEXT_KINDS, check_name
from telerank.corpus.docstore import read_doc
from telerank.errors import ArgumentError, DocumentError, known_names, shorten
from telerank.types import TEXT_FIELDS, ColumnDocs, Doc, Docs

FieldNames: TypeAlias = tuple[str, ...]
TEXT = "text"
"""The field that readers of answers read by default."""


def as_field_names(fields: str | Sequence[str] | None) -> FieldNames:
    """Names of fields, of which a text has commas between them; empty for title and text, which is usual.

    Raises
    ------
    ArgumentError
        If there is no name, one cannot be that of a field, or comes twice.
    """
    if fields is None or (not isinstance(fields, str) and not fields):
        return ()
    names = tuple(map(str.strip, fields.split(","))) if isinstance(fields, str) else tuple(fields)
    for name in names:
        check_name(name)
        if "," in name:
            raise ArgumentError(f"fields: {shorten(name)} has a comma, and cannot be read as a field")
        if names.count(name) > 1:
            raise ArgumentError(f"fields: {shorten(name)} is given twice")
    return () if names == TEXT_FIELDS else names


def fields_text(fields: FieldNames) -> str:
    """The names as they stand in a text."""
    return ",".join(fields)


def check_kinds(fields: Sequence[str], kinds: Mapping[str, str]) -> None:
    """Raise ArgumentError if documents with columns of these kinds have no such fields."""
    for name in fields:
        if name not in TEXT_FIELDS and name not in kinds:
            known = known_names([*TEXT_FIELDS, *(own for own in kinds if kinds[own] in TEXT_KINDS)], name)
            raise ArgumentError(f"fields: no document has the column {shorten(name)}; {known}")
        if name not in TEXT_FIELDS and kinds[name] not in TEXT_KINDS:
            expected = f"expected one of texts ({' or '.join(TEXT_KINDS)})"
            raise ArgumentError(f"fields: the column {name} is of the kind {kinds[name]}: {expected}")


def check_known(fields: FieldNames, docs: object) -> None:
    """Raise as :func:`check_kinds` if the columns of documents are known."""
    if fields and isinstance(docs, ColumnDocs):
        check_kinds(fields, docs.kinds)


def read_fields(doc: Doc, fields: FieldNames) -> Doc:
    """The document as a model reads it, whose full text is that of the fields, in order.

    A title that is named first is the title, which segments repeat; all others make the text.
    """
    if not fields:
        return doc
    has_title = fields[0] == "title"
    texts = (doc.field(name) for name in fields[has_title:])
    return replace(doc, title=doc.title if has_title else "", text=" ".join(filter(None, texts)), marks=())


def show_field(doc: Doc, name: str) -> Doc:
    """The document with the text of a field in place of its text."""
    return doc if name == TEXT else replace(doc, text=doc.field(name), marks=())


@dataclass(frozen=True)
class FieldDocs:
    """Documents whose texts are those of some fields."""

    docs: Docs = field(hash=False)
    fields: FieldNames

    def __getitem__(self, docno: str) -> Doc:
        return read_fields(read_doc(self.docs, docno), self.fields)

    def __contains__(self, docno: str) -> bool:
        return docno in self.docs


def read_each(docs: Iterable[Doc], fields: FieldNames) -> Iterator[Doc]:
    """The documents as a model reads them, lazily; DocumentError at the end if none has one of the fields."""
    absent = set(fields)
    for doc in docs:
        absent -= {name for name in absent if doc.field(name)}
        yield read_fields(doc, fields)
    if absent:
        raise DocumentError(f"fields: no document has {', '.join(sorted(absent))}")


def select_fields(docs: Docs, fields: FieldNames) -> Docs:
    """The documents with the texts of these fields; as they are without any."""
    return FieldDocs(docs, fields) if fields else docs
