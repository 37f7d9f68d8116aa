"""Documents, queries, judgments and runs that a program holds: dicts, lists, data frames.

Data frames (pandas, polars, pyarrow) and records are read by the names of their columns, those of PyTerrier,
ir_measures, ranx and BEIR:

=========  =======================================================
docno      ``docno``, ``doc_id``, ``docid``, ``corpus-id``, ``_id``, ``id``
text       ``text``, ``contents``, ``body``
title      ``title``
url        ``url``
qid        ``qid``, ``query_id``, ``q_id``, ``query-id``, ``topic``
query      ``query``, ``text``, ``question``
grade      ``grade``, ``label``, ``relevance``, ``rel``, ``score``
score      ``score``
=========  =======================================================
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

from telerank.columns.kinds import flatten, plain_value
from telerank.errors import ArgumentError, ArgumentTypeError
from telerank.trec import load_qrels
from telerank.types import Doc, Qrel, Qrels, Query, Ranking

_DOCNO = ("docno", "doc_id", "docid", "corpus-id", "_id", "id")
_TEXT, _TITLE, _URL = ("text", "contents", "body"), ("title",), ("url",)
_QID = ("qid", "query_id", "q_id", "query-id", "topic")
_QUERY = ("query", "text", "question")
_GRADE = ("grade", "label", "relevance", "rel", "score")
_SCORE = ("score",)
_LACKING = object()


def read_docs(values: Any) -> Iterator[Doc]:
    """The documents of a mapping ``docno -> text``, of a data frame, or of a list.

    A text of a list has its position, from 0 on, as docno. A mapping may also be of records by docno. Further
    keys and columns are columns of the documents (:mod:`telerank.columns.kinds`).

    Raises
    ------
    ArgumentTypeError
        If they are of another shape, or a docno or a text is no text; the message names the document.
    """
    if isinstance(values, Mapping):
        for docno, text in values.items():
            yield text if isinstance(text, Doc) else _read_item(docno, text, f"document {docno!r}")
        return
    for number, value in enumerate(_read_rows(values, "documents")):
        if isinstance(value, Doc):
            yield value
        elif isinstance(value, str):
            yield Doc(str(number), value)
        else:
            where = f"document number {number + 1}"
            _check_row(value, where, "a text, or a row with docno and text")
            docno = _find(value, _DOCNO, where)
            yield _read_record(docno, value, f"{where}, {docno!r}")


def _read_item(docno: Any, value: Any, where: str) -> Doc:
    """The document of a docno, whose value is a text or a record."""
    return _read_record(docno, value, where) if isinstance(value, Mapping) else _make_doc(docno, value, where)


def _read_record(docno: Any, row: Any, where: str) -> Doc:
    """The document of a record; the columns of an object are not known."""
    title, url = (_find(row, names, where, "") for names in (_TITLE, _URL))
    doc = _make_doc(docno, _find(row, _TEXT, where), where, title, url)
    return replace(doc, columns=_other_columns(row)) if isinstance(row, Mapping) else doc


def _other_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a row that are no field of a document."""
    taken = {next((name for name in names if name in row), "") for names in (_DOCNO, _TEXT, _TITLE, _URL)}
    columns = {name: plain_value(value) for name, value in flatten(row, frozenset(taken)).items()}
    return {name: value for name, value in columns.items() if value is not None}


def read_queries(values: Any) -> list[Query]:
    """The queries of a mapping ``qid -> text``, of a data frame, or of a list; texts of a list count from 1.

    Raises
    ------
    ArgumentTypeError
        If they are of another shape, or a qid or a text is no text.
    """
    if isinstance(values, Mapping):
        pairs = ((qid, text, f"query {qid!r}") for qid, text in values.items())
        return [Query(_text(qid, "a qid", where), _text(text, "a text", where)) for qid, text, where in pairs]
    queries = []
    for number, value in enumerate(_read_rows(values, "queries"), 1):
        where = f"query number {number}"
        if isinstance(value, Query):
            queries.append(value)
        elif isinstance(value, str):
            queries.append(Query(str(number), value))
        else:
            _check_row(value, where, "a text, or a row with qid and query")
            qid, text = _find(value, _QID, where), _find(value, _QUERY, where)
            queries.append(Query(_text(qid, "a qid", where), _text(text, "a text", where)))
    return queries


def read_qrels(values: Any) -> Qrels:
    """The judgments of a mapping ``qid -> docno -> grade``, of a data frame, or of a list of judgments.

    Raises
    ------
    ArgumentTypeError
        If they are of another shape, or a grade is no whole number.
    FormatError
        If a document has two grades for a query, or a grade is beyond the limits.
    """

    def qrels() -> Iterator[Qrel]:
        for qid, docno, grade, where in _read_triples(_peek(values)[1], "judgments", _GRADE):
            is_whole = isinstance(grade, Real) and not isinstance(grade, bool) and float(grade).is_integer()
            if not is_whole:
                raise ArgumentTypeError(f"{where}: expected a whole number as the grade, got {grade!r:.60}")
            yield Qrel(qid, docno, int(grade))

    graded = load_qrels(qrels())
    if not isinstance(values, Mapping):
        return graded
    return {**{_text(qid, "a qid", f"query {qid!r}"): {} for qid in values}, **graded}


def read_run(values: Any, name: str = "a run") -> list[Ranking]:
    """The rankings of a mapping ``qid -> docno -> score``, of a data frame, or of a list of scored documents.

    Their queries have no text. Messages call them ``name``.

    Raises
    ------
    ArgumentTypeError
        If they are of another shape, or a score is no number.
    ArgumentError
        If a score is not finite, or a document comes twice for a query.
    """
    first, rows = _peek(values)
    if isinstance(first, Ranking):
        rankings = list(rows)
        for number, ranking in enumerate(rankings, 1):
            if not isinstance(ranking, Ranking):
                raise ArgumentTypeError(f"{name}, number {number}: expected a ranking, got {ranking!r:.60}")
        return rankings
    scored: defaultdict[str, dict[str, float]] = defaultdict(dict)
    if isinstance(values, Mapping):  # a query without documents has an empty ranking
        scored.update({_text(qid, "a qid", f"query {qid!r}"): {} for qid in values})
    for qid, docno, score, where in _read_triples(rows, name, _SCORE):
        if not isinstance(score, Real) or isinstance(score, bool):
            raise ArgumentTypeError(f"{where}: expected a number as the score, got {score!r:.60}")
        if not math.isfinite(score):
            raise ArgumentError(f"{where}: expected a finite score, got {float(score)!r}")
        if docno in scored[qid]:
            raise ArgumentError(f"{where}: the document comes twice")
        scored[qid][docno] = float(score)
    return [
        Ranking.ranked(Query(qid, ""), tuple(scores), [*scores.values()]) for qid, scores in scored.items()
    ]


def _read_triples(
    values: Any, what: str, value_names: tuple[str, ...]
) -> Iterator[tuple[str, str, Any, str]]:
    """Query, document, value and how the place is called, of two nested mappings or of rows."""
    if isinstance(values, Mapping):
        for qid, inner in values.items():
            if not isinstance(inner, Mapping):
                expected = f"expected a dict of docnos, each with its {value_names[0]}"
                raise ArgumentTypeError(f"{what}, query {qid!r}: {expected}, got {inner!r:.60}")
            for docno, value in inner.items():
                where = f"{what}, query {qid!r}, document {docno!r}"
                yield _text(qid, "a qid", where), _text(docno, "a docno", where), _plain(value), where
        return
    for number, row in enumerate(_read_rows(values, what), 1):
        where = f"{what}, row {number}"
        _check_row(row, where, f"a row with qid, docno and {value_names[0]}")
        qid, docno, value = (_find(row, names, where) for names in (_QID, _DOCNO, value_names))
        yield _text(qid, "a qid", where), _text(docno, "a docno", where), _plain(value), where


def _read_rows(values: Any, what: str) -> Iterator[Any]:
    """The rows of a data frame, or the items of anything that has items."""
    for method in ("to_pylist", "to_dicts"):  # pyarrow, polars
        if hasattr(values, method):
            return iter(getattr(values, method)())
    if hasattr(values, "columns") and hasattr(values, "to_dict"):  # pandas
        return iter(values.to_dict("records"))
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ArgumentTypeError(f"{what}: expected a dict, a list or a data frame, got {values!r:.60}")
    return iter(values)


def _peek(values: Any) -> tuple[Any, Any]:
    """The first item of what has items, and all of them; a mapping or a data frame is returned as it is."""
    if hasattr(values, "to_dict") and not hasattr(values, "columns"):  # ranx
        values = values.to_dict()
    if isinstance(values, Mapping) or hasattr(values, "columns") or not isinstance(values, Iterable):
        return None, values
    items = iter(values)
    first = next(items, None)
    return first, items if first is None else itertools.chain([first], items)


def _check_row(row: Any, where: str, expected: str) -> None:
    """Refuse what can have no columns, such as a number or a text."""
    if row is None or (isinstance(row, str | bytes | Real | list | tuple) and not hasattr(row, "_fields")):
        raise ArgumentTypeError(f"{where}: expected {expected}, got {row!r:.60}")


def _find(row: Any, names: tuple[str, ...], where: str, default: Any = _LACKING) -> Any:
    """The value of a row that has one of the names, as a key or as an attribute."""
    for name in names:
        value = row.get(name, _LACKING) if isinstance(row, Mapping) else getattr(row, name, _LACKING)
        if value is not _LACKING:
            return value
    if default is not _LACKING:
        return default
    raise ArgumentTypeError(f"{where}: expected {' or '.join(names)}, got {row!r:.80}")


def _make_doc(docno: Any, text: Any, where: str, title: Any = "", url: Any = "") -> Doc:
    return Doc(
        _text(docno, "a docno", where),
        _text(text, "a text", where),
        _text(title or "", "a title", where),
        _text(url or "", "a URL", where),
    )


def _text(value: Any, what: str, where: str) -> str:
    """A text; whole numbers stand for their digits, since data frames make them of ids."""
    if isinstance(value, str):
        return value
    if isinstance(value, Integral) and not isinstance(value, bool) and what in ("a docno", "a qid"):
        return str(int(value))
    raise ArgumentTypeError(f"{where}: expected {what}, got {value!r:.60}")


def _plain(value: Any) -> Any:
    """A number of numpy as Python's own."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
