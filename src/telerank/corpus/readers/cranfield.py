"""Cranfield: ``cran.all.1400.xml``, ``cran.qry.xml``, ``cranqrel.trec.txt``.

The ``<num>`` of a query (1, 2, 4, 8, …, 365) is its number in a longer list; the qrels use the position of
the query (1 to 225), which is its qid here. Two documents (471 and 995) are empty. The text of a document
begins with its title, which is also its ``title``.

Source: Cleverdon, 1967, in the edition of University of Glasgow
(ir.dcs.gla.ac.uk/resources/test_collections/cran) as TREC files. Licence: none stated.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

from telerank.corpus.collection import Collection, Format
from telerank.corpus.readers.reading import WHOLE, require_file
from telerank.corpus.readers.trec_sgml import is_cranfield, read_docs
from telerank.trec import read_qrels, read_topics
from telerank.types import Query

_DOCS, _QUERIES, _QRELS = "cran.all.1400.xml", "cran.qry.xml", "cranqrel.trec.txt"


def _queries(path: Path, encoding: str) -> Iterator[Query]:
    for position, query in enumerate(read_topics(path, format="trec", encoding=encoding), 1):
        yield Query(str(position), query.text)


def _open(path: Path, encoding: str) -> Collection:
    docs, queries, qrels = (require_file(path, name) for name in (_DOCS, _QUERIES, _QRELS))
    return Collection(
        path.name,
        CRANFIELD.name,
        functools.partial(read_docs, docs, encoding),
        {WHOLE: functools.partial(_queries, queries, encoding)},
        {WHOLE: functools.partial(read_qrels, qrels)},
        size=1400,
        source="Cleverdon 1967, ir.dcs.gla.ac.uk/resources/test_collections/cran",
    )


CRANFIELD = Format("cranfield", is_cranfield, _open, f"Cranfield: {_DOCS}, {_QUERIES}, {_QRELS}")
