"""What a process serves: its indexes, pipelines and models, and the threads that compute with them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event
from typing import Annotated, TypeVar, TypeVarTuple, cast

from fastapi import Depends, Request

from telerank.columns.filters import Filter
from telerank.errors import CollectionError, IndexFault, TelerankError
from telerank.service.batching.batcher import Batchers, BatchMetrics
from telerank.service.errors import NotServed, Overloaded, Unready
from telerank.service.indexes import ServedIndex, Signature, given_up, read_signature
from telerank.service.judgments import JudgmentFile
from telerank.service.models import ServedModels
from telerank.service.observe import Metrics, Readiness
from telerank.service.searching import uses_models
from telerank.service.settings import ACCESS, ServiceSettings
from telerank.stage import Stage

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The indexes at one moment, and the models; everything in an answer comes from one of them."""

    settings: ServiceSettings
    indexes: Mapping[str, ServedIndex]
    models: ServedModels
    _views: dict[Filter, Snapshot] = field(default_factory=dict, init=False)

    def within(self, chosen: Filter) -> Snapshot:
        """The same as a key sees it that is bound to a filter.

        An index without the columns of the filter is not there.
        """
        view = self._views.get(chosen)
        if view is None:
            indexes = {
                name: index.within(chosen) for name, index in self.indexes.items() if index.admits(chosen)
            }
            view = self._views[chosen] = replace(self, indexes=indexes)
        return view

    def served_index(self, name: str | None = None) -> ServedIndex:
        """The index of a name with its pipelines; None: the first. Raises NotServed if there is none."""
        if name is None:
            name = next(iter(self.indexes), "")
        if name not in self.indexes:
            raise NotServed.named("index", name, self.indexes)
        return self.indexes[name]


class Served:
    """What this process serves, behind one object: requests take a :meth:`snapshot` of it.

    :meth:`open` opens and warms everything; until then ``current`` is None. ``readiness`` counts the
    processes that are ready, if there are several. ``doing`` is what the process does before it is ready, or
    why it is not. ``waiting`` counts requests whose work waits for a thread or runs in one; ``batchers``
    score and encode across requests.
    """

    def __init__(self, settings: ServiceSettings, readiness: Readiness | None = None) -> None:
        self.settings, self.readiness, self.metrics = settings, readiness, Metrics()
        self.doing, self.waiting = "starting", 0
        self.current: Snapshot | None = None
        self._models = ThreadPoolExecutor(1, thread_name_prefix="models")
        self._searches = ThreadPoolExecutor(settings.threads, thread_name_prefix="searches")
        self.batchers = Batchers(self._models, settings.limits, BatchMetrics(self.metrics.registry))

    def snapshot(self) -> Snapshot:
        """The present snapshot. Raises Unready if there is none."""
        if self.current is None:
            raise Unready(f"not ready: {self.doing}")
        return self.current

    def open(self) -> None:
        """Open and warm everything, in the thread of the models.

        Raises
        ------
        TelerankError
            If something cannot be opened, or the default pipeline cannot be run over the first index.
        OSError
            If a file may not be read.
        """
        for file in filter(None, (self.settings.judgments, self.settings.clicks)):
            JudgmentFile(file).check()
        models = ServedModels(self.settings)
        indexes = {}
        for name in self.settings.indexes:
            self.doing = f"opening {name}"
            indexes[name] = ServedIndex(name, models, self.settings)
        models.close()
        for first in list(indexes.values())[:1]:
            for text in (first.model, first.answer):
                if text in first.unavailable:
                    raise IndexFault(f"{first.name}: {text}: {first.unavailable[text]}")
        for text in self.settings.access.values():
            chosen = Filter.parse(text)
            if indexes and not any(index.admits(chosen) for index in indexes.values()):
                columns = ", ".join(
                    sorted({name for each in indexes.values() for name in each.index.columns})
                )
                known = f"the columns are {columns}" if columns else "no index has columns"
                raise CollectionError(f"access: {text}: no index has the columns of this filter; {known}")
        self.doing = "warming"
        for index in indexes.values():
            index.warm()
        models.warm()
        self.doing = "serving"
        self.show(Snapshot(self.settings, indexes, models))
        if self.readiness is not None:
            self.readiness.mark()

    def show(self, snapshot: Snapshot) -> None:
        """Let requests from now on have these indexes, opened and warmed."""
        self.current = snapshot
        for index in snapshot.indexes.values():
            self.metrics.generation.labels(index.name).set(index.generation)

    def close(self) -> None:
        """End the threads; what waits is dropped."""
        for pool in (self._models, self._searches):
            pool.shutdown(wait=False, cancel_futures=True)

    async def prepare(self, function: Callable[[*Arguments], Result], *args: *Arguments) -> Result:
        """Run a function in the thread of the models, for as long as it takes: nobody waits for it."""
        return await asyncio.get_running_loop().run_in_executor(self._models, function, *args)

    async def compute(self, function: Callable[[*Arguments], Result], *args: *Arguments) -> Result:
        """Run a function that computes with models, in their thread; raises as it does.

        Raises
        ------
        Overloaded
            If too many requests wait.
        Unready
            If it was not done in time.
        """
        return await self._run(self._models, partial(function, *args))

    async def search(self, function: Callable[[*Arguments], Result], *args: *Arguments) -> Result:
        """Run a function that uses no model, beside others; raises as :meth:`compute`."""
        return await self._run(self._searches, partial(function, *args))

    async def run_stage(
        self, stage: Stage, function: Callable[[*Arguments], Result], *args: *Arguments
    ) -> Result:
        """Run a function that runs this stage, in the thread of the models if it has any."""
        return await self._run(
            self._models if uses_models(stage) else self._searches, partial(function, *args)
        )

    async def _run(self, pool: ThreadPoolExecutor, function: Callable[[], Result]) -> Result:
        limits = self.settings.limits
        if self.waiting >= limits.queue:
            raise Overloaded(f"{self.waiting} requests wait: try again")
        is_over, context = Event(), copy_context()
        context.run(given_up.set, is_over)
        self.waiting += 1
        try:
            with self.metrics.waiting.track_inprogress():
                running = asyncio.get_running_loop().run_in_executor(pool, context.run, function)
                return await asyncio.wait_for(running, limits.seconds)
        except TimeoutError as error:
            raise Unready(f"not done within {limits.seconds:g} seconds") from error
        finally:
            is_over.set()
            self.waiting -= 1


_log = logging.getLogger(__name__)
_AGAIN = 30.0  # seconds after which a change that was refused is looked at again


async def watch_indexes(served: Served) -> None:
    """Look at the folders of the indexes again and again, and take up what has changed there."""
    refused: dict[str, tuple[Signature | None, float]] = {}
    while True:
        await asyncio.sleep(served.settings.watch)
        for index in served.snapshot().indexes.values():
            await _look(served, index, refused)


async def _look(
    served: Served, index: ServedIndex, refused: dict[str, tuple[Signature | None, float]]
) -> None:
    """Take up an index if its folder has changed.

    A change with which a pipeline could no longer be run is refused: the present index stays. ``refused`` has
    the last one of each index, and until when it is not looked at again.
    """
    name, swaps = index.name, served.metrics.swaps
    signature = await asyncio.to_thread(read_signature, served.settings.indexes[name])
    last, until = refused.get(name, (None, 0.0))
    if signature == index.signature or (last == signature and time.monotonic() < until):
        return
    try:
        changed = await asyncio.to_thread(ServedIndex, name, index.models, index.settings)
        if lost := "; ".join(find_lost(index, changed)):
            raise IndexFault(lost)
        await served.prepare(changed.warm)
    except (TelerankError, OSError) as error:
        refused[name] = signature, time.monotonic() + _AGAIN
        if last != signature:
            swaps.labels(name, "refused").inc()
            _log.warning(
                "changed index not taken up", extra={"fields": {"index": name, "reason": str(error)}}
            )
        return
    snapshot = served.snapshot()
    served.show(replace(snapshot, indexes={**snapshot.indexes, name: changed}))
    refused.pop(name, None)
    swaps.labels(name, "taken up").inc()
    fields = {"index": name, "generation": changed.generation, "documents": changed.documents}
    fields |= {"without vectors": changed.lacking} if changed.lacking else {}
    _log.info("index taken up", extra={"fields": fields})


def find_lost(old: ServedIndex, new: ServedIndex) -> Iterator[str]:
    """What could be run over the old index, and cannot over the new one, with the reason."""
    for name in (*old.pipelines, *old.answering):
        if name in new.unavailable:
            yield f"{name}: {new.unavailable[name]}"
    for name in old.vectors:
        if name not in new.vectors:
            yield f"no vectors {name}"


async def served(request: Request) -> Served:
    """What this process serves."""
    return cast("Served", request.app.state.served)


async def snapshot(request: Request) -> Snapshot:
    """The indexes and models as they are now; a request takes it once, and keeps it to its end.

    Raises
    ------
    Unready
        If they are not open yet.
    """
    current = (await served(request)).snapshot()
    chosen: Filter | None = request.scope.get(ACCESS)
    return current if chosen is None else await asyncio.to_thread(current.within, chosen)


CurrentServed = Annotated[Served, Depends(served)]
CurrentSnapshot = Annotated[Snapshot, Depends(snapshot)]
