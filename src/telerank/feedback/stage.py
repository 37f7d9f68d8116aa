"""What the stages share that search again with the first documents of a ranking."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Self

from telerank.columns.filters import Filter
from telerank.expressions import depth_text
from telerank.feedback.methods import FeedbackMethod
from telerank.stage import CALL, CHAIN, PRODUCT, Stage, Where, check_depth, operand_text
from telerank.types import Explanation, Query, Ranking


@dataclass(frozen=True, repr=False)
class Feedback(Stage):
    """Searches again, with the first ``fb_docs`` documents of the rankings it is given, and keeps ``depth``.

    ``first`` is the stage whose rankings it uses if it is not given them.
    """

    method: FeedbackMethod
    depth: int | None = None
    first: Stage | None = None
    batch: int = field(default=16, compare=False)
    threads: int = field(default=1, compare=False)

    def __post_init__(self) -> None:
        for number in (self.depth, self.batch, self.threads):
            if number is not None:
                check_depth(number)

    @abstractmethod
    def rank_again(self, rankings: list[Ranking]) -> Iterable[Ranking]:
        """The rankings of the second search."""

    @abstractmethod
    def explain_again(self, ranking: Ranking, docno: str) -> Explanation:
        """The score of a document in the second search; raises KeyError if there is no such document."""

    @abstractmethod
    def following(self, first: Stage) -> Feedback:
        """The stage with what it takes from the stage before it: index and model."""

    @property
    def call(self) -> str:
        """The text of the stage without its depth."""
        return repr(self.method)

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        rankings = iter(stream) if self.first is None else self.first(stream)
        while batch := list(islice(rankings, self.batch)):
            yield from self.rank_again(batch)

    def explanation(self, query: Query, docno: str) -> Explanation:
        if self.first is None:
            raise KeyError(docno)
        return self.explain_again(self.first.search(query), docno)

    def filtered(self, chosen: Filter, *, fed: bool = False) -> Stage:
        first = None if self.first is None else self.first.filtered(chosen, fed=fed)
        whole = Where(replace(self, depth=None, first=first), chosen)
        return whole if self.depth is None else whole % self.depth

    def limit(self, k: int) -> Self:
        return replace(self, depth=k if self.depth is None else min(self.depth, k))

    def in_batches(self, batch: int, threads: int = 1) -> Self:
        return replace(self, batch=batch, threads=threads)

    def behind(self, first: Stage) -> Stage:
        """``first >> self``; the first stage retrieves no more than is fed back."""
        return Stage.behind(self.following(first), first.limit(self.method.fb_docs))

    def after(self, first: Stage) -> Feedback:
        whole = first if self.first is None else first >> self.first
        return replace(self.following(whole), first=whole.limit(self.method.fb_docs))

    @property
    def text(self) -> str:
        own = depth_text(self.call, self.depth)
        return own if self.first is None else f"{operand_text(self.first, CHAIN)} >> {own}"

    @property
    def binding(self) -> int:
        return CHAIN if self.first is not None else CALL if self.depth is None else PRODUCT
