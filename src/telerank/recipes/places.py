"""Where a recipe's data is: folders that the user names, or that stand under one folder by their names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from telerank.errors import CollectionError
from telerank.recipes.made_of import ranking_set
from telerank.recipes.schema import Data
from telerank.types import Progress, silent

VARIABLE = "TELERANK_DATA"


@dataclass(frozen=True)
class Places:
    """``named`` are places of collections by name, ``folders`` hold collections' folders by their names."""

    named: Mapping[str, str]
    folders: tuple[Path, ...]

    @classmethod
    def of(cls, given: Sequence[str]) -> Places:
        """What ``--data`` says: ``NAME=PATH``, or a folder of folders; and what the environment says.

        Raises
        ------
        CollectionError
            where a folder is not there.
        """
        named, folders = {}, []
        for one in given:
            name, equals, path = one.partition("=")
            if equals:
                named[name] = path
            elif Path(one).is_dir():
                folders.append(Path(one))
            else:
                raise CollectionError(f"--data {one}: expected NAME=PATH, or a folder of collections")
        if variable := os.environ.get(VARIABLE):
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
            if only in (None, one.name) and (place := self._place(one.name)) is not None:
                return one, str(place)
            parts = [place for part in one.made_of if (place := self._place(part)) is not None]
            if only in (None, one.name) and one.made_of and len(parts) == len(one.made_of):
                return one, str(ranking_set(one, [str(part) for part in parts], folder, progress))
        sought = only or ", ".join(names)
        how = f"give --data NAME=PATH, or set {VARIABLE} to a folder of them"
        raise CollectionError(f"no data here for this recipe ({sought}): {how}")

    def _place(self, name: str) -> str | Path | None:
        if name in self.named:
            return self.named[name]
        return next((folder / name for folder in self.folders if (folder / name).exists()), None)
