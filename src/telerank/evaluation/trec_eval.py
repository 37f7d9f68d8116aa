"""trec_eval's own names of measures, and their values.

pytrec_eval, which is trec_eval 9, computes them. Interpolated precision is computed here, because trec_eval 9
and 10 round its recall levels to numbers of documents in different ways; and measures with parameters, which
pytrec_eval does not take.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from telerank.errors import MeasureError, shorten
from telerank.types import HIGHEST_GRADE, Qrels

HIGHEST_CUTOFF = 2**31 - 1
_DEPTHS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)
_TENTHS = tuple(i / 10 for i in range(11))
_COUNTS = ("num_q", "num_ret", "num_rel", "num_rel_ret")
_SETS = ("set_P", "set_relative_P", "set_recall", "set_map", "set_F")
# The numbers that trec_eval 9 prints, in its order, with their default cutoffs or levels of recall.
_FAMILIES: Mapping[str, tuple[float, ...]] = {
    **dict.fromkeys((*_COUNTS, "map", "gm_map", "Rprec", "bpref", "recip_rank"), ()),
    "iprec_at_recall": _TENTHS,
    "P": _DEPTHS,
    "recall": _DEPTHS,
    **dict.fromkeys(("infAP", "gm_bpref"), ()),
    "Rprec_mult": tuple(i / 5 for i in range(1, 11)),
    **dict.fromkeys(("utility", "11pt_avg", "binG", "G", "ndcg", "ndcg_rel", "Rndcg"), ()),
    **dict.fromkeys(("ndcg_cut", "map_cut", "relative_P"), _DEPTHS),
    "success": (1, 5, 10),
    **dict.fromkeys((*_SETS, "num_nonrel_judged_ret"), ()),
}
_NICKNAMES = {
    "official": tuple(_FAMILIES)[:11],
    "all_trec": tuple(_FAMILIES),
    "set": (*_COUNTS, "utility", *_SETS),
}
# Names of trec_eval without a value here, and the reason.
_REFUSED = (
    ("runid|relstring", "is a text of trec_eval, not a number"),
    ("(all_)?prefs", "needs trec_eval's preference judgments, which are not read"),
    (r"qrels_jg|\w+_avgjg", "needs trec_eval's groups of judgments, which are not read"),
    ("unj|Runj|num_nonjudged_ret", "is not computed: Judged@10 is the share of documents with a judgment"),
    ("dcg|ideal_dcg|rbp|rbp_resid|yaap", "of trec_eval is not computed"),
)
_GRADED = {"num_q", "num_ret", "ndcg", "ndcg_cut", "ndcg_rel", "G"}
# Names of ir_measures, whose values are computed or completed here, with those of trec_eval.
SYNONYMS = {"IPrec": "iprec_at_recall", "NumQ": "num_q", "NumRel": "num_rel", "Bpref": "bpref"}
_BY_RECALL = ("iprec_at_recall", "11pt_avg")
# A cutoff or another parameter of a name: ``5``, ``.25``, ``-1``, ``1=3``.
NUMBER = r"(?:\d+=)?-?(?:\d*\.)?\d+"
_NAME = re.compile(
    rf"([A-Za-z_]+?|11pt_avg)(?:[._]({NUMBER}(?:,{NUMBER})*))?(?:\((\w+=\w+(?:, *\w+=\w+)*)\))?"
)
# What the measures with parameters take; a cutoff makes several measures, parameters make one.
_PARAMETERS = {
    "11pt_avg": "levels of recall from 0 to 1, as in 11pt_avg..25,.5,.75",
    "utility": "four coefficients, the last 0, as in utility.2,-1,0,0",
    "set_F": "the weight of recall, as in set_F.2",
    "ndcg": "gains of grades, as in ndcg.1=3,2=9",
}
_FLOOR = 1e-5  # trec_eval's least value in a geometric mean


@dataclass(frozen=True)
class TrecMeasure:
    """A measure of trec_eval; grades from ``rel`` up are relevant, and ``trec_eval`` is the version, 9 or 10.

    ``parameters`` are as in the name: ``2,-1,0,0`` of ``utility.2,-1,0,0``.

    Raises
    ------
    MeasureError
        If the measure has no such cutoff, level, version or parameters.
    """

    name: str
    cutoff: float | None = None
    rel: int = 1
    trec_eval: int = 9
    judged_only: bool = False
    parameters: str = ""

    def __post_init__(self) -> None:
        if self.trec_eval not in ((9, 10) if self.family in _BY_RECALL else (9,)):
            raise MeasureError(f"{self.name} is not computed in the way of a trec_eval {self.trec_eval}")
        if not 1 <= self.rel <= HIGHEST_GRADE:
            raise MeasureError(f"{self.name} does not take rel={self.rel}: expected 1 to {HIGHEST_GRADE:,}")
        highest = 1 if self.family in _BY_RECALL else HIGHEST_CUTOFF
        least = 0 if self.family in _BY_RECALL else 0.01 if self.family == "Rprec_mult" else 1
        if self.cutoff is not None and not least <= self.cutoff <= highest:
            raise MeasureError(f"{self.name} does not take {self.cutoff:g}: expected {least} to {highest:,}")
        if self.parameters and not self._takes_parameters():
            expected = _PARAMETERS[self.family]
            raise MeasureError(f"{self.name} does not take {shorten(self.parameters)}: expected {expected}")

    def _takes_parameters(self) -> bool:
        """Whether the parameters are as :data:`_PARAMETERS` says."""
        pieces = self.parameters.split(",")
        if self.family == "ndcg":
            grades = [int(grade) for grade, equals, _ in (piece.partition("=") for piece in pieces) if equals]
            is_valid = len(set(grades)) == len(pieces) and max(grades) <= HIGHEST_GRADE
        elif "=" in self.parameters:
            return False
        elif self.family == "11pt_avg":
            return all(0 <= level <= 1 for level in self.numbers)
        elif self.family == "set_F":
            is_valid = len(pieces) == 1 and self.numbers[0] >= 0
        else:
            # the last counts documents neither relevant nor retrieved, for which the collection must be known
            is_valid = len(pieces) == 4 and self.numbers[3] == 0
        return is_valid and all(abs(number) <= HIGHEST_CUTOFF for number in self.numbers)

    @property
    def numbers(self) -> tuple[float, ...]:
        """The parameters; of gains, the gains."""
        pieces = self.parameters.split(",") if self.parameters else []
        return tuple(float(piece.rpartition("=")[2]) for piece in pieces)

    @property
    def family(self) -> str:
        """The name without cutoffs and settings, as trec_eval has it."""
        return SYNONYMS.get(self.name, self.name)

    @property
    def aggregate(self) -> str:
        """How the values of queries become one: a name of an aggregate."""
        if self.family.startswith("num_"):
            return "sum"
        return "geometric mean" if self.family.startswith("gm_") else "mean"

    def __repr__(self) -> str:
        values = (
            ("rel", self.rel, 1),
            ("judged_only", self.judged_only, False),
            ("trec_eval", self.trec_eval, 9),
        )
        changed = ",".join(f"{key}={value}" for key, value, default in values if value != default)
        settings = f"({changed})" if changed else ""
        if self.cutoff is None:
            return f"{self.name}{settings}" if not self.parameters else f"{self.column}{settings}"
        return f"IPrec{settings}@{self.cutoff}" if self.name == "IPrec" else f"{self.column}{settings}"

    @property
    def column(self) -> str:
        """The name of the value in trec_eval's output; a geometric mean is made of the values of its mean."""
        name = self.family.removeprefix("gm_")
        if self.parameters:
            return f"{name}_{self.parameters}"
        if self.cutoff is None:
            return name
        decimal = isinstance(_FAMILIES[self.family][0], float)
        return f"{name}_{self.cutoff:.2f}" if decimal else f"{name}_{self.cutoff:.0f}"

    def value_without_results(self, grades: Mapping[str, int]) -> float:
        """The value of a query that has no document, as with ``trec_eval -c``."""
        if self.family == "num_rel":
            return sum(grade >= self.rel for grade in grades.values())
        return 1.0 if self.family == "num_q" else self.at_least(0.0)

    def at_least(self, value: float) -> float:
        """The value, raised to what a geometric mean can bear."""
        return max(value, _FLOOR) if self.aggregate == "geometric mean" else value


def parse_trec_name(name: str, level: int = 1) -> list[TrecMeasure]:
    """The measures that a name of trec_eval stands for; none if it is not one.

    ``P_10``, ``P.5,10``, ``P`` (at all its cutoffs), ``map(rel=2)``, ``11pt_avg(trec_eval=10)``; with
    parameters ``utility.2,-1,0,0``, ``ndcg.1=3,2=9``, ``11pt_avg..25,.5,.75`` and ``set_F.2``; and
    ``official``, ``set`` and ``all_trec``, without ``runid`` and ``relstring``, which are texts. ``level`` is
    the relevance level of the measures that have one, if the name does not say it.

    Raises MeasureError if the measure is not computed, or it has no such cutoff, parameter or setting.
    """
    match = _NAME.fullmatch(name)
    if match is None or match[1] not in {*_FAMILIES, *_NICKNAMES}:
        for names, reason in _REFUSED:
            if re.fullmatch(f"({names})([._].*)?", name):
                raise MeasureError(f"{name!r} {reason}")
        return []
    families = _NICKNAMES.get(match[1], (match[1],))
    pairs = dict(pair.strip().split("=") for pair in match[3].split(",")) if match[3] else {}
    if not all(value.isdecimal() and len(value) < 10 for value in pairs.values()):
        raise MeasureError(f"{name!r}: expected whole numbers in brackets")
    settings = {key: int(value) for key, value in pairs.items()}
    for key in settings:
        if not any(key in _settings_of(family) for family in families):
            raise MeasureError(f"{name!r}: {match[1]} does not depend on {key}")
    return [
        TrecMeasure(
            family,
            cutoff,
            rel=settings.get("rel", level) if "rel" in _settings_of(family) else 1,
            trec_eval=settings.get("trec_eval", 9) if "trec_eval" in _settings_of(family) else 9,
            parameters=(match[2] or "") if match[1] in _PARAMETERS else "",
        )
        for family in families
        for cutoff in ((None,) if match[1] in _PARAMETERS else _parse_cutoffs(name, family, match[2]))
    ]


def _settings_of(family: str) -> set[str]:
    if family in _BY_RECALL:
        return {"rel", "trec_eval"}
    return set() if family in _GRADED else {"rel"}


def _parse_cutoffs(name: str, family: str, text: str | None) -> Sequence[float | None]:
    defaults = _FAMILIES[family]
    if text is None:
        return defaults or (None,)
    decimals = 2 if defaults and isinstance(defaults[0], float) else 0
    cutoffs = [float(piece) for piece in text.split(",")] if "=" not in text else [math.nan]
    if not defaults or any(round(cutoff, decimals) != cutoff for cutoff in cutoffs):
        expected = f"cutoffs of at most {decimals} decimals" if defaults else "no cutoff or parameter"
        raise MeasureError(f"{name!r}: {family} takes {expected}")
    return cutoffs


def trec_values(
    measures: Iterable[TrecMeasure], qrels: Qrels, run: Mapping[str, Mapping[str, float]]
) -> Iterator[tuple[TrecMeasure, str, float]]:
    """Each measure, qid and value; ``run[qid][docno]`` falls with the rank, the best document first."""
    by_level: dict[int, list[TrecMeasure]] = {}
    for measure in measures:
        if measure.parameters or measure.family in _BY_RECALL:
            formula = _FORMULAS[measure.family]
            for qid, scores in run.items():
                yield measure, qid, formula(measure, tuple(scores), qrels[qid])
        else:
            by_level.setdefault(measure.rel, []).append(measure)
    import pytrec_eval

    for level, same in by_level.items():
        names = {measure.column for measure in same}
        for lowered, part in _split_by_level(level, qrels).items():
            for qid, values in (
                pytrec_eval.RelevanceEvaluator(part, names, relevance_level=lowered)
                .evaluate({qid: run[qid] for qid in part})
                .items()
            ):
                for measure in same:
                    yield measure, qid, measure.at_least(values[measure.column])


def _split_by_level(level: int, qrels: Qrels) -> dict[int, dict[str, Mapping[str, int]]]:
    """The qrels by level, which is lowered to one more than the highest grade of the query.

    Nothing is relevant there either, and trec_eval reads beyond its counts of grades if the level is higher.
    """
    parts: dict[int, dict[str, Mapping[str, int]]] = {}
    for qid, grades in qrels.items():
        parts.setdefault(max(1, min(level, max(grades.values(), default=0) + 1)), {})[qid] = grades
    return parts


def _interpolated_precision(measure: TrecMeasure, docnos: Sequence[str], grades: Mapping[str, int]) -> float:
    """Interpolated precision at a level of recall, or its mean over several levels, by default eleven."""
    if measure.judged_only:
        docnos = [docno for docno in docnos if grades.get(docno, -1) >= 0]
    ranks = [rank for rank, docno in enumerate(docnos, 1) if grades.get(docno, 0) >= measure.rel]
    precisions = [count / rank for count, rank in enumerate(ranks, 1)]
    best = list(accumulate(reversed(precisions), max))[::-1]  # best[n - 1]: with n relevant documents or more
    relevant = sum(grade >= measure.rel for grade in grades.values())
    levels = (measure.numbers or _TENTHS)[::-1] if measure.cutoff is None else (measure.cutoff,)
    values = [
        best[max(count, 1) - 1] if max(count, 1) <= len(best) else 0.0
        for count in (_count_at(level * relevant, measure.trec_eval) for level in levels)
    ]
    return sum(values) / len(values)


def _count_at(exact: float, version: int) -> int:
    """The documents at a level of recall: trec_eval 9 adds 0.9 and cuts, 10 rounds half away from zero."""
    whole = math.floor(exact)
    return int(exact + 0.9) if version == 9 else whole + (exact - whole >= 0.5)


def _utility(measure: TrecMeasure, docnos: Sequence[str], grades: Mapping[str, int]) -> float:
    """The sum over documents, retrieved and relevant, retrieved alone, relevant alone, by coefficients."""
    both, relevant = _count_relevant(measure, docnos, grades)
    counts = (both, len(docnos) - both, relevant - both)
    return sum(weight * count for weight, count in zip(measure.numbers, counts, strict=False))


def _set_f(measure: TrecMeasure, docnos: Sequence[str], grades: Mapping[str, int]) -> float:
    """(x + 1) P R / (x P + R), of precision and recall of all retrieved documents."""
    both, relevant = _count_relevant(measure, docnos, grades)
    if both == 0:
        return 0.0
    precision, recall, weight = both / len(docnos), both / relevant, measure.numbers[0]
    return (weight + 1) * precision * recall / (weight * precision + recall)


def _count_relevant(
    measure: TrecMeasure, docnos: Sequence[str], grades: Mapping[str, int]
) -> tuple[int, int]:
    """The relevant documents that are retrieved, and all that are relevant."""
    both = sum(grades.get(docno, 0) >= measure.rel for docno in docnos)
    return both, sum(grade >= measure.rel for grade in grades.values())


def _ndcg(measure: TrecMeasure, docnos: Sequence[str], grades: Mapping[str, int]) -> float:
    """Graded documents gain what their grade does, by default the grade itself; others gain nothing."""
    graded = (int(piece.partition("=")[0]) for piece in measure.parameters.split(","))
    gains = dict(zip(graded, measure.numbers, strict=True))
    gain_of = {docno: gains.get(grade, grade) for docno, grade in grades.items() if grade >= 0}
    ideal = _discounted(sorted((gain for gain in gain_of.values() if gain > 0), reverse=True))
    return _discounted([gain_of.get(docno, 0.0) for docno in docnos]) / ideal if ideal > 0 else 0.0


def _discounted(gains: Iterable[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


# What pytrec_eval does not compute, or not as both versions of trec_eval.
_FORMULAS = {
    **dict.fromkeys(_BY_RECALL, _interpolated_precision),
    "utility": _utility,
    "set_F": _set_f,
    "ndcg": _ndcg,
}
