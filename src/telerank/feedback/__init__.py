"""Feedback: searching again with the terms, or the vectors, of the documents that were found first."""

from telerank.feedback.functions import bo1, rm3, rocchio

__all__ = ["bo1", "rm3", "rocchio"]
