"""The service under load: see ``python -m serve_load --help``."""
