"""Functions of pipelines that exist in experiments only.

=========================================  ==================================================================
``judged``                                 the documents that are judged for each query
``relevant(a)``                            the ranking, and after it the relevant documents that it lacks
``given('what it is')``                    a system that the user must give (``--system NAME=PATH``)
``weighed(DeepCT, 'bm25(over=weights)')``  a pipeline, as text, over an index with a model's weights
``expanded(T5, 'bm25f(…)', queries=40)``   the same, over one with queries that a model predicts for documents
``best(bm25, by=AP, folds=5)``             the best setting of a family, chosen on other queries
``tuned(a, b, by=AP, folds=5, grid=…)``    the weighted sum, with the weights that other queries chose
=========================================  ==================================================================

The queries that choose are those of ``dev``, if the experiment has them; otherwise those of the other folds.
"""

from __future__ import annotations

import hashlib
import json
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, TypeVar
from warnings import catch_warnings, simplefilter

from annotated_types import Ge

from telerank.columns.filters import Filter
from telerank.corpus.derived.kept import DocSource
from telerank.corpus.derived.predicted import EXPANSION, expand_fields, expanding
from telerank.drafts import replace_file
from telerank.errors import CollectionError, LongTexts, count_noun
from telerank.evaluation.measures import find_cutoff
from telerank.evaluation.tune import Folds, Objective, TuneResult, tune
from telerank.expansion.sampling import Sampling
from telerank.experiments.analysis import Unavailable
from telerank.experiments.comparison import JudgedQueries, plain_name
from telerank.experiments.data import ExperimentData
from telerank.expressions import number_text
from telerank.fusion.lists import AlignedLists
from telerank.fusion.stages import run_stages
from telerank.fusion.tuning import WeightGrid, choose_weights
from telerank.parameters import Check
from telerank.pipelines.functions import FUNCTIONS, read_pipeline
from telerank.pipelines.reader import Models, Names
from telerank.pipelines.run_files import ListedRankings
from telerank.retrieval.index import Index
from telerank.sparse.retriever import SparseRetriever
from telerank.sparse.similarities.base import Similarity
from telerank.sparse.similarities.families import make_grid
from telerank.sparse.weights.encoder import TermEncoder
from telerank.sparse.writer import IndexWriter
from telerank.stage import Stage, Where
from telerank.stored import MANIFEST
from telerank.types import Explanation, Progress, Query, Ranking, silent

_BATCH = 256  # queries answered at a time
S = TypeVar("S")


@dataclass(frozen=True)
class ExperimentModels(Models):
    """As in every pipeline, but vectors and weights that are not there, or are of other documents, are made.

    ``notes`` collects what was cut.
    """

    notes: list[str] = field(default_factory=list)
    progress: Progress = silent

    def open_vectors(self, model: str | None, approximate: str | None, candidates: int) -> Stage:
        from telerank.dense.encoder import open_encoder
        from telerank.dense.retriever import build_approximate

        if self.index is None:
            raise Unavailable("dense needs an index")
        model = model or "minilm"
        encoder = open_encoder(self.locate(model))
        name = f"{plain_name(Path(model).name)}-{encoder.fingerprint[:12]}"
        vectors = self.index.encode(encoder, name=name, progress=self.progress)
        if note := vectors.manifest.cut_note:
            self.notes.append(note)
        if approximate is not None:
            build_approximate(vectors, approximate, progress=self.progress)
        return self.index.dense(
            name, approximate=approximate, candidates=candidates, models={name: encoder.model}
        )

    def open_maxsim(self, model: str | None) -> Stage:
        from telerank.late_interaction.encoder import LateEncoder

        if self.index is None or model is None:
            return super().open_maxsim(model)
        encoder = LateEncoder(self.locate(model))
        name = f"{plain_name(Path(model).name)}-{encoder.fingerprint[:12]}"
        vectors = self.index.encode_tokens(encoder, name=name, progress=self.progress)
        if note := vectors.manifest.cut_note:
            self.notes.append(note)
        return self.index.maxsim(name, models={name: encoder.model})

    def open_impact(self, model: str | None, queries: str | None, table: str | None) -> Stage:
        """Over an index of its own with the model's weights, beside that of the words."""
        if self.index is None or model is None:
            return super().open_impact(model, queries, table)
        weighed = self.index_weights(self.index, model)
        return replace(weighed.impact(queries=queries, table=table), chosen=self.index.docs.chosen)

    def index_weights(self, index: Index, model: str) -> Index:
        """The documents of an index with the weights that a model gives them, in a folder beside it."""
        encoder, words = TermEncoder(self.locate(model)), index.sparse
        digest = hashlib.sha256(f"{encoder.fingerprint} {words.state}".encode()).hexdigest()[:12]
        folder = words.folder.with_name(f"weights-{plain_name(Path(model).name)}-{digest}")

        def make() -> Iterator[str]:
            with (
                catch_warnings(record=True) as caught,
                IndexWriter(folder, words.analyzer, overwrite=True) as writer,
            ):
                simplefilter("always", LongTexts)
                writer.choose_weights(encoder)
                writer.add(words.docs.values(), progress=self.progress)
            cut = (str(each.message) for each in caught if each.category is LongTexts)
            return (note.replace(encoder.model, model) for note in cut)

        return self._make_once(folder, make)

    def index_expanded(self, index: Index, model: str, queries: int) -> Index:
        """The documents of an index with queries that a model predicts, in a folder beside it."""
        from telerank.expansion.generation import QueryWriter, Writing
        from telerank.expansion.writing import write_expansion

        predictor = QueryWriter(self.locate(model), Writing(queries, Sampling.parse("top-k=10")))
        words, settings = index.sparse, {**predictor.settings, "model": ""}  # its fingerprint identifies it
        digest = hashlib.sha256(f"{settings} {words.state}".encode()).hexdigest()[:12]
        folder = words.folder.with_name(f"expanded-{plain_name(Path(model).name)}-{digest}")

        def make() -> Iterator[str]:
            file = folder.with_suffix(".jsonl.gz")
            if not file.exists():
                source = DocSource(words.folder.name, len(words.docs), lambda: iter(words.docs.values()))
                write_expansion(source, file, predictor, None, self.progress)
            with (
                expanding(file) as expand_docs,
                IndexWriter(folder, words.analyzer, overwrite=True) as writer,
            ):
                writer.choose_columns({**words.manifest.columns, EXPANSION: "list"})
                writer.choose_fields(expand_fields(words.manifest.fields))
                writer.add(expand_docs(iter(words.docs.values())), progress=self.progress)
            record = json.loads(file.with_name(f"{file.name}.json").read_bytes())
            if record["cut"]:
                cut, most = count_noun(record["cut"], "document"), predictor.settings["max_length"]
                yield f"{cut} longer than {most} pieces: {model} reads those before"

        return self._make_once(folder, make)

    def _make_once(self, folder: Path, make: Callable[[], Iterator[str]]) -> Index:
        """The index in a folder, made if it is not there; what was cut goes to the notes each time."""
        notes = folder.with_name(f"notes-{folder.name}.json")
        if not (notes.is_file() and (folder / MANIFEST).is_file()):
            replace_file(notes, json.dumps(list(make())).encode())
        self.notes.extend(json.loads(notes.read_bytes()))
        return Index(folder)


@dataclass(frozen=True)
class ExperimentFunctions:
    """The functions of pipelines over the data of an experiment, for the queries of a split.

    ``notes`` collects in words what :meth:`best` and :meth:`tuned` have chosen.
    """

    data: ExperimentData
    queries: JudgedQueries
    split: str
    notes: list[str] = field(default_factory=list)

    def all(self) -> Mapping[str, Callable[..., Any] | str]:
        """The functions by name, those of every pipeline among them."""
        return {
            **FUNCTIONS,
            **{
                function.__name__: function
                for function in (
                    self.pool,
                    self.judged,
                    self.relevant,
                    self.given,
                    self.weighed,
                    self.expanded,
                    self.best,
                    self.tuned,
                )
            },
        }

    def pool(self, name: str) -> Stage:
        """As in every pipeline; a system of lists that the collection lacks is left out."""
        try:
            return self.data.collection.pool(name, self.split)
        except CollectionError as error:
            raise Unavailable(str(error)) from error

    def judged(self) -> Stage:
        """The documents that are judged for each query, docnos descending."""
        qrels = self.queries.qrels
        judged = ((query, tuple(qrels[query.qid])) for query in self.queries.queries if query.qid in qrels)
        return ListedRankings.of(
            "the judged documents",
            (Ranking.ranked(query, docnos, [0.0] * len(docnos)) for query, docnos in judged),
        )

    def relevant(self, stage: Stage) -> Stage:
        return WithRelevant(stage, self.queries, self.data.collection.relevant_from)

    def given(self, about: str) -> Stage:
        raise Unavailable(f"not given: {about}")

    def weighed(self, names: Names, model: str, pipeline: str) -> Stage:
        """A pipeline over an index of its own, which has the weights that a model gives the documents."""
        return self._read_over(names, pipeline, lambda models, index: models.index_weights(index, model))

    def expanded(self, names: Names, model: str, pipeline: str, queries: Annotated[int, Ge(1)] = 40) -> Stage:
        """A pipeline over an index of its own, whose documents have ``queries`` that a model predicts."""
        return self._read_over(
            names, pipeline, lambda models, index: models.index_expanded(index, model, queries)
        )

    def _read_over(
        self, names: Names, pipeline: str, make: Callable[[ExperimentModels, Index], Index]
    ) -> Stage:
        """A pipeline over the index that is made from the data's."""
        models = names.models
        if models.index is None or not isinstance(models, ExperimentModels):
            raise Unavailable(f"{pipeline}: needs an index")
        return read_pipeline(
            pipeline, replace(names, models=replace(models, index=make(models, models.index)))
        )

    def best(self, names: Names, family: Similarity, by: str, folds: int = 5) -> Stage:
        """The best of the family's grid: on ``dev``, or for each query of a fold on the other folds."""
        if names.index is None:
            raise Unavailable("best needs an index")
        index, depth = names.index.sparse, find_cutoff(by)
        settings = [
            SparseRetriever(index, setting, batch=_BATCH) for setting in make_grid(family, index.fields)
        ]

        def run(stage: SparseRetriever, queries: Iterable[Query]) -> Iterator[Ranking]:
            return (stage if depth is None else stage.limit(depth)).run(queries)

        choosing = self.data.dev or self.queries
        result = tune(
            settings,
            run,
            Objective(choosing.queries, choosing.qrels, by),
            held_out=self._folds(folds),
            progress=self.data.progress,
        )
        self.notes.append(f"{result.best!r}, the best of {count_noun(len(settings), 'setting')} by {by}")
        return self._choose_stage(result, lambda setting: replace(setting, batch=1))

    def tuned(
        self,
        *stages: Stage,
        by: str,
        folds: int = 5,
        grid: Annotated[str, Check(WeightGrid)] = "simplex",
    ) -> Stage:
        """The weighted sum, with the weights that are best on ``dev``, or for each fold on the others.

        The Piaf report's grid (equation 19) is ``square``.
        """
        choosing = self.data.dev or self.queries
        lists = {
            rankings[0].query.qid: AlignedLists.of(rankings, scale=False)
            for rankings in run_stages(stages, (Ranking(query) for query in choosing.queries))
        }
        points, held_out = WeightGrid(grid).points(len(stages)), self._folds(folds)
        result = choose_weights(
            points, lists, choosing.qrels, by, folds=held_out, progress=self.data.progress
        )
        if self.data.dev is not None:
            self.notes.append(f"weights {_join(result.best)}, the best of {len(points)} by {by}")
        else:
            chosen = ", ".join(
                f"{_join(choice)} ({times})" for choice, times in Counter(result.choices).most_common()
            )
            self.notes.append(
                f"weights by {by} of the other {folds - 1} of {count_noun(folds, 'fold')}: {chosen}"
            )

        def weigh(weights: Iterable[float]) -> Stage:  # w * a + v * b + …
            return reduce(
                operator.add, (weight * stage for stage, weight in zip(stages, weights, strict=True))
            )

        return self._choose_stage(result, weigh)

    def _choose_stage(self, result: TuneResult[S], make: Callable[[S], Stage]) -> Stage:
        """The stage of the best setting or, without ``dev``, for each fold that of what the others chose."""
        if self.data.dev is not None:
            return make(result.best)
        return ByQuery(
            tuple(map(make, (result.best, *result.choices))),
            {qid: i for i, fold in enumerate(result.folds, 1) for qid in fold},
        )

    def _folds(self, count: int) -> Folds:
        return Folds(count) if self.data.dev is None else Folds(2)  # of dev, and not looked at


@dataclass(frozen=True, eq=False)
class WithRelevant(Stage):
    """The rankings of the stage, and behind them the relevant documents that they lack, docnos descending."""

    stage: Stage
    judged: JudgedQueries
    relevant_from: int

    def filtered(self, chosen: Filter, *, fed: bool = False) -> Stage:
        return Where(replace(self, stage=self.stage.filtered(chosen, fed=fed)), chosen)

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        for ranking in self.stage(stream):
            grades = self.judged.qrels.get(ranking.query.qid, {})
            relevant = {docno for docno, grade in grades.items() if grade >= self.relevant_from}
            lacking = [docno for docno in grades if docno in relevant.difference(ranking.docnos)]
            last = float(ranking.scores[-1]) if len(ranking) else 0.0
            scores = [*ranking.scores.tolist(), *(last - 1.0 for _ in lacking)]
            yield Ranking.ranked(ranking.query, (*ranking.docnos, *lacking), scores) if lacking else ranking

    def explanation(self, query: Query, docno: str) -> Explanation:
        return self.stage.explanation(query, docno)


@dataclass(frozen=True, eq=False)
class ByQuery(Stage):
    """For each query the stage of its position, which other queries chose; the first for unknown queries."""

    stages: tuple[Stage, ...]
    positions: Mapping[str, int]

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return (next(iter(self._of(bare.query)([bare]))) for bare in stream)

    def explanation(self, query: Query, docno: str) -> Explanation:
        return self._of(query).explanation(query, docno)

    def _of(self, query: Query) -> Stage:
        return self.stages[self.positions.get(query.qid, 0)]


def _join(weights: Iterable[float]) -> str:
    return "/".join(map(number_text, weights))
