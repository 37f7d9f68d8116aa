"""Requests and replies as JSON, with examples; one file for each family of routes."""
