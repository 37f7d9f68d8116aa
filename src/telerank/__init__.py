"""telerank: text ranking in stages, and the measuring of every stage.

>>> import telerank as tr
>>> index = tr.index(tr.piaf(), "piaf-index", analyzer="french")
>>> index.bm25().search("Qui a inventé l'imprimerie ?")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telerank.corpus.bundled import piaf
    from telerank.corpus.formats import open_collection as collection
    from telerank.fusion import interleave, minmax, prob, rrf
    from telerank.pipelines.functions import pipeline
    from telerank.retrieval.index import Index
    from telerank.stage import Stage
    from telerank.types import Answer, Doc, Explanation, Qrel, Query, Ranking
    from telerank.verbs.candidates import consistency, depth
    from telerank.verbs.compare import compare
    from telerank.verbs.encode import encode
    from telerank.verbs.evaluate import evaluate
    from telerank.verbs.experiment import experiment, run_experiment
    from telerank.verbs.fuse import combine, fuse, tune_fusion
    from telerank.verbs.index import (
        index,
        open,  # noqa: A004 — telerank.open reads as it should
    )
    from telerank.verbs.judge import judge
    from telerank.verbs.rerank import rerank
    from telerank.verbs.search import search
    from telerank.verbs.train import train
    from telerank.verbs.tune import tune

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Doc",
    "Explanation",
    "Index",
    "Qrel",
    "Query",
    "Ranking",
    "Stage",
    "collection",
    "combine",
    "compare",
    "consistency",
    "depth",
    "encode",
    "evaluate",
    "experiment",
    "fuse",
    "index",
    "interleave",
    "judge",
    "minmax",
    "open",
    "piaf",
    "pipeline",
    "prob",
    "rerank",
    "rrf",
    "run_experiment",
    "search",
    "train",
    "tune",
    "tune_fusion",
]

_LAZY = {
    **{
        name: ("telerank.types", name)
        for name in ("Answer", "Doc", "Explanation", "Qrel", "Query", "Ranking")
    },
    "Index": ("telerank.retrieval.index", "Index"),
    "Stage": ("telerank.stage", "Stage"),
    "collection": ("telerank.corpus.formats", "open_collection"),
    "combine": ("telerank.verbs.fuse", "combine"),
    "compare": ("telerank.verbs.compare", "compare"),
    "consistency": ("telerank.verbs.candidates", "consistency"),
    "depth": ("telerank.verbs.candidates", "depth"),
    "encode": ("telerank.verbs.encode", "encode"),
    "evaluate": ("telerank.verbs.evaluate", "evaluate"),
    "experiment": ("telerank.verbs.experiment", "experiment"),
    "fuse": ("telerank.verbs.fuse", "fuse"),
    "index": ("telerank.verbs.index", "index"),
    "interleave": ("telerank.fusion", "interleave"),
    "judge": ("telerank.verbs.judge", "judge"),
    "minmax": ("telerank.fusion", "minmax"),
    "open": ("telerank.verbs.index", "open"),
    "piaf": ("telerank.corpus.bundled", "piaf"),
    "pipeline": ("telerank.pipelines.functions", "pipeline"),
    "prob": ("telerank.fusion", "prob"),
    "rerank": ("telerank.verbs.rerank", "rerank"),
    "rrf": ("telerank.fusion", "rrf"),
    "run_experiment": ("telerank.verbs.experiment", "run_experiment"),
    "search": ("telerank.verbs.search", "search"),
    "train": ("telerank.verbs.train", "train"),
    "tune": ("telerank.verbs.tune", "tune"),
    "tune_fusion": ("telerank.verbs.fuse", "tune_fusion"),
}
"""The names that are imported when they are first used, so that ``import telerank`` stays light."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'telerank' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
