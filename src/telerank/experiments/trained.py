"""The models that an experiment trains: each with each seed, unless the same training is there already.

``trained/`` in the folder of the data has a folder for each training, named by the model, the seed and a hash
of everything that it depends on. A training that is there is not repeated, one that was interrupted is
resumed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from telerank.errors import CollectionError, MissingExtra, ModelError
from telerank.experiments.analyses.bench import Unavailable
from telerank.experiments.analyses.specs import QualitySpec
from telerank.experiments.comparison.compare_systems import plain_name
from telerank.experiments.data import MODELS, ExperimentData, Sources
from telerank.experiments.schema import Experiment, TrainedModel, merge
from telerank.records import describe_error
from telerank.stored import file_checksum, folder_checksum

if TYPE_CHECKING:
    from telerank.training.bi_encoder.config import BiEncoderTraining
    from telerank.training.reranker.config import RerankerTraining

MODEL = "model"
_FILES = (
    ("data", "negatives", "run"),
    ("data", "triples", "file"),
    ("dev", "run"),
    ("test", "run"),
    ("loss", "teacher"),
)
"""Settings that are files: a training depends on what they hold, not on where they are."""


@dataclass(frozen=True)
class ModelTrainer:
    """Trains the models of an experiment on its data.

    ``write_run(text, split)`` writes the run of a pipeline over a split, for the settings of trainings that
    name one.
    """

    spec: Experiment
    data: ExperimentData
    sources: Sources
    write_run: Callable[[str, str], Path]

    def seeds(self, name: str) -> tuple[int, ...]:
        """The seeds that a model is trained with."""
        return self.spec.trained[name].seeds or self.spec.seeds

    def train(self, name: str, seed: int, candidates: Path | None = None) -> Path:
        """The folder of a training; a re-ranker's test has re-ranked ``candidates``.

        Raises Unavailable if nothing to start from is here, CollectionError if the settings are wrong.
        """
        from telerank.training.bi_encoder.config import BiEncoderTraining

        config = self.configure(name, seed, candidates)
        folder = self.data.folder / "trained" / f"{plain_name(name)}-{seed}-{self._checksum(config)[:12]}"
        shared, progress = self.data.folder, self.data.progress
        if isinstance(config, BiEncoderTraining):
            from telerank.training.bi_encoder.train import train_bi_encoder

            if not (folder / MODEL).exists():
                train_bi_encoder(config, folder, resume=True, progress=progress)
        else:
            from telerank.training.reranker.outcome import RUN
            from telerank.training.reranker.train import train_reranker

            if not (folder / RUN).exists():
                train_reranker(config, folder, shared=shared, resume=True, progress=progress)
        return folder

    def configure(
        self, name: str, seed: int, candidates: Path | None = None
    ) -> RerankerTraining | BiEncoderTraining:
        """The settings of a training; the runs that they name are written. Raises as :meth:`train`."""
        from telerank.training.bi_encoder.config import BiEncoderTraining
        from telerank.training.reranker.config import RerankerTraining

        record = {**self._settings(name), "seed": seed}
        record["model"] = {**record.get("model", {}), "start": self.find_start(name)}
        data = record.setdefault("data", {})
        data["collection"] = self.data.source
        if triples := data.get("triples"):
            inside = Path(self.data.source, triples["file"])
            triples["file"] = str(inside if inside.is_file() else triples["file"])
        self._replace_run(data.get("negatives"), data.get("split", "train"))
        if dev := record.get("dev"):
            self._replace_run(dev, dev.get("split", "dev"))
        if candidates is not None:
            record["test"] = {
                "split": self.data.split,
                "run": str(candidates),
                "measures": self._measures(),
                "listed": self.spec.queries is not None or self.spec.dev is not None,
                "store": bool(record["model"].get("frozen")),
            } | record.get("test", {})
        try:
            if self.spec.trained[name].train == "bi-encoder":
                return BiEncoderTraining.model_validate(record)
            return RerankerTraining.model_validate(record)
        except ValidationError as error:
            raise CollectionError(f"the training of {name}: expected {describe_error(error)}") from error

    def find_start(self, name: str) -> str:
        """The first of the encoders or word vectors to start from that is available; or else Unavailable."""
        from telerank.models.loading import locate

        starts = self._starts(name)
        for start in starts:
            if (source := self.sources.find(start)) is not None:
                return source
        for start in starts:
            try:
                locate(start)
            except (ModelError, MissingExtra):
                continue
            return start
        option, variable = MODELS
        how = f"give {option} {starts[0]}=FOLDER, or a folder of them in {variable}"
        raise Unavailable(f"nothing to start from is here: {' or '.join(starts)}; {how}")

    def describe(self, name: str) -> str:
        """Kind, start and seeds of a model, in a few words."""
        model = self._settings(name).get("model", {})
        start, first = self.find_start(name), self._starts(name)[0]
        other = "" if Path(start).name == first else f" ({first} is not here)"
        frozen = ", frozen" if model.get("frozen") else ""
        count = len(self.seeds(name))
        seeds = "one seed" if count == 1 else f"{count} seeds"
        trained = self.spec.trained[name].train
        kind = model.get("kind", "monobert") if trained == "reranker" else trained
        return f"{kind} from {Path(start).name}{other}{frozen}, trained with {seeds}"

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
        specs = (analysis for analysis in self.spec.analyses if isinstance(analysis, QualitySpec))
        return list(next((spec.measures for spec in specs), ("AP",)))

    def _replace_run(self, part: Any, split: str) -> None:
        """Write the run of a pipeline, and put its file in the place of the text."""
        if isinstance(part, dict) and part.get("run") and not Path(part["run"]).is_file():
            part["run"] = str(self.write_run(f"({part['run']}) % {int(part.get('depth', 1000))}", split))

    def _checksum(self, config: RerankerTraining | BiEncoderTraining) -> str:
        """A hash of settings, versions, and the content of files, wherever they are."""
        from telerank.training.checkpoint import collect_versions

        record = config.model_dump(mode="json")
        record["data"]["collection"] = self.data.content
        for *parts, name in _FILES:
            section: Any = record
            for part in parts:
                section = (section or {}).get(part)
            if section and section.get(name) and Path(section[name]).is_file():
                section[name] = file_checksum(Path(section[name]))
        for key in ("start", "document_start"):
            if start := record["model"].get(key):
                record["model"][key] = _start_checksum(start)
        return hashlib.sha256(json.dumps([record, collect_versions()], sort_keys=True).encode()).hexdigest()


def _start_checksum(start: str) -> str:
    """A hash of the files of an encoder, or of word vectors."""
    from telerank.models.loading import locate

    if Path(start).is_file():
        return file_checksum(Path(start))
    return folder_checksum(Path(start) if Path(start).is_dir() else locate(start))


def resolve_models(spec: Experiment, sources: Sources) -> Mapping[str, str]:
    """The paths or names of the models that are given: the first of each that is available."""
    models = {}
    for name, model in spec.models.items():
        if name in sources.named:
            models[name] = sources.named[name]
        elif not isinstance(model, TrainedModel):
            paths = filter(None, map(sources.find, model.names))
            models[name] = next(paths, model.names[0])
    return models
