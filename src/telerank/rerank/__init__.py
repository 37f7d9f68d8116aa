"""Scoring pairs of texts in batches, and the stages that do it.

Raises
------
MissingExtra
    when it is imported and torch or transformers is not installed.
"""

from importlib.util import find_spec

from telerank.errors import MissingExtra

for _module in ("torch", "transformers"):
    if find_spec(_module) is None:
        raise MissingExtra(_module, "neural")
