"""Experiments: data, models, systems as pipelines, and what is measured of them, read from YAML files."""
