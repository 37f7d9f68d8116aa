"""What a command has trained, as it is reported, and the files in the folder of a training."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar

from telerank.errors import ModelError
from telerank.records import read_record
from telerank.show.report import Report
from telerank.show.tables import Table

CONFIG, VERSIONS, LOG = "config.yaml", "versions.json", "log.jsonl"
CHECKPOINTS, MODEL, ITERATIONS = "checkpoints", "model", "iterations"
DATA, LEFT_OUT = "data.json", "left-out.txt"
"""How much a training learned from; what it left out, by name."""
RUN, RESULT = "test.run.gz", "test.json"
_PACKAGES = ("telerank", "torch", "transformers", "tokenizers", "numpy")
_NAMED = 5  # questions that a remark names


@dataclass(frozen=True, eq=False)
class TrainedModels(Report):
    """The folders of trained models, by the folder of each training below the output (``.`` if it is alone).

    ``results`` are the tables of what was compared, ``values`` has all of their values, and ``plot`` is the
    file with the plot of several sizes.
    """

    title: ClassVar[str] = "Training"
    models: Mapping[str, Path]
    results: Sequence[Table] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    plot: Path | None = None

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
        return {name: read_counts(model.parent) for name, model in self.models.items()}

    @property
    def remarks(self) -> list[str]:
        """What each training learned from, and where the plot is."""
        lines = []
        for folder, counts in self.counts.items():
            numbers = "; ".join(f"{what}: {count:,}" for what, count in counts.items() if count)
            lines.append(numbers if folder == "." else f"{folder}: {numbers}")
            left_out = self.models[folder].parent / LEFT_OUT
            for line in left_out.read_text("utf-8").splitlines() if left_out.is_file() else ():
                what, colon, names = line.partition(" in their text: ")
                named = names.split(", ")
                more = " …" if len(named) > _NAMED else ""
                lines.append(f"{what}{colon}{', '.join(named[:_NAMED])}{more}")
        return [*lines, f"plot in {self.plot}"] if self.plot else lines

    def tables(self) -> list[Table]:
        """The dev measures of a grid and the tests; none if nothing was measured."""
        return list(self.results)

    def record(self) -> Mapping[str, Any]:
        return self.values


def read_counts(output: Path) -> dict[str, int]:
    """The counts in the folder of a training. Raises ModelError if they are damaged."""
    return read_record(output / DATA, dict[str, int], ModelError)


def collect_versions() -> dict[str, str]:
    """The versions of Python and of the packages that a training computes with."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed as a package"
    return versions
