"""A BERT-DMN-lite head, trained on some questions of a collection and measured on others.

Its encoder stays as it is: what it makes of each pair is stored once, and only the head above it learns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from telerank.evaluate.compare import Comparison, compare_evaluations
from telerank.evaluate.measures import Evaluation, measure
from telerank.evaluate.tune import Folds
from telerank.recipes.sparse import Task
from telerank.recipes.tuned import held_out_sum
from telerank.show.tables import Cell, Table
from telerank.stage import Stage
from telerank.trec import read_run, write_run
from telerank.types import Progress, silent

DEPTH = 10  # candidates of a question, as in the Piaf report
MEASURES = ("R@1", "R@5", "AP")
FIRST, HEAD, BOTH = "BM25 tuned", "BERT-DMN-lite", "both, summed"
LENGTH = 128  # tokens of a pair: seconds, not minutes
_LEARNED, _TESTED, _OTHERS = 160, 80, 2


@dataclass(frozen=True, eq=False)
class HeadOutcome:
    """Values of the first stage, of the head over its first documents, and of both, on the same questions."""

    model: str
    evaluations: Mapping[str, Evaluation]

    @property
    def comparison(self) -> Comparison:
        """Each row with the first stage."""
        return compare_evaluations(self.evaluations, [FIRST], measures=MEASURES)


def trained_head(
    task: Task,
    place: tuple[Path, str],
    first: Stage,
    folder: Path,
    *,
    model: str,
    progress: Progress = silent,
) -> HeadOutcome:
    """Train and measure; ``place`` is where the task's collection lies, and its split.

    ``folder/model`` is the re-ranker afterwards.

    The weights of the sum are chosen for each half of the questions on the other half.

    Raises
    ------
    MissingExtra
        where torch, or the model's package, is not installed.
    TelerankError
        as training does.
    """
    from telerank.training.reranker.config import RerankerTraining
    from telerank.training.reranker.outcome import RUN
    from telerank.training.reranker.train import train_reranker

    folder.mkdir(parents=True, exist_ok=True)
    candidates = folder / "candidates.run.gz"
    write_run(candidates, (first % DEPTH).run(task.queries))
    config = RerankerTraining.model_validate(_settings(*place, candidates, model))
    train_reranker(config, folder, resume=True, progress=progress)
    after = list(read_run(folder / RUN))
    asked = {ranking.query.qid for ranking in after}
    before = [ranking for ranking in read_run(candidates) if ranking.query.qid in asked]
    qrels = {qid: grades for qid, grades in task.qrels.items() if qid in asked}
    both, _ = held_out_sum([candidates, folder / RUN], qrels, MEASURES[-1], folds=Folds(2))
    lists = {FIRST: before, HEAD: after, BOTH: both}
    values = {name: measure(found, qrels, MEASURES) for name, found in lists.items()}
    return HeadOutcome(model, values)


def head_table(outcome: HeadOutcome) -> Table:
    """Each row beside the first stage."""
    comparison = outcome.comparison
    rows: list[list[str | Cell]] = []
    for name, evaluation in outcome.evaluations.items():
        values = [(one, evaluation.mean[one]) for one in MEASURES]
        marked = (
            Cell(f"{value:.3f}".removeprefix("0"), marks=comparison.marks(name, one)) for one, value in values
        )
        rows.append([name, *marked])
    questions, tests = len(outcome.evaluations[FIRST].qids), len(comparison.differences)
    learned = (
        f"Learned from {_LEARNED} questions, each with the paragraph that answers it and {_OTHERS} others; "
        f"measured on {questions} others over the first {DEPTH} of {FIRST}."
    )
    marks = (
        f"{comparison.mark(FIRST)} differs from {FIRST}: p < {comparison.level:g} in a paired t-test, "
        f"Holm's correction over the {tests} tests of this table."
    )
    caption = f"Re-ranked by a head on {outcome.model}, trained just now"
    return Table.of(("system", *MEASURES), rows, caption=caption, notes=(learned, marks))


def _settings(place: Path, split: str, candidates: Path, model: str) -> dict[str, Any]:
    """A few minutes' worth of the paper's protocol in seconds: few questions, short pairs, a higher rate."""
    lists = {"run": str(candidates), "depth": DEPTH}
    return {
        "data": {
            "collection": str(place),
            "split": split,
            "queries": _LEARNED,
            "negatives": {**lists, "per_positive": _OTHERS},
        },
        "model": {
            "kind": "bert-dmn",
            "start": model,
            "frozen": True,
            "language": "fr",
            "max_query": 32,
            "max_length": LENGTH,
        },
        "optimisation": {"epochs": 10, "batch": 16, "learning_rate": 1e-3, "warm_up": 0.1},
        "test": {"split": split, **lists, "queries": _TESTED, "store": True, "measures": list(MEASURES)},
    }


def head_findings(outcome: HeadOutcome) -> list[str]:
    """The outcome in a sentence, by the last measure."""
    name = MEASURES[-1]
    means = {row: one.mean[name] for row, one in outcome.evaluations.items()}
    verdict = "" if outcome.comparison.marks(BOTH, name) else "not significantly "
    way = "above" if means[BOTH] > means[FIRST] else "below"
    alone = f"{name} of {HEAD} {means[HEAD]:.3f}, of {FIRST} {means[FIRST]:.3f}"
    return [f"Re-ranked: {alone}; both together {means[BOTH]:.3f}, {verdict}{way} {FIRST}."]


def head_record(outcome: HeadOutcome) -> dict[str, Any]:
    """Every figure, for programs."""
    systems = [{"name": name, "means": one.mean} for name, one in outcome.evaluations.items()]
    learned = {"questions": _LEARNED, "others": _OTHERS}
    return {"model": outcome.model, "learned from": learned, "depth": DEPTH, "systems": systems}
