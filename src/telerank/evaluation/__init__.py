"""Measure runs: means and values per query, significance, measures by depth, tuning.

Nothing here knows an index, a model or a collection: the input is rankings and qrels.
"""
