"""Tables of evaluations of answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, stdev
from typing import Any, ClassVar

from telerank.evaluation.answers.gold import GoldAnswers
from telerank.evaluation.answers.groups import (
    GroupMeans,
    NoAnswerScores,
    apply_threshold,
    by_answer_length,
    by_question_word,
    score_no_answer,
)
from telerank.evaluation.answers.overlap import ANSWER_MEASURES
from telerank.evaluation.compare import Comparison, compare_evaluations
from telerank.evaluation.measures import Evaluation
from telerank.evaluation.report import describe_gaps, means_table, query_table
from telerank.show.report import Report
from telerank.show.tables import Table

_GROUPS = {"question word": by_question_word, "answer length": by_answer_length}


@dataclass(frozen=True, eq=False)
class AnswerEvaluations(Report):
    """Evaluations of predictions by system, over the same questions.

    ``evaluations`` are of ``predictions`` as they are. ``no_answer`` has the values of no-answer of systems
    that have some; above ``threshold`` a question has no answer. With ``groups`` the report shows means by
    question word and by answer length too, with ``per_query`` the values of each question.
    """

    title: ClassVar[str] = "Answers"
    gold: GoldAnswers
    evaluations: Mapping[str, Evaluation]
    predictions: Mapping[str, Mapping[str, str]]
    no_answer: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    threshold: float = 1.0
    groups: bool = False
    per_query: bool = False

    @property
    def final(self) -> dict[str, Evaluation]:
        """The evaluations at the threshold, by system."""
        return {
            name: apply_threshold(self.gold, own, self.no_answer[name], self.threshold)
            if name in self.no_answer
            else own
            for name, own in self.evaluations.items()
        }

    @property
    def scores(self) -> dict[str, NoAnswerScores]:
        """SQuAD 2.0's figures by system."""
        return {
            name: score_no_answer(
                self.gold, self.predictions[name], own, self.no_answer.get(name), threshold=self.threshold
            )
            for name, own in self.evaluations.items()
        }

    def compare(self, baselines: Sequence[str] = (), *, level: float = 0.05) -> Comparison:
        """The differences of the systems from baselines (default: the first), with their significance.

        Raises ValueError if a baseline is none of the systems.
        """
        chosen = list(baselines) or list(self.evaluations)[:1]
        return compare_evaluations(self.final, chosen, level=level)

    def tables(self) -> list[Table]:
        final = self.final
        first = next(iter(final.values()))
        notes = [f"{name}: {ANSWER_MEASURES[name].meaning}." for name in first.measures]
        tables = [means_table(final, caption=f"Means over {len(first.qids):,} questions", notes=notes)]
        if self.gold.unanswerable or self.no_answer:
            tables += no_answer_tables({name: (own,) for name, own in self.scores.items()})
        for what, group in _GROUPS.items() if self.groups else ():
            means = {name: group(self.gold, own) for name, own in final.items()}
            tables.append(group_table(means, what))
        return [query_table(final), *tables] if self.per_query else tables

    @property
    def remarks(self) -> list[str]:
        return describe_gaps(self.evaluations)

    def record(self) -> dict[str, Any]:
        return {
            "questions": len(self.gold.questions),
            "unanswerable": len(self.gold.unanswerable),
            "systems": [self._record(name, own) for name, own in self.final.items()],
        }

    def _record(self, name: str, evaluation: Evaluation) -> dict[str, Any]:
        by = {
            what.replace(" ", "_"): {
                label: row._asdict() for label, row in group(self.gold, evaluation).items()
            }
            for what, group in (_GROUPS.items() if self.groups else ())
        }
        per_query = {qid: {m: evaluation.of(m)[qid] for m in evaluation.measures} for qid in evaluation.qids}
        return {
            "system": name,
            "mean": evaluation.mean,
            "missing": evaluation.missing,
            "unknown": evaluation.unjudged,
            "squad2": asdict(self.scores[name]),
            **by,
            **({"per_query": per_query} if self.per_query else {}),
        }


def no_answer_tables(scores: Mapping[str, Sequence[NoAnswerScores]]) -> list[Table]:
    """The means of SQuAD 2.0's parts of the questions; the best thresholds, if there are any.

    Each system has the scores of its seeds, at least one: of several the means are shown, with their standard
    deviations.
    """
    rows, best = [], []
    for name, seeds in scores.items():
        for part, key in (("all", "total"), ("HasAns", "has_answer"), ("NoAns", "no_answer")):
            means = [part_of for own in seeds if (part_of := getattr(own, key)) is not None]
            if means:
                values = [_over_seeds([own.means[measure] for own in means]) for measure in means[0].means]
                rows.append([name, part, str(means[0].questions), *values])
        for measure in seeds[0].best:
            at = [own.best[measure] for own in seeds]
            thresholds = _over_seeds([one.threshold for one in at], ".4g")
            best.append([name, measure, _over_seeds([one.mean for one in at]), thresholds])
    measures = list(next(iter(scores.values()))[0].total.means)
    tables = [
        Table.of(
            ("system", "questions", "number", *measures),
            rows,
            caption="With and without an answer",
            notes=["As SQuAD 2.0's script: HasAns have a gold answer, NoAns none."],
            left=2,
        )
    ]
    if best:
        note = "Chosen on these very questions, as by SQuAD 2.0's script: a limit, not an estimate."
        columns = ("system", "measure", "best mean", "threshold")
        tables.append(Table.of(columns, best, caption="Best thresholds of no-answer", notes=[note], left=2))
    return tables


def _over_seeds(values: Sequence[float], form: str = ".4f") -> str:
    """The mean, and the standard deviation of several."""
    deviation = f" ±{format(stdev(values), form)}" if len(values) > 1 else ""
    return f"{format(fmean(values), form)}{deviation}"


def group_table(means: Mapping[str, Mapping[str, GroupMeans]], what: str) -> Table:
    """``means[system][group]``: a row per group and system."""
    labels = list(dict.fromkeys(label for own in means.values() for label in own))
    measures = list(next(row for own in means.values() for row in own.values()).means)
    rows = [
        [label, name, str(own[label].questions), *(f"{own[label].means[m]:.4f}" for m in measures)]
        for label in labels
        for name, own in means.items()
        if label in own
    ]
    return Table.of((what, "system", "number", *measures), rows, caption=f"By {what}", left=2)
