"""Ranking models over one index; their interface and notation: :mod:`telerank.sparse.similarities.base`."""
