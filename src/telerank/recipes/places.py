"""Where data and encoders are: folders that the user names, or that stand under one folder by their names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from telerank.errors import CollectionError
from telerank.recipes.made_of import ranking_set
from telerank.recipes.schema import Data
from telerank.types import Progress, silent

DATA, STARTS = ("--data", "TELERANK_DATA"), ("--start", "TELERANK_MODELS")
"""The option and the variable of the environment that say where collections are, and encoders."""


@dataclass(frozen=True)
class Places:
    """``named`` are places by name, ``folders`` hold folders by their names."""

    named: Mapping[str, str]
    folders: tuple[Path, ...]

    @classmethod
    def of(cls, given: Sequence[str], said: tuple[str, str] = DATA) -> Places:
        """What the option says: ``NAME=PATH``, or a folder of folders; and what the environment says.

        Raises
        ------
        CollectionError
            where a folder is not there.
        """
        (option, environment), named, folders = said, {}, []
        for one in given:
            name, equals, path = one.partition("=")
            if equals:
                named[name] = path
            elif Path(one).is_dir():
                folders.append(Path(one))
            else:
                raise CollectionError(f"{option} {one}: expected NAME=PATH, or a folder of folders")
        if variable := os.environ.get(environment):
            folders.append(Path(variable))
        return cls(named, tuple(folders))

    def find(
        self, wanted: Sequence[Data], only: str | None, folder: Path, progress: Progress = silent
    ) -> tuple[Data, str]:
        """The first of the wanted collections that is there, and where; with ``only`` none but that.

        One that is made of others is made in ``folder``, if those are there.

        Raises
        ------
        CollectionError
            where none is, or one that was named cannot be opened.
        """
        names = [one.name for one in wanted]
        for name in (*self.named, *([only] if only else [])):
            if name not in names:
                raise CollectionError(f"the recipe knows no data {name!r}; it takes: {', '.join(names)}")
        for one in wanted:
            if only in (None, one.name) and (place := self.place(one.name)) is not None:
                return one, str(place)
            parts = [place for part in one.made_of if (place := self.place(part)) is not None]
            if only in (None, one.name) and one.made_of and len(parts) == len(one.made_of):
                return one, str(ranking_set(one, [str(part) for part in parts], folder, progress))
        sought = only or ", ".join(names)
        how = f"give --data NAME=PATH, or set {DATA[1]} to a folder of them"
        raise CollectionError(f"no data here for this recipe ({sought}): {how}")

    def place(self, name: str) -> str | Path | None:
        """Where what has this name is; None where it is in none of the places."""
        if name in self.named:
            return self.named[name]
        return next((folder / name for folder in self.folders if (folder / name).exists()), None)
