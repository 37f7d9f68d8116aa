"""Typed columns of documents, and filters by them."""
