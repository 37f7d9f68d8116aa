"""Measuring systems side by side; running the experiments of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from telerank.corpus.collection import Collection
from telerank.corpus.formats import open_collection
from telerank.corpus.in_memory import read_queries
from telerank.errors import ArgumentTypeError, CollectionError
from telerank.evaluation.matching import describe_unmatched
from telerank.evaluation.measures import MeasureNames
from telerank.experiments.comparison import ExperimentResult, JudgedQueries, System, compare_systems
from telerank.experiments.data import MODELS, Sources
from telerank.experiments.packaged import find_experiment, list_experiments
from telerank.experiments.report import ExperimentOutcome, PooledOutcome
from telerank.experiments.run import FULL_SIZE, SMALL_COPY, RunOptions
from telerank.experiments.run import run_experiment as run_file
from telerank.experiments.schema import has_small, read_experiment
from telerank.parameters import FirstStage
from telerank.pipelines.functions import FUNCTIONS, read_pipeline
from telerank.pipelines.reader import Models, Names
from telerank.pipelines.run_files import RunFile
from telerank.retrieval.index import Index
from telerank.show.progress import NOTHING, continued, show_progress
from telerank.sparse.retriever import SparseRetriever
from telerank.stage import Stage, require_first, walk_stages
from telerank.types import ProgressSetting
from telerank.verbs.judge import JudgmentSource, open_run, read_judgments

__all__ = [
    "ExperimentOutcome",
    "PooledOutcome",
    "expected_time",
    "experiment",
    "list_experiments",
    "run_experiment",
    "show_experiment",
]


def experiment(
    systems: Mapping[str, System | str | Path],
    data: Collection | JudgedQueries | str | Path | Mapping[str, str] | Any = None,
    qrels: JudgmentSource | None = None,
    *,
    split: str | None = None,
    measures: MeasureNames = "nDCG@10 RR@10 R@1000",
    baseline: str | Sequence[str] = (),
    index: Index | None = None,
    folder: str | Path | None = None,
    title: str = "",
    progress: ProgressSetting = None,
) -> ExperimentResult:
    """Measure systems on the judged queries of a split, and compare them with one or more baselines.

    ``data`` is a collection, or queries, to which ``qrels`` belong: in memory, as
    :mod:`telerank.corpus.in_memory` reads them, or files. Of a table of judged questions one of the two is
    enough. A system is a stage, a run in memory, a run file, or the text of a pipeline over ``index`` and
    over the stages above it, by name. A stage that several systems share is run once. With ``folder`` the
    runs are kept there and reused while everything that they depend on is the same.

    >>> result = tr.experiment({"bm25": bm25, "both": both}, data, split="test", baseline="bm25")
    >>> print(result)

    Raises
    ------
    CollectionError
        If there is no judged query, no system, or a baseline is none of the systems.
    MeasureError
        If a name is not a measure's.
    ExpressionError
        If the text of a system cannot be read.
    """
    judged = _read_judged(data, qrels, split)
    baselines = (baseline,) if isinstance(baseline, str) else tuple(baseline)
    opened: dict[str, System] = {}
    for name, system in systems.items():
        if not isinstance(name, str) or not name.strip():
            raise ArgumentTypeError(f"tr.experiment: the name of a system must be a text, got {name!r:.60}")
        opened[name] = _open(name, system, index, opened)
    notes = _describe_judged(opened, judged, index)
    kept = NOTHING if folder is None else continued(folder, "each complete run")
    with show_progress(progress, kept=kept) as shown:
        result = compare_systems(opened, judged, measures, baselines=baselines, folder=folder, progress=shown)
    return replace(result, title=title, notes=notes)


def _describe_judged(
    systems: Mapping[str, System], judged: JudgedQueries, index: Index | None
) -> tuple[str, ...]:
    """A line for each index that lacks judged documents."""
    stages = [part for stage in systems.values() if isinstance(stage, Stage) for part in walk_stages(stage)]
    indexes = {part.index.folder: part.index for part in stages if isinstance(part, SparseRetriever)}
    if index is not None and index.has_texts:
        indexes[index.folder] = index.sparse
    docnos = [docno for grades in judged.qrels.values() for docno in grades]
    return tuple(
        line
        for folder, opened in indexes.items()
        for line in describe_unmatched(docnos, opened.docs, "the qrels", str(folder))
    )


def _read_judged(data: Any, qrels: JudgmentSource | None, split: str | None) -> JudgedQueries:
    """The queries that are judged, of a collection or in memory."""
    if data is None:
        data, qrels = qrels, None
    if isinstance(data, str | Path):
        data = open_collection(data)
    if qrels is None and isinstance(data, Collection):
        return JudgedQueries.of(data, split)
    if qrels is None and isinstance(data, JudgedQueries):
        return data
    if qrels is None:
        raise ArgumentTypeError("queries need judgments: tr.experiment(systems, queries, qrels)")
    grades, source, _ = read_judgments(qrels)
    given = list(data.split_queries(split)) if isinstance(data, Collection) else read_queries(data)
    queries = tuple(query for query in given if query.qid in grades)
    if not given or not grades:
        raise CollectionError("there is no judgment" if given else "there is no query")
    if not queries:
        own = f"{next(iter(grades))!r}, not {given[0].qid!r}"
        raise CollectionError(f"no query is judged by {source}, whose qids are such as {own}")
    return JudgedQueries(queries, {query.qid: grades[query.qid] for query in queries})


def run_experiment(
    file: str | Path,
    *,
    small: bool = False,
    data: Sequence[str] = (),
    on: Sequence[str] = (),
    models: Sequence[str] = (),
    systems: Mapping[str, str] | None = None,
    skip: Sequence[str] = (),
    seeds: Sequence[int] = (),
    precision: str = "",
    output: str | Path = "telerank-experiments",
    progress: ProgressSetting = None,
) -> list[ExperimentOutcome | PooledOutcome]:
    """Run an experiment of a YAML file, or a packaged one by its name; an outcome for each of its data.

    The last ones are of pools, the folds of one collection, if there are any.

    ``small`` runs the small copy instead of the paper's own size. ``data`` and ``models`` say where these
    are, as ``NAME=PATH`` or as folders, besides those in TELERANK_DATA and TELERANK_MODELS; ``on`` names some
    of the data. ``systems`` are runs or folders of models that stand for systems by name; ``skip`` leaves
    systems out. ``seeds`` and ``precision`` are those of all trainings, instead of the experiment's.

    >>> tr.run_experiment("repbert/table1", small=True, on=["scifact"])

    Raises
    ------
    FormatError
        If the file is wrong.
    CollectionError
        If no data is here, or a name is unknown.
    """
    name, path = find_experiment(file)
    spec = read_experiment(path, small=small)
    if (seeds or precision) and not spec.trained:
        option = "seeds" if seeds else "precision"
        raise CollectionError(f"{name}: no model of this experiment is trained: leave out the {option}")
    if seeds:
        spec = spec.with_seeds(tuple(seeds))
    if precision:
        spec = spec.with_precision(precision)
    options = RunOptions(
        Path(output),
        Sources.of(data),
        Sources.of(models, MODELS),
        tuple(on),
        dict(systems or {}),
        tuple(skip),
        SMALL_COPY if small else FULL_SIZE if has_small(path) else "",
    )
    kept = continued(output, "what is complete, indexes, runs and models,")
    with show_progress(progress, kept=kept) as shown:
        return run_file(spec, name, options, progress=shown)


def expected_time(file: str | Path, *, small: bool = False) -> str:
    """How long an experiment takes, in a few words; empty if that was not measured."""
    return read_experiment(find_experiment(file)[1], small=small).expected_time


def show_experiment(file: str | Path, *, small: bool = False, on: Sequence[str] = ()) -> str:
    """The resolved YAML of an experiment: with ``small``, the body under the overlay.

    With ``on`` a document for each of these data, with what differs on it.
    """
    spec = read_experiment(find_experiment(file)[1], small=small)
    return "---\n".join(spec.on(name).yaml() for name in spec.expand(*on)) if on else spec.yaml()


def _open(name: str, system: System | str | Path, index: Index | None, above: Mapping[str, System]) -> System:
    if isinstance(system, Stage):
        return require_first(system)
    if not isinstance(system, str | Path):
        if isinstance(system, FirstStage):
            system.refuse()
        try:
            return open_run(system, name)  # type: ignore[return-value]
        except ArgumentTypeError as error:
            wrong = f"system {name!r}: expected a stage, a run or a file, got {system!r:.60}"
            hint = ": a function becomes a stage by tr.scorer(f) or tr.retriever(f)"
            raise ArgumentTypeError(f"{wrong}{hint if callable(system) else ''}") from error
    if Path(system).is_file():
        return RunFile(str(system))
    stages = {other: stage for other, stage in above.items() if isinstance(stage, Stage)}
    if isinstance(system, Path) or (index is None and not stages):
        raise CollectionError(f"system {name!r}: {system} is no file; a pipeline's text needs index=…")
    return read_pipeline(system, Names(Models(index), systems=stages, functions=FUNCTIONS))
