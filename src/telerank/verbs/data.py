"""Collections: contents, statistics, lengths of segments, other formats, ranking sets, long documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from telerank.corpus.collection import Collection
from telerank.corpus.formats import open_collection
from telerank.errors import CollectionError
from telerank.expressions import Call, Word, parse_expression, walk
from telerank.pipelines.functions import pipeline
from telerank.retrieval.index import Index
from telerank.retrieval.model_sources import locate_model
from telerank.show.progress import show_progress
from telerank.stage import Stage
from telerank.text import Analyzer
from telerank.types import Doc, Progress, ProgressSetting, silent

if TYPE_CHECKING:
    from telerank.corpus.statistics import CollectionStatistics
    from telerank.models.rerankers.reranker import Reranker
    from telerank.segments.split import Segmenter
    from telerank.segments.statistics import SegmentStatistics

LIMITS = (128, 256, 512, 1024, 2048, 4096)
"""Tokens of a document that a model may be limited to."""


def with_documents(collection: Collection, index: Index | str | Path) -> Collection:
    """A collection of queries and judgments alone with the documents of an index.

    So what users of a service judged becomes a collection that models are trained on.

    >>> convert(with_documents(tr.collection("judged.jsonl"), "idx"), "judged", "jsonl")

    Raises
    ------
    CollectionError
        If the collection has documents of its own.
    IndexFault
        If there is no such index, or it holds vectors alone.
    """
    if collection.size != 0:
        raise CollectionError(f"{collection.name} has documents of its own: it takes none of an index")
    opened = index if isinstance(index, Index) else Index(index)
    return replace(collection, docs=lambda: iter(opened.docs.values()), size=len(opened))


def collection_statistics(
    collection: Collection | str | Path,
    *,
    splits: Sequence[str] | None = None,
    analyzer: str = "standard",
    tokenizer: str | Path | None = None,
    language: str | None = None,
    progress: ProgressSetting = None,
) -> CollectionStatistics:
    """Lengths, question words, class balance, and what tells relevant documents besides their texts.

    Lengths are in terms of the ``analyzer``, or in tokens of a ``tokenizer.json``. The ``remarks`` of the
    report are its warnings: properties, such as having a title, that separate relevant documents from others.

    >>> from telerank.verbs.data import collection_statistics
    >>> collection_statistics("dila").remarks

    Raises
    ------
    CollectionError
        If there is no such collection or split.
    AnalyzerError
        If the analyzer is unknown.
    FormatError
        If the tokenizer cannot be read.
    """
    from telerank.corpus.lengths import token_counter
    from telerank.corpus.statistics import describe

    opened = collection if isinstance(collection, Collection) else open_collection(collection)
    count = token_counter(analyzer, tokenizer)
    with show_progress(progress, opened.size) as shown:
        return describe(opened, count=count, splits=splits, language=language, progress=shown)


def segment_lengths(
    collection: Collection | str | Path,
    model: Reranker | str | Path,
    window: str | int = "best",
    *,
    splits: Sequence[str] | None = None,
    limits: Sequence[int] = LIMITS,
    progress: ProgressSetting = None,
    **settings: Any,
) -> SegmentStatistics:
    """Lengths of the documents and their segments, and the shares of them and of known relevant text beyond.

    ``model`` is a re-ranker, or an encoder that one could start from, which reads queries of 64 tokens and
    pairs of 512, or fewer if it cannot. ``window`` is a name (``best``, ``piaf``, …) or a number of tokens;
    ``settings`` are those of :class:`~telerank.segments.settings.SegmentSettings`, and ``language``, ``en``
    or ``fr``, for an encoder. Known relevant text are the answers of the ``splits`` (all).

    >>> print(tr.segment_lengths("french-long", "e5-small", language="fr"))

    Raises
    ------
    CollectionError
        If there is no such collection or split, or an answer does not stand at its offset.
    ModelError
        If there is no such model, or it does not read segments of that length.
    MissingExtra
        If torch or transformers is not installed.
    """
    from telerank.segments.statistics import describe_segments

    opened = collection if isinstance(collection, Collection) else open_collection(collection)
    name, segmenter = _segmenter(model, window, settings)
    with show_progress(progress, opened.size) as shown:
        return describe_segments(opened, segmenter, model=name, splits=splits, limits=limits, progress=shown)


def _segmenter(
    model: Reranker | str | Path, window: str | int, settings: dict[str, Any]
) -> tuple[str, Segmenter]:
    """The name of the model, and what cuts in its tokens."""
    from telerank.models.loading import read_tokenizer
    from telerank.models.pairs.pair import PairTokenizer
    from telerank.models.rerankers.reranker import (
        Reranker,
        load_reranker,
        locate_reranker,
        read_shape,
        readable_lengths,
    )
    from telerank.segments.settings import window_segments
    from telerank.segments.split import Segmenter

    language = settings.pop("language", "en")
    cut = window_segments(window, **settings)
    if isinstance(model, Reranker):
        return model.shape.kind, Segmenter.of(model, cut)
    folder = locate_reranker(locate_model(str(model)))
    if read_shape(folder) is not None:
        return str(model), Segmenter.of(load_reranker(folder), cut)
    query, length = readable_lengths(folder)
    texts = PairTokenizer(read_tokenizer(folder), max_query=query, max_length=length)
    return str(model), Segmenter(texts, cut, language if cut.sentences else None)


def first_stage_over(
    model: str, analyzer: str = "standard", progress: Progress = silent
) -> Callable[[Iterable[Doc]], AbstractContextManager[Stage]]:
    """What opens a pipeline over documents, on an index in a temporary folder.

    They are encoded for each ``dense(ENCODER)`` that the text names.

    Raises
    ------
    ExpressionError
        If the text cannot be read.
    AnalyzerError
        If the analyzer cannot be read.
    """
    chain = Analyzer.parse(analyzer)
    calls = (tree for tree in walk(parse_expression(model)) if isinstance(tree, Call))
    dense = [call.arguments[0][1] for call in calls if call.name == "dense" and call.arguments]
    encoders = dict.fromkeys(name.text for name in dense if isinstance(name, Word))

    @contextmanager
    def open_over(docs: Iterable[Doc]) -> Iterator[Stage]:
        from telerank.verbs.encode import encode
        from telerank.verbs.index import index

        with TemporaryDirectory(prefix="telerank-") as folder:
            temporary = index(docs, Path(folder) / "index", analyzer=chain, progress=progress)
            for encoder in encoders:
                encode(temporary, model=encoder, progress=progress)
            yield pipeline(model, Index(temporary.folder))

    return open_over
