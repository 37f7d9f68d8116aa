"""Weights of terms beside an index's counts: reading, writing, searching them (:mod:`.retriever`)."""
