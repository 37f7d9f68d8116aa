"""Measure three models on real questions, and see which differences to believe.

Questions and paragraphs are of PIAF, which is installed with telerank.
"""

from __future__ import annotations

import tempfile
from itertools import islice

from telerank.corpus.bundled import piaf
from telerank.evaluate.compare import compare_evaluations
from telerank.evaluate.measures import measure
from telerank.evaluate.report import comparison_table
from telerank.show.tables import render_markdown
from telerank.sparse.writer import build_index

MODELS = ("bm25(k1=0.9, b=0.4)", "lm_dirichlet(mu=2000)", "dfi")


def main(questions: int = 500) -> None:
    collection = piaf()
    queries = list(islice(collection.split_queries(), questions))
    judged = collection.judged()
    qrels = {query.qid: judged[query.qid] for query in queries}
    with tempfile.TemporaryDirectory() as folder:
        index = build_index(collection.docs(), folder, analyzer="french")
        evaluations = {
            model: measure((index.retriever(model) % 100).run(queries), qrels, "RR@10 R@1 R@100")
            for model in MODELS
        }
    print(render_markdown(comparison_table(compare_evaluations(evaluations, [MODELS[0]]))))


if __name__ == "__main__":
    main()
