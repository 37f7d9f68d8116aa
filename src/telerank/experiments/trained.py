"""The models that an experiment trains: each with each seed, unless the same training is there already.

``trained/`` in the folder of the data has a folder for each training, named by the model, the seed and a hash
of everything that it depends on. A training that is there is not repeated, one that was interrupted is
resumed. What a re-ranker has re-ranked is in ``tests/`` there, named by a hash of the candidates.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pydantic import ValidationError

from telerank.corpus.collection import split_parts
from telerank.drafts import remove_folder
from telerank.errors import CollectionError, MissingExtra, ModelError, count_noun
from telerank.experiments.analysis import Unavailable
from telerank.experiments.comparison import plain_name
from telerank.experiments.data import MODELS, ExperimentData, Sources
from telerank.experiments.schema import Experiment, GivenModel, TrainedModel, merge
from telerank.model_names import is_here
from telerank.records import describe_error
from telerank.stored import file_checksum, folder_checksum
from telerank.training.kinds import find_training_kind
from telerank.training.settings import Training
from telerank.training.trained import CHECKPOINTS, MODEL, RUN, collect_versions
from telerank.types import Progress

if TYPE_CHECKING:
    from telerank.training.bi_encoder.config import BiEncoderTraining
    from telerank.training.reranker.config import RerankerTraining

_FILES = (
    ("data", "negatives", "run"),
    ("data", "listed", "run"),
    ("data", "segments", "answers"),
    ("data", "triples", "file"),
    ("dev", "run"),
    ("test", "run"),
    ("loss", "teacher"),
)
"""Settings that are files: a training depends on what they hold, not on where they are."""


WriteRun: TypeAlias = Callable[[str, str, int], Path]
"""Writes the run of a pipeline over a split, of the seed at a position."""


class LearningSet(NamedTuple):
    """A collection that models learn from, open, and what writes runs over it."""

    data: ExperimentData
    write_run: WriteRun


@dataclass(frozen=True)
class ModelTrainer:
    """Trains the models of an experiment on its data.

    ``write_run(text, split, position)`` writes the run of a pipeline over a split, for the settings of
    trainings that name one; of a model that is part of it, the seed at that position is used. ``open_set``
    opens another collection to learn from, by its name.
    """

    spec: Experiment
    data: ExperimentData
    sources: Sources
    write_run: WriteRun
    open_set: Callable[[str], LearningSet]
    _homes: dict[str, ExperimentData] = field(default_factory=dict, init=False)

    def seeds(self, name: str) -> tuple[int, ...]:
        """The seeds that a model is trained with."""
        return self.spec.trained[name].seeds or self.spec.seeds

    def tests(self, name: str) -> bool:
        """Whether a model is trained, and its training re-ranks candidates of the data itself."""
        return name in self.spec.trained and "collection" not in self._settings(name).get("data", {})

    def train(self, name: str, seed: int) -> Path:
        """The folder of a trained model.

        Raises Unavailable if nothing to start from is here, CollectionError if the settings are wrong.
        """
        return self._train(name, self.configure(name, seed)) / MODEL

    def rerank(
        self, name: str, seed: int, candidates: Path, changes: Mapping[str, Any] | None = None
    ) -> Path:
        """The run in which a re-ranker, trained with ``changes`` of its settings, re-ranks candidates.

        Its model is :func:`model_of` the run. Raises as :meth:`train`.
        """
        from telerank.training.reranker.config import RerankerTraining

        config = self.configure(name, seed, candidates, changes)
        if not isinstance(config, RerankerTraining):
            raise CollectionError(f"{name} is a bi-encoder: it does not re-rank; dense({name}) retrieves")
        if config.folds is not None and config.held_out is None:
            return self._rerank_folds(name, config, candidates)
        return self._rerank(name, config, candidates)

    def _rerank(self, name: str, config: RerankerTraining, candidates: Path) -> Path:
        from telerank.training.reranker.job import RerankerJob

        folder = self._train(name, config)
        output = folder / "tests" / _test_digest(config, candidates)
        if not (output / RUN).exists():
            output.mkdir(parents=True, exist_ok=True)
            RerankerJob.open(config, output, self.data.folder).measure(self.data.progress, folder / MODEL)
        return output / RUN

    def _rerank_folds(self, name: str, config: RerankerTraining, candidates: Path) -> Path:
        """The runs of all folds of a cross-validation, joined: each query is ranked by what left it out."""
        from telerank.training.reranker.plan import Variant
        from telerank.training.reranker.train import join_runs

        parts = [Variant(fold=fold).apply(config) for fold in range(config.folds or 0)]
        joined = self._folder(name, config) / "tests" / _test_digest(config, candidates) / RUN
        joined.parent.mkdir(parents=True, exist_ok=True)
        join_runs([self._rerank(name, part, candidates) for part in parts], joined)
        return joined

    def _folder(self, name: str, config: RerankerTraining | BiEncoderTraining) -> Path:
        home = self._homes.get(config.data.collection, self.data)
        return training_folder(home.folder / "trained", name, config, self._record(config))

    def configure(
        self,
        name: str,
        seed: int,
        candidates: Path | None = None,
        changes: Mapping[str, Any] | None = None,
    ) -> RerankerTraining | BiEncoderTraining:
        """The settings of a training; the runs that they name are written. Raises as :meth:`train`."""
        record = {**merge(self._settings(name), changes or {}), "seed": seed}
        position = self.seeds(name).index(seed)
        record["model"] = {**record.get("model", {}), "start": self.find_start(name, position)}
        data = record.setdefault("data", {})
        source, write = self._learns_from(data)
        data["collection"] = source.source
        if triples := data.get("triples"):
            inside = Path(source.source, triples["file"])
            triples["file"] = str(inside if inside.is_file() else triples["file"])
        for part in ("negatives", "listed"):
            _replace_run(data.get(part), data.get("split", "train"), position, write)
        if dev := record.get("dev"):
            _replace_run(dev, dev.get("split", "dev"), position, write)
        kind = self.spec.trained[name].train
        is_own = kind == "reranker" and source is self.data
        if candidates is not None and is_own:
            record["test"] = self._test(record, candidates)
            if record.get("folds") and len(self.seeds(name)) > 1:
                record["repetition"] = position
        elif is_own and self.data.split in split_parts(data.get("split", "train")):
            system = f"a system `CANDIDATES >> rerank({name})` above"
            raise CollectionError(f"{name} learns from queries that measure: it is trained by {system}")
        config: RerankerTraining | BiEncoderTraining = read_training(name, kind, record)
        segments, split = record["data"].get("segments") or {}, config.data.split
        needed = segments.get("select") == "gold" and segments.get("answers") is None
        if needed and not any(part in source.collection.answers for part in split_parts(split)):
            lacks = f"{source.collection.name} has no known passages of split {split!r}"
            how = "give a file of them, data.segments.answers (telerank data align-passages makes MS MARCO's)"
            raise Unavailable(f"{lacks}: {how}")
        return config

    def find_start(self, name: str, position: int = 0) -> str:
        """The first of the encoders or word vectors to start from that is available; or else Unavailable.

        If a model of the experiment is to start from, it is trained, with its seed at that position.
        """
        start = self._starts(name)[0]
        if start not in self.spec.trained:
            return find_encoder(self._starts(name), self.sources)
        seeds = self.seeds(start)
        position = position if position < len(seeds) else 0
        kind = self.spec.trained[start].train
        if kind in ("reader", "mlm"):
            from telerank.experiments.answers.trainer import ReaderTrainer

            return str(ReaderTrainer(self.spec, self.data, self.sources, kind).folders(start)[position])
        return str(self.train(start, seeds[position]))

    def describe(self, name: str) -> str:
        """Kind, start and seeds of a model, in a few words."""
        model = self._settings(name).get("model", {})
        first = self._starts(name)[0]
        if first in self.spec.trained:
            start, other = first, f" ({self.describe(first)})"
        else:
            start = Path(self.find_start(name)).name
            other = "" if start == first else f" ({first} is not here)"
        frozen = ", frozen" if model.get("frozen") else ""
        count = len(self.seeds(name))
        seeds = "one seed" if count == 1 else f"{count_noun(count, 'seed')}"
        trained = self.spec.trained[name].train
        kind = model.get("kind", "monobert") if trained == "reranker" else trained
        return f"{kind} from {start}{other}{frozen}, trained with {seeds}"

    def _train(self, name: str, config: RerankerTraining | BiEncoderTraining) -> Path:
        """The folder of a training without its test, whose queries are kept back if they are of its split."""
        from telerank.training.reranker.config import RerankerTraining

        if isinstance(config, RerankerTraining) and config.test:
            kept = config.test.split == config.data.split
            test = config.test.model_copy(update={"measures": ()}) if kept else None
            config = config.model_copy(update={"test": test})
        data, folder = self.data, self._folder(name, config)
        return train_once(self.spec.trained[name].train, config, folder, data.folder, data.progress)

    def _test(self, record: Mapping[str, Any], candidates: Path) -> dict[str, Any]:
        """The test that re-ranks candidates, with what the settings say of it."""
        return {
            "split": self.data.split,
            "run": str(candidates),
            "measures": self._measures(),
            "listed": self.spec.queries is not None or self.spec.dev is not None,
            "store": bool(record["model"].get("frozen")),
            **record.get("test", {}),
        }

    def _settings(self, name: str) -> dict[str, Any]:
        model = self.spec.trained[name]
        return merge(self.spec.training if model.train == "reranker" else {}, model.settings)

    def _starts(self, name: str) -> list[str]:
        from telerank.models.rerankers.kinds import find_kind

        model = self._settings(name).get("model", {})
        usual = {"start": "bert-base-uncased"}
        if self.spec.trained[name].train == "reranker":
            usual = find_kind(model.get("kind", "monobert")).training.get("model", {})
        start = model.get("start", usual.get("start", "minilm"))
        return [start] if isinstance(start, str) else list(start)

    def _measures(self) -> list[str]:
        """The measures of the first quality analysis."""
        measures = (analysis.quality_measures for analysis in self.spec.analyses)
        return list(next(filter(None, measures), ("AP",)))

    def _learns_from(self, data: Mapping[str, Any]) -> LearningSet:
        """The data itself, or the set that a training's data names."""
        name = data.get("collection")
        opened = LearningSet(self.data, self.write_run) if name is None else self.open_set(str(name))
        self._homes[opened.data.source] = opened.data
        return opened

    def _record(self, config: RerankerTraining | BiEncoderTraining) -> dict[str, Any]:
        """The settings, with hashes of files and collections, wherever they are."""
        record = config.model_dump(mode="json")
        home = self._homes.get(config.data.collection, self.data)
        record["data"]["collection"] = home.content
        segments = record["data"].get("segments") or {}
        if segments.get("select") in ("gold", "best") and not home.spec.made_of:
            # answers of what is made follow from its content; those that were aligned may be made again
            segments["answers"] = segments["answers"] or home.known_text
        for *parts, name in _FILES:
            section: Any = record
            for part in parts:
                section = (section or {}).get(part)
            if section and section.get(name) and Path(section[name]).is_file():
                section[name] = file_checksum(Path(section[name]))
        return record


def model_of(run: Path) -> Path:
    """The folder of the model that has re-ranked a run of :meth:`ModelTrainer.rerank`."""
    return run.parents[2] / MODEL


def is_training_run(run: Path) -> bool:
    """Whether a run is one of :meth:`ModelTrainer.rerank`."""
    return len(run.parents) > 2 and model_of(run).is_dir()


def _replace_run(part: Any, split: str, position: int, write: WriteRun) -> None:
    """Write the run of a pipeline, and put its file in the place of the text."""
    if isinstance(part, dict) and part.get("run") and not Path(part["run"]).is_file():
        text = f"({part['run']}) % {int(part.get('depth', 1000))}"
        part["run"] = str(write(text, split, position))


def _test_digest(config: RerankerTraining, candidates: Path) -> str:
    test = config.model_dump(mode="json")["test"]
    return _digest(test | {"run": file_checksum(candidates), "measures": ()})


def read_training(name: str, kind: str, record: Mapping[str, Any]) -> Any:
    """The settings of a training of a kind. Raises CollectionError if they are wrong."""
    try:
        return find_training_kind(kind).settings.model_validate(record)
    except ValidationError as error:
        raise CollectionError(f"the training of {name}: expected {describe_error(error)}") from error


def train_once(kind: str, config: Training, folder: Path, shared: Path, progress: Progress) -> Path:
    """The folder of a training, which is made unless it is over: checkpoints are there until then."""
    if not (folder / MODEL).exists() or (folder / CHECKPOINTS).exists():
        find_training_kind(kind).train(config, folder, shared=shared, resume=True, progress=progress)
        if (folder / CHECKPOINTS).exists():
            remove_folder(folder / CHECKPOINTS)  # the best model so far exists before a training is over
    return folder


def training_folder(home: Path, name: str, config: Training, record: dict[str, Any]) -> Path:
    """The folder of a training, named by a hash of its record, of where it starts, and of versions."""
    for key in ("start", "document_start", "query_start"):
        if start := record["model"].get(key):
            record["model"][key] = _start_checksum(start)
    return home / f"{plain_name(name)}-{config.seed}-{_digest([record, collect_versions()])}"


def _digest(record: Any) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:12]


def find_encoder(names: str | Sequence[str], sources: Sources) -> str:
    """The first of these encoders or word vectors, or the only one, if it is available: path or name.

    The hub is asked for a name before the next name is tried; those that the user gives by name come first.
    Raises Unavailable if none is available.
    """
    from telerank.models.loading import locate

    names = [names] if isinstance(names, str) else names
    for name in sorted(names, key=lambda name: name not in sources.named):
        if (source := sources.find(name)) is not None:
            return source
        try:
            locate(name)
        except (ModelError, MissingExtra):
            continue
        return name
    option, variable = MODELS
    how = f"give {option} {names[0]}=FOLDER, or a folder of them in {variable}"
    raise Unavailable(f"nothing to start from is here: {' or '.join(names)}; {how}")


def _start_checksum(start: str) -> str:
    """A hash of the files of an encoder, or of word vectors."""
    from telerank.models.loading import locate

    if Path(start).is_file():
        return file_checksum(Path(start))
    return folder_checksum(Path(start) if Path(start).is_dir() else locate(start))


def resolve_models(spec: Experiment, sources: Sources) -> Mapping[str, str]:
    """The paths or names of the models that are given: the first of each that is on this machine.

    If none is, the first, which is then sought on the hub.
    """
    models = {}
    for name, model in spec.models.items():
        if name in sources.named:
            models[name] = sources.named[name]
        elif not isinstance(model, TrainedModel):
            here = (sources.find(given) or (given if is_here(given) else None) for given in model.names)
            models[name] = next(filter(None, here), model.names[0])
    return models


def find_model(name: str) -> None:
    """Fetch a model that is given by its name on the hub; raises Unavailable if it cannot be had."""
    if Path(name).exists() or is_here(name):
        return
    from telerank.models.loading import locate

    try:
        locate(name)
    except (ModelError, MissingExtra) as error:
        raise Unavailable(str(error).splitlines()[0]) from error


def describe_choices(spec: Experiment, models: Mapping[str, str], names: set[str]) -> str:
    """Which models :func:`resolve_models` chose for names that have a list, in a few words."""
    about = ""
    for name in sorted(names & models.keys()):
        given = spec.models[name]
        if isinstance(given, GivenModel) and len(given.names) > 1:
            chosen, first = Path(models[name]).name, given.names[0]
            about += f": {name} is {chosen}" + ("" if chosen == first else f" ({first} is not here)")
    return about
