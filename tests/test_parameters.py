"""Arguments of public functions: a wrong one is one line in the words of whoever calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pytest

from letters import Letters
from telerank.errors import ArgumentTypeError
from telerank.parameters import check_arguments, check_methods
from telerank.stage import Retriever, Stage

if TYPE_CHECKING:
    from telerank.nowhere import Unknown


def function(
    first: str | Path,
    *stages: Stage,
    number: float | None = None,
    count: Annotated[int, "any"] = 1,
    kind: Literal["a", "b"] = "a",
    runs: Sequence[str] | Mapping[str, int] = (),
    call: Callable[[int], int] | None = None,
    flag: bool = False,
    other: Unknown | None = None,
    lines: Iterable[str] = (),
    **settings: Any,
) -> tuple[Any, ...]:
    return first, stages, number, count, kind, runs, call, flag, other, lines, settings


checked = check_arguments(function, "tr.function")


@pytest.mark.parametrize(
    "given",
    [
        {"number": 1, "count": np.int64(3), "flag": np.bool_(True)},
        {"number": np.float32(1.5), "kind": "b", "runs": ["a"], "call": len},
        {"runs": {"a": 1}, "other": object(), "lines": (line for line in "ab"), "more": object()},
        {"number": None, "call": None, "runs": ()},
    ],
)
def test_what_fits_is_passed_on(given):
    assert checked("x", Letters(), **given) == function("x", Letters(), **given)
    assert checked(Path("x")) == function(Path("x"))
    assert checked.__wrapped__ is function


@pytest.mark.parametrize(
    ("args", "given", "says"),
    [
        ((3,), {}, "tr.function: first must be a text or a path, got 3"),
        (
            ("x", "bm25"),
            {},
            "stages must be a stage, got 'bm25': a text becomes a stage by tr.pipeline(text, index)",
        ),
        (("x", [Letters()]), {}, ": give the stages one by one, without a list"),
        (("x", len), {}, ": a function becomes a stage by tr.scorer(f) or tr.retriever(f)"),
        (("x",), {"number": "1"}, "number must be a number, got '1'"),
        (("x",), {"number": True}, "number must be a number, got True"),
        (("x",), {"count": 1.5}, "count must be a whole number, got 1.5"),
        (("x",), {"kind": "c"}, "kind must be 'a' or 'b', got 'c'"),
        (("x",), {"runs": "abc"}, "runs must be a list or a dict, got 'abc'"),
        (("x",), {"lines": "abc"}, "lines must be a list, got 'abc'"),
        (("x",), {"call": 3}, "call must be a function, got 3"),
        (("x",), {"flag": 1}, "flag must be True or False, got 1"),
        ((), {}, "tr.function: missing a required argument: 'first'"),
    ],
)
def test_what_does_not_fit_is_told(args, given, says):
    with pytest.raises(ArgumentTypeError) as caught:
        checked(*args, **given)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@check_methods("box")
class Box:
    def keep(self, name: str) -> str:
        return name

    def first(self, k: int = 3) -> Retriever:
        return Letters(depth=k)

    def _inner(self, name: str) -> str:
        return name


def test_methods_check_their_arguments_and_one_that_makes_a_stage_must_be_called():
    box = Box()
    assert (box.keep("a"), box._inner(3), box.first(2), Box.first.__name__) == (
        "a",
        3,
        Letters(depth=2),
        "first",
    )
    with pytest.raises(ArgumentTypeError, match=r"box\.keep: name must be a text, got 3"):
        box.keep(3)
    for wrong in (
        lambda: box.first % 10,
        lambda: box.first >> Letters(),
        lambda: 2 * box.first,
        lambda: box.first.search("x"),
    ):
        with pytest.raises(
            ArgumentTypeError, match=r"box\.first makes a stage when it is called: write box\.first\(\)"
        ):
            wrong()


def test_an_unknown_name_gets_the_nearest():
    strict = check_arguments(lambda measures="": measures, "tr.strict")
    with pytest.raises(ArgumentTypeError, match=r"no parameter .measure.; did you mean .measures.\?"):
        strict(measure="nDCG@10")
    with pytest.raises(ArgumentTypeError, match=r"no parameter .k.; known: measures"):
        strict(k=3)
    with pytest.raises(ArgumentTypeError, match=r"tr\.strict: too many positional arguments"):
        strict(1, 2)
