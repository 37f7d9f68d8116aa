"""Measures by the names of ir_measures, with the values of trec_eval.

The documents' scores go to ir_measures as their ranks, so that the order is Ranking's own wherever
scores tie: of the programs under ir_measures some break ties upward and some downward.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.errors import MeasureError
from telerank.types import Progress, Qrels, Ranking, silent

Values: TypeAlias = npt.NDArray[np.float64]

_BATCH = 512  # queries handed over at once: the run need not fit in memory


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The values of one run, query by query.

    ``qids`` are all queries of the qrels, in their order, and ``values[measure]`` has one value for
    each. ``missing`` are those that the run has no document for; they have the value of an empty
    list, which is 0. ``unanswerable`` are those that the qrels hold no relevant document for; they
    have 0, too, and count in the mean, as in ``trec_eval -c``. ``unjudged`` are queries of the run
    that the qrels lack: they count nowhere.
    """

    qids: tuple[str, ...]
    values: Mapping[str, Values]
    missing: tuple[str, ...] = ()
    unanswerable: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()

    @property
    def measures(self) -> tuple[str, ...]:
        return tuple(self.values)

    @property
    def mean(self) -> dict[str, float]:
        """The mean over all queries of the qrels, by measure."""
        return {name: float(values.mean()) for name, values in self.values.items()}

    def of(self, measure: str) -> dict[str, float]:
        """The values of one measure by qid."""
        return dict(zip(self.qids, self.values[measure].tolist(), strict=True))

    def only(self, qids: Iterable[str]) -> Evaluation:
        """The same values for some of the queries, in the order given."""
        wanted = tuple(qids)
        place = {qid: i for i, qid in enumerate(self.qids)}
        rows = [place[qid] for qid in wanted]
        chosen = set(wanted)
        return Evaluation(
            wanted,
            {name: values[rows] for name, values in self.values.items()},
            tuple(qid for qid in self.missing if qid in chosen),
            tuple(qid for qid in self.unanswerable if qid in chosen),
            self.unjudged,
        )


def measure(
    rankings: Iterable[Ranking], qrels: Qrels, measures: Sequence[str] | str, *, progress: Progress = silent
) -> Evaluation:
    """Each measure's value for each query of the qrels.

    ``measures`` are names as ir_measures writes them (``nDCG@10``, ``AP(rel=2)``), or one string of
    them (see :func:`parse_measures`).

    Raises
    ------
    MeasureError
        where a name is not a measure's, or the measure has no value on these qrels.
    ValueError
        where the qrels hold no query, or a query comes twice in the run.
    """
    if not qrels:
        raise ValueError("the qrels hold no query")
    names = parse_measures(measures)
    place = {qid: i for i, qid in enumerate(qrels)}
    table = np.zeros((len(names), len(qrels)))
    answered: set[str] = set()
    unjudged: list[str] = []
    for batch in _batches(rankings):
        run = _ranks(batch, answered, place, unjudged)
        _fill(table, names, place, {qid: qrels[qid] for qid in run}, run)
        progress("measuring", len(answered), len(qrels))
    missing = tuple(qid for qid in qrels if qid not in answered)
    _fill(table, names, place, {qid: qrels[qid] for qid in missing}, {})
    table.flags.writeable = False
    return Evaluation(
        tuple(qrels),
        dict(zip(names, table, strict=True)),
        missing,
        tuple(qid for qid, grades in qrels.items() if all(grade < 1 for grade in grades.values())),
        tuple(unjudged),
    )


def parse_measures(text: str | Sequence[str]) -> tuple[str, ...]:
    """The names in ``text``, with blanks or commas between, as ir_measures writes them, each once.

    >>> parse_measures("MRR@10, AP(rel = 2) nDCG@10 RR@10")
    ('RR@10', 'AP(rel=2)', 'nDCG@10')

    Raises
    ------
    MeasureError
        where there is no name, or a name is not a measure's or lacks a cutoff.
    """
    pieces = split_names(text if isinstance(text, str) else " ".join(text))
    if not pieces:
        raise MeasureError("no measure is named")
    return tuple(dict.fromkeys(repr(_parsed(piece)) for piece in pieces))


def split_names(text: str) -> list[str]:
    """``text``, cut at blanks and commas that stand outside of brackets; the names are not looked at."""
    depth, pieces = 0, [""]
    for char in text:
        depth += (char in "({[") - (char in ")}]")
        if depth == 0 and (char.isspace() or char == ","):
            pieces.append("")
        else:
            pieces[-1] += char
    return [piece for piece in pieces if piece]


def _parsed(name: str) -> Any:
    """The measure of ir_measures with this name (whose own parser uses what Python has dropped)."""
    import ir_measures

    form = f"{name!r} is not a measure: expected a name such as nDCG@10 or AP(rel=2)"
    try:
        node = ast.parse(name, mode="eval").body
        settings: dict[str, Any] = {}
        cutoff = None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            cutoff, node = ast.literal_eval(node.right), node.left
        if isinstance(node, ast.Call) and not node.args:
            settings = {str(one.arg): ast.literal_eval(one.value) for one in node.keywords}
            node = node.func
    except (SyntaxError, ValueError) as error:
        raise MeasureError(form) from error
    if not isinstance(node, ast.Name):
        raise MeasureError(form)
    known = ir_measures.measures.registry
    if node.id not in known:
        raise MeasureError(
            f"no measure is called {node.id!r}; known: {', '.join(sorted(known, key=str.lower))}"
        )
    family = known[node.id]
    if cutoff is not None:
        settings[family.AT_PARAM] = cutoff
    return _checked(name, family, settings)


def _checked(name: str, family: Any, settings: dict[str, Any]) -> Any:
    import ir_measures

    allowed = family.SUPPORTED_PARAMS
    for key, value in settings.items():
        too_small = key in ("cutoff", "rel") and isinstance(value, int) and value < 1
        if key not in allowed or not allowed[key].validate(value) or too_small:
            raise MeasureError(
                f"{name!r}: {family.NAME} does not take {key}={value!r}; it takes: {', '.join(allowed)}"
            )
    lacking = [key for key, info in allowed.items() if info.required and key not in settings]
    if lacking:
        hint = f", as in {family.NAME}@10" if family.AT_PARAM in lacking else ""
        raise MeasureError(f"{name!r}: {family.NAME} needs a {' and a '.join(lacking)}{hint}")
    parsed = family(**settings)
    if not ir_measures.DefaultPipeline.supports(parsed):
        raise MeasureError(f"{name!r}: no installed program computes this measure")
    return parsed


def _batches(rankings: Iterable[Ranking]) -> Iterator[list[Ranking]]:
    stream = iter(rankings)
    while batch := list(itertools.islice(stream, _BATCH)):
        yield batch


def _ranks(
    batch: list[Ranking], answered: set[str], judged: Mapping[str, int], unjudged: list[str]
) -> dict[str, dict[str, float]]:
    """``run[qid][docno]``: a number that falls with the rank; queries without documents are left out."""
    deepest = max(map(len, batch), default=0)
    falling = np.arange(deepest, 0, -1, dtype=np.float64).tolist()
    run: dict[str, dict[str, float]] = {}
    for ranking in batch:
        qid = ranking.query.qid
        if qid in run or qid in answered:
            raise ValueError(f"query {qid} comes twice in the run")
        if qid not in judged:
            unjudged.append(qid)
        elif ranking.docnos:
            run[qid] = dict(zip(ranking.docnos, falling, strict=False))
    answered.update(run)
    return run


def _fill(
    table: Values,
    names: tuple[str, ...],
    place: Mapping[str, int],
    qrels: Mapping[str, Mapping[str, int]],
    run: dict[str, dict[str, float]],
) -> None:
    """Enter the values of these queries in their columns."""
    import ir_measures

    if not qrels:
        return
    measures = [_parsed(name) for name in names]
    row = {one: i for i, one in enumerate(measures)}
    plain = {qid: dict(grades) for qid, grades in qrels.items()}
    try:
        for metric in ir_measures.evaluator(measures, plain).iter_calc(run):
            table[row[metric.measure], place[metric.query_id]] = metric.value
    except ArithmeticError as error:  # Accuracy where no document is irrelevant
        raise MeasureError(f"one of {', '.join(names)} has no value on these qrels ({error})") from error
