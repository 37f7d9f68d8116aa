"""Documents that are named, as the first stage of feedback: those that a person judged relevant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from telerank.errors import ArgumentError
from telerank.expressions import call_text, quote
from telerank.stage import Stage
from telerank.types import Docs, Explanation, Query, Ranking

GIVEN = "documents"
"""The name of the stage in pipelines."""
FEEDBACK = "rocchio(fb_docs={count}, fb_terms=20)"
"""What searches again with documents that a person judged relevant."""
_JUDGED = re.compile(r"documents\('?([^']*?)'?\) >> .*")
_MOST = 10  # documents that are kept in an address


@dataclass(frozen=True, repr=False)
class GivenDocuments(Stage):
    """The same documents for every query, of equal scores, without those that are not there.

    >>> tr.pipeline("documents('F14 F17') >> rocchio(fb_docs=2)", index).search("prime")
    """

    docnos: tuple[str, ...]
    docs: Docs | None = field(default=None, compare=False, hash=False)
    role = "words"

    def __post_init__(self) -> None:
        if not self.docnos or len({*self.docnos}) < len(self.docnos):
            raise ArgumentError(f"{GIVEN}: expected docnos, each once, got {' '.join(self.docnos)!r:.80}")

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        for ranking in stream:
            docnos = [docno for docno in self.docnos if self.docs is None or docno in self.docs]
            yield Ranking.ranked(ranking.query, docnos, np.ones(len(docnos)))

    def explanation(self, query: Query, docno: str) -> Explanation:  # noqa: ARG002
        if docno not in self.docnos or (self.docs is not None and docno not in self.docs):
            raise KeyError(docno)
        return Explanation(1.0, "given")

    def with_docs(self, docs: Docs) -> GivenDocuments:
        return replace(self, docs=docs) if self.docs is None else self

    @property
    def text(self) -> str:
        return call_text(GIVEN, quote(" ".join(self.docnos)))


def judged_pipeline(docno: str, before: str | None = None) -> str:
    """The pipeline that searches with a judged document, and with those of such a pipeline ``before``."""
    match = _JUDGED.fullmatch(before or "")
    docnos = dict.fromkeys([*(match[1].split() if match else ()), docno])
    given = GivenDocuments(tuple(docnos)[-_MOST:])
    return f"{given.text} >> {FEEDBACK.format(count=len(given.docnos))}"
