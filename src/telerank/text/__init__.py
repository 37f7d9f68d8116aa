"""From text to terms and to sentences."""

from telerank.text.analyzer import PRESETS, Analyzer

__all__ = ["PRESETS", "Analyzer"]
