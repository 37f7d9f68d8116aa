"""Predicting queries for documents, which expand them in an index (doc2query)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Gt, Le

from telerank.corpus.collection import Collection
from telerank.errors import ArgumentError, MissingExtra
from telerank.parameters import Help
from telerank.retrieval.index import Documents, Index, stream_documents
from telerank.retrieval.model_sources import locate_model
from telerank.show.progress import continued, show_progress
from telerank.types import ProgressSetting
from telerank.verbs.index import open_source

if TYPE_CHECKING:
    from telerank.expansion.writing import ExpandedSource, Expansion, Predictor, QueryFilter


def expand(
    docs: Documents | Index,
    output: str | Path,
    *,
    model: Annotated[
        str | None,
        Help("A model that writes texts (T5, BART, an encoder-decoder): a folder or a name on the hub."),
    ] = None,
    predicted: Annotated[
        str | None,
        Help(
            "Instead of a model: a file of predicted queries: JSON lines, lines of queries in the order of "
            "the documents, or docTTTTTquery's archive or folder of samples."
        ),
    ] = None,
    queries: Annotated[int, Ge(1), Le(1000), Help("Queries for each document.")] = 40,
    sampling: Annotated[
        str,
        Help(
            "top-k=10: draw each piece from the ten likeliest; top-p=0.95, beam, beam=8, greedy (one query)."
        ),
    ] = "top-k=10",
    seed: Annotated[int, Ge(0), Help("Seed of what is drawn; of each document with its docno.")] = 0,
    max_length: Annotated[
        int | None,
        Ge(2),
        Help("Pieces at which a document is cut. Default: 512, or what the model reads if that is less."),
    ] = None,
    max_query: Annotated[int, Ge(2), Help("Pieces of a query at most.")] = 64,
    filter: Annotated[  # noqa: A002
        str | None,
        Help("A re-ranker that scores each query with its document (doc2query--): a folder or a name."),
    ] = None,
    keep: Annotated[float, Gt(0), Le(1), Help("Share of all queries, the best scored, that it keeps.")] = 0.3,
    batch_tokens: Annotated[
        int | None,
        Ge(1),
        Help("Pieces of documents times queries in a batch. Default: 16384, on a GPU 262144."),
    ] = None,
    device: Annotated[str | None, Help("`cpu`, `cuda`, …; default: a GPU if there is one.")] = None,
    overwrite: Annotated[bool, Help("Replace an existing file.")] = False,
    progress: ProgressSetting = None,
) -> Expansion:
    """Predict queries for the documents of a collection or an index: lines of JSON by docno.

    ``tr.index(…, expansion=output)`` expands the documents by them. With ``predicted`` the queries come from
    a file that others published. An interrupted call goes on where it was, to the same bytes. Beside
    ``output`` its ``.json`` says how it was made.

    >>> tr.expand(tr.piaf(), "queries.jsonl.gz", model="my-expander", queries=20, filter="my-reranker")

    Raises
    ------
    ArgumentError
        If neither or both of ``model`` and ``predicted`` are given, or ``output`` is there already.
    CollectionError
        If there is no document.
    FormatError
        If a file of queries is wrong, or has not a line for each document.
    ModelError
        If there is no such model, or it reads or writes fewer pieces.
    MissingExtra
        If torch is not installed and a model is needed.
    """
    from telerank.expansion.sampling import Sampling
    from telerank.expansion.writing import write_expansion

    if (model is None) == (predicted is None):
        raise ArgumentError("expand: give a model or a file of predicted queries (predicted), one of them")
    parsed, target = Sampling.parse(sampling), Path(output)
    parsed.check(queries)
    source = _open_docs(docs)
    predictor: Predictor | Path = Path(predicted or "")
    if model is not None:
        predictor = _open_writer(
            locate_model(model), (queries, parsed, seed, max_length, max_query, batch_tokens), device
        )
    chosen = None if filter is None else _open_filter(filter, keep, device)
    if target.exists() and not overwrite:
        raise ArgumentError(f"{target}: is there already: overwrite it (overwrite=True)")
    with show_progress(progress, source.size, kept=continued(target.parent, "what is predicted")) as shown:
        return write_expansion(source, target, predictor, chosen, shown)


def _open_docs(docs: Documents | Index) -> ExpandedSource:
    from telerank.expansion.writing import ExpandedSource

    opened = open_source(docs) if isinstance(docs, str | Path) else docs
    name = "documents"
    if isinstance(opened, Index | Collection):
        name = opened.folder.name if isinstance(opened, Index) else opened.name
    elif not hasattr(opened, "__getitem__"):
        opened = list(opened)  # they are read more than once
    size, _ = stream_documents(opened)
    return ExpandedSource(name, size, lambda: stream_documents(opened)[1])


def _open_writer(model: str, settings: Sequence[Any], device: str | None) -> Predictor:
    try:
        from telerank.expansion.generation import QueryWriter, Writing
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name or "torch", "neural") from error
    return QueryWriter(model, Writing(*settings), device)


def _open_filter(model: str, keep: float, device: str | None) -> QueryFilter:
    from telerank.expansion.writing import QueryFilter

    try:
        from telerank.reranking.scorer import Scorer
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name or "torch", "neural") from error
    scorer = Scorer(locate_model(model), device=device)
    return QueryFilter(scorer.score, keep, {"model": model, "checksum": scorer.checksum})
