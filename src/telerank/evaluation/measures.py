"""Measures by the names of ir_measures, with the values of trec_eval.

ir_measures is given numbers that fall with the rank instead of scores, so that ties are broken as in
:class:`~telerank.types.Ranking`: the programs under ir_measures break them in different ways.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.errors import MeasureError
from telerank.types import Progress, Qrels, Ranking, silent

Values: TypeAlias = npt.NDArray[np.float64]

_BATCH = 512  # queries per call of ir_measures: the run need not fit in memory


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The values of one run for each query.

    ``qids`` are all queries of the qrels in their order; ``values[measure]`` has shape (queries,).
    ``missing`` are the queries without a document in the run: their value is 0. ``unanswerable`` are
    the queries without a relevant document in the qrels: their value is 0, and they count in the
    mean, as in ``trec_eval -c``. ``unjudged`` are queries of the run that are not in the qrels: they
    do not count.
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

    def select(self, qids: Iterable[str]) -> Evaluation:
        """The evaluation of some of the queries, in the given order."""
        kept = dict.fromkeys(qids)
        column = {qid: i for i, qid in enumerate(self.qids)}
        columns = [column[qid] for qid in kept]
        return Evaluation(
            tuple(kept),
            {name: values[columns] for name, values in self.values.items()},
            tuple(qid for qid in self.missing if qid in kept),
            tuple(qid for qid in self.unanswerable if qid in kept),
            self.unjudged,
        )


def measure(
    rankings: Iterable[Ranking], qrels: Qrels, measures: Sequence[str] | str, *, progress: Progress = silent
) -> Evaluation:
    """Compute each measure for each query of the qrels.

    ``measures`` are names as ir_measures writes them (``nDCG@10``, ``AP(rel=2)``), or a string of
    several (see :func:`parse_measures`).

    Raises MeasureError if a name is not the name of a measure, or the measure has no value on these qrels;
    ValueError if the qrels are empty, or a query occurs twice in the run.
    """
    if not qrels:
        raise ValueError("the qrels are empty")
    names = parse_measures(measures)
    column = {qid: i for i, qid in enumerate(qrels)}
    table = np.zeros((len(names), len(qrels)))
    answered: set[str] = set()
    unjudged: list[str] = []
    stream = iter(rankings)
    while batch := list(itertools.islice(stream, _BATCH)):
        run = _number_by_rank(batch, answered, column, unjudged)
        _fill(table, names, column, {qid: qrels[qid] for qid in run}, run)
        progress("measuring", len(answered), len(qrels))
    missing = tuple(qid for qid in qrels if qid not in answered)
    _fill(table, names, column, {qid: qrels[qid] for qid in missing}, {})
    table.flags.writeable = False
    return Evaluation(
        tuple(qrels),
        dict(zip(names, table, strict=True)),
        missing,
        tuple(qid for qid, grades in qrels.items() if all(grade < 1 for grade in grades.values())),
        tuple(unjudged),
    )


def parse_measures(text: str | Sequence[str]) -> tuple[str, ...]:
    """Parse names of measures separated by spaces or commas; return them as ir_measures writes them.

    ``MRR@10, AP(rel = 2) RR@10`` is ``("RR@10", "AP(rel=2)")``: a name that occurs twice is returned once.
    Raises MeasureError if there is no name, one is not the name of a measure, or a cutoff is missing.
    """
    pieces = _split_names(text if isinstance(text, str) else " ".join(text))
    if not pieces:
        raise MeasureError("no measure is given")
    return tuple(dict.fromkeys(repr(_parse(piece)) for piece in pieces))


def expand_measures(measures: Sequence[str] | str, depths: Sequence[int]) -> dict[str, tuple[str, ...]]:
    """Name each measure at each depth: ``expand_measures("R", [1, 5])`` is ``{"R": ("R@1", "R@5")}``.

    Raises MeasureError for a name with a cutoff, or of a measure that takes none, ValueError without depths.
    """
    if not depths:
        raise ValueError("no depth is given")
    text = measures if isinstance(measures, str) else " ".join(measures)
    if "@" in text:
        raise MeasureError(f"measures by depth take no cutoff: expected names such as R or AP, got {text!r}")
    expanded = {}
    for name in _split_names(text):
        cut = tuple(parse_measures(f"{name}@{depth}")[0] for depth in depths)
        expanded[cut[0].removesuffix(f"@{depths[0]}")] = cut
    if not expanded:
        raise MeasureError("no measure is given")
    return expanded


def find_cutoff(name: str) -> int | None:
    """The cutoff of a measure by its name (``10`` of ``RR@10``); None if it has none."""
    cutoff = re.search(r"@(\d+)$", name)
    return int(cutoff[1]) if cutoff else None


def _split_names(text: str) -> list[str]:
    """Split ``text`` at spaces and commas outside brackets, without checking the names."""
    depth, pieces = 0, [""]
    for char in text:
        depth += (char in "({[") - (char in ")}]")
        if depth == 0 and (char.isspace() or char == ","):
            pieces.append("")
        else:
            pieces[-1] += char
    return [piece for piece in pieces if piece]


def _parse(name: str) -> Any:
    """The measure of ir_measures with this name; its own parser needs what Python has removed."""
    import ir_measures

    message = f"{name!r} is not a measure: expected a name such as nDCG@10 or AP(rel=2)"
    try:
        node = ast.parse(name, mode="eval").body
        settings: dict[str, Any] = {}
        cutoff = None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            cutoff, node = ast.literal_eval(node.right), node.left
        if isinstance(node, ast.Call) and not node.args:
            settings = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords}
            node = node.func
    except (SyntaxError, ValueError) as error:
        raise MeasureError(message) from error
    if not isinstance(node, ast.Name):
        raise MeasureError(message)
    known = ir_measures.measures.registry
    if node.id not in known:
        raise MeasureError(
            f"there is no measure {node.id!r}; known: {', '.join(sorted(known, key=str.lower))}"
        )
    family = known[node.id]
    if cutoff is not None:
        settings[family.AT_PARAM] = cutoff
    return _make_measure(name, family, settings)


def _make_measure(name: str, family: Any, settings: dict[str, Any]) -> Any:
    import ir_measures

    allowed = family.SUPPORTED_PARAMS
    for key, value in settings.items():
        too_small = key in ("cutoff", "rel") and isinstance(value, int) and value < 1
        if key not in allowed or not allowed[key].validate(value) or too_small:
            raise MeasureError(
                f"{name!r}: {family.NAME} does not take {key}={value!r}; it takes: {', '.join(allowed)}"
            )
    missing = [key for key, info in allowed.items() if info.required and key not in settings]
    if missing:
        hint = f", as in {family.NAME}@10" if family.AT_PARAM in missing else ""
        raise MeasureError(f"{name!r}: {family.NAME} needs a {' and a '.join(missing)}{hint}")
    measure = family(**settings)
    if not ir_measures.DefaultPipeline.supports(measure):
        raise MeasureError(f"{name!r}: no installed program computes this measure")
    return measure


def _number_by_rank(
    batch: list[Ranking], answered: set[str], judged: Mapping[str, int], unjudged: list[str]
) -> dict[str, dict[str, float]]:
    """``run[qid][docno]``: a number that falls with the rank; queries without documents are omitted."""
    deepest = max(map(len, batch), default=0)
    falling = np.arange(deepest, 0, -1, dtype=np.float64).tolist()
    run: dict[str, dict[str, float]] = {}
    for ranking in batch:
        qid = ranking.query.qid
        if qid in run or qid in answered:
            raise ValueError(f"query {qid} occurs twice in the run")
        if qid not in judged:
            unjudged.append(qid)
        elif ranking.docnos:
            run[qid] = dict(zip(ranking.docnos, falling, strict=False))
    answered.update(run)
    return run


def _fill(
    table: Values,
    names: tuple[str, ...],
    column: Mapping[str, int],
    qrels: Mapping[str, Mapping[str, int]],
    run: dict[str, dict[str, float]],
) -> None:
    """Write the values of these queries to their columns of ``table`` (measures, queries)."""
    import ir_measures

    if not qrels:
        return
    measures = [_parse(name) for name in names]
    row = {measure: i for i, measure in enumerate(measures)}
    plain = {qid: dict(grades) for qid, grades in qrels.items()}
    try:
        for metric in ir_measures.evaluator(measures, plain).iter_calc(run):
            table[row[metric.measure], column[metric.query_id]] = metric.value
    except ArithmeticError as error:  # Accuracy if every document is relevant
        raise MeasureError(f"one of {', '.join(names)} has no value on these qrels ({error})") from error
