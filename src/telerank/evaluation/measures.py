"""Measures by the names of ir_measures or of trec_eval, with the values of trec_eval.

The programs that compute them are given numbers that fall with the rank instead of scores, so that ties are
broken as in :class:`~telerank.types.Ranking`: the programs under ir_measures break them in different ways.
"""

from __future__ import annotations

import ast
import itertools
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from subprocess import CalledProcessError
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.errors import ArgumentError, ByName, MeasureError, known_names, shorten
from telerank.evaluation.answers.overlap import ANSWER_MEASURES
from telerank.evaluation.matching import RelevantDocuments, rank_files
from telerank.evaluation.own_measures import OwnMeasure, adopt, own_values, parse_own_name
from telerank.evaluation.trec_eval import (
    HIGHEST_CUTOFF,
    NUMBER,
    SYNONYMS,
    TrecMeasure,
    parse_trec_name,
    trec_values,
)
from telerank.types import HIGHEST_GRADE, LEAST_GRADE, Progress, Qrels, Ranking, silent

if TYPE_CHECKING:
    from ir_measures import Measure

Values: TypeAlias = npt.NDArray[np.float64]
# Names of measures, separated by blanks, or measures of ir_measures; one or several.
MeasureNames: TypeAlias = "str | Measure | Sequence[str | Measure]"

# What computes the measures of each kind; ir_measures computes all others.
_PROGRAMS: Mapping[type, Callable[..., Iterator[tuple[Any, str, float]]]] = {
    TrecMeasure: trec_values,
    OwnMeasure: own_values,
}
_CUTOFF = re.compile(NUMBER + r"(?=[\s,(]|$)")
_LONGEST_NAME = 1000  # characters: far more than a name has, and few for the parsers of names
_BATCH = 512  # queries per call of ir_measures: the run need not fit in memory


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The values of one run for each query.

    ``qids`` are all queries of the qrels in their order; ``values[measure]`` has shape (queries,).
    ``missing`` are the queries without a document in the run: their value is that of ``trec_eval -c``, 0 but
    for their ``NumRel``. ``unanswerable`` are the queries without a relevant document in the qrels: their
    value is 0, and they count in the mean, as in ``trec_eval -c``. ``unjudged`` are queries of the run that
    are not in the qrels: they do not count. ``relevant`` counts the relevant documents of the answered
    queries, if it is known.
    """

    qids: tuple[str, ...]
    values: Mapping[str, Values]
    missing: tuple[str, ...] = ()
    unanswerable: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()
    relevant: RelevantDocuments = field(default_factory=RelevantDocuments)

    @property
    def measures(self) -> tuple[str, ...]:
        return tuple(self.values)

    @property
    def mean(self) -> dict[str, float]:
        """The aggregate over all queries of the qrels, by measure: see :func:`aggregate`."""
        return {name: float(aggregate(name, values)) for name, values in self.values.items()}

    def of(self, measure: str) -> dict[str, float]:
        """The values of one measure by qid."""
        values = ByName("measure", self.values)[measure]
        return dict(zip(self.qids, values.tolist(), strict=True))

    def by_query(self) -> dict[str, dict[str, float]]:
        """The values by qid and measure."""
        rows = zip(*(values.tolist() for values in self.values.values()), strict=True)
        return {
            qid: dict(zip(self.values, row, strict=True)) for qid, row in zip(self.qids, rows, strict=True)
        }

    def select(self, qids: Iterable[str]) -> Evaluation:
        """The evaluation of some of the queries, in the given order."""
        kept = dict.fromkeys(qids)
        column = ByName("query", {qid: i for i, qid in enumerate(self.qids)})
        columns = [column[qid] for qid in kept]
        return Evaluation(
            tuple(kept),
            {name: values[columns] for name, values in self.values.items()},
            tuple(qid for qid in self.missing if qid in kept),
            tuple(qid for qid in self.unanswerable if qid in kept),
            self.unjudged,
        )

    def beside(self, other: Evaluation) -> Evaluation:
        """The evaluation with the measures of another one of the same queries, in any order."""
        return replace(self, values={**self.values, **other.select(self.qids).values})


def average_evaluations(evaluations: Sequence[Evaluation]) -> Evaluation:
    """The mean of evaluations of the same queries, query by query: those of several seeds."""
    first = evaluations[0]
    return replace(
        first,
        values={
            name: np.mean([each.values[name] for each in evaluations], axis=0) for name in first.measures
        },
    )


def measure(
    rankings: Iterable[Ranking], qrels: Qrels, measures: MeasureNames, *, progress: Progress = silent
) -> Evaluation:
    """Compute each measure for each query of the qrels.

    ``measures`` are names as ir_measures (``nDCG@10``, ``AP(rel=2)``) or trec_eval (``map``) writes them,
    or a string of several (see :func:`parse_measures`). If files are judged, a file counts once, at its best
    passage (see :func:`~telerank.evaluation.matching.rank_files`).

    Raises MeasureError if a name is not the name of a measure, or the measure has no value on these qrels;
    ValueError if the qrels are empty, a grade is beyond the limits, or a query occurs twice in the run.
    """
    if not qrels:
        raise ArgumentError("the qrels are empty")
    names = parse_measures(measures)
    column = {qid: i for i, qid in enumerate(qrels)}
    table = np.zeros((len(names), len(qrels)))
    answered: set[str] = set()
    unjudged: list[str] = []
    relevant = RelevantDocuments()
    stream = iter(rankings)
    while batch := list(itertools.islice(stream, _BATCH)):
        of_files = [rank_files(ranking, qrels.get(ranking.query.qid, {})) for ranking in batch]
        run = _number_by_rank(of_files, answered, column, unjudged)
        _fill(table, names, column, {qid: qrels[qid] for qid in run}, run)
        for ranking, files in zip(batch, of_files, strict=True):
            if (qid := ranking.query.qid) in run:
                relevant += RelevantDocuments.count(qrels[qid], ranking, files)
        progress("measuring", len(answered), len(qrels))
    missing = tuple(qid for qid in qrels if qid not in answered)
    for i, parsed in enumerate(_parse(name)[0] for name in names):
        if isinstance(parsed, TrecMeasure | OwnMeasure):
            for qid in missing:
                table[i, column[qid]] = parsed.value_without_results(qrels[qid])
    table.flags.writeable = False
    return Evaluation(
        tuple(qrels),
        dict(zip(names, table, strict=True)),
        missing,
        tuple(qid for qid, grades in qrels.items() if all(grade < 1 for grade in grades.values())),
        tuple(unjudged),
        relevant,
    )


def parse_measures(measures: MeasureNames, level: int = 1) -> tuple[str, ...]:
    """Parse names of measures separated by spaces or commas; return them as their program writes them.

    ``MRR@10, AP(rel = 2) RR@10`` is ``("RR@10", "AP(rel=2)")``: a name that occurs twice is returned once.
    Names of trec_eval stay (``map``), and ``official``, ``set`` and ``all_trec`` are those of their measures.
    ``IPrec(trec_eval=10)@0.1`` and ``11pt_avg(trec_eval=10)`` round recall levels as trec_eval 10, not 9.
    Grades from ``level`` up are relevant for measures that take a level and do not name one.

    Raises MeasureError if there is no name, one is not the name of a measure, or a cutoff is missing.
    """
    pieces = _split_names(_join_names(measures))
    if not pieces:
        raise MeasureError("no measure is given")
    return tuple(dict.fromkeys(repr(parsed) for piece in pieces for parsed in _parse(piece, level)))


def aggregate_name(name: str) -> str:
    """How the values of a measure become one: ``mean``, ``sum`` or ``geometric mean``."""
    if name in ANSWER_MEASURES or name.startswith("answer@"):
        return "mean"
    (parsed,) = _parse(name)
    if isinstance(parsed, TrecMeasure | OwnMeasure):
        return parsed.aggregate
    from ir_measures.measures.base import SumAgg

    return "sum" if isinstance(parsed.aggregator(), SumAgg) else "mean"


def aggregate(name: str, values: Values) -> Values:
    """The value of a measure over queries, (queries, ...) -> (...), as trec_eval aggregates it.

    Counts are summed, ``gm_map`` and ``gm_bpref`` have a geometric mean, and the others the mean.
    """
    form = aggregate_name(name)
    if form == "sum":
        return np.asarray(values.sum(axis=0))
    return np.asarray(values.mean(axis=0) if form == "mean" else np.exp(np.log(values).mean(axis=0)))


def require_means(names: Sequence[str]) -> None:
    """Raise MeasureError if a measure is not averaged over queries, so that differences cannot be tested."""
    for name in names:
        if (form := aggregate_name(name)) != "mean":
            raise MeasureError(f"{name} is a {form} over the queries: only differences of means are compared")


def expand_measures(
    measures: MeasureNames, depths: Sequence[int], level: int = 1
) -> dict[str, tuple[str, ...]]:
    """Name each measure at each depth: ``expand_measures("R", [1, 5])`` is ``{"R": ("R@1", "R@5")}``.

    Raises MeasureError for a name with a cutoff, or of a measure that takes none, ValueError without depths.
    """
    if not depths:
        raise ArgumentError("no depth is given")
    text = _join_names(measures)
    if "@" in text:
        raise MeasureError(f"measures by depth take no cutoff: expected names such as R or AP, got {text!r}")
    expanded = {}
    for name in _split_names(text):
        cut = tuple(parse_measures(f"{name}@{depth}", level)[0] for depth in depths)
        expanded[cut[0].removesuffix(f"@{depths[0]}")] = cut
    if not expanded:
        raise MeasureError("no measure is given")
    return expanded


def find_cutoff(name: str) -> int | None:
    """The cutoff of a measure by its name (``10`` of ``RR@10`` and of ``P_10``); None if it has none."""
    cutoff = re.search(r"@(\d+)$|^(?:P|recall|success|relative_P|(?:map|ndcg)_cut)_(\d+)", name)
    return int(cutoff[1] or cutoff[2]) if cutoff else None


def _join_names(measures: MeasureNames) -> str:
    several = measures if isinstance(measures, Sequence) and not isinstance(measures, str) else [measures]
    return " ".join(map(adopt, several))


def _split_names(text: str) -> list[str]:
    """Split ``text`` at spaces and commas outside brackets, without checking the names.

    A comma before a number does not separate: it goes on with the cutoffs of trec_eval's ``P.5,10``, or the
    parameters of ``utility.2,-1,0,0`` and ``ndcg.1=3,2=9``.

    Raises MeasureError if a name is longer than any.
    """
    depth, begin, pieces = 0, 0, []
    for i, char in enumerate(f"{text} "):
        depth += (char in "({[") - (char in ")}]")
        if (depth == 0 or i == len(text)) and (
            char.isspace() or (char == "," and not _CUTOFF.match(text, i + 1))
        ):
            pieces.append(text[begin:i])
            begin = i + 1
    for piece in pieces:
        if len(piece) > _LONGEST_NAME:
            raise MeasureError(
                f"{shorten(piece)} is not a measure: a name has at most {_LONGEST_NAME:,} characters"
            )
    return [piece for piece in pieces if piece]


def _parse(name: str, level: int = 1) -> tuple[Any, ...]:
    """The measures with this name: a registered one, or those of trec_eval or of ir_measures."""
    return tuple(parse_own_name(name)) or _parse_known_name(name, level)


@lru_cache(maxsize=1024)
def _parse_known_name(name: str, level: int) -> tuple[Any, ...]:
    if measures := parse_trec_name(name, level):
        return tuple(measures)
    import ir_measures

    family, settings = _read_ir_name(name)
    if getattr(family.SUPPORTED_PARAMS.get("rel"), "default", None) == 1:
        settings.setdefault("rel", level)
    if family.NAME in SYNONYMS:
        version = settings.pop("trec_eval", 9)
        if "recall" in settings and isinstance(settings["recall"], int):
            settings["recall"] = float(settings["recall"])
        _check_settings(name, family, settings)
        if not isinstance(version, int):
            raise MeasureError(f"{name!r}: trec_eval is 9 or 10")
        return (TrecMeasure(family.NAME, settings.pop("recall", None), trec_eval=version, **settings),)
    _check_settings(name, family, settings)
    measure = family(**settings)
    if not ir_measures.DefaultPipeline.supports(measure):
        raise MeasureError(f"{name!r}: no installed program computes this measure{_programs(family)}")
    return (measure,)


def _read_ir_name(name: str) -> tuple[Any, dict[str, Any]]:
    """The family of ir_measures and the settings in a name; its own parser needs what Python has removed."""
    import ir_measures

    message = (
        f"{shorten(name)} is not a measure: expected a name such as nDCG@10, AP(rel=2) or trec_eval's map"
    )
    settings, cutoff = dict[str, Any](), None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", SyntaxWarning)  # "5else" and the like
            node = ast.parse(name, mode="eval").body
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            cutoff, node = ast.literal_eval(node.right), node.left
        if isinstance(node, ast.Call) and not node.args:
            settings = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords}
            node = node.func
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise MeasureError(message) from error
    if not isinstance(node, ast.Name):
        raise MeasureError(message)
    known = ir_measures.measures.registry
    if node.id not in known:
        names = known_names(sorted(known, key=str.lower), node.id)
        whole = f" (in {name!r})" if name != node.id else ""
        raise MeasureError(f"there is no measure {node.id!r}; {names}{whole}")
    family = known[node.id]
    return family, settings if cutoff is None else {**settings, family.AT_PARAM: cutoff}


def _programs(family: Any) -> str:
    """Which packages compute measures of a family, with what they require."""
    import ir_measures

    programs = []
    for provider in ir_measures.DefaultPipeline.providers:
        for supported in provider.SUPPORTED_MEASURES:
            if supported.NAME == family.NAME and not provider.is_available():
                required = [
                    key for key, setting in supported.params.items() if getattr(setting, "required", False)
                ]
                needs = f", as {family.NAME} with {' and '.join(required)}" if required else ""
                programs.append(f"{provider.NAME} does{needs}: {provider.install_instructions()}")
    return "".join(f"; {program}" for program in programs)


_LARGEST = {"cutoff": HIGHEST_CUTOFF, "rel": HIGHEST_GRADE}
_WHOLE = {"cutoff": "a cutoff", "rel": "the level of relevance"}


def _check_settings(name: str, family: Any, settings: dict[str, Any]) -> None:
    allowed = family.SUPPORTED_PARAMS
    for key, value in settings.items():
        beyond = key in _LARGEST and isinstance(value, int) and not 1 <= value <= _LARGEST[key]
        if key in allowed and key in _WHOLE and (beyond or not isinstance(value, int)):
            raise MeasureError(
                f"{name!r}: {_WHOLE[key]} is a whole number from 1 to {_LARGEST[key]:,}, got {value!r:.40}"
            )
        if key not in allowed or not allowed[key].validate(value):
            raise MeasureError(
                f"{name!r}: {family.NAME} does not take {key}={value!r}; it takes: {', '.join(allowed)}"
            )
    missing = [key for key, info in allowed.items() if info.required and key not in settings]
    if missing:
        hint = f", as in {family.NAME}@10" if family.AT_PARAM in missing else ""
        raise MeasureError(f"{name!r}: {family.NAME} needs a {' and a '.join(missing)}{hint}")


def _number_by_rank(
    batch: list[Ranking], answered: set[str], judged: Mapping[str, int], unjudged: list[str]
) -> dict[str, dict[str, float]]:
    """``run[qid][docno]``: a number that falls with the rank; queries without documents are omitted."""
    falling = np.arange(max(map(len, batch), default=0), 0, -1, dtype=np.float64).tolist()
    run: dict[str, dict[str, float]] = {}
    for ranking in batch:
        qid = ranking.query.qid
        if qid in run or qid in answered:
            raise ArgumentError(f"query {qid} occurs twice in the run")
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
    row = {_parse(name)[0]: i for i, name in enumerate(names)}
    measures = [measure for measure in row if not isinstance(measure, tuple(_PROGRAMS))]
    plain = {qid: dict(grades) for qid, grades in qrels.items()}
    for qid, grades in plain.items():
        if grades and not LEAST_GRADE <= min(grades.values()) <= max(grades.values()) <= HIGHEST_GRADE:
            raise ArgumentError(f"query {qid}: a grade is not from {LEAST_GRADE:,} to {HIGHEST_GRADE:,}")
    for kind, values in _PROGRAMS.items():
        for computed, qid, value in values([each for each in row if isinstance(each, kind)], plain, run):
            table[row[computed], column[qid]] = value
    try:
        for metric in ir_measures.evaluator(measures, plain).iter_calc(run) if measures else ():
            table[row[metric.measure], column[metric.query_id]] = metric.value
    except (ArithmeticError, CalledProcessError) as error:  # Accuracy if every document is relevant; gdeval
        reason = "its program refuses them" if isinstance(error, CalledProcessError) else error
        raise MeasureError(f"one of {', '.join(names)} has no value on these qrels ({reason})") from error
