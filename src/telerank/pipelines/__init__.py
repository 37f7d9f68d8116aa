"""Pipelines as text: read against an index, saved with it."""
