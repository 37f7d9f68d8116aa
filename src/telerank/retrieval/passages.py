"""The passages of a file in an index."""

from __future__ import annotations

from collections.abc import Mapping

from telerank.corpus.readers.files.folder import FileRecord, file_docno
from telerank.errors import UnknownDocument, nearest_docno
from telerank.sparse.index import IndexDocs
from telerank.types import PASSAGE


def find_passages(docs: IndexDocs, file: str, records: Mapping[str, FileRecord]) -> list[str]:
    """The docnos of a file, by its path or its docno; see :meth:`telerank.Index.passages`.

    ``records`` have the order of the passages in a file; without them it is that of the index.
    """
    for name in dict.fromkeys((file, file_docno(file))):
        if docnos := docs.of_file(name):
            record = records.get(docs[docnos[0]].file)
            names = record.passages if record else ()
            order = {f"{name}{PASSAGE}{passage}": number for number, passage in enumerate(names)}
            return sorted(docnos, key=order.__getitem__) if order.keys() >= {*docnos} else docnos
    near = nearest_docno(file, docs.files_and_docnos())
    hint = f"; did you mean {near!r}?" if near else ""
    raise UnknownDocument(f"{docs.index.folder}: no file and no document {file!r}{hint}")
