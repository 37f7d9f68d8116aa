"""Building an index, predicting queries by which it is expanded, restoring it, writing it as CIFF."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Gt, Le

from telerank.columns.kinds import check_columns, conform_doc
from telerank.computing import Count
from telerank.corpus.collection import Collection
from telerank.corpus.derived.predicted import EXPANSION, expand_fields, expanding
from telerank.corpus.formats import open_collection
from telerank.corpus.reading import locate_data
from telerank.errors import ArgumentError, IndexFault, MissingExtra, UnlikelySetting
from telerank.parameters import CopySetting, Help
from telerank.retrieval.backup import restore_index
from telerank.retrieval.folder_update import replacing_record
from telerank.retrieval.index import Documents, Index, open_weights, stream_documents
from telerank.retrieval.model_sources import locate_model
from telerank.show.progress import continued, show_progress, unchanged
from telerank.sparse.index import has_index
from telerank.text import Analyzer
from telerank.types import Doc, ProgressSetting

if TYPE_CHECKING:
    from telerank.corpus.derived.kept import DocSource
    from telerank.corpus.readers.files.folder import FileRecord
    from telerank.expansion.writing import Predictor, QueryFilter, WrittenQueries
    from telerank.sparse.weights.ciff_export import CiffCounts
    from telerank.sparse.weights.writing import WeightSource

_COMPARED = 1000  # documents between two calls of progress


def index(
    docs: Documents,
    folder: str | Path,
    *,
    analyzer: Analyzer | str | Callable[[str], Iterable[str]] = "standard",
    copies: CopySetting = "count",
    columns: Mapping[str, str] | None = None,
    fields: Sequence[str] = (),
    positions: bool = False,
    weights: str | Path | None = None,
    weights_model: str | None = None,
    expansion: str | Path | None = None,
    overwrite: bool = False,
    workers: Count | None = None,
    progress: ProgressSetting = None,
) -> Index:
    """Index a collection (or the path of one), documents, or a mapping of texts by docno into a folder.

    ``analyzer`` is ``none``, ``standard``, ``english``, ``french``, a chain of steps, or a function that
    finds the tokens of a text. ``workers`` is the number of processes, by default one per core. An index of
    the same documents and analyzer that is there is returned as it is: the documents are compared one by one,
    in their order.

    ``copies`` of a text, equal but for case and blanks, are counted, or left out of all searches
    (``leave-out``); with ``count-near`` and ``leave-out-near`` those that are nearly equal, too. The document
    whose docno sorts first stays. Copies that are left out are stored, so that one of them takes the place of
    a document that is deleted.

    ``columns`` are kinds (``string``, ``list``, ``number``, ``date``, ``boolean``; ``none``: not kept) by
    name of what else documents have, for filters and facets; those of others are inferred.

    ``fields`` are indexed by themselves, too, for models that read one (``bm25(field=title)``) or several
    (``bm25f(title=3, text=1)``): ``title``, ``text``, and columns of texts. With ``positions`` the index
    knows where terms stand in fields and in whole texts, which searches of phrases need.

    ``weights`` is a file or a folder of files with weights of terms for each document, which ``impact``
    searches beside the counts: JSON lines such as ``{"id": "d1", "vector": {"cat": 1.5}}``, or CIFF
    (``.ciff``). With
    ``weights_model``, the name of a model such as SPLADE, documents are encoded. A warning
    (:class:`~telerank.errors.MissingWeights`) counts the documents that have none.

    ``expansion`` is a file of queries that :func:`telerank.expand` has predicted for the documents. They are
    one more field of the documents, ``expansion``, beside ``fields`` (without any, title and text), which
    ``bm25f(title=1, text=1, expansion=1, lengths=combined)`` searches with the others; models that read texts
    do not read it, ``weights_model`` among them, which a warning (:class:`~telerank.errors.UnlikelySetting`)
    says: ``collection.expanded(file)`` has the queries in its texts. Another
    (:class:`~telerank.errors.MissingQueries`) counts the documents without a line.

    Of a folder of files the index keeps what :meth:`telerank.Index.update` needs. Warnings
    (:class:`~telerank.errors.UnreadFiles`) name the files that were not read.

    >>> index = tr.index(tr.piaf(), "piaf-index", analyzer="french")

    Raises
    ------
    IndexFault
        If the folder holds another index already (and ``overwrite`` is not set), or something else.
    IndexLocked
        If another process writes to it.
    DocumentError
        If there is no document, or one cannot be stored.
    ArgumentError
        If no document has a field, or it is a column of something else than texts; if weights are given in
        two ways.
    FormatError
        If a file of weights is none; the message names the line.
    ModelError
        If there is no such model of weights.
    MissingExtra
        If near copies are looked for and datasketch is not installed, or torch for a model.
    """
    from telerank.sparse.writer import IndexWriter, check_field_names

    source = open_weights(weights, weights_model)
    opened = open_collection(docs) if isinstance(docs, str | Path) else docs
    chain = Analyzer.open(analyzer)
    if expansion is not None:
        fields, columns = expand_fields(fields), {**(columns or {}), EXPANSION: "list"}
    with expanding(expansion) as expand_docs:
        if not overwrite and has_index(Path(folder)):
            index = Index(folder)
            _require_settings(index, chain, copies, columns, (check_field_names(fields), positions))
            _require_weights(index, source)
            return _require_same(index, opened, expand_docs, progress)
        files: dict[str, FileRecord] = {}
        total, stream = stream_documents(opened, files)
        with (
            show_progress(progress, total, kept=unchanged(folder)) as shown,
            replacing_record(Path(folder), opened, files),
            IndexWriter(folder, chain, overwrite=overwrite, workers=workers) as writer,
        ):
            writer.choose_copies(copies)
            writer.choose_columns(columns or {})
            writer.choose_fields(fields, positions=positions)
            if source is not None:
                writer.choose_weights(source)
            writer.add(expand_docs(stream), progress=shown)
    if weights_model is not None and EXPANSION in fields:
        _say_not_weighed(weights_model, folder)
    return Index(folder)


def _say_not_weighed(model: str, folder: str | Path) -> None:
    how = "telerank data convert --expansion appends them to the texts"
    note = f"{folder}: {model} does not read the field {EXPANSION}, the predicted queries ({how})"
    warnings.warn(note, UnlikelySetting, stacklevel=3)


def _require_settings(
    index: Index,
    chain: Analyzer,
    copies: CopySetting,
    columns: Mapping[str, str] | None,
    fields: tuple[tuple[str, ...], bool],
) -> None:
    """Check that an index that is there was built in the same way; raises IndexFault."""
    manifest, why = index.sparse.manifest, ""
    if index.analyzer != chain:
        why = f"built with the analyzer {index.analyzer}, not {chain}"
    elif copies != (before := manifest.copies or "count"):
        why = f"built with the copies {before}, not {copies}"
    elif fields[0] != manifest.fields:
        built, given = (", ".join(names) or "none" for names in (manifest.fields, fields[0]))
        why = f"built with the fields {built}, not {given}"
    elif fields[1] != manifest.positions:
        why = f"built {'with' if manifest.positions else 'without'} positions"
    for name, kind in check_columns(columns or {}).items():
        if not why and manifest.columns.get(name, kind) != kind:
            why = f"whose column {name} is {manifest.columns[name]}, not {kind}"
    if why:
        raise IndexFault(f"{index.folder}: holds an index already, {why}: overwrite it (overwrite=True)")


def _require_weights(index: Index, source: WeightSource | None) -> None:
    """Check that an index that is there has these weights of terms; raises IndexFault."""
    entry = index.sparse.manifest.term_weights
    built, given = (
        "without weights of terms" if each is None else f"with weights of terms of {each.model or 'files'}"
        for each in (entry, None if source is None else source.entry)
    )
    if built == given and entry is not None and source is not None:
        other = source.entry
        if (entry.files, entry.fingerprint) != (other.files, other.fingerprint):
            built, given = f"{built}, of other contents", "those"
    if built != given:
        why = f"built {built}, not {given}"
        raise IndexFault(f"{index.folder}: holds an index already, {why}: overwrite it (overwrite=True)")


def _require_same(
    index: Index,
    docs: Documents,
    expand_docs: Callable[[Iterator[Doc]], Iterator[Doc]],
    progress: ProgressSetting,
) -> Index:
    """The index, if it has these documents in their order, expanded."""
    kinds = index.sparse.manifest.columns
    total, stream = stream_documents(docs)
    with show_progress(progress, total) as shown:
        for number, (present, doc) in enumerate(
            zip_longest(index.sparse.stored_docs.values(), expand_docs(stream))
        ):
            if doc is None or present != conform_doc(doc, kinds):
                raise IndexFault(
                    f"{index.folder}: holds an index of other documents already: "
                    "overwrite it (overwrite=True), or add to it"
                )
            if number % _COMPARED == 0:
                shown("comparing documents", number, None)
    return index


def restore(
    backup: str | Path, folder: str | Path, *, overwrite: bool = False, progress: ProgressSetting = None
) -> Index:
    """Restore the index of a backup (a folder or a tar file) into a folder; the index.

    With ``overwrite`` an index that is there is replaced, in one step at the end.

    >>> tr.open("idx").backup("idx.tar")
    >>> index = tr.restore("idx.tar", "restored")

    Raises
    ------
    IndexFault
        If there is no backup, or the folder holds something already.
    IndexDamaged
        If a file of the backup is missing, damaged, or not one of an index; then nothing is restored.
    IndexLocked
        If another process writes to the index that is there.
    """
    with show_progress(progress) as shown:
        restore_index(backup, folder, overwrite=overwrite, progress=shown)
    return Index(folder)


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
) -> WrittenQueries:
    """Predict queries for the documents of a collection or an index: lines of JSON by docno.

    ``tr.index(…, expansion=output)`` indexes them as a field of the documents, and the texts of
    ``collection.expanded(output)`` end with them. With ``predicted`` the queries come from a file that others
    published. An interrupted call goes on where it was, to the same bytes. Beside ``output`` its ``.json``
    says how it was made.

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
    source = describe_docs(docs)
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


def describe_docs(docs: Documents | Index) -> DocSource:
    """Documents that are read more than once, with their name and number."""
    from telerank.corpus.derived.kept import DocSource

    opened = open_source(docs) if isinstance(docs, str | Path) else docs
    name = "documents"
    if isinstance(opened, Index | Collection):
        name = opened.folder.name if isinstance(opened, Index) else opened.name
    elif not hasattr(opened, "__getitem__"):
        opened = list(opened)  # they are read more than once
    size, _ = stream_documents(opened)
    return DocSource(name, size, lambda: stream_documents(opened)[1])


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


def export_ciff(
    index: Index | str | Path,
    path: str | Path,
    *,
    weights: bool = False,
    progress: ProgressSetting = None,
) -> CiffCounts:
    """Write an index as CIFF, the Common Index File Format, which other search engines read; what it holds.

    These are counts of terms or, with ``weights``, weights of terms in whole steps of the index
    (``telerank index info`` says which). The same index gives the same bytes; a ``path`` that ends in ``.gz``
    is compressed. Documents that are deleted or left out as copies are not written.

    >>> tr.export_ciff("idx", "idx.ciff.gz")

    Raises
    ------
    IndexFault
        If there is no index, or it has no weights of terms.
    """
    from telerank.sparse.weights.ciff_export import export_ciff as export

    opened = index if isinstance(index, Index) else Index(index)
    with show_progress(progress) as shown:
        return export(opened.sparse, path, weights=weights, progress=shown)


def open_source(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002
    encoding: str = "utf-8",
) -> Index | Collection:
    """The index in a folder, or else the collection at a path or of an id, as ``telerank.collection``."""
    if format is None and (locate_data(path) / "segments").is_dir():
        return Index(locate_data(path))
    return open_collection(path, format=format, encoding=encoding)
