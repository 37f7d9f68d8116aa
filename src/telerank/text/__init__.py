"""From text to terms (:class:`Analyzer`) and to sentences (:mod:`telerank.text.sentences`)."""

from telerank.text.analyzer import Analyzer, has_tokenizer
from telerank.text.steps import PRESETS

__all__ = ["PRESETS", "Analyzer", "has_tokenizer"]
