"""telerank: text ranking in stages, and the measuring of every stage.

>>> import telerank as tr
>>> index = tr.index(tr.piaf(), "piaf-index", analyzer="french")
>>> index.bm25().search("Qui a inventé l'imprimerie ?")
"""

from __future__ import annotations

from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telerank.corpus.formats import open_collection
    from telerank.corpus.formats import piaf as piaf
    from telerank.errors import TelerankError as TelerankError
    from telerank.evaluation.own_measures import measure as measure
    from telerank.feedback import bo1 as bo1
    from telerank.feedback import rm3 as rm3
    from telerank.feedback import rocchio as rocchio
    from telerank.fusion import interleave as interleave
    from telerank.fusion import minmax as minmax
    from telerank.fusion import prob as prob
    from telerank.fusion import rrf as rrf
    from telerank.fusion import softmax as softmax
    from telerank.pipelines.functions import pipeline as pipeline
    from telerank.retrieval.functions import retriever as retriever
    from telerank.retrieval.functions import scorer as scorer
    from telerank.retrieval.group import group as group
    from telerank.retrieval.index import Index as Index
    from telerank.retrieval.index import open as open  # noqa: A004 — telerank.open reads as it should
    from telerank.stage import Stage as Stage
    from telerank.text.follow_up import follow_up as follow_up
    from telerank.types import Answer as Answer
    from telerank.types import Answers as Answers
    from telerank.types import Doc as Doc
    from telerank.types import Explanation as Explanation
    from telerank.types import Qrel as Qrel
    from telerank.types import Query as Query
    from telerank.types import Ranking as Ranking
    from telerank.verbs.answer import answer as answer
    from telerank.verbs.answer import read as read
    from telerank.verbs.answer import reader as reader
    from telerank.verbs.candidates import consistency as consistency
    from telerank.verbs.candidates import depth as depth
    from telerank.verbs.data import segment_lengths as segment_lengths
    from telerank.verbs.encode import encode as encode
    from telerank.verbs.evaluate import compare as compare
    from telerank.verbs.evaluate import evaluate as evaluate
    from telerank.verbs.evaluate import evaluate_answers as evaluate_answers
    from telerank.verbs.experiment import experiment as experiment
    from telerank.verbs.experiment import run_experiment as run_experiment
    from telerank.verbs.fuse import combine as combine
    from telerank.verbs.fuse import fuse as fuse
    from telerank.verbs.fuse import tune_fusion as tune_fusion
    from telerank.verbs.index import expand as expand
    from telerank.verbs.index import export_ciff as export_ciff
    from telerank.verbs.index import index as index
    from telerank.verbs.index import restore as restore
    from telerank.verbs.judge import judge as judge
    from telerank.verbs.rerank import rerank as rerank
    from telerank.verbs.search import search as search
    from telerank.verbs.serve import serve as serve
    from telerank.verbs.train import fine_tune as fine_tune
    from telerank.verbs.train import train as train
    from telerank.verbs.tune import tune as tune

    collection = open_collection

__version__ = "0.1.0"

# The public names, imported when they are first used, so that ``import telerank`` stays light.
_MODULES = {
    "corpus.formats": "collection piaf",
    "errors": "TelerankError",
    "evaluation.own_measures": "measure",
    "feedback": "bo1 rm3 rocchio",
    "fusion": "interleave minmax prob rrf softmax",
    "pipelines.functions": "pipeline",
    "retrieval.functions": "retriever scorer",
    "retrieval.group": "group",
    "retrieval.index": "Index open",
    "stage": "Stage",
    "text.follow_up": "follow_up",
    "types": "Answer Answers Doc Explanation Qrel Query Ranking",
    "verbs.answer": "answer read reader",
    "verbs.candidates": "consistency depth",
    "verbs.data": "segment_lengths",
    "verbs.encode": "encode",
    "verbs.evaluate": "compare evaluate evaluate_answers",
    "verbs.experiment": "experiment run_experiment",
    "verbs.fuse": "combine fuse tune_fusion",
    "verbs.index": "expand export_ciff index restore",
    "verbs.judge": "judge",
    "verbs.rerank": "rerank",
    "verbs.search": "search",
    "verbs.serve": "serve",
    "verbs.train": "fine_tune train",
    "verbs.tune": "tune",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        from telerank.errors import UnknownAttribute

        raise UnknownAttribute("tr", name, __all__)
    attribute = "open_collection" if name == "collection" else name
    value = getattr(import_module(f"telerank.{_MODULE_OF[name]}"), attribute)
    if isinstance(value, FunctionType):
        from telerank.parameters import check_arguments

        value = check_arguments(value, f"tr.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
