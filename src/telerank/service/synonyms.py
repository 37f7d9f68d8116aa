"""Synonyms of a service, which are read anew when their file changes."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from telerank.errors import ArgumentError, TelerankError
from telerank.retrieval.index import Index
from telerank.stage import Stage
from telerank.syntax.synonyms import SynonymTerms

_log = logging.getLogger(__name__)


class WatchedSynonyms:
    """The synonyms of a file, which is read anew when it changes; a faulty one is logged, and not used.

    Raises
    ------
    AnalyzerError
        If the file cannot be used when the service starts.
    """

    def __init__(self, file: Path, index: Index) -> None:
        self.file, self.index = file, index
        self._stat, self._terms = self._read_stat(), self._read()

    def expand(self, stage: Stage) -> Stage:
        """A pipeline whose searches of words have the synonyms; itself if none of them can."""
        if (stat := self._read_stat()) != self._stat:
            self._stat = stat
            try:
                self._terms = self._read()
            except TelerankError as error:
                _log.error("%s: the synonyms of before stay: %s", self.file, error)
        with suppress(ArgumentError):
            return self._terms.expand(stage)
        return stage

    def _read_stat(self) -> tuple[int, int]:
        with suppress(OSError):
            stat = self.file.stat()
            return stat.st_mtime_ns, stat.st_size
        return 0, 0

    def _read(self) -> SynonymTerms:
        terms = replace(SynonymTerms.read(self.file), file=self.file.name)  # replies show no path
        if self.index.has_texts:
            terms.open(self.index.sparse)
        return terms
