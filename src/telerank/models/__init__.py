"""Neural models: torch and texts alone. Nothing here knows a query, a document or an index."""
