"""Dense retrieval and its fusions with a sparse model, on the questions of the sparse experiment.

The weights of the sum are chosen on the questions that chose the sparse settings, and measured, as everything
here, on the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from telerank.dense.encode import Encoding, encode_documents
from telerank.dense.encoder import Encoder
from telerank.dense.manifest import is_vectors
from telerank.dense.retriever import DenseRetriever, folder_name
from telerank.evaluate.compare import Comparison, compare_evaluations
from telerank.evaluate.measures import Evaluation, measure
from telerank.evaluate.tune import Folds
from telerank.fuse.methods import Fusion
from telerank.fuse.tuning import FusionTuning, tune_weights
from telerank.recipes.sparse import Parts, Task
from telerank.show.tables import Cell, Table
from telerank.sparse.folder import VECTORS
from telerank.sparse.index import SparseIndex
from telerank.stage import Stage
from telerank.types import Progress, Ranking, silent

DEPTH = 100  # of each list that is fused


@dataclass(frozen=True)
class Fused:
    """What is compared: the two stages by their names, the measures, what weights are chosen by."""

    sparse: str
    dense: str
    measures: Sequence[str]
    objective: str


@dataclass(frozen=True, eq=False)
class FusedOutcome:
    """Values on the questions that measure, by row, and how the weights of the sum were chosen.

    ``cut`` of ``documents`` are longer than the dense model reads.
    """

    what: Fused
    evaluations: Mapping[str, Evaluation]
    tuning: FusionTuning
    cut: int
    documents: int

    @property
    def comparison(self) -> Comparison:
        """Each row with the sparse model."""
        return compare_evaluations(self.evaluations, [self.what.sparse], measures=self.what.measures)


def encoded(index: SparseIndex, encoder: Encoder, *, progress: Progress = silent) -> DenseRetriever:
    """The retriever over vectors of an index's documents, made anew in the index.

    Raises
    ------
    MissingExtra
        where torch, or the model's package, is not installed.
    TelerankError
        as encoding does.
    """
    folder = index.folder / VECTORS / folder_name(encoder.name)
    how = Encoding(collection=index.folder.name, source=index.state)
    made = encode_documents(
        index.docs, folder, encoder, encoding=how, overwrite=is_vectors(folder), progress=progress
    )
    return DenseRetriever(made, encoder)


def run_fused(
    task: Task,
    parts: Parts,
    stages: tuple[Stage, DenseRetriever],
    what: Fused,
    *,
    progress: Progress = silent,
) -> FusedOutcome:
    """Retrieve with both, choose the weights, measure each list and each fusion once.

    Raises
    ------
    ValueError
        where there are too few questions for the parts.
    TelerankError
        as searching and measuring do.
    """
    dev, test = (task.part(qids) for qids in parts.deal(query.qid for query in task.queries))
    sparse, dense = _lists(dev, stages, "questions that choose", progress)
    tuning = tune_weights(
        {what.sparse: sparse, what.dense: dense}, dev.qrels, what.objective, folds=Folds(2), progress=progress
    )
    alone = _lists(test, stages, "questions that measure", progress)
    rows = dict(zip((what.sparse, what.dense), alone, strict=True))
    for name, fusion in {
        f"in turns, {what.sparse} first": Fusion("interleave"),
        "reciprocal ranks": Fusion("rrf"),
        _sum(what, tuning): Fusion("linear", tuning.result.best),
    }.items():
        rows[name] = [fusion(lists) for lists in zip(*alone, strict=True)]
    evaluations = {name: measure(lists, test.qrels, what.measures) for name, lists in rows.items()}
    vectors = stages[1].vectors
    return FusedOutcome(what, evaluations, tuning, vectors.manifest.cut, len(vectors))


def fused_table(outcome: FusedOutcome) -> Table:
    """Every row beside the sparse model."""
    comparison = outcome.comparison
    means = {
        name: {one: round(value, 3) for one, value in evaluation.mean.items()}
        for name, evaluation in outcome.evaluations.items()
    }
    best = {one: max(row[one] for row in means.values()) for one in comparison.measures}
    rows: list[list[str | Cell]] = [
        [
            name,
            *(
                Cell(
                    f"{row[one]:.3f}".removeprefix("0"),
                    strong=row[one] == best[one],
                    marks=comparison.marks(name, one),
                )
                for one in comparison.measures
            ),
        ]
        for name, row in means.items()
    ]
    sparse, tuning = outcome.what.sparse, outcome.tuning
    questions, tests = len(comparison.evaluations[sparse].qids), len(comparison.differences)
    differs = (
        f"{comparison.mark(sparse)} differs from {sparse}: p < {comparison.level:g} in a paired t-test over "
        f"{questions:,} questions, Holm's correction over the {tests} tests of this table. Bold: the best."
    )
    tried = f"{len(tuning.result.settings)} on the {tuning.answered:,} questions that choose"
    notes = (differs, f"The weights are the best of {tried}.")
    columns = ("first stage", *comparison.measures)
    return Table.of(columns, rows, caption="Dense vectors, and both together", notes=notes)


def fused_findings(outcome: FusedOutcome) -> list[str]:
    """The outcome in two sentences, by the objective."""
    what, comparison = outcome.what, outcome.comparison
    name = what.objective
    means = {row: one.mean[name] for row, one in outcome.evaluations.items()}
    best = max((row for row in means if row not in (what.sparse, what.dense)), key=means.__getitem__)
    verdict = "significantly" if comparison.marks(best, name) else "not significantly"
    way = "above" if means[best] > means[what.sparse] else "below"
    alone = ", ".join(f"of {row} {means[row]:.3f}" for row in (what.dense, what.sparse))
    long = f"{outcome.cut:,} of {outcome.documents:,} paragraphs are longer than {what.dense} reads"
    return [
        f"Dense: {name} {alone}; {long}.",
        f"Together: {best}, {means[best]:.3f}, {verdict} {way} {what.sparse}.",
    ]


def _sum(what: Fused, tuning: FusionTuning) -> str:
    weights = tuning.result.best
    return f"{weights[0]:g} {what.sparse} + {weights[1]:g} {what.dense}"


def _lists(
    task: Task, stages: tuple[Stage, DenseRetriever], of: str, progress: Progress
) -> tuple[list[Ranking], list[Ranking]]:
    """What each of the two finds for the questions."""
    streams = [(stage % DEPTH).run(task.queries) for stage in stages]
    found: tuple[list[Ranking], list[Ranking]] = ([], [])
    for done, (sparse, dense) in enumerate(zip(*streams, strict=True), 1):
        found[0].append(sparse)
        found[1].append(dense)
        progress(f"searching twice, {of}", done, len(task.queries))
    return found
