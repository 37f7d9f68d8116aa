"""The stage that scores the documents of rankings anew."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from telerank.errors import CollectionError
from telerank.expressions import call_text, quote
from telerank.models.inference import compute_each
from telerank.models.rerankers.reranker import Reranker
from telerank.reranking.explain import explain_score
from telerank.reranking.scorer import Scorer
from telerank.reranking.texts import TextPair
from telerank.stage import CALL, PRODUCT, Stage, check_depth, depth_text
from telerank.types import Doc, Explanation, Query, Ranking


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


@dataclass(frozen=True, repr=False)
class CrossReranker(Stage):
    """Score each document, title and text, by the logit of ``model`` for it and the query; keep ``k``.

    ``model`` is a re-ranker, its name or folder, or a :class:`~telerank.reranking.scorer.Scorer`, which also
    says how it is computed. The stage reads ahead over queries to fill its batches. ``name`` stands for the
    model in the text of a pipeline over an index; without it the text cannot be read back.

    Raises
    ------
    ValueError
        If k is not a whole number of at least 1.
    CollectionError
        When a ranking names a document that ``docs`` lacks.
    """

    model: Scorer | Reranker | str | Path
    docs: Docs = field(hash=False)
    k: int | None = None
    name: str = field(default="", compare=False)
    role = "rerank"

    def __post_init__(self) -> None:
        if self.k is not None:
            check_depth(self.k)
        if not isinstance(self.model, Scorer):
            object.__setattr__(self, "model", Scorer(self.model))

    @property
    def scorer(self) -> Scorer:
        return self.model if isinstance(self.model, Scorer) else Scorer(self.model)

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        for candidates, scores in compute_each(stream, self._texts, self.scorer.stream):
            ranking = Ranking.ranked(candidates.query, candidates.docnos, scores)
            yield ranking if self.k is None else ranking.cut(self.k)

    def _texts(self, ranking: Ranking) -> Iterator[TextPair]:
        return ((ranking.query.text, doc.full_text) for doc in read_candidates(ranking, self.docs))

    def limit(self, k: int) -> CrossReranker:
        return replace(self, k=k if self.k is None else min(self.k, k))

    @property
    def text(self) -> str:
        call = call_text("rerank", quote(self.name or self.scorer.name), **self.scorer.changed)
        return depth_text(call if self.name and not self.scorer.samples else f"<{call}>", self.k)

    @property
    def binding(self) -> int:
        return CALL if self.k is None else PRODUCT

    @property
    def sources(self) -> Mapping[str, object]:
        source = self.scorer.source
        if not self.name:  # of an index, which has its own checksums
            source["documents"] = identify_docs(self.docs)
        return {f"rerank({self.name or self.scorer.name})": source}

    @property
    def remarks(self) -> Sequence[str]:
        return [f"rerank({self.name or self.scorer.name}): {line}" for line in self.scorer.remarks]

    def explanation(self, query: Query, docno: str) -> Explanation:
        """The score, what each sentence adds to it, and what the model shows of itself."""
        return explain_score(self.scorer, query.text, read_doc(self.docs, docno).full_text, self.name)
