"""Evaluations of answers as tables: by question word and answer length, with and without an answer.

The figures of questions without an answer are those of SQuAD 2.0's script: at a threshold of no-answer, and
at the best ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, stdev
from typing import Any, ClassVar

import numpy as np

from telerank.errors import ArgumentError, count_noun
from telerank.evaluation.answers.measures import GoldAnswers
from telerank.evaluation.answers.overlap import ANSWER_MEASURES
from telerank.evaluation.compare import describe_gaps, means_table, query_table
from telerank.evaluation.measures import Evaluation
from telerank.show.report import Report
from telerank.show.tables import Table

OTHER = "other"
# Question words with the forms that count as them; the first that fits is taken where several do.
_FORMS = {
    "how many": r"how (?:many|much|often|old|long|far|tall|big|large|high)",
    "who": "who|whom|whose",
    "what": "what",
    "which": "which",
    "when": "when",
    "where": "where",
    "why": "why",
    "how": "how",
    "quel": r"quel(?:le)?s?|(?:au|du|le)quel|laquelle|(?:aux|des|les)quel(?:le)?s",
    "combien": "combien",
    "comment": "comment",
    "pourquoi": "pourquoi",
    "quand": "quand",
    "où": "où|^ou",
    "qui": "qui",
    "que": r"que|qu(?=')|quoi",
}
# Words that are often no question words further inside a sentence.
_RELATIVE = {"who", "which", "when", "where", "qui", "que", "où", "quand"}
# The first words of a question, where any of them asks: ``Depuis quand``.
_BEGINNING = 2
_WORD = re.compile(
    r"(?<![\w-])(?:" + "|".join(f"(?P<g{n}>{form})" for n, form in enumerate(_FORMS.values())) + r")(?!\w)",
    re.IGNORECASE,
)
_IS_IT = re.compile("est-ce[ -]qu(?:e |')", re.IGNORECASE)
_LABELS = tuple(_FORMS)
QUESTION_WORDS = (*_LABELS, OTHER)

LENGTHS = ("no answer", "1 word", "2 words", "3–5 words", "6–10 words", "11 words or more")


@dataclass(frozen=True)
class GroupMeans:
    """The number of questions of a group, and the means over them, by measure."""

    questions: int
    means: Mapping[str, float]


def question_word(question: str) -> str:
    """The question word of a question, ``other`` if it has none.

    That is the first question word of its first two words, or the first further inside that is not also a
    relative pronoun or a conjunction, or else the first.
    """
    text = _IS_IT.sub("est-ce ", re.sub("[’ʼ‘]", "'", question))
    matches = [
        (len(text[: match.start()].split()), _LABELS[int(str(match.lastgroup)[1:])])
        for match in _WORD.finditer(text)
    ]
    for position, label in matches:
        if position < _BEGINNING or label not in _RELATIVE:
            return label
    return matches[0][1] if matches else OTHER


def length_group(answers: tuple[str, ...]) -> str:
    """The group of a question by the words of its first gold answer, one of :data:`LENGTHS`."""
    if not answers:
        return LENGTHS[0]
    words = len(answers[0].split())
    return LENGTHS[(words > 0) + (words > 1) + (words > 2) + (words > 5) + (words > 10)]


def by_question_word(gold: GoldAnswers, evaluation: Evaluation) -> dict[str, GroupMeans]:
    """The means of each question word that occurs, the English ones first."""
    return _means(evaluation, lambda qid: question_word(gold.questions[qid]), QUESTION_WORDS)


def by_answer_length(gold: GoldAnswers, evaluation: Evaluation) -> dict[str, GroupMeans]:
    """The means by length of the first gold answer, the short ones first."""
    return _means(evaluation, lambda qid: length_group(gold.answers.get(qid, ())), LENGTHS)


def _means(
    evaluation: Evaluation, group_of: Callable[[str], str], order: tuple[str, ...]
) -> dict[str, GroupMeans]:
    groups: dict[str, list[str]] = {label: [] for label in order}
    for qid in evaluation.qids:
        groups[group_of(qid)].append(qid)
    return {
        label: GroupMeans(len(qids), evaluation.select(qids).mean) for label, qids in groups.items() if qids
    }


@dataclass(frozen=True)
class BestThreshold:
    """The highest mean of a measure that a threshold reaches, and the least such threshold, as the script has
    it.

    A question whose value of no-answer is above the threshold has no answer.
    """

    mean: float
    threshold: float


@dataclass(frozen=True)
class NoAnswerScores:
    """The figures of SQuAD 2.0's script, from 0 to 1: all questions, HasAns, NoAns, and the best thresholds.

    A part without questions is None. ``best`` is empty without values of no-answer.
    """

    total: GroupMeans
    has_answer: GroupMeans | None
    no_answer: GroupMeans | None
    best: Mapping[str, BestThreshold]


def apply_threshold(
    gold: GoldAnswers, evaluation: Evaluation, no_answer: Mapping[str, float], threshold: float
) -> Evaluation:
    """The evaluation if questions whose value of no-answer is above ``threshold`` had no answer.

    Raises ValueError if a question has no value.
    """
    lacking = [qid for qid in evaluation.qids if qid not in no_answer]
    if lacking:
        more = f" (and {len(lacking) - 1} more)" if len(lacking) > 1 else ""
        raise ArgumentError(f"question {lacking[0]!r}{more} has no value of no-answer")
    above = np.array([no_answer[qid] > threshold for qid in evaluation.qids])
    empty = np.array([float(not gold.answers.get(qid)) for qid in evaluation.qids])
    return Evaluation(
        evaluation.qids,
        {name: np.where(above, empty, own) for name, own in evaluation.values.items()},
        evaluation.missing,
        unjudged=evaluation.unjudged,
    )


def score_no_answer(
    gold: GoldAnswers,
    predictions: Mapping[str, str],
    evaluation: Evaluation,
    no_answer: Mapping[str, float] | None = None,
    *,
    threshold: float = 1.0,
) -> NoAnswerScores:
    """SQuAD 2.0's figures of an evaluation; ``no_answer`` has a value for each question, higher for no
    answer.

    ``predictions`` are those that were evaluated. Best thresholds are searched among all values, as the
    script does: of equal values it may stop between two.

    Raises ValueError if a question has no value.
    """
    final, best = evaluation, {}
    if no_answer is not None:
        final = apply_threshold(gold, evaluation, no_answer, threshold)
        best = {
            name: _best_threshold(gold, predictions, evaluation.of(name), no_answer)
            for name in evaluation.measures
        }
    parts = _means(final, lambda qid: "some" if gold.answers.get(qid) else "none", ("some", "none"))
    return NoAnswerScores(GroupMeans(len(final.qids), final.mean), parts.get("some"), parts.get("none"), best)


def _best_threshold(
    gold: GoldAnswers,
    predictions: Mapping[str, str],
    values: Mapping[str, float],
    no_answer: Mapping[str, float],
) -> BestThreshold:
    """Answer no question, then one after another, those first whose value of no-answer is lowest."""
    score = best = float(len(gold.unanswerable))
    threshold = 0.0
    for qid in sorted(no_answer, key=lambda qid: no_answer[qid]):
        if qid not in predictions or qid not in gold.questions:
            continue
        score += values[qid] if gold.answers.get(qid) else -float(bool(predictions[qid]))
        if score > best:
            best, threshold = score, no_answer[qid]
    return BestThreshold(best / len(values), threshold)


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

    def tables(self) -> list[Table]:
        final = self.final
        first = next(iter(final.values()))
        tables = [
            means_table(
                final,
                caption=f"Means over {count_noun(len(first.qids), 'question')}",
                notes=[f"{name}: {ANSWER_MEASURES[name].meaning}." for name in first.measures],
            )
        ]
        if self.gold.unanswerable or self.no_answer:
            tables += no_answer_tables({name: (own,) for name, own in self.scores.items()})
        for what, group in _GROUPS.items() if self.groups else ():
            tables.append(group_table({name: group(self.gold, own) for name, own in final.items()}, what))
        return [query_table(final), *tables] if self.per_query else tables

    @property
    def remarks(self) -> list[str]:
        return describe_gaps(self.evaluations)

    def record(self) -> dict[str, Any]:
        return {
            "questions": len(self.gold.questions),
            "unanswerable": len(self.gold.unanswerable),
            "systems": [
                {
                    "system": name,
                    "mean": own.mean,
                    "missing": own.missing,
                    "unknown": own.unjudged,
                    "squad2": asdict(self.scores[name]),
                    **{
                        what.replace(" ", "_"): {
                            label: asdict(row) for label, row in group(self.gold, own).items()
                        }
                        for what, group in (_GROUPS.items() if self.groups else ())
                    },
                    **({"per_query": own.by_query()} if self.per_query else {}),
                }
                for name, own in self.final.items()
            ],
        }


def no_answer_tables(scores: Mapping[str, Sequence[NoAnswerScores]]) -> list[Table]:
    """The means of SQuAD 2.0's parts of the questions; the best thresholds, if there are any.

    Each system has the scores of its seeds, at least one: of several the means are shown, with their standard
    deviations.
    """
    rows, best = [], []
    for name, seeds in scores.items():
        for part, key in (("all", "total"), ("HasAns", "has_answer"), ("NoAns", "no_answer")):
            groups = [group for own in seeds if (group := getattr(own, key)) is not None]
            if groups:
                means = {
                    measure: _over_seeds([group.means[measure] for group in groups])
                    for measure in groups[0].means
                }
                row = {"system": name, "questions": part, "number": str(groups[0].questions)}
                rows.append({**row, **means})
        for measure in seeds[0].best:
            at = [own.best[measure] for own in seeds]
            mean, threshold = [one.mean for one in at], [one.threshold for one in at]
            row = {"system": name, "measure": measure, "best mean": _over_seeds(mean)}
            best.append({**row, "threshold": _over_seeds(threshold, ".4g")})
    note = "As SQuAD 2.0's script: HasAns have a gold answer, NoAns none."
    tables = [Table.of_rows(rows, caption="With and without an answer", notes=[note], left=2)]
    if best:
        note = "Chosen on these very questions, as by SQuAD 2.0's script: a limit, not an estimate."
        tables.append(Table.of_rows(best, caption="Best thresholds of no-answer", notes=[note], left=2))
    return tables


def _over_seeds(values: Sequence[float], form: str = ".4f") -> str:
    """The mean, and the standard deviation of several."""
    deviation = f" ±{format(stdev(values), form)}" if len(values) > 1 else ""
    return f"{format(fmean(values), form)}{deviation}"


def group_table(means: Mapping[str, Mapping[str, GroupMeans]], what: str) -> Table:
    """``means[system][group]``: a row per group and system."""
    rows = [
        {
            what: label,
            "system": name,
            "number": str(own[label].questions),
            **{measure: f"{mean:.4f}" for measure, mean in own[label].means.items()},
        }
        for label in dict.fromkeys(label for own in means.values() for label in own)
        for name, own in means.items()
        if label in own
    ]
    return Table.of_rows(rows, caption=f"By {what}", left=2)
