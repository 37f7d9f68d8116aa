"""Neural models over texts, in torch. Nothing here knows a query, a document or an index.

Raises
------
MissingExtra
    On import, if torch or transformers is not installed.
"""

from importlib.util import find_spec

from telerank.errors import MissingExtra

for _module in ("torch", "transformers"):
    if find_spec(_module) is None:
        raise MissingExtra(_module, "neural")
