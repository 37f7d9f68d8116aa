"""The systems of an experiment: a run for each seed and, unless a system is a run alone, its stage."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from telerank.corpus.collection import split_parts
from telerank.errors import CollectionError, MissingExtra, count_noun
from telerank.experiments.analysis import Unavailable
from telerank.experiments.comparison import JudgedQueries, plain_name
from telerank.experiments.data import ExperimentData, Sources, open_data, recognise_folder
from telerank.experiments.functions import ExperimentFunctions, ExperimentModels
from telerank.experiments.schema import Experiment, RerankerUse, model_words, reranker_use, system_words
from telerank.experiments.trained import (
    LearningSet,
    ModelTrainer,
    describe_choices,
    find_model,
    is_training_run,
    model_of,
    resolve_models,
)
from telerank.expressions import Call, Expression, parse_expression, quote, walk
from telerank.pipelines.functions import read_pipeline
from telerank.pipelines.reader import Names, PipelineReader
from telerank.pipelines.run_files import RunFile
from telerank.stage import Stage
from telerank.trec import read_run, write_run, write_submission
from telerank.types import Ranking

if TYPE_CHECKING:
    from telerank.experiments.answers.trainer import ReaderTrainer
    from telerank.training.reranker.config import RerankerTraining


@dataclass(frozen=True)
class SystemRuns:
    """What a system is in a few words, its runs (one for each seed, if something is trained), its stage.

    ``ran`` is what ran, over the runs of other systems: it is there even if one of these is a run alone.
    ``remarks`` say what its stages and the trainings of its models cut. Both are of the first seed.
    """

    name: str
    about: str
    runs: tuple[Path, ...]
    stage: Stage | None = None
    remarks: tuple[str, ...] = ()
    ran: Stage | None = None

    def run(self, position: int) -> Path:
        """The run of a seed, by its position among the seeds."""
        return self.runs[position] if len(self.runs) > 1 else self.runs[0]


@dataclass(frozen=True)
class SystemRunner:
    """Runs the systems of an experiment over the queries of its data, in the order of the file.

    ``given`` are runs or folders that the user gives for systems, ``skip`` are systems to leave out. Runs are
    written into ``folder``. If ``several`` data are measured, a given run need not be of these.

    Attributes
    ----------
    systems
        Those that are available, once they have run.
    lacking
        Why the others are not, by name.
    """

    spec: Experiment
    data: ExperimentData
    sources: Sources
    folder: Path
    given: Mapping[str, str] = field(default_factory=dict)
    skip: tuple[str, ...] = ()
    several: bool = False
    systems: dict[str, SystemRuns] = field(default_factory=dict, init=False)
    lacking: dict[str, str] = field(default_factory=dict, init=False)
    _folders: dict[str, tuple[Path, ...]] = field(default_factory=dict)

    def run(self) -> None:
        """Run the systems that are available.

        Raises CollectionError if something that the user gives is not there, or of the wrong kind.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in self.spec.systems:
            self.data.progress(f"system {name}", 0, 1)
            try:
                system = self._run_system(name)
                self.systems[name] = replace(system, about=system.about + self._submit(name))
            except (Unavailable, MissingExtra) as reason:
                self.lacking[name] = str(reason)
            self.data.progress(f"system {name}", 1, 1)

    def read_stage(self, name: str, text: str, position: int = 0) -> Stage:
        """The stage of a pipeline over the systems and models of the experiment.

        What the user gives for a system of this ``name`` stands in its place. Models that it needs are
        trained; of their seeds, that at ``position`` is used. Raises Unavailable if it is left out, or needs
        a system that is not available.
        """
        given = self._put_given(name, text)
        if given is None:
            return RunFile(self.given[name])
        text, models = given
        self._train_models(model_words(parse_expression(text)) - models.keys())
        return read_pipeline(text, self._names(self._stages(text), models, position))

    def rerank_changed(self, name: str, changes: Mapping[str, Any]) -> tuple[Path, ...]:
        """The runs of a system ``CANDIDATES >> rerank(MODEL)``, its model trained with other settings.

        Raises Unavailable if it is not available, CollectionError if no such model is trained.
        """
        use = reranker_use(parse_expression(self.spec.systems[name]))
        if use is None or use.model not in self.spec.trained:
            raise CollectionError(f"{name}: expected CANDIDATES >> rerank(MODEL), of a model that is trained")
        if name in self.lacking:
            raise Unavailable(self.lacking[name])
        lists = self._write_candidates(name, use)
        return tuple(
            self.trainer.rerank(use.model, seed, lists, changes) for seed in self.trainer.seeds(use.model)
        )

    def configure_reranker(self, name: str) -> RerankerTraining:
        """The settings of a re-ranker's training with its first seed.

        Raises Unavailable if nothing to start from is here, CollectionError if no such model is trained.
        """
        if name not in self.spec.trained:
            known = ", ".join(self.spec.trained) or "none"
            raise CollectionError(f"an analysis names the model {name!r}; the experiment trains: {known}")
        if (kind := self.spec.trained[name].train) != "reranker":
            raise CollectionError(f"{name} is trained as a {kind}, not as a re-ranker")
        return cast("RerankerTraining", self.trainer.configure(name, self.trainer.seeds(name)[0]))

    def find_checkpoint(self, name: str) -> str:
        """The folder of a re-ranker: as it is given, or as the first seed has trained it.

        If no system trains a model on a frozen encoder, it is that encoder. Raises Unavailable if there is no
        model.
        """
        if name in self._models:
            return self._models[name]
        if name in self._folders:
            return str(self._folders[name][0])
        if not self.configure_reranker(name).model.frozen:
            raise Unavailable(f"no system has trained {name}")
        return self.trainer.find_start(name)

    @cached_property
    def _models(self) -> Mapping[str, str]:
        return resolve_models(self.spec, self.sources)

    @cached_property
    def trainer(self) -> ModelTrainer:
        return ModelTrainer(self.spec, self.data, self.sources, self._write_split_run, self._open_set)

    @cached_property
    def readers(self) -> ReaderTrainer:
        """What trains the readers of analyses."""
        from telerank.experiments.answers.trainer import ReaderTrainer  # which needs torch

        return ReaderTrainer(self.spec, self.data, self.sources)

    def _open_set(self, name: str) -> LearningSet:
        """A collection that models learn from, made if it is not there, and what writes its runs."""
        spec, data = self.spec.learn_from(name), self.data
        opened = open_data(name, spec, data.sources, data.folder.parent, data.progress)
        runner = SystemRunner(spec, opened, self.sources, opened.folder / "runs")
        return LearningSet(opened, runner._write_split_run)

    def _run_system(self, name: str) -> SystemRuns:
        given = self._put_given(name, self.spec.systems[name])
        if given is None:
            return self._given_run(name, Path(self.given[name]))
        text, models = given
        about = f"{Path(self.given[name]).name}, given" if name in self.given else text
        tree = parse_expression(text)
        self._check_available(tree)
        for word in sorted(model_words(tree) & self._models.keys() - models.keys()):
            find_model(self._models[word])
        about += describe_choices(self.spec, self._models, model_words(tree) - models.keys())
        use = reranker_use(tree)
        if use is not None and self.trainer.tests(use.model) and use.model not in {**models, **self._models}:
            return self._run_trained(name, use)
        about += self._train_models(model_words(tree) - models.keys())
        remarks: list[str] = []
        for word in sorted(model_words(tree, "rerank") & self._folders.keys() - models.keys()):
            from telerank.training.reranker.train import describe_cut

            if cut := describe_cut(self._folders[word][0].parent):
                remarks.append(f"training of {word}: {cut}")
        notes: list[str] = []
        paths, first = [], None
        count = self.count_seeds(tree)
        for position in range(count):
            names = self._names(self._run_files(position), models, position, [] if position else notes)
            stage = read_pipeline(text, names) % self.spec.depth
            paths.append(self.folder / f"{f'{position}-' if count > 1 else ''}{plain_name(name)}.run.gz")
            queries = self.data.queries.queries
            write_run(paths[-1], self._report(name, stage.run(queries), len(queries)))
            first = first or stage
            remarks += stage.all_remarks if position == 0 else []
        if notes:
            about += f": {'; '.join(notes)}" + (
                f" (the first of {count_noun(count, 'seed')})" if count > 1 else ""
            )
        return SystemRuns(name, about, tuple(paths), self._stage(text, models), tuple(remarks), first)

    def _train_models(self, models: set[str]) -> str:
        """Train those of the models that are not trained yet; what they are, in words."""
        about = ""
        for model in sorted(models & self.spec.trained.keys() - self._folders.keys() - self._models.keys()):
            self._folders[model] = tuple(
                self.trainer.train(model, seed) for seed in self.trainer.seeds(model)
            )
            about += f": {self.trainer.describe(model)}"
        return about

    def _run_trained(self, name: str, use: RerankerUse) -> SystemRuns:
        """The runs of the trainings' own tests, which re-rank the candidates."""
        about = self._train_models(model_words(use.candidates))
        lists = self._write_candidates(name, use)
        runs = tuple(self.trainer.rerank(use.model, seed, lists) for seed in self.trainer.seeds(use.model))
        if not is_training_run(runs[0]):  # joined of the folds of a cross-validation
            return SystemRuns(name, f"{self.trainer.describe(use.model)}{about}, cross-validated", runs)
        from telerank.training.reranker.train import describe_cut  # which needs torch, as the trainer says

        self._folders[use.model] = tuple(map(model_of, runs))
        stage = self._stage(self.spec.systems[name])
        if cut := describe_cut(model_of(runs[0]).parent, runs[0].parent):
            about += f"; {cut}"
        return SystemRuns(name, self.trainer.describe(use.model) + about, runs, stage)

    def _write_candidates(self, name: str, use: RerankerUse) -> Path:
        """The candidates that a system re-ranks, of its first seed, as a run."""
        reader = PipelineReader(self.spec.systems[name], self._names(self._run_files(0)))
        candidates = reader.stage(use.candidates) % self.spec.depth
        lists = self.folder / f"{plain_name(name)}.candidates.run.gz"
        write_run(lists, (ranking for ranking in candidates.run(self.data.queries.queries) if len(ranking)))
        return lists

    def _submit(self, name: str) -> str:
        """Write a system's submission, of its first seed; what was written, in words."""
        split = self.data.spec.submission
        if split is None or name in self.given:
            return ""
        if split not in self.data.collection.queries:
            return f"; no submission: {self.data.name} has no queries of {split}"
        try:
            run = self._write_split_run(f"{quote(name)} % {self.spec.depth}", split)
        except Unavailable as reason:
            return f"; no submission: {reason}"
        path = self.folder.parent / f"{plain_name(name)}.{split}.tsv"
        write_submission(path, read_run(run))
        return f"; its submission is {path.name}"

    def _given_run(self, name: str, source: Path) -> SystemRuns:
        qids = {query.qid for query in self.data.judged.queries}
        answered = sum(ranking.query.qid in qids for ranking in read_run(source))
        if not answered:
            reason = f"{source}: no query of it is in {self.data.name}, split {self.data.split}"
            raise Unavailable(reason) if self.several else CollectionError(reason)
        short = (
            "" if answered == len(qids) else f", which answers {answered} of {count_noun(len(qids), 'query')}"
        )
        return SystemRuns(name, f"the run {source.name}{short}", (source,))

    def _put_given(self, name: str, text: str) -> tuple[str, Mapping[str, str]] | None:
        """A pipeline with the user's model in it, and that model by the name that it has there.

        None if the user gives a run instead. Raises Unavailable if the system is left out.
        """
        if name in self.skip:
            raise Unavailable("left out")
        if name not in self.given:
            return text, {}
        folder = Path(self.given[name])
        if folder.is_file():
            return None
        if not folder.exists():
            raise CollectionError(f"systems=…: {name}={folder}: no such file or folder")
        kind, rerankers = recognise_folder(folder), model_words(parse_expression(text), "rerank")
        if kind == "a re-ranker" and len(rerankers) == 1:
            return text, {rerankers.pop(): str(folder)}
        if kind == "a bi-encoder" and not rerankers:
            return f"dense({plain_name(name)})", {plain_name(name): str(folder)}
        needs = "a re-ranker" if rerankers else "a first stage: a run file or a bi-encoder"
        raise CollectionError(f"systems=…: {name}={folder}: holds {kind}, but the system is {needs}")

    def _names(
        self,
        stages: Mapping[str, Stage],
        models: Mapping[str, str] | None = None,
        position: int = 0,
        notes: list[str] | None = None,
    ) -> Names:
        data = self.data
        notes = [] if notes is None else notes
        functions = ExperimentFunctions(data, data.queries, data.split, notes)
        trained = {
            name: str(folders[position] if position < len(folders) else folders[0])
            for name, folders in self._folders.items()
        }
        opened = ExperimentModels(
            data.index(), {**self._models, **trained, **(models or {})}, notes, data.progress
        )
        return Names(opened, systems=stages, functions=functions.all())

    def _stage(self, text: str, models: Mapping[str, str] | None = None) -> Stage | None:
        """The stage of a system, without runs in it; None if one of its systems is a run alone."""
        try:
            stages = self._stages(text)
        except Unavailable:
            return None
        return read_pipeline(text, self._names(stages, models)) % self.spec.depth

    def _stages(self, text: str) -> dict[str, Stage]:
        tree = parse_expression(text)
        self._check_available(tree)
        stages = {}
        for name in system_words(tree) & self.systems.keys():
            stage = self.systems[name].stage
            if stage is None:
                raise Unavailable(f"{name} is a run alone")
            stages[name] = stage
        calls = {node.name for node in walk(tree) if isinstance(node, Call)}
        alone = {"judged", "relevant", "tuned"} | (set() if "rerank" in calls else {"pool"})
        if (calls | system_words(tree)) & alone:
            raise Unavailable("it is made for these queries alone")
        return stages

    def _check_available(self, tree: Expression) -> None:
        for name in system_words(tree) & self.lacking.keys():
            raise Unavailable(f"it needs {name}")

    def _run_files(self, position: int) -> dict[str, Stage]:
        return {name: RunFile(str(runs.run(position))) for name, runs in self.systems.items()}

    def count_seeds(self, tree: Expression) -> int:
        """The number of seeds: the least of those of the systems and models that a pipeline is made of."""
        counts = [len(self.systems[name].runs) for name in system_words(tree) & self.systems.keys()]
        counts += [len(self._folders[name]) for name in model_words(tree) & self._folders.keys()]
        return min((count for count in counts if count > 1), default=1)

    def _write_split_run(self, text: str, split: str, position: int = 0) -> Path:
        """The run of a pipeline over another split; one that is there is used."""
        collection, index = self.data.collection, self.data.index()
        has_qrels = all(part in collection.qrels for part in split_parts(split))
        qrels = collection.judged(split) if has_qrels else {}
        judged = JudgedQueries(tuple(collection.split_queries(split)), qrels)
        needed = system_words(parse_expression(text))
        for name, other in reversed(self.spec.systems.items()):  # a system is made of those above it
            needed |= system_words(parse_expression(other)) if name in needed else set()
        texts = {name: other for name, other in self.spec.systems.items() if name in needed}
        words = set().union(*(model_words(parse_expression(part)) for part in (text, *texts.values())))
        self._train_models(words)
        functions = ExperimentFunctions(self.data, judged, split).all()
        stages: dict[str, Stage] = {}
        names = replace(self._names(stages, position=position), functions=functions)
        here = str(self.data.folder)  # which may be copied
        sources = names.models.sources
        used = {word: str(sources[word]).removeprefix(here) for word in words & sources.keys()}
        key = repr([text, split, texts, sorted(used.items()), index.sparse.state])
        digest = hashlib.sha256(key.encode()).hexdigest()[:12]
        path = self.data.folder / "runs" / f"{plain_name(split)}-{digest}.run.gz"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            for name, other in texts.items():
                stages[name] = read_pipeline(other, names)
            write_run(
                path,
                self._report(
                    f"split {split}", read_pipeline(text, names).run(judged.queries), len(judged.queries)
                ),
            )
        return path

    def _report(self, name: str, rankings: Iterable[Ranking], total: int) -> Iterator[Ranking]:
        for done, ranking in enumerate(rankings, 1):
            self.data.progress(f"searching with {name}", done, total)
            yield ranking
