"""From text to terms (:class:`Analyzer`) and to sentences (:mod:`telerank.text.sentences`)."""

from telerank.text.analyzer import PRESETS, Analyzer, has_tokenizer

__all__ = ["PRESETS", "Analyzer", "has_tokenizer"]
