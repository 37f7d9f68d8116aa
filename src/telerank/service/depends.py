"""What routes get of the process, as FastAPI's dependencies."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from telerank.service.settings import ServiceSettings
from telerank.service.state import Served, Snapshot


def served(request: Request) -> Served:
    """What this process serves."""
    state: Served = request.app.state.served
    return state


def snapshot(request: Request) -> Snapshot:
    """The indexes and models as they are now; a request takes it once, and keeps it to its end.

    Raises
    ------
    Unready
        If they are not open yet.
    """
    return served(request).snapshot()


def settings(request: Request) -> ServiceSettings:
    return served(request).settings


CurrentServed = Annotated[Served, Depends(served)]
CurrentSnapshot = Annotated[Snapshot, Depends(snapshot)]
CurrentSettings = Annotated[ServiceSettings, Depends(settings)]
