"""The numbers that the service counts, in the format of Prometheus; right with several processes, too."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable with the folder in which processes add up their numbers."""
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Bounds of histograms of times."""


class Metrics:
    """The numbers of one application; other parts add their own to ``registry``."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "telerank_requests",
            "Requests by route, method and status; status 0: the client left.",
            ("route", "method", "status"),
            registry=self.registry,
        )
        self.request_seconds = Histogram(
            "telerank_request_seconds",
            "Time of a request, from its first byte to the last of its reply.",
            ("route",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.stage_seconds = Histogram(
            "telerank_stage_seconds",
            "Time of a stage of a pipeline, by the function that it begins with.",
            ("stage",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.waiting = Gauge(
            "telerank_requests_waiting",
            "Requests whose work waits for a thread or runs in one.",
            multiprocess_mode="livesum",
            registry=self.registry,
        )
        self.generation = Gauge(
            "telerank_index_generation",
            "Generation of the index that is served: the lowest of all processes.",
            ("index",),
            multiprocess_mode="livemin",
            registry=self.registry,
        )
        self.swaps = Counter(
            "telerank_index_changes",
            "Changed indexes, taken up or refused.",
            ("index", "outcome"),
            registry=self.registry,
        )

    def render(self) -> bytes:
        """All numbers as text; those of all processes if there are several."""
        if FOLDER_VARIABLE not in os.environ:
            return generate_latest(self.registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
