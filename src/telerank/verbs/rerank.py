"""Re-ranking: as a stage of a pipeline, or the candidates of a run file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from telerank.computing import PairComputing
from telerank.corpus.collection import Collection
from telerank.corpus.read_fields import as_field_names
from telerank.errors import ArgumentError, ArgumentTypeError, CollectionError, show_value
from telerank.model_names import RERANKER, require_default
from telerank.parameters import FieldsOf
from telerank.pipelines.functions import pipeline
from telerank.pipelines.run_files import LazyRun
from telerank.retrieval.functions import open_docs
from telerank.retrieval.index import Index
from telerank.retrieval.model_sources import locate_model
from telerank.training import launched
from telerank.types import ProgressSetting, Ranking, silent

if TYPE_CHECKING:
    from telerank.models.rerankers.reranker import Reranker
    from telerank.reranking.scorer import Scorer
    from telerank.reranking.stage import CrossReranker
    from telerank.types import Docs


def rerank(
    model: str | Path | Reranker | Scorer = RERANKER,
    texts: Index | Collection | Docs | Mapping[str, str] | None = None,
    *,
    fields: str | Sequence[str] = (),
    **settings: Annotated[Any, FieldsOf(PairComputing)],
) -> CrossReranker:
    """The stage that scores the documents of rankings again with a re-ranker.

    ``model`` is the folder of a re-ranker, a name (looked for with the index, in the folders of
    ``TELERANK_MODELS``, as a path, on the hub), or a loaded one; by default the French and English one that
    comes with telerank (extra ``e5``). ``texts`` has the documents: an index, a
    collection (whose texts are then held in memory), a docstore, or a mapping of texts by docno. ``fields``
    of them are read instead of title and text: ``["title", "topics"]``. ``settings`` are those of
    :class:`~telerank.reranking.scorer.Scorer`: ``backend``, ``precision``, ``max_length``, ….

    >>> pipeline = index.bm25() % 100 >> tr.rerank("my-reranker", index) % 10

    Raises
    ------
    ModelError
        If there is no such model, back end or precision.
    ArgumentError
        If the documents have no such field.
    MissingExtra
        If torch or the package of the back end is not installed.
    """
    if texts is None:
        raise ArgumentError(
            "rerank: expected texts, the documents: an index, a collection, a docstore, or texts by docno"
        )
    if model == RERANKER:
        require_default(RERANKER)
    from telerank.reranking.stage import CrossReranker

    scorer = _open_scorer(model, texts, settings)
    if isinstance(texts, Index):
        name = str(model) if isinstance(model, str | Path) else ""
        return CrossReranker(scorer, texts.docs, name=name, fields=fields)
    return CrossReranker(scorer, open_docs(texts), fields=fields)


@dataclass(frozen=True, eq=False)
class DevRun:
    """A run over judged queries of a collection's split, to calibrate int8 and to measure what it loses."""

    run: str | Path
    data: Collection
    split: str | None = None


def rerank_run(
    run: str | Path,
    model: str | Path | Reranker | Scorer = RERANKER,
    texts: Index | Collection | None = None,
    queries: Collection | None = None,
    *,
    split: str | None = None,
    depth: int | None = None,
    k: int | None = None,
    dev: DevRun | None = None,
    fields: str | Sequence[str] = (),
    progress: ProgressSetting = None,
    **settings: Any,
) -> LazyRun:
    """Score the first ``depth`` documents of each query of a run file again, and keep ``k``.

    ``pool(NAME)`` instead of a file are candidate lists that come with the queries. ``texts`` has the
    documents; ``queries`` the queries, in its ``split``, if it is another collection. ``model``,
    ``fields`` and ``settings`` are those of :func:`rerank`. The precision ``int8`` needs ``dev``: one half of
    its queries calibrates it, the other half measures what it loses. A run that is wrong somewhere is refused
    at once; the scores are computed when the rankings are read or saved. Under ``torchrun`` the processes
    share the queries; each must read or save the rankings, and the first one writes.

    >>> rerank_run("bm25.run", "my-reranker", data, split="test", depth=100, k=10).save("reranked.run")

    Raises
    ------
    CollectionError
        If a query or a document of the run is unknown, or a query is in ``dev``, too.
    ModelError
        If there is no such model, back end or precision, or ``dev`` is missing or not needed.
    MissingExtra
        If torch or the package of the back end is not installed.
    """
    if model == RERANKER:
        require_default(RERANKER)
    from telerank.reranking.runs import RunCandidates, RunScoring
    from telerank.reranking.stage import CrossReranker

    if launched.is_shared():
        settings["device"] = launched.join(settings.get("device"))
        progress = progress if launched.is_first() else silent

    def candidates(source: DevRun) -> RunCandidates:
        text, lists = str(source.run), None
        if text.startswith("pool(") and not Path(text).exists():
            lists = pipeline(text, pool=partial(source.data.pool, split=source.split))
        return RunCandidates(text, source.data, source.split, depth, lists)

    def prepare() -> RunScoring:
        scorer = _open_scorer(model, texts, settings)
        source = queries or (texts if isinstance(texts, Collection) else None)
        if source is None or texts is None:
            raise CollectionError("give the documents, and the collection that has the queries")
        docs, name = (texts.docs, str(texts.folder)) if isinstance(texts, Index) else (texts, texts.name)
        of_dev = None if dev is None else candidates(dev)
        of_run = candidates(DevRun(run, source, split))
        return RunScoring(scorer, docs, name, of_run, of_dev, k, as_field_names(fields))

    scoring = launched.each(prepare)
    score: Callable[[CrossReranker, Iterable[Ranking]], Iterable[Ranking]] = CrossReranker.__call__
    if launched.is_shared():
        from telerank.training.shares import rerank_shares

        score = rerank_shares
    return LazyRun(lambda: scoring.compute(score, progress), scoring.record, scoring.describe)


def _open_scorer(
    model: str | Path | Reranker | Scorer,
    texts: Index | Collection | Docs | Mapping[str, str] | None,
    settings: Mapping[str, Any],
) -> Scorer:
    from telerank.models.rerankers.reranker import Reranker
    from telerank.reranking.scorer import Scorer

    if not isinstance(model, str | Path | Scorer | Reranker):
        hint = ": a function becomes a stage by tr.scorer(f)" if callable(model) else ""
        raise ArgumentTypeError(
            f"tr.rerank: model must be a re-ranker or its name, got {show_value(model)}{hint}"
        )
    if isinstance(model, str | Path):
        model = locate_model(str(model), index=texts.folder if isinstance(texts, Index) else None)
    return model if isinstance(model, Scorer) else Scorer(model, **settings)
