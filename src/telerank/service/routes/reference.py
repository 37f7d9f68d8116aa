"""The page that describes the API; it loads nothing from elsewhere."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from telerank.service.depends import CurrentSettings
from telerank.service.page.links import Inquiry
from telerank.service.page.reference import describe_api
from telerank.service.page.render import render

router = APIRouter(include_in_schema=False)


@router.api_route("/docs", methods=["GET", "HEAD"])
async def reference(request: Request, settings: CurrentSettings) -> Response:
    """Every operation of the API, with an example."""
    operations = describe_api(request.app.openapi(), str(request.base_url))
    return render(request, "api.html", settings, {"inquiry": Inquiry(), "operations": operations})
