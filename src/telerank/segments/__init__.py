"""Long documents: cutting them into segments that a pair scorer reads, and ranking them by their segments.

Raises
------
MissingExtra
    On import, if torch or transformers is not installed.
"""

import telerank.models  # noqa: F401 — it raises MissingExtra
