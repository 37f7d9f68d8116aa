"""Tune the weights of a sum of two retrievers, and report it on questions that had no part in the choice.

A pipeline is a value: what is tuned may be any stage, made from others with ``+``, ``*``, ``%`` and ``>>``.
"""

from __future__ import annotations

import tempfile
from itertools import islice

import telerank as tr
from telerank.evaluation.tune import Folds, Objective, tune

QUESTIONS = 300


def main() -> None:
    data = tr.piaf()
    queries = list(islice(data.split_queries(), QUESTIONS))
    objective = Objective(queries, data.judged(), "RR@10")
    with tempfile.TemporaryDirectory() as folder:
        index = tr.index(data, folder, analyzer="french")
        bm25, dfi = tr.minmax(index.bm25() % 100), tr.minmax(index.dfi("saturated") % 100)
        pipelines = [step / 10 * bm25 + (10 - step) / 10 * dfi for step in range(11)]
        result = tune(pipelines, lambda pipeline, some: pipeline.run(some), objective, held_out=Folds(5))
    for pipeline, value in zip(result.settings, result.dev, strict=True):
        print(f"RR@10 {value:.4f}  {pipeline}")
    print(f"the best: {result.best_dev:.4f} on the questions that chose it", end="")
    print(f", {result.held_out:.4f} on held-out questions")


if __name__ == "__main__":
    main()
