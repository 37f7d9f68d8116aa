"""Python functions as stages: one that scores texts behind a ranking, one that retrieves.

>>> bm25 = index.bm25() % 100
>>> bm25 >> tr.scorer(lambda query, text: -abs(len(text) - 500)) % 10
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, TypeAlias

from telerank.corpus.collection import Collection
from telerank.corpus.docstore import read_candidates, read_doc
from telerank.errors import (
    ArgumentError,
    ArgumentTypeError,
    CollectionError,
    call_own,
    check_function,
    count_noun,
    function_name,
)
from telerank.expressions import depth_text
from telerank.retrieval.index import Index
from telerank.stage import PRODUCT, Retriever, Stage, check_depth
from telerank.types import Doc, Docs, Explanation, Phrase, Query, Ranking

Score: TypeAlias = float | Explanation
"""What a function gives for a document: a finite number, or an explanation, whose value is the score."""
ScoreOne: TypeAlias = Callable[[str, str], Score]
ScoreMany: TypeAlias = Callable[[str, list[str]], Iterable[Score]]
Retrieve: TypeAlias = Callable[[str, int], Iterable[tuple[str, Score]] | Mapping[str, Score]]


def scorer(
    function: ScoreOne | ScoreMany,
    texts: Index | Collection | Docs | Mapping[str, str] | None = None,
    *,
    batch: bool = False,
    name: str | None = None,
) -> Stage:
    """The stage that scores the documents of rankings with a function ``f(query, text) -> score``.

    With ``batch`` the function takes all texts of a ranking at once, ``f(query, texts) -> scores``. A score
    is a number, or an :class:`Explanation` whose value is the score. A text is the title and the text of a
    document. ``texts`` has the documents: an index, a collection (whose texts are then held in memory), or a
    mapping of texts by docno; without it they are those of the index that the stages before it search.
    ``name`` stands for the function in what is shown.

    >>> index.bm25() % 100 >> tr.scorer(lambda query, text: text.count(query)) % 10

    Raises
    ------
    ArgumentTypeError
        If that is no function of a query and a text, or texts.
    """
    docs = None if texts is None else open_docs(texts)
    scored = check_function("tr.scorer", function, "query", "texts" if batch else "text")
    return FunctionScorer(scored, docs, batch=batch, name=name or function_name(function))


def retriever(
    function: Retrieve,
    *,
    texts: Index | Collection | Docs | Mapping[str, str] | None = None,
    name: str | None = None,
) -> Stage:
    """The first stage that a function ``f(query, k) -> [(docno, score), …]`` is; a dict of scores does, too.

    ``k`` is how many documents are wanted, 1,000 unless the pipeline cuts (``% k``); what the function gives
    beyond is cut. A score is a number, or an :class:`Explanation` whose value is the score. ``texts`` has the
    documents, for stages after it that read them, as for :func:`scorer`.

    >>> engine = tr.retriever(lambda query, k: my_engine.search(query, limit=k))
    >>> engine % 100 >> tr.rerank("my-reranker", index) % 10

    Raises
    ------
    ArgumentTypeError
        If that is no function of a query and a number.
    """
    docs = None if texts is None else open_docs(texts)
    find = check_function("tr.retriever", function, "query", "k")
    return FunctionRetriever(find, docs=docs, name=name or function_name(function))


@dataclass(frozen=True, repr=False)
class FunctionScorer(Stage):
    """Scores the documents of rankings with a function, and keeps ``k``; see :func:`scorer`."""

    function: Callable[..., Any]
    docs: Docs | None = field(default=None, hash=False)
    k: int | None = None
    batch: bool = False
    name: str = field(default="", compare=False)
    role = "rerank"
    reorders = True

    def __post_init__(self) -> None:
        if self.k is not None:
            check_depth(self.k)

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        for ranking in stream:
            docs = list(read_candidates(ranking, self._docs())) if len(ranking) else []
            scores = [float(part.value) for part in self._explain(ranking.query, docs)]
            ranked = Ranking.ranked(ranking.query, ranking.docnos, scores)
            yield ranked if self.k is None else ranked.cut(self.k)

    def explanation(self, query: Query, docno: str) -> Explanation:
        return self._explain(query, [read_doc(self._docs(), docno)])[0]

    def limit(self, k: int) -> FunctionScorer:
        return replace(self, k=k if self.k is None else min(self.k, k))

    def with_docs(self, docs: Docs) -> FunctionScorer:
        return replace(self, docs=docs) if self.docs is None else self

    @property
    def text(self) -> str:
        return depth_text(f"<scorer({self.name})>", self.k)

    @property
    def binding(self) -> int:
        return super().binding if self.k is None else PRODUCT

    def _docs(self) -> Docs:
        if self.docs is None:
            raise CollectionError(
                f"scorer({self.name}) has no texts: no stage before it searches an index; write "
                f"tr.scorer({self.name}, texts) with an index, a collection or a dict of texts"
            )
        return self.docs

    def _explain(self, query: Query, docs: Sequence[Doc]) -> list[Explanation]:
        texts = [doc.full_text for doc in docs]
        if not texts:
            return []
        if not self.batch:
            values = [
                call_own(
                    self.name,
                    self.function,
                    query.text,
                    text,
                    of=f"the query {query.text!r} and the document {doc.docno}",
                )
                for doc, text in zip(docs, texts, strict=True)
            ]
        else:
            given = call_own(self.name, self.function, query.text, texts, of=f"the query {query.text!r}")
            try:
                values = list(given)
            except TypeError:
                expected = "expected a score for each text"
                raise ArgumentTypeError(f"{self.name} gave {given!r:.80}, {expected}") from None
            if len(values) != len(texts):
                raise ArgumentError(
                    f"{self.name} gave {count_noun(len(values), 'score')} for "
                    f"{count_noun(len(texts), 'text')}"
                )
        return [
            _explain_value(self.name, value, query, doc.docno)
            for value, doc in zip(values, docs, strict=True)
        ]


@dataclass(frozen=True, repr=False)
class FunctionRetriever(Retriever):
    """Asks a function for the documents of each query; see :func:`retriever`."""

    function: Retrieve
    depth: int | None = None
    docs: Docs | None = field(default=None, compare=False)
    name: str = field(default="", compare=False)
    batch: int = field(default=1, compare=False)
    threads: int = field(default=1, compare=False)

    def rank_batch(self, queries: list[Query]) -> Iterator[Ranking]:
        for query in queries:
            documents = self._ask(query)
            scores = [part.value for part in documents.values()]
            yield Ranking.ranked(query, tuple(documents), scores).cut(self.depth or USUAL_DEPTH)

    def explanation(self, query: Query, docno: str) -> Explanation:
        return self._ask(query)[docno]

    @property
    def call(self) -> str:
        return f"<retriever({self.name})>"

    def _ask(self, query: Query) -> dict[str, Explanation]:
        documents: dict[str, Explanation] = {}
        depth = self.depth or USUAL_DEPTH
        given = call_own(self.name, self.function, query.text, depth, of=f"the query {query.text!r}")
        try:
            hits: list[Any] = list(given.items() if isinstance(given, Mapping) else given)
            pairs = [(docno, score) for docno, score in hits]
        except (TypeError, ValueError):
            hits, pairs = [""], []
        if any(isinstance(hit, str) for hit in hits):  # two letters would be a pair
            expected = "expected pairs (docno, score), or a dict of scores"
            raise ArgumentTypeError(f"{self.name} gave {given!r:.80}, {expected}")
        for docno, score in pairs:
            if not isinstance(docno, str) or not docno:
                raise ArgumentTypeError(f"{self.name} gave the docno {docno!r}, expected a text")
            if docno in documents:
                raise ArgumentError(f"{self.name} gave {docno!r} twice for the query {query.text!r}")
            documents[docno] = _explain_value(self.name, score, query, docno)
        return documents


USUAL_DEPTH = 1000
"""How many documents a function is asked for if the pipeline does not cut."""


def _explain_value(name: str, value: object, query: Query, docno: str) -> Explanation:
    """The score that a function gave, explained; one that is no finite number is refused."""
    own = value if isinstance(value, Explanation) else None
    score = value if own is None else own.value
    where = f"for the document {docno} and the query {query.text!r}"
    if hasattr(score, "item") and getattr(score, "ndim", 0) == 0:
        score = score.item()  # a number of numpy or torch
    if not isinstance(score, Real) or isinstance(score, bool):
        raise ArgumentTypeError(f"{name} gave {score!r} {where}, expected a number")
    if not math.isfinite(score):
        raise ArgumentError(f"{name} gave {float(score)!r} {where}, expected a finite number")
    if own is not None:
        return own
    return Explanation(float(score), Phrase("given by the function {name}", name=name))


def open_docs(texts: Index | Collection | Docs) -> Docs:
    """The documents of an index, of a collection (read into memory), or the mapping itself."""
    if isinstance(texts, Index):
        return texts.docs
    return {doc.docno: doc for doc in texts.docs()} if isinstance(texts, Collection) else texts
