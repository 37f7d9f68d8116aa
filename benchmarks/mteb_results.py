"""Results of a pipeline on PIAF, which is no task of mteb, in mteb's own format.

``python benchmarks/mteb_results.py OUT`` writes those of BM25, over all 7,569 questions, to
``OUT/results/telerank__bm25/VERSION/PIAF.json``, and prints nDCG@10. It needs the extra ``mteb``.
"""

from __future__ import annotations

import argparse

import mteb

import telerank as tr
from telerank.integrations.mteb import SearchModel, collection_task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", metavar="OUT", help="the folder to write, as mteb's cache of results")
    parser.add_argument("--pipeline", default="bm25", help="default: bm25")
    parser.add_argument("--encoder", action="append", default=[], help="an encoder that the pipeline needs")
    parser.add_argument("--weights-model", help="a model of weights of terms for impact")
    options = parser.parse_args()
    model = SearchModel(options.pipeline, encoders=options.encoder, weights_model=options.weights_model)
    task = collection_task(tr.piaf(), "fra-Latn", name="PIAF")
    results = mteb.evaluate(
        model, task, cache=mteb.ResultCache(options.out), show_progress_bar=False, overwrite_strategy="always"
    )
    [scores] = results.task_results[0].scores["test"]
    print(f"{model.mteb_model_meta.name} on PIAF: nDCG@10 {scores['ndcg_at_10']:.5f}")


if __name__ == "__main__":
    main()
