"""Any pipeline as a search model of mteb (https://github.com/embeddings-benchmark/mteb).

>>> import mteb
>>> from telerank.integrations.mteb import SearchModel
>>> model = SearchModel("bm25", analyzer="english")
>>> print(mteb.evaluate(model, mteb.get_tasks(["SciFact"])))

A task's corpus is indexed in a folder of its own, searched, and the index is removed with the model. mteb
measures with trec_eval, which breaks ties of scores by docno: so does telerank. :func:`collection_task` makes
tasks of collections that mteb does not have.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import telerank as tr
from telerank.corpus.collection import CandidatePool, Collection, rank_in_order
from telerank.corpus.derived.kept import add_to_digest
from telerank.errors import CollectionError, MissingExtra
from telerank.fusion import within
from telerank.retrieval.index import Index
from telerank.stage import Stage
from telerank.types import Doc, Query

if TYPE_CHECKING:
    from mteb.abstasks import AbsTaskRetrieval
    from mteb.models import ModelMeta

# mteb's languages that an analyzer of telerank is made for; others get the standard one
ANALYZERS = {"eng": "english", "fra": "french"}
_SPLIT = "test"  # the name of a task's only split
_TASK = {"type": "Retrieval", "category": "t2t", "modalities": ["text"], "main_score": "ndcg_at_10"}
_UNKNOWN_OF_TASK = (
    "reference date domains task_subtypes license annotations_creators dialect sample_creation "
    "bibtex_citation"
)


class SearchModel:
    """A pipeline that mteb indexes with, searches with and measures (its ``SearchProtocol``).

    ``pipeline`` is a text (``bm25 % 100 >> rerank(minilm-reranker)``), or a function from an
    :class:`~telerank.Index` to a stage. ``encoders`` make the vectors that it needs, of texts or of tokens,
    and ``weights_model`` the weights of terms for ``impact``. ``analyzer`` is by default that of the language
    of the task, or of its subset. ``name`` and ``revision`` name mteb's files of results, where a model with
    ``encoders`` is ``dense``, another ``sparse``. The default name has the other settings in it, as in
    ``telerank/dense-e5-small``; functions need a name each.
    """

    def __init__(
        self,
        pipeline: str | Callable[[Index], Stage] = "bm25",
        *,
        encoders: Sequence[str] = (),
        weights_model: str | None = None,
        analyzer: str | None = None,
        name: str | None = None,
        revision: str = tr.__version__,
    ) -> None:
        self._pipeline, self._encoders, self._analyzer = pipeline, tuple(encoders), analyzer
        self._weights_model = weights_model
        self._folder = Path(tempfile.mkdtemp(prefix="telerank-mteb-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._indexes = 0
        self._stage: Stage | None = None
        described = pipeline if isinstance(pipeline, str) else getattr(pipeline, "__name__", "pipeline")
        parts = (described, *encoders, weights_model, analyzer)
        default = f"telerank/{_file_name(' '.join(filter(None, parts)))}"
        kind = "dense" if encoders else "sparse"
        self.mteb_model_meta = describe_model(name or default, revision, kind)

    def index(
        self,
        corpus: Iterable[Mapping[str, Any]],
        *,
        task_metadata: Any,
        hf_subset: str = "default",
        **_: Any,
    ) -> None:
        """Index the documents of a task's subset, and encode them if the pipeline needs vectors."""
        self._indexes += 1
        folder = self._folder / str(self._indexes)
        docs = (Doc(row["id"], row["text"] or "", row.get("title") or "") for row in corpus)
        languages = task_metadata.hf_subsets_to_langscripts.get(hf_subset, task_metadata.languages)
        analyzer = self._analyzer or choose_analyzer(languages)
        weigher = self._weights_model
        opened = tr.index(docs, folder, analyzer=analyzer, weights_model=weigher, progress=False)
        for encoder in self._encoders:
            tr.encode(opened, model=encoder, progress=False)
        if isinstance(self._pipeline, str):
            self._stage = tr.pipeline(self._pipeline, opened)
        else:
            self._stage = self._pipeline(opened)

    def search(
        self,
        queries: Iterable[Mapping[str, Any]],
        *,
        top_k: int,
        top_ranked: Mapping[str, Sequence[str]] | None = None,
        **_: Any,
    ) -> dict[str, dict[str, float]]:
        """The scores of the best documents of each query, of those of ``top_ranked`` only if that is given.

        One of these that the pipeline does not find has 0.
        """
        if self._stage is None:
            raise CollectionError("search before index: no corpus is there")
        stage = self._stage
        if top_ranked is not None:
            lists = [rank_in_order(Query(qid, ""), docnos) for qid, docnos in top_ranked.items()]
            stage = within(CandidatePool("mteb", "", "top_ranked", (partial(iter, lists),)), stage)
        rankings = (stage % top_k).run(Query(row["id"], row["text"]) for row in queries)
        return {ranking.query.qid: dict(ranking) for ranking in rankings}


def collection_task(
    collection: Collection, language: str, *, split: str | None = None, name: str | None = None
) -> AbsTaskRetrieval:
    """A retrieval task of the judged queries of a split (the only one if there is no other), named ``name``.

    ``language`` is that of the texts as mteb writes it (``fra-Latn``). The revision of the task's data, which
    stands in its results, is a checksum of documents, queries and grades.

    >>> task = collection_task(tr.piaf(), "fra-Latn", name="PIAF")
    >>> mteb.evaluate(SearchModel("bm25"), task, cache=mteb.ResultCache("results"))

    Raises
    ------
    CollectionError
        If there is no such split, or it has no queries or qrels.
    MissingExtra
        If mteb is not installed.
    """
    try:
        from datasets import Dataset
        from mteb.abstasks import AbsTaskRetrieval
        from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
        from mteb.abstasks.task_metadata import TaskMetadata
    except ImportError as error:
        raise MissingExtra("mteb", "mteb") from error
    part = collection.resolve_split(split)
    judged = collection.judged(part)
    queries = [query for query in collection.split_queries(part) if query.qid in judged]
    described = {
        "name": name or _file_name(collection.name),
        "description": f"{collection.name}, split {part}",
        "dataset": {
            "path": f"telerank/{_file_name(collection.name)}",
            "revision": _checksum(collection, part),
        },
        "eval_splits": [_SPLIT],
        "eval_langs": [language],
        **_TASK,
    }

    class CollectionTask(AbsTaskRetrieval):  # type: ignore[misc]
        metadata = TaskMetadata(**described, **dict.fromkeys(_UNKNOWN_OF_TASK.split()))

        def load_data(self, *_: object, **__: object) -> None:
            docs = ({"id": doc.docno, "title": doc.title, "text": doc.text} for doc in collection.docs())
            topics = [{"id": query.qid, "text": query.text} for query in queries]
            corpus, topics = Dataset.from_list([*docs]), Dataset.from_list(topics)
            data = RetrievalSplitData(corpus=corpus, queries=topics, relevant_docs=judged, top_ranked=None)
            self.dataset, self.data_loaded = {"default": {_SPLIT: data}}, True

    return CollectionTask()


def _checksum(collection: Collection, split: str) -> str:
    digest = sha256()
    for doc in collection.docs():
        add_to_digest(digest, doc)
    for record in (*collection.split_queries(split), *collection.split_qrels(split)):
        digest.update(repr(record).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _file_name(text: str) -> str:
    """The text as mteb names files and folders."""
    return re.sub(r"[^\w.=-]+", "-", text).strip("-")


def choose_analyzer(languages: Sequence[str]) -> str:
    """The analyzer of texts in the languages (``fra``, ``fra-Latn``) of a task."""
    codes = {language.partition("-")[0] for language in languages}
    return ANALYZERS.get(codes.pop(), "standard") if len(codes) == 1 else "standard"


def describe_model(name: str, revision: str, kind: str) -> ModelMeta:
    """What mteb writes into its results of a model. Raises MissingExtra if it is not installed."""
    try:
        from mteb.models import ModelMeta
    except ImportError as error:
        raise MissingExtra("mteb", "mteb") from error
    unknown = (
        "n_parameters memory_usage_mb max_tokens embed_dim license open_weights public_training_code "
        "public_training_data similarity_fn_name use_instructions training_datasets release_date languages"
    )
    known = {"loader": None, "framework": [], "model_type": [kind]}
    return ModelMeta(name=name, revision=revision, **known, **dict.fromkeys(unknown.split()))
