"""Tuning: choose among pipelines and analyzers by cross-validation, or on one split for another."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from telerank.computing import Count
from telerank.corpus.answers import CLICKS, FIRST_CLICKS, JUDGMENTS
from telerank.corpus.collection import Collection
from telerank.corpus.formats import open_collection
from telerank.errors import ArgumentError, CollectionError, count_noun
from telerank.evaluation.matching import describe_unmatched
from telerank.evaluation.measures import MeasureNames, parse_measures
from telerank.evaluation.tune import Folds, Objective, TuneResult
from telerank.evaluation.tune import tune as tune_settings
from telerank.feedback.methods import METHODS, make_feedback_grid
from telerank.parameters import FoldCount, FoldSeed
from telerank.pipelines.functions import pipeline
from telerank.retrieval.index import Index
from telerank.show.progress import NOTHING, show_progress
from telerank.sparse.similarities.families import make_grid, parse_similarity
from telerank.sparse.writer import IndexWriter
from telerank.stage import change_stages
from telerank.text import Analyzer
from telerank.types import Progress, ProgressSetting, Qrels, Query, Ranking

__all__ = ["TuneResult", "TuneSetting", "tune"]

_BATCH = 256  # queries answered at a time
LEAST_JUDGED = 20
"""Queries that users must have judged, or clicked for, before pipelines are chosen by them."""


@dataclass(frozen=True)
class TuneSetting:
    """A pipeline, by its text, over the documents as an analyzer makes terms of them."""

    pipeline: str
    analyzer: str

    def __str__(self) -> str:
        return f"{self.pipeline}, {self.analyzer}"


def tune(
    index: Index | str | Path,
    data: Collection | str | Path,
    models: str | Sequence[str] = (),
    *,
    settings: Sequence[str] = (),
    analyzers: Sequence[str] = (),
    measures: MeasureNames = "nDCG@10",
    split: str | None = None,
    test: str | None = None,
    where: str | None = None,
    folds: FoldCount = 5,
    seed: FoldSeed = 0,
    k: Count = 1000,
    progress: ProgressSetting = None,
) -> TuneResult[TuneSetting]:
    """Choose the best of several pipelines for the judged queries of a split, by cross-validation.

    ``models`` are families of sparse models (``bm25``, ``dfr``, ``bm25f``, ``bm25(field=title)``, …) or of
    feedback behind BM25 (``rm3``, ``bo1``, ``rocchio``), whose usual settings are tried: by default ``bm25``.
    ``settings`` are texts of any
    pipelines. Each is tried with each of the ``analyzers``: by default the index's own; for others the texts
    are indexed again, temporarily. With ``test``, another split measures the choice instead of ``folds``.
    ``k`` documents are kept for each query. ``where`` is a filter of documents by their columns, which every
    setting searches within; relevant documents that do not pass count as not found.

    >>> print(tr.tune("idx", "scifact", "bm25", split="train", test="test", measures="nDCG@10"))

    Raises
    ------
    CollectionError
        If the index is another collection's, or there are too few judged queries: 20 of users.
    ExpressionError
        If a setting or the name of a family cannot be read.
    FilterError
        If the filter cannot be read, or a column of it is unknown or of another kind.
    MeasureError
        If the measure's name is invalid, or there are several measures.
    """
    names = " ".join(parse_measures(measures))
    opened = Index(index) if isinstance(index, str | Path) else index
    source = open_collection(data) if isinstance(data, str | Path) else data
    splits = "+".join(dict.fromkeys(name for name in (split, test) if name is not None))
    read = partial(pipeline, pool=cache(partial(source.pool, split=splits or None)))
    families = [models] if isinstance(models, str) else list(models)
    chosen = families or ([] if settings else ["bm25"])
    grids = [text for name in chosen for text in _list_settings(name, opened.fields)]
    # each as its pipeline prints it, so that none comes twice
    texts = list(dict.fromkeys([*grids, *(read(text, opened).text for text in settings)]))
    dev, qrels = list(source.split_queries(split)), source.judged(split)
    held_out: Folds | list[Query] = Folds(folds, seed)
    if test is not None:
        held_out, qrels = list(source.split_queries(test)), {**qrels, **source.judged(test)}
    notes = (*_check_documents(opened, source, qrels), *_check_use(source, len(qrels)))
    with (
        show_progress(progress, kept=NOTHING) as shown,
        _open_indexes(opened, analyzers, shown) as indexes,
    ):
        choices = [TuneSetting(text, name) for name in indexes for text in texts]

        def run(setting: TuneSetting, queries: Sequence[Query]) -> Iterator[Ranking]:
            opened = indexes[setting.analyzer]
            stage = read(setting.pipeline, opened)
            stage = (stage if where is None else stage.where(where, opened.docs)) % k
            return change_stages(stage, lambda part: part.in_batches(_BATCH)).run(queries)

        objective = Objective(dev, qrels, names)
        try:
            result = tune_settings(choices, run, objective, held_out=held_out, progress=shown)
        except ArgumentError as error:  # too few queries for the folds, and similar
            raise CollectionError(f"{source.name}: {error}") from error
    return replace(result, notes=notes)


def _check_documents(index: Index, source: Collection, qrels: Qrels) -> tuple[str, ...]:
    """What to say of judged documents that the index lacks; CollectionError if it has none of them."""
    judged = [docno for grades in qrels.values() for docno in grades]
    notes = describe_unmatched(judged, index.docs, source.name, str(index.folder))
    if not any(docno in index.docs or index.docs.of_file(docno) for docno in judged):
        raise CollectionError(
            f"{index.folder}: holds no document that {source.name} judges: another collection's index, or "
            f"documents of other names: {notes[0]}"
        )
    return tuple(notes)


def _check_use(source: Collection, queries: int) -> Iterator[str]:
    """What to say of a collection of clicks; raises CollectionError if users judged too few queries."""
    if source.format != JUDGMENTS.name:
        return
    if queries < LEAST_JUDGED:
        needed = f"at least {LEAST_JUDGED} are needed to choose by them"
        raise CollectionError(f"{source.name}: users judged {count_noun(queries, 'query')}; {needed}")
    notes = source.notes()
    if clicks := notes.get(CLICKS):
        share = notes[FIRST_CLICKS] / clicks
        yield (
            f"{count_noun(clicks, 'click')} among the judgments, {share:.0%} on the first rank: what stood "
            "first is clicked more often, and the ranking that was shown is favoured"
        )


@contextmanager
def _open_indexes(index: Index, analyzers: Sequence[str], progress: Progress) -> Iterator[dict[str, Index]]:
    """The index for each analyzer: itself for its own, a temporary one of its texts for another."""
    with tempfile.TemporaryDirectory(prefix="telerank-tune-") as folder:
        indexes = {}
        for number, name in enumerate(analyzers or [index.analyzer.name]):
            analyzer = Analyzer.parse(name)
            indexes[analyzer.name] = index
            if analyzer != index.analyzer:
                rebuilt = Path(folder, str(number))
                with IndexWriter(rebuilt, analyzer) as writer:
                    writer.choose_columns(index.columns)
                    writer.choose_fields(index.fields)
                    writer.add(index.docs.values(), progress=progress)
                indexes[analyzer.name] = Index(rebuilt)
        yield indexes


def _list_settings(family: str, fields: Sequence[str]) -> list[str]:
    """The texts of the settings of a family; feedback is behind BM25 at its defaults."""
    if family in METHODS:
        return [f"bm25 >> {method!r}" for method in make_feedback_grid(family)]
    return [repr(similarity) for similarity in make_grid(parse_similarity(family), fields)]
