"""Queries as people type them: phrases, operators, exclusions, beginnings of words, titles, columns."""
