"""Taking up changed indexes: opened and warmed beside the present ones, then exchanged in one step.

A request keeps the snapshot that it began with, whose files stay mapped: nothing old and new is mixed in one
answer, and none fails.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator

from telerank.errors import TelerankError
from telerank.service.indexes import ServedIndex, Signature, read_signature
from telerank.service.state import Served

_log = logging.getLogger(__name__)
_AGAIN = 30.0
"""Seconds after which a change that was refused is looked at again."""


class IndexWatch:
    """Looks at the folders of the indexes, and takes up what has changed there."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self._refused: dict[str, tuple[Signature, float]] = {}

    async def run(self) -> None:
        """Look again and again, until it is cancelled."""
        while True:
            await asyncio.sleep(self.served.settings.watch)
            for index in list(self.served.snapshot().indexes.values()):
                await self.look(index)

    async def look(self, index: ServedIndex) -> bool:
        """Take up the index if its folder has changed; whether it was taken up.

        A change with which a pipeline could no longer be run is refused: the present index stays.
        """
        folder = self.served.settings.indexes[index.name]
        signature = await asyncio.to_thread(read_signature, folder)
        if signature == index.signature or self._is_refused(index.name, signature):
            return False
        try:
            changed = await asyncio.to_thread(index.reopen)
            if lost := list(find_lost(index, changed)):
                self._refuse(index.name, signature, "; ".join(lost))
                return False
            await self.served.prepare(changed.warm)
        except (TelerankError, OSError) as error:
            self._refuse(index.name, signature, str(error))
            return False
        self.served.replace_index(changed)
        self._refused.pop(index.name, None)
        self.served.metrics.swaps.labels(index.name, "taken up").inc()
        fields = {"index": index.name, "generation": changed.generation, "documents": changed.documents}
        _log.info("index taken up", extra={"fields": fields})
        return True

    def _is_refused(self, name: str, signature: Signature) -> bool:
        refused, until = self._refused.get(name, (None, 0.0))
        return refused == signature and time.monotonic() < until

    def _refuse(self, name: str, signature: Signature, reason: str) -> None:
        first = self._refused.get(name, (None, 0.0))[0] != signature
        self._refused[name] = signature, time.monotonic() + _AGAIN
        if first:
            self.served.metrics.swaps.labels(name, "refused").inc()
            _log.warning("changed index not taken up", extra={"fields": {"index": name, "reason": reason}})


def find_lost(old: ServedIndex, new: ServedIndex) -> Iterator[str]:
    """What could be run over the old index, and cannot over the new one, with the reason."""
    for name in (*old.pipelines, *old.answering):
        if name in new.unavailable:
            yield f"{name}: {new.unavailable[name]}"
    for name in old.vectors:
        if name not in new.vectors:
            yield f"no vectors {name}"
