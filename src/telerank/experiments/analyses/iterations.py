"""Segment P@1, the dev measure and changed selections by iteration (BeST, table 2), beside other models."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from statistics import correlation
from typing import TYPE_CHECKING, Any, Literal

from telerank.errors import count_noun
from telerank.evaluation.segments import measure_segments
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analyses.segments import (
    BM25,
    FIRST,
    RANDOM,
    SegmentPrecisionAnalysis,
    TruePair,
    draw_choices,
    find_matcher,
    items_of,
    read_true_pairs,
)
from telerank.experiments.analysis import AnalysisResult, Items, PooledValues, Published, Unavailable
from telerank.experiments.published import beside_published
from telerank.show.tables import Table
from telerank.types import Query

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from telerank.segments.stage import SegmentReranker
    from telerank.training.reranker.iteration_results import IterationResult

TRAIN, DEV, TEST, CHANGED, REACH = "P@1 train", "P@1 dev", "P@1", "changed", "within reach"
_MARK = ", iteration "


@dataclass(frozen=True)
class IteratedTraining:
    """A training in iterations: its folder, its results, and the measure of its dev queries."""

    folder: Path
    results: Sequence[IterationResult]
    measure: str

    @classmethod
    def read(cls, folder: Path) -> IteratedTraining:
        """Raises Unavailable if the folder has no iterations."""
        from telerank.training.reranker.iteration_results import RESULTS, Iterations

        if not (folder / RESULTS).exists():
            raise Unavailable(f"{folder} has no training in iterations")
        results = Iterations.read(folder)
        return cls(folder, results.iterations, results.measure)

    def model(self, number: int) -> Path:
        """The folder of the model of an iteration."""
        from telerank.training.trained import ITERATIONS, MODEL

        return self.folder / ITERATIONS / str(number) / MODEL

    def learned(self) -> set[str]:
        """The queries that were learned from."""
        from telerank.training.reranker.iterations import SELECTIONS

        with (self.folder / SELECTIONS / "1.jsonl").open(encoding="utf-8") as lines:
            next(lines)  # how the documents were cut
            return {str(json.loads(line)["query-id"]) for line in lines}


class IterationsAnalysis(SegmentPrecisionAnalysis):
    """Segment P@1 by iteration, on the queries learned from, on dev and on the split (BeST, table 2).

    Attributes
    ----------
    model
        A re-ranker that is trained in iterations; a system ranks by its segments.
    """

    kind: Literal["iterations"]
    model: str = "BeST"

    def analyse(self, bench: Bench) -> AnalysisResult:
        """Measure P@1 of each iteration's model and of other systems that score segments, on three splits.

        On train over the queries that were learned from, on dev over all of that split, and over the queries
        that measure; always over all segments of a document, cut as they are for ranking. Known relevant text
        is that of the training (``data.segments.answers``), by default that of the collection; a split
        without any has no column.
        """
        trained = IteratedTraining.read(Path(bench.runner.find_checkpoint(self.model)).parent)
        stages = dict(_stages(bench, self, trained))
        pairs = known_pairs(bench, self, trained)
        if not any(pairs.values()):
            raise Unavailable(f"no query of {bench.data.name} has known relevant text")
        items: dict[str, Mapping[str, Mapping[str, Sequence[float]]]] = {}
        record: dict[str, Any] = {}
        for column, known in pairs.items():
            if known:
                choices = draw_choices(bench, self, known, stages)
                items[column] = items_of(choices)
                record[column] = {name: asdict(measure_segments(own)) for name, own in choices.items()}
        dev = f"dev {trained.measure}"
        items |= _scores(bench, trained, stages, self.model, dev)
        table = iterations_table(items, bench.published, caption=self.title)
        counts = {column: rows[BM25]["pairs"] for column, rows in record.items()}
        record |= {"pairs": counts, "means": mean_items(items)}
        best = max(trained.results, key=lambda result: (result.dev, -result.iteration)).iteration
        over = "; ".join(
            f"{column}: {count_noun(count, 'pair')} of a query and a relevant document"
            for column, count in counts.items()
        )
        said = f"{self.model}: iteration {best} has the highest {dev} and is its model. {over}."
        return AnalysisResult((table,), record, plot_items(items), (said, *correlate(items)), items)

    def pool_folds(self, folds: PooledValues) -> AnalysisResult:
        """With the table, the plots and the correlation of all folds."""
        pooled, items = super().pool_folds(folds), folds.items
        return AnalysisResult(
            (iterations_table(items, {}, caption=self.title), *pooled.tables),
            pooled.record,
            plot_items(items),
            correlate(items),
        )


def _stages(
    bench: Bench, spec: IterationsAnalysis, trained: IteratedTraining
) -> Iterator[tuple[str, SegmentReranker]]:
    """The stages that score segments, by system; that of the iterated model once for each iteration."""
    from telerank.reranking.scorer import Scorer
    from telerank.segments.stage import SegmentReranker

    for name, system in bench.systems.items():
        stage = find_matcher(system)
        if not isinstance(stage, SegmentReranker):
            continue
        if not Path(str(stage.reranker.scorer.model)).is_relative_to(trained.folder):
            yield name, stage
            continue
        for result in trained.results:
            scorer = Scorer(trained.model(result.iteration), **stage.reranker.scorer.changed)
            yield (
                iteration_name(spec.model, result.iteration),
                replace(stage, reranker=replace(stage.reranker, model=scorer)),
            )


def iteration_name(model: str, number: int) -> str:
    """The row of an iteration, as table 2 of the paper names it."""
    return f"{model}{_MARK}{number}"


def known_pairs(
    bench: Bench, spec: IterationsAnalysis, trained: IteratedTraining
) -> dict[str, list[TruePair]]:
    """The pairs with known relevant text of train, dev and the split that measures.

    If the training has a file of known passages, these are sought in the documents.
    """
    from telerank.training.reranker.selection import read_truth

    config = bench.runner.configure_reranker(spec.model)
    collection, learned, segments = bench.data.collection, trained.learned(), config.data.segments
    known = [query for query in collection.split_queries(config.data.split) if query.qid in learned]
    queries: dict[str, tuple[str, Sequence[Query]]] = {TRAIN: (config.data.split, known), DEV: ("", ())}
    if config.dev is not None:
        split = config.dev.split or config.data.split
        queries[DEV] = split, [query for query in collection.split_queries(split) if query.qid not in learned]
    queries[TEST] = bench.data.split, bench.judged.queries
    pairs: dict[str, list[TruePair]] = {}
    for column, (split, own) in queries.items():
        if segments is None or segments.answers is None:
            pairs[column] = read_true_pairs(bench, split, own) if split else []
            continue
        truth = read_truth(segments, collection, split, progress=bench.data.progress).spans if split else {}
        by_qid = {query.qid: query for query in own}
        pairs[column] = [
            TruePair(by_qid[qid], docno, tuple((span.start, span.end) for span in spans))
            for (qid, docno), spans in truth.items()
            if qid in by_qid
        ]
    return pairs


def _scores(
    bench: Bench, trained: IteratedTraining, stages: Mapping[str, SegmentReranker], model: str, dev: str
) -> dict[str, dict[str, dict[str, list[float]]]]:
    """The dev measure of each model, and the shares of changed selections and of known text within reach.

    Each is one value for the whole data. The dev measure of another model is the best in the log beside it.
    """
    from telerank.training.log import read_log
    from telerank.training.trained import LOG

    results = {iteration_name(model, result.iteration): result for result in trained.results}
    best = {name: result.dev for name, result in results.items()}
    for name, stage in stages.items():
        log = Path(str(stage.reranker.scorer.model)).parent / LOG
        values = [record.dev for record in read_log(log) if record.dev is not None] if log.exists() else []
        if name not in best and values:
            best[name] = max(values)
    columns: dict[str, Mapping[str, float | None]] = {
        dev: best,
        CHANGED: {name: result.changed for name, result in results.items()},
        REACH: {name: result.reachable for name, result in results.items()},
    }
    known = {
        column: {name: {bench.data.name: [value]} for name, value in values.items() if value is not None}
        for column, values in columns.items()
    }
    return {column: rows for column, rows in known.items() if rows}


def mean_items(items: Items) -> dict[str, dict[str, float]]:
    """The mean over all values by column and row."""
    means: dict[str, dict[str, float]] = {}
    for column, rows in items.items():
        for name, by_qid in rows.items():
            values = [value for own in by_qid.values() for value in own]
            means.setdefault(column, {})[name] = math.fsum(values) / len(values)
    return means


def iterations_table(items: Items, published: Published, caption: str) -> Table:
    """A row for each model and iteration, a column for each of the items, and those of the paper."""
    means = mean_items(items)
    names = dict.fromkeys([*chain.from_iterable(means.values()), *published])
    facts = {
        name: {column: values.get(name) for column, values in means.items()}
        for name in sorted(names, key=[RANDOM, FIRST, BM25, *names].index)
    }
    return Table.pivot(
        beside_published(facts, published),
        caption=caption,
        notes=[
            (
                "P@1: the best-scored segment of a relevant document holds the known relevant text. "
                "Changed: the share of the selections learned from that differ from those of the iteration "
                "before. Within reach: the share of the known relevant text of train that a segment learned "
                "from holds."
            )
        ],
    )


def plot_items(items: Items) -> dict[str, Figure]:
    """By iteration, with the other models as level lines; and P@1 on dev against the dev measure."""
    from telerank.show.plots import line_plot, point_plot

    means = mean_items(items)
    plots: dict[str, Figure] = {}
    iterated = [name for name in dict.fromkeys(chain.from_iterable(means.values())) if _MARK in name]
    if iterated:
        panels: dict[str, dict[str, list[float]]] = {}
        for column, rows in means.items():
            panels[column] = {iterated[0].rpartition(_MARK)[0]: [rows.get(n, math.nan) for n in iterated]}
            level = {name: [value] * len(iterated) for name, value in rows.items() if name not in iterated}
            panels[column] |= level
        plots["iterations"] = line_plot(
            panels,
            [int(name.rpartition(" ")[2]) for name in iterated],
            x_label="iteration",
            logarithmic=False,
        )
    dev, points = _dev_points(means)
    if dev and DEV in means:
        plots["segments-documents"] = point_plot(points, x_label=DEV, y_label=dev)
    return plots


def correlate(items: Items) -> tuple[str, ...]:
    """How P@1 of segments and the dev measure of documents go together over the models, as a note."""
    dev, points = _dev_points(mean_items(items))
    pairs = [points[name] for name in sorted(points)]
    if len(pairs) < 3 or any(len(set(values)) == 1 for values in zip(*pairs, strict=True)):
        return ()
    value = correlation(*zip(*pairs, strict=True))
    return (f"{DEV} and {dev} over {count_noun(len(pairs), 'model')}: correlation {value:.2f}.",)


def _dev_points(means: Mapping[str, Mapping[str, float]]) -> tuple[str, dict[str, tuple[float, float]]]:
    """The column of the dev measure, and for each model that has both P@1 on dev and that measure."""
    dev = next((column for column in means if column.startswith("dev ")), "")
    both = means.get(DEV, {})
    return dev, {name: (both[name], value) for name, value in means.get(dev, {}).items() if name in both}
