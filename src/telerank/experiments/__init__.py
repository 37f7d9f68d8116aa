"""Experiments: systems measured on a collection, from Python and from YAML files."""
