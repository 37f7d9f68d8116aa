"""``evaluate_answers``: predicted answers measured against the answers of a collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from telerank.corpus.answers import is_predictions_file, read_no_answer, read_predictions
from telerank.corpus.collection import Collection, split_parts
from telerank.corpus.formats import open_collection
from telerank.errors import CollectionError
from telerank.evaluation.answers.gold import GoldAnswers
from telerank.evaluation.answers.measures import measure_answers
from telerank.evaluation.answers.overlap import ANSWER_MEASURES, parse_answer_measures
from telerank.evaluation.answers.report import AnswerEvaluations
from telerank.evaluation.compare import Comparison

__all__ = [
    "ANSWER_MEASURES",
    "AnswerEvaluations",
    "PredictionSources",
    "are_predictions",
    "compare_answers",
    "evaluate_answers",
    "read_gold",
]

PredictionSources: TypeAlias = Sequence[str | Path] | Mapping[str, str | Path | Mapping[str, str]]
"""Files of predictions, named by their files, or by name; or texts by qid."""


def evaluate_answers(
    predictions: PredictionSources,
    data: str | Path | Collection | GoldAnswers,
    measures: str | Sequence[str] = tuple(ANSWER_MEASURES),
    *,
    split: str | None = None,
    no_answer: str | Path | Mapping[str, float] | None = None,
    threshold: float = 1.0,
) -> AnswerEvaluations:
    """Measure predicted answers: SQuAD's EM and F1, both for French, and the Piaf report's F1 of characters.

    Predictions are files (SQuAD's JSON, or lines), or texts by question id, the empty text being no answer;
    ``data`` has the gold answers. ``no_answer`` has values of no-answer, higher for no answer, if there is
    only one system; questions above ``threshold`` have no answer.

    >>> print(tr.evaluate_answers(["reader.json"], "fquad"))

    Raises
    ------
    CollectionError
        If the collection has no answers or no such split, or a system predicts no question of it, or a
        question lacks its value of no-answer.
    MeasureError
        If a measure is none of answers.
    FormatError
        If a file does not follow its format.
    """
    names = parse_answer_measures(measures)
    gold = data if isinstance(data, GoldAnswers) else read_gold(data, split)
    texts = {name: _read(source) for name, source in _name(predictions).items()}
    values = _read_values(no_answer, texts, gold)
    evaluations = {name: measure_answers(gold, own, names) for name, own in texts.items()}
    for name, evaluation in evaluations.items():
        if len(evaluation.missing) == len(evaluation.qids):
            first = next(iter(texts[name]), None)
            raise CollectionError(f"{name}: it answers no question of these (its first is {first!r})")
    return AnswerEvaluations(gold, evaluations, texts, values, threshold)


def compare_answers(
    evaluations: AnswerEvaluations, baselines: Sequence[str] = (), *, level: float = 0.05
) -> Comparison:
    """The differences of the systems from baselines (default: the first), with their significance.

    Raises CollectionError if there is only one system, or a baseline is none of them.
    """
    known = list(evaluations.evaluations)
    if len(known) < 2:
        raise CollectionError("there is nothing to compare: give two files of predictions or more")
    for baseline in baselines:
        if _stem(baseline) not in known and baseline not in known:
            raise CollectionError(f"the baseline {baseline} is none of the systems: {', '.join(known)}")
    chosen = [baseline if baseline in known else _stem(baseline) for baseline in baselines]
    return evaluations.compare(list(dict.fromkeys(chosen)), level=level)


def read_gold(data: str | Path | Collection, split: str | None = None) -> GoldAnswers:
    """The questions and answers of a split, or of the only one; a question without answer is unanswerable.

    Raises CollectionError if the collection has no such split, or no answers in it.
    """
    collection = data if isinstance(data, Collection) else open_collection(data)
    chosen = collection.resolve_split(split)
    parts = split_parts(chosen)
    if not any(part in collection.answers for part in parts):
        raise CollectionError(f"{collection.name}: split {chosen!r} has no answers")
    streams = (own.get(part) for own in (collection.answers, collection.unlocated) for part in parts)
    answers = chain.from_iterable(stream() for stream in streams if stream is not None)
    return GoldAnswers.of(collection.split_queries(chosen), answers)


def are_predictions(files: Sequence[str | Path]) -> bool:
    """Whether these are files of predictions, no runs. Raises CollectionError if only some of them are."""
    kinds = [is_predictions_file(file) for file in files]
    if any(kinds) and not all(kinds):
        raise CollectionError(
            f"{files[kinds.index(False)]} holds no predictions, {files[kinds.index(True)]} does"
        )
    return all(kinds)


def _name(predictions: PredictionSources) -> dict[str, str | Path | Mapping[str, str]]:
    if isinstance(predictions, Mapping):
        return dict(predictions)
    names = [_stem(file) for file in predictions]
    whole = dict.fromkeys(map(str, predictions))
    if len(whole) < len(names):
        raise CollectionError("a file of predictions is given twice")
    pairs = zip(names, predictions, strict=True)
    return {name if names.count(name) == 1 else str(file): file for name, file in pairs}


def _stem(file: str | Path) -> str:
    name = Path(file).name.removesuffix(".gz").removesuffix(".xz")
    return name.removesuffix(".jsonl").removesuffix(".json")


def _read(source: str | Path | Mapping[str, str]) -> Mapping[str, str]:
    return source if isinstance(source, Mapping) else read_predictions(source)


def _read_values(
    no_answer: str | Path | Mapping[str, float] | None,
    texts: Mapping[str, Mapping[str, str]],
    gold: GoldAnswers,
) -> dict[str, Mapping[str, float]]:
    if no_answer is None:
        return {}
    if len(texts) > 1:
        raise CollectionError("values of no-answer are of one system: measure the systems one by one")
    values = no_answer if isinstance(no_answer, Mapping) else read_no_answer(no_answer)
    lacking = [qid for qid in gold.questions if qid not in values]
    if lacking:
        raise CollectionError(f"{len(lacking)} questions, as {lacking[0]!r}, have no value of no-answer")
    return {next(iter(texts)): values}
