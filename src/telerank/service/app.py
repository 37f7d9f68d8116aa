"""The application: its routes, its errors, and what it opens at its start and closes at its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from telerank.errors import TelerankError
from telerank.service.errors import add_error_handlers
from telerank.service.routes import answers, documents, judgments, operations, page, search
from telerank.service.settings import ServiceSettings
from telerank.service.state import Served

ROUTERS = (
    search.router,
    answers.router,
    documents.router,
    judgments.router,
    operations.router,
    page.router,
    judgments.page_router,
)
"""The routes, in the order in which the API's page shows them."""


def create_app(settings: ServiceSettings) -> FastAPI:
    """The service as an ASGI application; ``app.state.served`` has what it serves.

    It opens its indexes and models while it answers already: not ready, until they are open and warm.
    """
    app = FastAPI(
        title="telerank",
        description="Search, answer, re-rank and embed.",
        root_path=settings.prefix,
        lifespan=_lifespan,
        redoc_url=None,
    )
    app.state.served = Served(settings)
    add_error_handlers(app)
    page.add_page_errors(app)
    for router in ROUTERS:
        app.include_router(router)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    served: Served = app.state.served
    opening = asyncio.create_task(_open(served))
    try:
        yield
    finally:
        opening.cancel()
        served.close()


async def _open(served: Served) -> None:
    try:
        await served.prepare(served.open)
    except TelerankError as error:
        served.doing = f"failed: {error}"
