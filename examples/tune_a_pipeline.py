"""Tune the weights of a sum of two retrievers, and report it on questions that had no part in the choice.

A pipeline is a value: what is tuned may be any stage, made from others with ``+``, ``*``, ``%`` and ``>>``.
"""

from __future__ import annotations

import tempfile
from itertools import islice

from telerank.corpus.bundled import piaf
from telerank.evaluate.tune import Folds, Objective, tune
from telerank.fuse import minmax
from telerank.fuse.tuning import simplex
from telerank.sparse.writer import build_index


def main(questions: int = 300) -> None:
    collection = piaf()
    queries = list(islice(collection.split_queries(), questions))
    qrels = collection.judged()
    with tempfile.TemporaryDirectory() as folder:
        index = build_index(collection.docs(), folder, analyzer="french")
        bm25, dfi = minmax(index.bm25() % 100), minmax(index.dfi("saturated") % 100)
        pipelines = [a * bm25 + b * dfi for a, b in simplex(2, step="0.1")]
        objective = Objective(queries, qrels, "RR@10")
        result = tune(pipelines, lambda pipeline, asked: pipeline.run(asked), objective, held_out=Folds(5))
    for (a, b), value in zip(simplex(2, step="0.1"), result.dev, strict=True):
        print(f"{a:.1f} * bm25 + {b:.1f} * dfi: RR@10 {value:.4f}")
    print(f"best where it was chosen {result.best_dev:.4f}, on held-out questions {result.held_out:.4f}")


if __name__ == "__main__":
    main()
