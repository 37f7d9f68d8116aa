"""The application: its routes, its errors, and what it opens at its start and closes at its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Match

from telerank.errors import CollectionError, TelerankError
from telerank.service.errors import as_service_error, error_response
from telerank.service.gate import RequestGate
from telerank.service.observe import Readiness, RequestObserver
from telerank.service.routes import answers, clients, inventory, judgments, page, search, suggestions
from telerank.service.settings import ServiceSettings
from telerank.service.state import Served, watch_indexes

_log = logging.getLogger(__name__)
ROUTERS = (  # in the order in which the API's page shows them
    search.router,
    answers.router,
    suggestions.router,
    inventory.documents_router,
    clients.rerank_router,
    clients.embed_router,
    inventory.models_router,
    judgments.router,
    inventory.operations_router,
    page.router,
    page.reference_router,
    judgments.page_router,
)


def create_app(settings: ServiceSettings, readiness: Readiness | None = None) -> FastAPI:
    """The service as an ASGI application; ``app.state.served`` has what it serves.

    It opens its indexes and models while it answers already: not ready, until they are open and warm. If
    ``readiness`` says that all processes were ready before, it opens them first: no request meets a process
    that is not ready. ``app.state.failure`` is why something could not be opened; ``app.state.give_up`` is
    then called, else ``app.state.when_ready``.

    Raises
    ------
    CollectionError
        If the service has paths of its own below the prefix of the settings.
    """
    app = FastAPI(
        title="telerank",
        description="Search, answer, re-rank and embed.",
        lifespan=_lifespan,
        redirect_slashes=False,
        docs_url=None,  # its page loads a script from another host
        redoc_url=None,
    )
    app.state.served = Served(settings, readiness)
    app.state.failure, app.state.give_up, app.state.when_ready = None, lambda: None, lambda: None
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    for path in {route.path for route in routes}:
        if settings.prefix and path.startswith(f"{settings.prefix}/"):  # stripped of it, or not?
            raise CollectionError(f"serve: prefix: expected another than {settings.prefix}: {path} is served")
    _add_error_handlers(app, routes)
    for router in ROUTERS:
        app.include_router(router)
    app.add_middleware(RequestGate, settings=settings)
    if settings.cors:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors,
            allow_methods=("GET", "POST"),
            allow_headers=("authorization", "content-type", "x-api-key", "x-request-id"),
            expose_headers=("retry-after", "x-request-id"),
        )
    app.add_middleware(RequestObserver, metrics=app.state.served.metrics, log_queries=settings.log_queries)
    return app


def _add_error_handlers(app: FastAPI, routes: Sequence[APIRoute]) -> None:
    async def reply_error(request: Request, raised: Exception) -> Response:
        error, headers = as_service_error(raised), {}
        if page.is_page_error(request, raised):
            return page.error_page(request, error)
        if isinstance(raised, HTTPException):
            headers = dict(raised.headers or {})
        if error.status == 405:  # the framework names the methods of the first route alone
            matching = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
            methods = {method for route in matching for method in route.methods or ()}
            headers |= {"Allow": ", ".join(sorted(methods))} if methods else {}
        return error_response(error, request.scope, headers)

    for kind in (TelerankError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, reply_error)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    served: Served = app.state.served
    opening = asyncio.create_task(served.prepare(served.open))
    keeping = asyncio.create_task(_keep(app, opening))
    if served.readiness is not None and served.readiness.is_complete:
        await asyncio.wait([opening])
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])
        await served.batchers.aclose()
        served.close()


async def _keep(app: FastAPI, opening: asyncio.Task[None]) -> None:
    """Keep what is served up to date; end a service that could not open it."""
    served: Served = app.state.served
    try:
        await opening
        app.state.when_ready()
        await watch_indexes(served)
    except Exception as error:  # noqa: BLE001 — whatever it is, the log says it
        traceback = None if isinstance(error, TelerankError | OSError) else error
        if served.current is not None:  # it continues with what it has
            _log.error("changes of indexes are no longer taken up: %s", error, exc_info=traceback)
            return
        _log.error("cannot serve: %s", error, exc_info=traceback)
        served.doing, app.state.failure = "failed; the log says why", error
        app.state.give_up()
