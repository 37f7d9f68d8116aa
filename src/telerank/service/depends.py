"""What routes get of the process, as FastAPI's dependencies.

They are coroutines: FastAPI would run a function in a thread, which takes longer than the function.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from telerank.service.settings import ServiceSettings
from telerank.service.state import Served, Snapshot


async def served(request: Request) -> Served:
    """What this process serves."""
    state: Served = request.app.state.served
    return state


async def snapshot(request: Request) -> Snapshot:
    """The indexes and models as they are now; a request takes it once, and keeps it to its end.

    Raises
    ------
    Unready
        If they are not open yet.
    """
    return (await served(request)).snapshot()


async def settings(request: Request) -> ServiceSettings:
    return (await served(request)).settings


CurrentServed = Annotated[Served, Depends(served)]
CurrentSnapshot = Annotated[Snapshot, Depends(snapshot)]
CurrentSettings = Annotated[ServiceSettings, Depends(settings)]
