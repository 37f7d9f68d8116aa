"""The trainings on whole sets in an experiment: of readers, and of masked language models."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from telerank.corpus.formats import PIAF
from telerank.errors import CollectionError
from telerank.experiments.analysis import Unavailable
from telerank.experiments.data import ExperimentData, Sources
from telerank.experiments.schema import Experiment, GivenModel, TrainedModel
from telerank.experiments.trained import find_encoder, read_training, train_once, training_folder
from telerank.records import describe_error
from telerank.stored import file_checksum, folder_checksum
from telerank.training.reader.config import ArticleShares, QuestionSource, ReaderTraining
from telerank.training.reader.questions import read_questions
from telerank.training.trained import MODEL


@dataclass(frozen=True)
class ReaderTrainer:
    """Trains the readers of an experiment; sets that are not on this machine are left out of a training.

    With ``kind`` ``mlm`` its masked language models.
    """

    spec: Experiment
    data: ExperimentData
    sources: Sources
    kind: str = "reader"

    def folders(self, name: str, questions: int | None = None) -> tuple[str | Path, ...]:
        """The folders of a reader, one for each seed, or the name of one that is given.

        ``questions``: learned from that many of its one set.

        Raises
        ------
        Unavailable
            If it cannot be had here.
        CollectionError
            If it is no reader, or learns from several sets and their number of questions is given.
        """
        model = self.spec.models.get(name)
        if isinstance(model, GivenModel) and questions is None:
            return (find_encoder(model.names, self.sources),)
        configs = [
            self.configure(name, seed, questions) for seed in self._training(name).seeds or self.spec.seeds
        ]
        return tuple(self._train(name, config) for config in configs)

    def count_questions(self, name: str) -> int:
        """The number of questions that a reader learns from, without unrelated texts; raises as `folders`."""
        config = self.configure(name, (self._training(name).seeds or self.spec.seeds)[0])
        sets = (read_questions(own, config.articles, config.data_seed) for own in config.data.sets)
        return sum(own.counts["questions"] for own in sets)

    def describe(self, name: str) -> str:
        """Who reads: the name or folder of a reader that is given, or the first seed of a trained one."""
        if isinstance(self.spec.models.get(name), GivenModel):
            return str(self.folders(name)[0])
        return f"{name}, of the first seed"

    def lacking(self, name: str) -> tuple[str, ...]:
        """The sets of a training that are not on this machine."""
        model = self.spec.models.get(name)
        if not isinstance(model, TrainedModel):
            return ()
        sets = model.settings.get("data", {}).get("sets", ())
        names = dict.fromkeys(str(own.get("collection")) for own in sets)
        return tuple(each for each in names if self._find(each) is None)

    def configure(self, name: str, seed: int, questions: int | None = None) -> ReaderTraining:
        """The settings of a training, with the sets that are here; raises as :meth:`folders`."""
        record: dict[str, Any] = json.loads(json.dumps(self._training(name).settings)) | {"seed": seed}
        start = record.setdefault("model", {}).get("start", "e5-small")
        record["model"]["start"] = find_encoder(start, self.sources)
        for section in ("data", "dev"):
            if isinstance(record.get(section), dict) and (self.kind == "reader" or section == "data"):
                sets = [self._resolve(own) for own in record[section].get("sets", ())]
                record[section]["sets"] = [own for own in sets if own is not None]
                if not record[section]["sets"]:
                    raise Unavailable(f"none of the sets of {name} is here ({section})")
        if questions is not None:
            sets = record["data"]["sets"]
            if len(sets) != 1:
                raise CollectionError(
                    f"{name} learns from {len(sets)} sets: expected one, to take parts of it"
                )
            sets[0]["questions"] = min(questions, sets[0].get("questions") or questions)
        config: ReaderTraining = read_training(name, self.kind, record)
        return config

    def require_shares(self, name: str, shares: ArticleShares) -> None:
        """Raise CollectionError if a reader was trained on other parts of articles than these."""
        if isinstance(self.spec.models.get(name), TrainedModel):
            own = self.configure(name, 0).articles
            if own != shares:
                raise CollectionError(f"{name} keeps other articles apart ({own}) than the sets ({shares})")

    def source(self, name: str, record: dict[str, Any]) -> QuestionSource:
        """A set of an analysis. Raises Unavailable if it is not here, CollectionError if it is none."""
        placed = self._resolve(record)
        if placed is None:
            raise Unavailable(f"{name}: {record.get('collection')} is not here")
        try:
            return QuestionSource.model_validate(placed)
        except ValidationError as error:
            raise CollectionError(f"the set {name}: expected {describe_error(error)}") from error

    def _training(self, name: str) -> TrainedModel:
        model = self.spec.models.get(name)
        if not isinstance(model, TrainedModel) or model.train != self.kind:
            raise CollectionError(f"{name!r} is no {self.kind} of the experiment: train it, or give its name")
        return model

    def _find(self, collection: str) -> str | None:
        source = self.data.sources.find(collection)
        if source is None and Path(collection).exists():
            return collection
        return str(PIAF) if source is None and collection == "piaf" else source

    def _resolve(self, record: dict[str, Any]) -> dict[str, Any] | None:
        names = [key for key in ("collection", "unrelated_from") if record.get(key) is not None]
        placed = {key: self._find(str(record[key])) for key in names}
        if "collection" not in placed or None in placed.values():
            return None
        return {**record, **placed}

    def _train(self, name: str, config: ReaderTraining) -> Path:
        record = config.model_dump(mode="json")
        for section in ("data", "dev"):
            for source in (record.get(section) or {}).get("sets", ()):
                path = Path(source["collection"])
                source["collection"] = file_checksum(path) if path.is_file() else folder_checksum(path)
        home = self.data.folder.parent / "readers"  # of all data
        folder = training_folder(home, name, config, record)
        shared = home if self.kind == "reader" else folder  # whose name depends on what the sets hold
        return train_once(self.kind, config, folder, shared, self.data.progress) / MODEL
