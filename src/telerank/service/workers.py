"""The processes of the service, which share its socket and its memory-mapped indexes."""

from __future__ import annotations

import uvicorn

from telerank.service.app import create_app
from telerank.service.settings import ServiceSettings


def run_service(settings: ServiceSettings) -> None:
    """Serve until the process is ended."""
    config = uvicorn.Config(
        create_app(settings), host=settings.host, port=settings.port, log_config=None, server_header=False
    )
    uvicorn.Server(config).run()
