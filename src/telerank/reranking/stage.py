"""The stage that scores the documents of rankings anew."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from telerank.errors import CollectionError
from telerank.expressions import call_text, quote
from telerank.models.rerankers.reranker import Reranker
from telerank.reranking.explain import explained
from telerank.reranking.scorer import Scorer
from telerank.reranking.texts import TextPair
from telerank.stage import CALL, PRODUCT, Stage, check_depth, depth_text
from telerank.types import Doc, Explanation, Query, Ranking


class Docs(Protocol):
    """The documents by docno: ``index.docs``, a docstore. To be part of a value it is one itself."""

    def __getitem__(self, docno: str) -> Doc: ...

    def __contains__(self, docno: str) -> bool: ...


@dataclass(frozen=True, repr=False)
class CrossReranker(Stage):
    """Scores each document, title and text, by the logit of ``model`` for it and the query; ``k`` are kept.

    ``model`` is a re-ranker, its name or folder, or a :class:`~telerank.reranking.scorer.Scorer`, which says
    how it is computed, too. The stage looks ahead over queries to fill its batches. ``name`` stands for the
    model in the text of a pipeline over an index; without it the text cannot be read back.

    Raises
    ------
    ValueError
        where k is not a whole number of at least 1.
    CollectionError
        when a ranking comes that names a document which ``docs`` lacks.
    ModelError, MissingExtra
        as the scorer.
    """

    model: Scorer | Reranker | str | Path
    docs: Docs
    k: int | None = None
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if self.k is not None:
            check_depth(self.k)
        if not isinstance(self.model, Scorer):
            object.__setattr__(self, "model", Scorer(self.model))

    @property
    def scorer(self) -> Scorer:
        return self.model if isinstance(self.model, Scorer) else Scorer(self.model)

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        read: deque[Ranking] = deque()

        def groups() -> Iterator[Iterator[TextPair]]:
            for ranking in stream:
                read.append(ranking)
                yield self._texts(ranking)

        for scores in self.scorer.stream(groups()):
            asked = read.popleft()
            found = Ranking.ranked(asked.query, asked.docnos, scores)
            yield found if self.k is None else found.cut(self.k)

    def limit(self, k: int) -> CrossReranker:
        return replace(self, k=k if self.k is None else min(self.k, k))

    @property
    def text(self) -> str:
        call = call_text("rerank", quote(self.name or self.scorer.name), **self.scorer.changed)
        readable = self.name and not self.scorer.samples
        return depth_text(call if readable else f"<{call}>", self.k)

    @property
    def binding(self) -> int:
        return CALL if self.k is None else PRODUCT

    def explanation(self, query: Query, docno: str) -> Explanation:
        """The score, what each sentence adds to it, and what the model shows of itself."""
        return explained(self.scorer, query.text, self.docs[docno].full_text)

    def _texts(self, ranking: Ranking) -> Iterator[TextPair]:
        for docno in ranking.docnos:
            try:
                yield ranking.query.text, self.docs[docno].full_text
            except KeyError as error:
                lacking = sum(one not in self.docs for one in ranking.docnos)
                many = f" ({lacking} of its {len(ranking)} candidates are not)" if lacking > 1 else ""
                raise CollectionError(
                    f"query {ranking.query.qid}: document {docno!r} is not among the documents{many}"
                ) from error
