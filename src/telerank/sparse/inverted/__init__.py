"""Inverted files: which documents hold each term, how often, and where; :mod:`.lists` opens one."""
