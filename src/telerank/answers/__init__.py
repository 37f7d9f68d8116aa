"""Reading answers in texts: spans, confidences, the stage that ends a pipeline.

Raises
------
MissingExtra
    On import, if torch or transformers is not installed.
"""

import telerank.models  # noqa: F401 — it raises MissingExtra
