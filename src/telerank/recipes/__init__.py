"""Whole experiments, put together from the parts; the command line and the benchmarks run the same ones."""
