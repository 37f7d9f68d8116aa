"""The stage that scores the documents of rankings by MaxSim, from stored vectors of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from telerank.dense.kinds import check_vectors
from telerank.errors import CollectionError, IndexFault, ModelError
from telerank.expressions import call_text, depth_text, quote
from telerank.late_interaction.encoder import LateEncoder
from telerank.late_interaction.kernel import best_tokens, score_tokens
from telerank.late_interaction.store import TokenVectors
from telerank.stage import CALL, PRODUCT, Stage, check_depth
from telerank.types import Docs, Explanation, Phrase, Query, Ranking

FUNCTION = "maxsim"


@dataclass(frozen=True, repr=False)
class MaxSim(Stage):
    """Score each document by the sum, over the query's tokens, of the largest inner product with its tokens.

    Scores are sums in float64 of float32 numbers of the query and stored values of the document (Khattab and
    Zaharia 2020, equation 3); keep ``k``. ``docs`` are the documents of the index, ``name`` stands for the
    model in the text of a pipeline.

    Raises
    ------
    ModelError
        If the encoder is not the one that made the vectors.
    IndexFault
        When a ranking has a document without vectors.
    CollectionError
        When a ranking has a document that the index lacks.
    """

    vectors: TokenVectors
    encoder: LateEncoder
    docs: Docs = field(compare=False)
    k: int | None = None
    name: str = field(default="", compare=False)
    role = "rerank"

    reorders = True

    def __post_init__(self) -> None:
        if self.k is not None:
            check_depth(self.k)
        mine, other = self.vectors.manifest, self.encoder
        if mine.fingerprint != other.fingerprint:
            raise ModelError(
                f"{self.vectors.folder}: its vectors were made by {mine.model} "
                f"({mine.fingerprint[:12]}), not by {other.name} ({other.fingerprint[:12]})"
            )

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        for candidates in stream:
            ranking = Ranking.ranked(candidates.query, candidates.docnos, self._score(candidates))
            yield ranking if self.k is None else ranking.cut(self.k)

    def limit(self, k: int) -> MaxSim:
        return replace(self, k=k if self.k is None else min(self.k, k))

    @property
    def text(self) -> str:
        return depth_text(call_text(FUNCTION, quote(self.name or self.encoder.name)), self.k)

    @property
    def binding(self) -> int:
        return CALL if self.k is None else PRODUCT

    @property
    def sources(self) -> Mapping[str, object]:
        return {f"{FUNCTION}({self.name or self.encoder.name})": self.vectors.identity}

    def explanation(self, query: Query, docno: str) -> Explanation:
        """For each token of the query the document's token with the largest product."""
        part, row = self._find(docno)
        placed = self.vectors.parts[part]
        begin, end = placed.spans[row].tolist()
        tokens, words = self.encoder.encode_query(query.text)
        if begin == end:
            return Explanation(0.0, "no token of the document has a vector")
        best, products = best_tokens(tokens, placed.codes, placed.bounds, (begin, end))
        doc = self.docs[docno]
        own = self.encoder.document_words(doc if isinstance(doc, str) else doc.full_text)
        parts = tuple(
            Explanation(
                value,
                Phrase("{token}: nearest is {nearest}, number {n}", token=word, nearest=own[at], n=at + 1),
            )
            for word, at, value in zip(words, best.tolist(), products.tolist(), strict=True)
        )
        what = Phrase(
            "MaxSim of {n} query tokens, by {model}", n=len(words), model=self.name or self.encoder.name
        )
        return Explanation(sum(part.value for part in parts), what, parts)

    def _score(self, candidates: Ranking) -> Any:
        """The scores (n,) of the documents of a ranking."""
        scores = np.zeros(len(candidates))
        if not len(candidates):
            return scores
        tokens, _ = self.encoder.encode_query(candidates.query.text)
        check_vectors(tokens, f"query {candidates.query.qid}: token")
        locations = np.array([self._find(docno, candidates.query) for docno in candidates.docnos], np.int64)
        for part in np.unique(locations[:, 0]):
            inside = locations[:, 0] == part
            placed = self.vectors.parts[part]
            spans = placed.spans[locations[inside, 1]]
            scores[inside] = score_tokens(tokens, placed.codes, placed.bounds, spans)
        return scores

    def _find(self, docno: str, query: Query | None = None) -> tuple[int, int]:
        """The part of a document, and its place there; KeyError without a query if there is none."""
        docs: Any = self.docs
        try:
            segment, row = docs.locate(docno)
        except KeyError as error:
            if query is None:
                raise
            raise CollectionError(
                f"query {query.qid}: document {docno!r} is not among the documents"
            ) from error
        try:
            return self.vectors.find(segment, row)
        except KeyError:
            raise IndexFault(
                f"{self.vectors.folder}: document {docno!r} has no vectors of tokens "
                f"({self.vectors.lacking:,} lack them): encode the index again"
            ) from None
