"""Work of a thread that its request may give up: the request's time is over, or its client has left."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from telerank.service.errors import Unready

if TYPE_CHECKING:
    from telerank.reranking.stage import Docs
    from telerank.types import Doc


@dataclass(eq=False)
class RequestWork:
    """What a thread does for a request."""

    is_abandoned: bool = False


_present: ContextVar[RequestWork | None] = ContextVar("work", default=None)


def begin(work: RequestWork) -> None:
    """Let :func:`check_wanted` look at this work, in the present context."""
    _present.set(work)


def check_wanted() -> None:
    """Raise Unready if nobody waits any more for what this thread does."""
    work = _present.get()
    if work is not None and work.is_abandoned:
        raise Unready("given up: nobody waits for it")


@dataclass(frozen=True)
class WatchedDocs:
    """Documents whose reading stops when nobody waits any more: what is long reads them as it goes on."""

    docs: Docs = field(hash=False)

    def __getitem__(self, docno: str) -> Doc | str:
        check_wanted()
        return self.docs[docno]

    def __contains__(self, docno: str) -> bool:
        return docno in self.docs
