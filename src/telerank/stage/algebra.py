"""The algebra of stages: chains, cuts, sums, weights."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from telerank.columns.filters import Filter
from telerank.errors import (
    ArgumentError,
    ArgumentTypeError,
    UnknownDocument,
    refuse_item,
    refuse_operand,
    refuse_operator,
)
from telerank.expressions import number_text
from telerank.parameters import check_methods
from telerank.stage.parts import (
    StagePart,
    change_stages,
    find_docs,
    inner_parts,
    inner_stages,
    map_inner,
    walk_stages,
)
from telerank.types import (
    Docs,
    Explanation,
    Phrase,
    Query,
    Ranking,
    as_query,
    check_query,
    check_stream,
)

if TYPE_CHECKING:
    from telerank.show.notebook import Box

_ON_CANDIDATES = ("rerank", "segments", "groups")  # roles of stages that find no documents themselves
# How tightly the text of a stage binds: ``a >> b``, ``a + b``, ``a * w`` and ``a % k``, ``f(a)``.
CHAIN, SUM, PRODUCT, CALL = range(4)


@check_methods("stage")
class Stage(StagePart):
    """Maps rankings to rankings, one for one, lazily; queries and their order stay.

    A retriever ignores the documents of the rankings that it is given; a re-ranker scores them again.
    Concrete stages are frozen dataclasses and final, so that ``repr``, ``==`` and hashing come with them.
    The laws that every stage obeys are in :mod:`telerank.testing`.
    """

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "__call__" in vars(cls):
            cls.__call__ = check_stream(cls.__call__)  # type: ignore[method-assign]

    @abstractmethod
    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]: ...

    @abstractmethod
    def explanation(self, query: Query, docno: str) -> Explanation:
        """What :meth:`explain` returns, or the KeyError that it raises."""

    def explain(self, query: Query | str, docno: str) -> Explanation:
        """Why the document has the score that this stage gives it for the query.

        Raises
        ------
        KeyError
            If the stage has no score for such a document.
        """
        try:
            return self.explanation(as_query(query), docno)
        except KeyError as error:
            raise UnknownDocument(f"no document {docno!r}: the stage has no score for it") from error

    def limit(self, k: int) -> Stage:
        """The stage with at most ``k`` documents in each ranking; a retriever retrieves no more."""
        return Cut(self, k)

    def behind(self, first: Stage) -> Stage:
        """The stage that ``first >> self`` stands for."""
        return Chain((*_flatten(first, Chain), self))

    def after(self, first: Stage) -> Stage:
        """The stage ``first >> self``; a stage made of stages puts ``first`` before each of them instead.

        So a pipeline can explain a score that depends on a whole ranking: ``first >> minmax(reranker)`` is
        ``minmax(first >> reranker)``.
        """
        return first >> self

    reorders = False
    """Whether its rankings have no other documents than those that it is given."""

    def where(self, filter: str, docs: Docs | None = None) -> Stage:  # noqa: A002
        """The stage within the documents that pass a filter, which first stages search alone: before any cut.

        ``docs`` has their columns, for first stages that are not over an index, such as a run.

        >>> (index.bm25() % 100).where('type == "fiche" and date >= 2024-01-01')

        Raises
        ------
        FilterError
            If the filter cannot be read, or a column is unknown or of another kind.
        """
        stage, known = self.filtered(Filter.parse(filter)), find_docs(self) if docs is None else docs
        return stage if known is None else change_stages(stage, lambda part: part.with_docs(known))

    def filtered(self, chosen: Filter, *, fed: bool = False) -> Stage:
        """What :meth:`where` returns; ``fed`` if the rankings that it is given have no other documents."""
        if inner_stages(self):
            return map_inner(self, lambda part: part.filtered(chosen, fed=fed))
        from telerank.stage.where import Where

        return self if fed and self.reorders else Where(self, chosen)

    def with_docs(self, docs: Docs) -> Stage:  # noqa: ARG002
        """The stage reading the texts of ``docs``, if it reads texts and was given none."""
        return self

    def search(self, query: Query | str) -> Ranking:
        """The ranking of one query."""
        return next(require_first(self)([Ranking(as_query(query))]))

    def run(self, queries: Iterable[Query]) -> Iterator[Ranking]:
        """The rankings of queries, lazily, in their order."""
        if isinstance(queries, str | Query | Mapping):
            hint = "tr.search(index, queries, stage) takes other shapes"
            raise ArgumentTypeError(f"expected a list of tr.Query, got {queries!r:.60}: {hint}")
        return self(Ranking(check_query(query)) for query in queries)

    def in_batches(self, batch: int, threads: int = 1) -> Stage:  # noqa: ARG002
        """The stage answering ``batch`` queries at a time with ``threads``, if it can: rankings are equal."""
        return self

    @property
    def text(self) -> str:
        """The text of the stage in a pipeline; in angle brackets if it cannot be read back."""
        # a stage that is no dataclass breaks a law
        values = (f"{name}={getattr(self, name)!r}" for name in getattr(self, "__dataclass_fields__", ()))
        return f"<{type(self).__qualname__}({', '.join(values)})>"

    @property
    def binding(self) -> int:
        """How tightly :attr:`text` binds."""
        return CALL

    @property
    def role(self) -> str:
        """What it does: ``words``, ``dense``, ``rerank``, ``segments``, ``fused``, ``groups``, ``other``."""
        return "other"

    @property
    def sources(self) -> Mapping[str, object]:
        """The index, vectors, model or file that this stage reads, by name, as the record of a run has it.

        Stages that it is made of have their own.
        """
        return {}

    @property
    def remarks(self) -> Sequence[str]:
        """Notes on what this stage has done so far, such as texts that it cut.

        Stages that it is made of have their own.
        """
        return ()

    @property
    def all_remarks(self) -> list[str]:
        """The remarks of this stage and of those that it is made of, each once."""
        return list(dict.fromkeys(remark for part in walk_stages(self) for remark in part.remarks))

    def __repr__(self) -> str:
        return self.text

    @property
    def box(self) -> Box:
        """The stage in a diagram, with the stages that it is made of, whose texts are left out of its own."""
        from telerank.show.notebook import Box

        label, inner = self.text, list(inner_parts(self))
        for part in inner:
            label = label.replace(part.text, "…", 1)
        return Box(label, tuple(part.box for part in inner), is_chain=isinstance(self, Chain))

    def _repr_html_(self) -> str:
        from telerank.show.notebook import render_diagram

        return render_diagram(self.box)

    def __rshift__(self, other: Stage) -> Stage:
        if not isinstance(other, Stage):
            if callable(other) and hasattr(other, "__rrshift__"):
                return NotImplemented  # what reads answers ends a pipeline, and says so
            raise refuse_operand(">>", other)
        if (docs := find_docs(self)) is not None:
            other = change_stages(other, lambda part: part.with_docs(docs))
        return other.behind(self)

    def __mod__(self, k: int) -> Stage:
        return self.limit(check_depth(k))

    def __radd__(self, other: object) -> Stage:
        if isinstance(other, int) and not isinstance(other, bool) and other == 0:  # where sum() begins
            return self
        raise refuse_operand("+", other, before=True)

    def __rrshift__(self, other: object) -> NoReturn:
        raise refuse_operand(">>", other, before=True)

    __sub__ = __rsub__ = __neg__ = refuse_operator("-")
    __truediv__ = __rtruediv__ = refuse_operator("/")
    __matmul__ = refuse_operator("@")
    __pow__ = refuse_operator("**")
    __and__ = refuse_operator("&")
    __or__ = refuse_operator("|")
    __getitem__ = refuse_item

    def __add__(self, other: Stage) -> Stage:
        if not isinstance(other, Stage):
            if callable(other) and hasattr(other, "__radd__"):
                return NotImplemented
            raise refuse_operand("+", other)
        return Sum((*_flatten(self, Sum), *_flatten(other, Sum)))

    def __mul__(self, weight: float) -> Stage:
        if isinstance(weight, bool) or not isinstance(weight, Real):
            raise ArgumentTypeError(f"a stage is multiplied by a number, got {weight!r:.80}")
        return Weighted(self, float(weight))

    __rmul__ = __mul__


@dataclass(frozen=True, repr=False)
class Chain(Stage):
    """``a >> b >> c``."""

    stages: tuple[Stage, ...]
    binding = CHAIN

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        for stage in self.stages:
            stream = stage(stream)
        return iter(stream)

    def limit(self, k: int) -> Stage:
        return Chain((*self.stages[:-1], self.stages[-1].limit(k)))

    def filtered(self, chosen: Filter, *, fed: bool = False) -> Stage:
        first, *others = self.stages
        return Chain((first.filtered(chosen, fed=fed), *(each.filtered(chosen, fed=True) for each in others)))

    def behind(self, first: Stage) -> Stage:
        return reduce(lambda before, stage: stage.behind(before), self.stages, first)

    def explanation(self, query: Query, docno: str) -> Explanation:
        *before, last = self.stages
        whole = last.after(Chain(tuple(before)))
        # a stage that scores documents one by one explains a score without running what feeds it
        return (last if isinstance(whole, Chain) else whole).explanation(query, docno)

    @property
    def role(self) -> str:
        return self.stages[-1].role

    @property
    def text(self) -> str:
        return " >> ".join(operand_text(stage, SUM) for stage in self.stages)


@dataclass(frozen=True, repr=False)
class Cut(Stage):
    """``a % k`` of a stage that cannot itself retrieve less."""

    stage: Stage
    k: int
    binding = PRODUCT

    def __post_init__(self) -> None:
        check_depth(self.k)

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return (ranking.cut(self.k) for ranking in self.stage(stream))

    def limit(self, k: int) -> Stage:
        return Cut(self.stage, min(self.k, k))

    def after(self, first: Stage) -> Stage:
        return Cut(self.stage.after(first), self.k)

    def explanation(self, query: Query, docno: str) -> Explanation:
        return self.stage.explanation(query, docno)

    @property
    def role(self) -> str:
        return self.stage.role

    @property
    def text(self) -> str:
        return f"{operand_text(self.stage, PRODUCT)} % {self.k}"


@dataclass(frozen=True, repr=False)
class Weighted(Stage):
    """``w * a``; a negative weight reverses the ranking."""

    stage: Stage
    weight: float
    binding = PRODUCT
    role = "fused"

    def __post_init__(self) -> None:
        if not math.isfinite(self.weight):
            raise ArgumentError(f"a weight must be a finite number, got {self.weight!r}")

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        for ranking in self.stage(stream):
            with np.errstate(over="ignore"):  # a score that is too large becomes infinite: Ranking refuses it
                scores = ranking.scores * self.weight
            yield Ranking.ranked(ranking.query, ranking.docnos, scores)

    def after(self, first: Stage) -> Stage:
        return Weighted(self.stage.after(first), self.weight)

    def explanation(self, query: Query, docno: str) -> Explanation:
        part = self.stage.explanation(query, docno)
        return Explanation(self.weight * part.value, Phrase("{weight} times", weight=self.weight), (part,))

    @property
    def text(self) -> str:
        return f"{number_text(self.weight)} * {operand_text(self.stage, CALL)}"


@dataclass(frozen=True, repr=False)
class Sum(Stage):
    """``a + b + c``: the stages read the same stream; a document that a ranking lacks has 0 there."""

    stages: tuple[Stage, ...]
    binding = SUM
    role = "fused"

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        copies = zip(self.stages, itertools.tee(stream, len(self.stages)), strict=True)
        return map(_add, zip(*[stage(copy) for stage, copy in copies], strict=True))

    def after(self, first: Stage) -> Stage:
        return Sum(tuple(stage.after(first) for stage in self.stages))

    def explanation(self, query: Query, docno: str) -> Explanation:
        parts = [_explain_part(stage, query, docno) for stage in self.stages]
        if not any(parts):
            raise KeyError(docno)
        known = tuple(part or Explanation(0.0, "an unknown document there") for part in parts)
        return Explanation(sum(part.value for part in known), "sum of", known)

    @property
    def text(self) -> str:
        return " + ".join(operand_text(stage, PRODUCT) for stage in self.stages)


def require_first(stage: Stage) -> Stage:
    """The stage; raises ArgumentError if it only ranks anew what no stage before it finds."""
    first = stage.stages[0] if isinstance(stage, Chain) else stage
    own = inner_stages(first).get("first")  # what the stage's other ones are behind
    parts = [require_first(part) for part in ([own] if isinstance(own, Stage) else inner_parts(first))]
    if not parts and first.role in _ON_CANDIDATES:
        raise ArgumentError(f"{first.text} needs a first stage: index.bm25() % 100 >> {first.text}")
    return stage


def operand_text(stage: Stage, binding: int) -> str:
    """The text of a stage as an operand: in parentheses if it binds less tightly than ``binding``."""
    return stage.text if stage.binding >= binding else f"({stage.text})"


def check_depth(k: int) -> int:
    """``k`` as an int; raises ValueError if it is not a whole number of at least 1."""
    if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
        raise ArgumentError(f"a cut must be a whole number of at least 1, got {k!r:.80}")
    return int(k)


def _flatten(stage: Stage, kind: type[Chain | Sum]) -> tuple[Stage, ...]:
    return stage.stages if isinstance(stage, kind) else (stage,)


def _explain_part(stage: Stage, query: Query, docno: str) -> Explanation | None:
    """The part of a sum that comes from one stage; None if the stage knows no such document."""
    try:
        part = stage.explain(query, docno)
    except KeyError:
        return None
    # a retriever ignores the document that it is given here, a re-ranker scores it
    docnos = next(stage([Ranking(query, (docno,), np.zeros(1))])).docnos
    return (
        part
        if docno in docnos
        else Explanation(0.0, Phrase("not among the {n} retrieved there", n=len(docnos)), (part,))
    )


def _add(rankings: tuple[Ranking, ...]) -> Ranking:
    query = rankings[0].query
    totals: dict[str, float] = {}
    for ranking in rankings:
        if ranking.query != query:
            raise ArgumentError(f"stages of a sum disagree: query {ranking.query.qid!r} beside {query.qid!r}")
        for docno, score in ranking:
            totals[docno] = totals.get(docno, 0.0) + score
    return Ranking.ranked(query, tuple(totals), list(totals.values()))
