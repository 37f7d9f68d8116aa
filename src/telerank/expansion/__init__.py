"""Expanding documents by the queries that a model predicts for them (doc2query), and keeping the best."""
