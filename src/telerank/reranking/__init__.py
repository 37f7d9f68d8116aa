"""Scoring pairs of texts in batches, and the stages that do it.

Raises
------
MissingExtra
    On import, if torch or transformers is not installed.
"""

import telerank.models  # noqa: F401 — it raises MissingExtra
