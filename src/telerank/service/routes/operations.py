"""Whether the process lives, whether it is ready, and what it has counted."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ConfigDict

from telerank.service.errors import ERRORS
from telerank.service.state import CurrentServed


class Health(Record):
    """The state of the process."""

    status: Literal["live", "ready"]


router = APIRouter(tags=["operations"])


@router.get("/health/live", summary="Whether the process answers")
async def live() -> Health:
    """200 from the start to the end of the process."""
    return Health(status="live")


@router.get("/health", summary="Whether the service is ready", responses={503: ERRORS[503]})
@router.get("/health/ready", summary="Whether the service is ready", responses={503: ERRORS[503]})
async def ready(served: CurrentServed) -> Health:
    """200 if the indexes and the models are open and warm, else 503."""
    served.check_ready()
    return Health(status="ready")


@router.get(
    "/metrics",
    summary="Numbers for Prometheus",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {"example": "telerank_requests_waiting 0.0"}}},
        **{status: ERRORS[status] for status in (401, 421, 429)},
    },
)
def metrics(served: CurrentServed) -> Response:
    """What the processes have counted: requests, times of stages, waiting requests, changes of indexes."""
    return Response(served.metrics.render(), media_type=CONTENT_TYPE_LATEST)
