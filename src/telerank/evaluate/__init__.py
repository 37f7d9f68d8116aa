"""How good a run is: measures, comparison with significance, measures by depth, tuning.

It knows runs and qrels alone, not what made them.
"""
