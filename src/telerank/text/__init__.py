"""Analysis of texts into terms, and splitting into sentences."""

from telerank.text.analyzer import PRESETS, Analyzer
from telerank.text.sentences import Span, is_wrapped, split_sentences

__all__ = ["PRESETS", "Analyzer", "Span", "is_wrapped", "split_sentences"]
