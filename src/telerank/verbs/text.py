"""Analyzers, as ``telerank analyze-text`` shows them."""

from __future__ import annotations

from telerank.text import Analyzer
from telerank.text.steps import TEXT_STEPS

__all__ = ["TEXT_STEPS", "Analyzer"]
