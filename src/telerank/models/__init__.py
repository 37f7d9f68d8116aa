"""Neural models over texts, in torch. Nothing here knows a query, a document or an index.

Shapes of tensors are given in these letters:

======  ==============================================================================================
``B``   texts of a batch, or pairs, each a row
``L``   tokens of the longest text or pair; items of the longest row
``N``   tokens or words of the longest query
``T``   words of the longest passage
``S``   sentences of the passage that has most, which are facts of a memory
``R``   items of all rows of a batch
``E``   episodes of a memory; the width of a word vector
``V``   rows of the word vectors, the two special ones among them
``H``   width of a vector, of an encoder's outputs
======  ==============================================================================================

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
