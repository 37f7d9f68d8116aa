"""Training bi-encoders, re-rankers and readers on collections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from telerank.errors import ModelError
from telerank.show.progress import show_progress
from telerank.show.report import Report
from telerank.show.tables import Table
from telerank.types import Progress, ProgressSetting

if TYPE_CHECKING:
    from telerank.training.log import Report as LogReport
    from telerank.training.reranker.compare import TrainedRerankers

_NAMED = 5  # questions that a remark names


@dataclass(frozen=True, eq=False)
class TrainedModels(Report):
    """The folders of trained models, by the folder of each training below the output (``.`` if it is alone).

    ``compared`` has the tests of re-rankers; it is None for other models.
    """

    models: Mapping[str, Path]
    compared: TrainedRerankers | None = None

    @property
    def title(self) -> str:
        return "Training"

    @property
    def model(self) -> Path:
        """The folder of the only model.

        Raises
        ------
        ModelError
            If there are several.
        """
        if len(self.models) > 1:
            raise ModelError(f"{len(self.models)} models were trained: {', '.join(self.models)}")
        return next(iter(self.models.values()))

    @property
    def counts(self) -> dict[str, Mapping[str, int]]:
        """How much each training learned from, and how much was left out, by its folder."""
        from telerank.training.examples.reading import read_counts

        return {name: read_counts(model.parent) for name, model in self.models.items()}

    @property
    def remarks(self) -> list[str]:
        """What each training learned from, and where the plot is."""
        lines = []
        for folder, counts in self.counts.items():
            numbers = "; ".join(f"{what}: {count:,}" for what, count in counts.items() if count)
            lines.append(numbers if folder == "." else f"{folder}: {numbers}")
            left_out = self.models[folder].parent / "left-out.txt"
            lines += map(_shorten, left_out.read_text("utf-8").splitlines()) if left_out.is_file() else []
        return [*lines, f"plot in {self.compared.plot}"] if self.compared and self.compared.plot else lines

    def tables(self) -> list[Table]:
        """The dev measures of a grid and the tests; none if nothing was measured."""
        return [] if self.compared is None else self.compared.tables()

    def record(self) -> Mapping[str, Any]:
        return {} if self.compared is None else self.compared.record()


def train(
    kind: Literal["bi-encoder", "reranker", "reader"],
    config: str | Path | Mapping[str, Any],
    output: str | Path = "trained",
    *,
    resume: bool = False,
    seeds: Sequence[int] = (),
    sizes: Sequence[int] = (),
    report: LogReport | None = None,
    progress: ProgressSetting = None,
) -> TrainedModels:
    """Train a bi-encoder, a re-ranker or a reader as settings say: a YAML file, a packaged one by name, or a
    mapping.

    ``output`` is the folder for the model, its checkpoints and its log. With ``resume`` an interrupted
    training continues from its last checkpoint. A re-ranker is trained with each of ``seeds`` and on each of
    ``sizes`` numbers of pairs, if they are given. ``report`` is called with the records of the log.

    >>> tr.train("reranker", {"data": {"collection": "scifact", "negatives": {"random": True}}}).model

    Raises
    ------
    FormatError
        If the settings have an unknown key or an invalid value.
    ModelError
        If there is another training in the output, or the loss becomes infinite.
    CollectionError
        If there are no such settings, or the collection lacks what they name.
    MissingExtra
        If torch or transformers is not installed.
    """
    from telerank.training.log import silent_report

    heard = report or silent_report
    if isinstance(config, str | Path):
        from telerank.experiments.packaged import find_training

        config = find_training(config)
    with show_progress(progress) as shown:
        if kind == "reranker":
            from telerank.training.reranker.plan import read_plan

            changes = {"seeds": tuple(seeds), "sizes": tuple(sizes)}
            plan = read_plan(config, **{name: values for name, values in changes.items() if values})
            from telerank.training.reranker.compare import train_rerankers

            trained = train_rerankers(plan, output, resume=resume, report=heard, progress=shown)
            return TrainedModels(trained.models, trained)
        if kind not in ("bi-encoder", "reader") or seeds or sizes:
            known = "train bi-encoder, reranker or reader"
            raise ModelError(f"{kind}: {known}; seeds and sizes are for re-rankers")
        if kind == "reader":
            return TrainedModels({".": _train_reader(config, output, resume, heard, shown)})
        from telerank.training.bi_encoder.config import BiEncoderTraining
        from telerank.training.settings import read_settings

        settings = read_settings(config, BiEncoderTraining)
        from telerank.training.bi_encoder.train import train_bi_encoder

        model = train_bi_encoder(settings, output, resume=resume, report=heard, progress=shown)
        return TrainedModels({".": model})


def _train_reader(
    config: Path | Mapping[str, Any], output: str | Path, resume: bool, report: LogReport, progress: Progress
) -> Path:
    from telerank.training.reader.config import ReaderTraining
    from telerank.training.settings import read_settings

    settings = read_settings(config, ReaderTraining)
    from telerank.training.reader.train import train_reader

    return train_reader(settings, output, resume=resume, report=report, progress=progress)


def is_first_process() -> bool:
    """Whether this is the only process, or the first of those that train together."""
    from telerank.training import parallel

    return parallel.is_first_process()


def _shorten(line: str) -> str:
    """A line of ``left-out.txt`` with the first of the questions that it names."""
    what, colon, names = line.partition(" in their text: ")
    named = names.split(", ")
    return f"{what}{colon}{', '.join(named[:_NAMED])}{' …' if len(named) > _NAMED else ''}"
