"""Batches that are filled across requests: what waits, what is computed next, and what a reply says of it.

::

    request -> Batcher.submit -> tokens, by one thread -> Waiting -> batches, by another thread -> reply

While a batch is computed, the texts of later requests are tokenised.
"""
