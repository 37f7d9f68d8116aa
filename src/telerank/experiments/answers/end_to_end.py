"""Answers from the first documents of systems: both denominators, recall of answers, the reader's weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from telerank.answers.calibration import DevQuestion, MuTuning, tune_mu
from telerank.answers.combine import MU, AnswerRules, ReadText, choose_answers
from telerank.answers.scorer import SpanReader
from telerank.corpus.collection import split_parts
from telerank.corpus.derived.questions import plain_title
from telerank.errors import count_noun
from telerank.evaluation.answers.measures import (
    GoldAnswers,
    SystemAnswers,
    answer_recall,
    measure_answers,
    measure_system,
)
from telerank.evaluation.compare import compare_evaluations
from telerank.evaluation.measures import Evaluation
from telerank.evaluation.statistics import bootstrap_intervals
from telerank.evaluation.tune import Folds
from telerank.experiments.analyses.answers import EndToEndAnalysis
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analysis import AnalysisResult, Unavailable
from telerank.show.tables import Table
from telerank.types import Answers, Doc, Ranking

_MEASURES = ("EM", "F1", "EM(fr)", "F1(fr)", "EM(literal)")
_SHOWN = 80  # characters of an answer in a table


@dataclass(frozen=True, eq=False)
class SystemReading:
    """What was read for a system: its rankings, deep ones, and the texts of the first documents of each."""

    rankings: tuple[Ranking, ...]
    questions: tuple[DevQuestion, ...]

    def answers(self, rules: AnswerRules) -> list[Answers]:
        """The answers to each question."""
        return [choose_answers(question.query, question.texts, rules) for question in self.questions]


def analyse_end_to_end(bench: Bench, spec: EndToEndAnalysis) -> AnalysisResult:
    """Read the first documents of each system, with the reader of the first seed."""
    trainer = bench.runner.readers
    reader = SpanReader(trainer.folders(spec.reader)[0])
    gold = _gold(bench)
    if 0 < len(gold.answerable) < spec.folds:
        few = count_noun(len(gold.answerable), "question")
        raise Unavailable(f"{few} with an answer, fewer than {spec.folds} folds")
    readings = _read(bench, spec.documents, reader, gold)
    rules = reader.rules(MU)
    always = replace(rules, threshold=None)
    tables, record = [], dict[str, Any]()
    if gold.answerable:
        systems = {name: _measure(own, gold, always) for name, own in readings.items()}
        tuned = {name: _tune(own, gold, always, spec) for name, own in readings.items()}
        recalls = {name: _recall(bench, own, gold, spec).mean for name, own in readings.items()}
        shares = {
            name: {depth: 100 * mean for depth, mean in recall.items()} for name, recall in recalls.items()
        }
        note = "The share of questions with an answer, as whole words, in one of the first k documents (%)."
        recall_table = Table.pivot(shares, caption="Recall of answers", notes=[note], form=".1f")
        tables += [_main_table(systems, spec), recall_table, _mu_table(tuned, spec)]
        record = {
            name: {
                "retrieved": system.share,
                "all questions": system.evaluation.mean,
                "where retrieved": system.where_retrieved,
                "recall of answers": recalls[name],
                "mu": tuned[name].record(),
            }
            for name, system in systems.items()
        }
    sources = {name: _measure_sources(bench, own, rules) for name, own in readings.items()}
    tables.append(_sources_table(sources, spec))
    first = next(iter(readings.values()))
    tables += _example_tables(bench, first, rules, spec.examples, "with the first system")
    notes = [
        f"The reader is {trainer.describe(spec.reader)}; it reads {count_noun(spec.documents, 'document')}."
    ]
    if lacking := trainer.lacking(spec.reader):
        notes.append(f"It was trained without {', '.join(lacking)}, which are not here.")
    return AnalysisResult(tuple(tables), {**record, "sources": sources}, notes=tuple(notes))


@dataclass(frozen=True, eq=False)
class Answered:
    """The values of each system's answers, tables of examples, and who read."""

    values: Mapping[str, Evaluation]
    examples: list[Table]
    note: str


def answer_questions(
    bench: Bench, reader: str, documents: int, measures: Sequence[str], examples: int
) -> Answered:
    """Answer each question from the first documents of each system; the reader may decline, which counts 0.

    Examples are of the last system. Raises Unavailable if a question has no known answer.
    """
    trainer = bench.runner.readers
    model = SpanReader(trainer.folders(reader)[0])
    gold = _gold(bench)
    if lacking := len(bench.judged.queries) - len(gold.answerable):
        raise Unavailable(f"{count_noun(lacking, 'question')} without a known answer")
    readings, rules = _read(bench, documents, model, gold), model.rules(MU)
    values = {}
    for name, own in readings.items():
        predictions = {answers.query.qid: answers.text for answers in own.answers(rules)}
        values[name] = measure_answers(gold, predictions, measures)
    last = list(readings)[-1]
    shown = _example_tables(bench, readings[last], rules, examples, f"with {last}")
    note = f"Answers: {reader} reads the first {count_noun(documents, 'document')}; none counts 0."
    return Answered(values, shown, note)


def _gold(bench: Bench) -> GoldAnswers:
    streams = (bench.data.collection.answers.get(part, tuple) for part in split_parts(bench.data.split))
    return GoldAnswers.of(bench.judged.queries, chain.from_iterable(stream() for stream in streams))


def _read(bench: Bench, documents: int, reader: SpanReader, gold: GoldAnswers) -> dict[str, SystemReading]:
    """Read each question in each document once, whatever systems rank it."""
    rankings = {}
    for name in bench.systems:  # the ranking of a query that a system does not answer is empty
        by_query = {ranking.query: ranking for ranking in bench.rankings(name)}
        rankings[name] = tuple(by_query.get(query, Ranking(query)) for query in bench.judged.queries)
    pairs = dict.fromkeys(
        (ranking.query, docno)
        for own in rankings.values()
        for ranking in own
        for docno in ranking.docnos[:documents]
    )
    docs = _docs(bench, {docno for _, docno in pairs})
    texts = [(query.text, docs[docno].text) for query, docno in pairs]
    readings = dict(zip(pairs, reader.read(texts, progress=bench.data.progress), strict=True))

    def collect(ranking: Ranking) -> DevQuestion:
        texts = [
            ReadText(docno, docs[docno].text, readings[ranking.query, docno], score)
            for docno, score in ranking.cut(documents)
        ]
        return DevQuestion(ranking.query, texts, gold.answers.get(ranking.query.qid, ()))

    return {name: SystemReading(own, tuple(map(collect, own))) for name, own in rankings.items()}


def _docs(bench: Bench, docnos: set[str]) -> dict[str, Doc]:
    return {doc.docno: doc for doc in bench.data.collection.docs() if doc.docno in docnos}


def _measure(own: SystemReading, gold: GoldAnswers, rules: AnswerRules) -> SystemAnswers:
    predictions = {answers.query.qid: answers.text for answers in own.answers(rules)}
    given = []
    for question in own.questions:
        docnos = tuple(text.docno for text in question.texts)
        given.append(Ranking.presorted(question.query, docnos, np.zeros(len(docnos))))
    return measure_system(gold, predictions, given, _MEASURES)


def _tune(own: SystemReading, gold: GoldAnswers, rules: AnswerRules, spec: EndToEndAnalysis) -> MuTuning:
    """Mu by folds, by the measure of the analysis."""

    def worth(text: str, answers: Sequence[str]) -> float:
        single = GoldAnswers({"q": ""}, {"q": tuple(answers)})
        return measure_answers(single, {"q": text}, spec.measures).mean[spec.measures]

    answerable = [question for question in own.questions if gold.answers.get(question.query.qid)]
    return tune_mu(answerable, rules, worth, folds=Folds(spec.folds))


def _recall(bench: Bench, own: SystemReading, gold: GoldAnswers, spec: EndToEndAnalysis) -> Evaluation:
    depth = max(spec.depths)
    docs = _docs(bench, {docno for ranking in own.rankings for docno in ranking.docnos[:depth]})
    return answer_recall(gold, own.rankings, lambda docno: docs[docno].text, spec.depths)


def _main_table(systems: Mapping[str, SystemAnswers], spec: EndToEndAnalysis) -> Table:
    baseline, *others = systems
    evaluations = {name: own.evaluation for name, own in systems.items()}
    comparison = compare_evaluations(evaluations, [baseline]) if others else None
    rows = []
    for name, own in systems.items():
        low_high = bootstrap_intervals([own.evaluation.values[m] for m in _MEASURES])
        cells = []
        for measure, (low, high) in zip(_MEASURES, low_high, strict=True):
            mark = comparison.marks(name, measure) if comparison else ""
            mean, where_read = own.evaluation.mean[measure], own.where_retrieved[measure]
            cells.append(
                f"{100 * mean:.1f} [{100 * low:.1f}, {100 * high:.1f}]{mark} / {100 * where_read:.1f}"
            )
        rows.append([name, f"{100 * own.share:.1f}", *cells])
    notes = [
        "In percent: over all questions, with a 95 % interval / over those whose paragraph was read (2.1.3).",
        f"retrieved: questions whose paragraph is among the {spec.documents} that were read.",
    ]
    if comparison is not None:
        notes.append(
            f"†: differs from {baseline} (paired t-test, Holm's correction, p < {comparison.level:g})."
        )
    caption = spec.title or "Answers end to end"
    return Table.of(("system", "retrieved", *_MEASURES), rows, caption=caption, notes=notes)


def _mu_table(tuned: Mapping[str, MuTuning], spec: EndToEndAnalysis) -> Table:
    rows = []
    for name, own in tuned.items():
        choices = ", ".join(f"{mu:g}" for mu in sorted(set(own.choices)))
        values = (100 * own.means[1.0], 100 * own.means[own.best], 100 * own.held_out)
        rows.append((name, *values, f"{own.best:g}", choices))
    note = (
        f"{spec.measures} in percent of mu * span + (1 - mu) * system, both scaled; held out: under the mu "
        f"that the other {count_noun(spec.folds - 1, 'fold')} choose."
    )
    columns = ("system", "reader alone", "best, in sample", "held out", "best mu", "mu of folds")
    return Table.of(columns, rows, caption="The reader's weight", notes=[note], form=".1f")


def _measure_sources(bench: Bench, own: SystemReading, rules: AnswerRules) -> dict[str, float]:
    """Which questions get an answer, from a relevant document, and with which confidence."""
    qrels = bench.judged.qrels
    firsts = [answers.answers[0] for answers in own.answers(rules) if len(answers)]
    relevant = [any(qrels[a.qid].get(docno, 0) > 0 for docno, _ in a.sources) for a in firsts]
    total = max(1, len(own.questions))
    return {
        "questions": float(len(own.questions)),
        "answered": len(firsts) / total,
        "relevant": sum(relevant) / total,
        "relevant of answered": float(np.mean(relevant)) if relevant else 0.0,
        "confidence": float(np.mean([answer.confidence for answer in firsts])) if firsts else 0.0,
    }


def _sources_table(sources: Mapping[str, Mapping[str, float]], spec: EndToEndAnalysis) -> Table:
    keys = ("answered", "relevant", "relevant of answered", "confidence")
    rows = [(name, *(100 * own[key] for key in keys)) for name, own in sources.items()]
    note = (
        "In percent. answered: the reader's threshold lets it answer; relevant: its first answer comes "
        f"from a document that is relevant, of the {spec.documents} read."
    )
    columns = ("system", "answered", "from relevant", "of answered", "mean confidence")
    return Table.of(columns, rows, caption="Where answers come from", notes=[note], form=".1f")


def _example_tables(
    bench: Bench, own: SystemReading, rules: AnswerRules, examples: int, of_whom: str
) -> list[Table]:
    if not examples:
        return []
    chosen = own.answers(rules)[:examples]
    docs = _docs(bench, {answer.docno for answers in chosen for answer in answers})
    rows = []
    for answers in chosen:
        if not len(answers):
            rows.append([answers.query.text, "no answer", "", ""])
            continue
        best = answers.answers[0]
        text = best.text if len(best.text) <= _SHOWN else best.text[: _SHOWN - 1] + "…"
        title = plain_title(docs[best.docno]) or best.docno
        rows.append([answers.query.text, text, title, f"{100 * best.confidence:.0f} %"])
    columns = ("question", "answer", "document", "confidence")
    caption = f"The first {count_noun(len(rows), 'question')}, {of_whom}"
    return [Table.of(columns, rows, caption=caption, left=3)]
