"""What stages refuse: operands that are no stages, operators that they lack, streams of other things."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any, NoReturn

from telerank.errors import ArgumentTypeError
from telerank.types import Query, Ranking


def refuse_operand(operator: str, operand: object, *, before: bool = False) -> ArgumentTypeError:
    """The error of an operand that is no stage; it says what to write."""
    if isinstance(operand, str):
        hint = "a text becomes a stage by tr.pipeline(text, index)"
    elif callable(operand):
        name = getattr(operand, "__name__", "f").replace("<lambda>", "f")
        hint = f"a function becomes a stage by tr.scorer({name}), or by tr.retriever({name}) as the first one"
    else:
        hint = "expected a stage, such as index.bm25() or tr.rerank(model, index)"
    both = f"{operand!r:.60} {operator} stage" if before else f"stage {operator} {operand!r:.60}"
    return ArgumentTypeError(f"{both}: {hint}")


def refuse_operator(symbol: str) -> Callable[..., NoReturn]:
    """The method of an operator that stages do not have."""

    def refuse(self: Any, other: object = None) -> NoReturn:  # noqa: ARG001
        hint = "; a difference is a + -1 * b" if symbol == "-" else ""
        raise ArgumentTypeError(
            f"stages are combined by a >> b, a + b, w * a and a % k, not by {symbol}{hint}"
        )

    return refuse


def check_stream(call: Callable[..., Iterator[Ranking]]) -> Callable[..., Iterator[Ranking]]:
    """The ``__call__`` of a stage, which refuses what is no stream of rankings."""

    def ranking_of(value: object) -> Ranking:
        if not isinstance(value, Ranking):
            raise ArgumentTypeError(f"a stage maps rankings, got {value!r:.60}: run() takes queries")
        return value

    @wraps(call)
    def checked(self: Any, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        if isinstance(stream, str | Query | Ranking) or not isinstance(stream, Iterable):
            raise ArgumentTypeError(
                f"a stage maps a stream of rankings, got {stream!r:.60}: stage.search(query) ranks one query"
            )
        return call(self, map(ranking_of, stream))

    return checked
