"""The experiments and trainings that are installed with telerank, by name: ``bert-dmn/table2``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from telerank.errors import CollectionError, known_names
from telerank.experiments.data import Sources, is_here
from telerank.experiments.schema import Experiment, has_small, read_experiment

FOLDER = Path(__file__).parent / "papers"
TRAININGS = Path(__file__).parent / "trainings"


@dataclass(frozen=True)
class PackagedExperiment:
    """An experiment of the package: what it needs, and what of that is here.

    Attributes
    ----------
    small
        Its small copy.
    here
        Its data that are here.
    missing
        Its data that are not.
    """

    name: str
    spec: Experiment
    small: Experiment | None
    here: tuple[str, ...]
    missing: tuple[str, ...]


def find_experiment(name: str | Path) -> tuple[str, Path]:
    """The name and the file of an experiment: a path to a YAML file, or the name of a packaged one."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise CollectionError(f"{name}: no such file")
        return path.stem, path
    packaged = packaged_names()
    if str(name) not in packaged and path.is_file():
        raise CollectionError(f"{name}: an experiment is a YAML file (.yaml), or the name of a packaged one")
    if str(name) not in packaged:
        raise CollectionError(f"no experiment {str(name)!r}; {known_names(packaged, str(name))}")
    return str(name), FOLDER / f"{name}.yaml"


def find_training(name: str | Path) -> Path:
    """The file of a training's settings: a path, or the name of a packaged one (``repbert/msmarco``)."""
    if Path(name).is_file():
        return Path(name)
    packaged = packaged_names(TRAININGS)
    if str(name) not in packaged:
        raise CollectionError(
            f"{name}: no such file or packaged training; {known_names(packaged, str(name))}"
        )
    return TRAININGS / f"{name}.yaml"


def packaged_names(folder: Path = FOLDER) -> list[str]:
    """The names of the packaged experiments, or trainings; files named ``_…`` are bases of others."""
    files = (path for path in folder.rglob("*.yaml") if not path.name.startswith("_"))
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in files)


def list_experiments(options: Sequence[str] = ()) -> list[PackagedExperiment]:
    """The packaged experiments; ``options`` say where data is, as ``NAME=PATH`` or folders."""
    sources = Sources.of(options)
    listing = []
    for name in packaged_names():
        path = FOLDER / f"{name}.yaml"
        spec = read_experiment(path)
        here = tuple(data for data, settings in spec.data.items() if is_here(data, settings, sources))
        missing = tuple(data for data in spec.data if data not in here)
        listing.append(
            PackagedExperiment(
                name, spec, read_experiment(path, small=True) if has_small(path) else None, here, missing
            )
        )
    return listing
