"""How far the orders of the Piaf report's equations 1 and 2 as printed are from Lucene's; their quality.

::

    python -m benchmarks.printed_equations        # needs dila and scifact in TELERANK_DATA; some minutes

Kendall's tau-b of the scores that both forms give the first 100 documents of Lucene's form, the mean over the
first 400 questions; Success@1 of both.
"""

from __future__ import annotations

import tempfile
from itertools import islice

import numpy as np
from scipy.stats import kendalltau

import telerank as tr

COLLECTIONS = {"piaf": ("all", "french"), "dila": ("test", "french"), "scifact": ("test", "english")}
PAIRS = (
    ("bm25", "bm25_printed"),
    ("lm_dirichlet", "lm_dirichlet_printed"),
    ("lm_dirichlet(mu=100)", "lm_dirichlet_printed(mu=100)"),
)
QUESTIONS, FIRST = 400, 100


def agreement(lucene: tr.Ranking, printed: tr.Ranking) -> float:
    """NaN if the first documents are fewer than two, or all alike."""
    scores = dict(printed)
    first = lucene.docnos[:FIRST]
    if len(first) < 2:
        return float("nan")
    return float(kendalltau(lucene.scores[:FIRST], [scores[docno] for docno in first]).statistic)


def main() -> None:
    for name, (split, analyzer) in COLLECTIONS.items():
        collection = tr.collection(name)
        queries = list(islice(collection.split_queries(split), QUESTIONS))
        relevant = collection.judged(split)
        with tempfile.TemporaryDirectory() as folder:
            index = tr.index(collection, f"{folder}/index", analyzer=analyzer)
            for pair in PAIRS:
                runs = [list(index.retriever(model).run(queries)) for model in pair]
                tau = np.nanmean([agreement(*both) for both in zip(*runs, strict=True)])
                found = [
                    np.mean([any(relevant[r.query.qid].get(d, 0) > 0 for d in r.docnos[:1]) for r in run])
                    for run in runs
                ]
                print(
                    f"{name}, {len(queries)} questions, {pair[1]}: tau {tau:.3f}, "
                    f"Success@1 {found[1]:.3f}, Lucene's {found[0]:.3f}"
                )


if __name__ == "__main__":
    main()
