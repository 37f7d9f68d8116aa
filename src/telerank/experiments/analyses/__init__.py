"""The analyses of an experiment: one file each, ``analyse(bench, spec) -> AnalysisResult``."""
