"""Scoring pairs of texts in batches, and the stages that do it.

Raises
------
MissingExtra
    when it is imported and torch or transformers is not installed.
"""

import telerank.models  # noqa: F401 — which raises it
