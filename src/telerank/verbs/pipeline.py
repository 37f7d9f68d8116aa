"""Pipelines as text: reading them, saving them with an index."""

from __future__ import annotations

from telerank.pipelines.functions import pipeline
from telerank.pipelines.saved import remove_pipeline, save_pipeline, saved_pipeline

__all__ = ["pipeline", "remove_pipeline", "save_pipeline", "saved_pipeline"]
