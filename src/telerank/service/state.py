"""What a process serves: its indexes, pipelines and models, and the threads that compute with them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from telerank.pipelines.functions import FUNCTIONS, read_pipeline
from telerank.pipelines.reader import Names
from telerank.retrieval.index import Index
from telerank.service.errors import NotServed, Overloaded, Unready
from telerank.service.models import ServedModels
from telerank.service.settings import ServiceSettings
from telerank.stage import Stage

if TYPE_CHECKING:
    from telerank.answers.scorer import SpanReader
    from telerank.dense.encoder import TorchEncoder
    from telerank.reranking.scorer import Scorer

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Snapshot:
    """The indexes at one moment, and the models; everything in an answer comes from one of them."""

    settings: ServiceSettings
    indexes: Mapping[str, Index]
    models: ServedModels

    def index(self, name: str | None = None) -> Index:
        """The index of a name; None: the first. Raises NotServed if there is none of that name."""
        known = self.indexes
        if name is None and known:
            return next(iter(known.values()))
        if name is None or name not in known:
            raise NotServed.named("index", name or "", known)
        return known[name]

    def pipeline(self, text: str | None = None, index: str | None = None) -> Stage:
        """The pipeline of a name or a text over an index; None: the default one.

        Raises
        ------
        NotServed
            If it names a model that the service was not started with, or there is no such index.
        ExpressionError
            If the text cannot be read.
        """
        opened = self.index(index)
        wanted = text or self.settings.model or opened.default_pipeline
        return read_pipeline(wanted, Names(opened, functions=FUNCTIONS))

    def reranker(self, name: str | None = None) -> Scorer:
        """The re-ranker of a name; None: the first. Raises NotServed."""
        return self.models.reranker(name)

    def encoder(self, name: str | None = None) -> TorchEncoder:
        """The encoder of a name; None: the first. Raises NotServed."""
        return self.models.encoder(name)

    def reader(self, name: str | None = None) -> SpanReader:
        """The reader of a name; None: the first. Raises NotServed."""
        return self.models.reader(name)


@dataclass(eq=False)
class Served:
    """What this process serves, behind one object: requests take a :meth:`snapshot` of it.

    :meth:`open` opens and warms everything; until then there is no snapshot.
    """

    settings: ServiceSettings
    doing: str = "starting"
    """What the process does before it is ready, or why it never will be."""
    waiting: int = field(default=0, init=False)
    _snapshot: Snapshot | None = field(default=None, init=False)
    _torch: ThreadPoolExecutor = field(init=False)
    _searches: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        self._torch = ThreadPoolExecutor(1, thread_name_prefix="models")
        self._searches = ThreadPoolExecutor(self.settings.threads, thread_name_prefix="searches")

    @property
    def is_ready(self) -> bool:
        return self._snapshot is not None

    def snapshot(self) -> Snapshot:
        """The present snapshot. Raises Unready if there is none yet."""
        if self._snapshot is None:
            raise Unready(f"not ready: {self.doing}")
        return self._snapshot

    def open(self) -> None:
        """Open and warm everything; takes seconds, and raises TelerankError if something cannot be opened."""
        indexes = {}
        for name, folder in self.settings.indexes.items():
            self.doing = f"opening {name}"
            indexes[name] = Index(folder)
        self._snapshot = Snapshot(self.settings, indexes, ServedModels.of(self.settings))

    def close(self) -> None:
        """End the threads; what waits is dropped."""
        self._torch.shutdown(wait=False, cancel_futures=True)
        self._searches.shutdown(wait=False, cancel_futures=True)

    async def compute(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Run a function that computes with models, in their thread; raises as it does.

        Raises
        ------
        Overloaded
            If too many requests wait.
        Unready
            If it was not done in time.
        """
        return await self._run(self._torch, partial(function, *args, **kwargs))

    async def search(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Run a function that uses no model, beside others; raises as :meth:`compute`."""
        return await self._run(self._searches, partial(function, *args, **kwargs))

    async def _run(self, pool: ThreadPoolExecutor, function: Callable[[], Result]) -> Result:
        limits = self.settings.limits
        if self.waiting >= limits.queue:
            raise Overloaded(f"{self.waiting} requests wait: try again")
        self.waiting += 1
        try:
            running = asyncio.get_running_loop().run_in_executor(pool, function)
            return await asyncio.wait_for(running, limits.seconds)
        except TimeoutError as error:
            raise Unready(f"not done within {limits.seconds:g} seconds") from error
        finally:
            self.waiting -= 1
