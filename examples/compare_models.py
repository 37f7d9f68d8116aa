"""Measure three models on real questions, and see which differences to believe.

The questions and the paragraphs are those of PIAF, which is installed with telerank.
"""

from __future__ import annotations

import tempfile

import telerank as tr

MODELS = ("bm25(k1=0.9, b=0.4)", "lm_dirichlet(mu=2000)", "dfi")


def main() -> None:
    data = tr.piaf()
    with tempfile.TemporaryDirectory() as folder:
        index = tr.index(data, folder, analyzer="french")
        systems = {model: f"{model} % 100" for model in MODELS}
        result = tr.experiment(systems, data, measures="RR@10 R@1 R@100", baseline=MODELS[0], index=index)
    print(result)


if __name__ == "__main__":
    main()
