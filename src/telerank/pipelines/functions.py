"""The functions of pipelines; reading a pipeline against an index, and keeping its text with the index."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge

from telerank.computing import PairComputing, SpanComputing
from telerank.errors import CollectionError, ExpressionError
from telerank.expressions import Call, Expression, Operation, Word, parse_expression, whole_number
from telerank.feedback import bo1, rm3, rocchio
from telerank.feedback.given import GIVEN, GivenDocuments
from telerank.feedback.like import LIKE, TERMS, Like
from telerank.feedback.words import WordFeedback
from telerank.fusion import interleave, minmax, prob, rrf, softmax, within
from telerank.model_names import READER, RERANKER
from telerank.parameters import FieldsOf
from telerank.pipelines.reader import Models, Names, PipelineReader
from telerank.pipelines.run_files import RunFile
from telerank.retrieval.group import group
from telerank.retrieval.index import Index, save_pipelines
from telerank.sparse.similarities.base import Similarity
from telerank.sparse.similarities.families import is_similarity
from telerank.stage import Stage, change_stages, walk_stages
from telerank.syntax.stage import FUNCTION as SIMPLE
from telerank.syntax.synonyms import SYNONYMS, SynonymTerms, WithSynonyms

if TYPE_CHECKING:
    from telerank.answers.stage import ReadAnswers


def pipeline(
    text: str, index: Index | str | Path | None = None, *, pool: Callable[[str], Stage] | None = None
) -> Stage:
    """The stage that a text describes, over an index: ``bm25 % 100 >> rerank(my-reranker) % 10``.

    A word is a pipeline saved with the index, or a function without arguments. A model is looked for with the
    index, in the folders of ``TELERANK_MODELS``, as a path, and on the hub. ``pool`` makes the stage
    ``pool(NAME)``: :meth:`~telerank.corpus.collection.Collection.pool` of the collection that has the
    queries. The ``repr`` of the stage is a text that reads back as an equal stage.

    Raises
    ------
    ExpressionError
        If the text cannot be read; the message shows where, and the names that are known.
    CollectionError
        If it needs an index or candidate lists that are not there.
    """
    opened = Index(index) if isinstance(index, str | Path) else index
    return read_pipeline(text, Names(Models(opened), functions=FUNCTIONS, pool=pool))


def answer_pipeline(text: str, index: Index | str | Path | None = None) -> ReadAnswers:
    """The pipeline of a text that ends in ``read(READER)``: ``bm25 % 20 >> read(my-reader) % 3``.

    The rest of the text is as :func:`pipeline` reads it. The ``repr`` of the result is a text that reads
    back as an equal one.

    Raises
    ------
    ExpressionError
        If the text cannot be read, or does not end so.
    """
    opened = Index(index) if isinstance(index, str | Path) else index
    return read_answers(text, Names(Models(opened), functions=FUNCTIONS))


def read_answers(text: str, names: Names) -> ReadAnswers:
    """The pipeline of a text that ends in ``read(READER)``, perhaps cut: ``bm25 % 20 >> read(r) % 3``.

    Raises
    ------
    ExpressionError
        If the text cannot be read, or does not end so.
    """
    reader = PipelineReader(text, names)
    tree = parse_expression(text)
    if isinstance(tree, Operation) and tree.operator == ">>":
        return reader.stage(tree.left) >> _read_last(reader, tree.right)
    return _read_last(reader, tree)


def ends_in_read(text: str) -> bool:
    """Whether the last stage of a text is ``read``; raises ExpressionError if the text cannot be read."""
    tree = parse_expression(text)
    while isinstance(tree, Operation) and tree.operator in (">>", "%"):
        tree = tree.right if tree.operator == ">>" else tree.left
    return isinstance(tree, Call | Word) and (tree.name if isinstance(tree, Call) else tree.text) == READ


def _read_last(reader: PipelineReader, tree: Expression) -> ReadAnswers:
    """The stage ``read(READER)`` or ``read(READER) % k``."""
    if isinstance(tree, Operation) and tree.operator == "%":
        return _read_last(reader, tree.left) % whole_number(tree.right, reader.text)
    if isinstance(tree, Word) and tree.text == READ:
        tree = Call(READ, (), tree.at)
    if isinstance(tree, Call) and tree.name == READ:
        answers: ReadAnswers = reader.apply(read_last, tree)
        return answers
    raise ExpressionError(f"{reader.text}: expected a pipeline that ends in read(READER)")


def read_pipeline(text: str, names: Names) -> Stage:
    """The stage of a text whose words stand for ``names``; raises as :func:`pipeline`."""
    stage = PipelineReader(text, names).stage(parse_expression(text))
    lacking = [part for part in walk_stages(stage) if isinstance(part, WordFeedback) and part.docs is None]
    if not lacking or names.index is None or not names.index.has_texts:
        return stage
    docs = names.index.docs
    return change_stages(stage, lambda part: part.with_docs(docs))


def dense(
    names: Names, model: str | None = None, approximate: str | None = None, candidates: int = 1000
) -> Stage:
    """The documents whose vectors are nearest to the query's; see :meth:`telerank.Index.dense`."""
    return names.models.open_vectors(model, approximate, candidates)


def impact(
    names: Names, model: str | None = None, queries: str | None = None, table: str | None = None
) -> Stage:
    """The documents by their weights of terms times the query's; see :meth:`telerank.Index.impact`."""
    return names.models.open_impact(model, queries, table)


def boolean(names: Names, join: Literal["and", "or"] = "and") -> Stage:
    """The documents that fulfil the expression that a query is; see :meth:`telerank.Index.boolean`."""
    return names.models.open_boolean(join)


def maxsim(names: Names, model: str | None = None) -> Stage:
    """Score the documents of rankings again by their tokens; see :meth:`telerank.Index.maxsim`."""
    return names.models.open_maxsim(model)


Scoring = Annotated[Any, FieldsOf(PairComputing)]


def rerank(names: Names, model: str = RERANKER, *, fields: str | None = None, **settings: Scoring) -> Stage:
    """Score the documents of rankings again; see :func:`telerank.rerank`.

    By default with the re-ranker that comes with telerank (extra ``e5``).
    """
    names.models.check_default(model, RERANKER)
    from telerank.reranking.stage import CrossReranker

    docs = names.models.open_docs("rerank")
    scorer = names.models.open_reranker(model, **settings)
    return CrossReranker(scorer, docs, name=model, fields=() if fields is None else fields)


def like(names: Names, fb_terms: Annotated[int, Ge(1)] = TERMS, model: Similarity | None = None) -> Stage:
    """The documents that are like the one whose docno is the query; see :meth:`telerank.Index.like`."""
    if names.index is None:
        raise CollectionError(f"{LIKE} needs an index, and there is none here")
    return Like(names.index.sparse, fb_terms, model)


def simple(names: Names, stage: Stage) -> Stage:
    """A stage for queries in the simple syntax; see :meth:`telerank.Index.simple`."""
    if names.index is None:
        raise CollectionError(f"{SIMPLE} needs an index, and there is none here")
    return names.index.simple(stage)


def documents(docnos: str) -> Stage:
    """The documents of these docnos, with blanks between them, for feedback behind it."""
    return GivenDocuments(tuple(docnos.split()))


def synonyms(names: Names, stage: Stage, file: str) -> Stage:  # noqa: ARG001
    """A stage whose searches of words have the synonyms of a file (:mod:`telerank.syntax.synonyms`)."""
    return WithSynonyms(stage, SynonymTerms.read(file))


READ = "read"
Reading = Annotated[Any, FieldsOf(SpanComputing)]


def read_last(
    names: Names,
    model: str = READER,
    mu: float | None = None,
    *,
    field: str | None = None,
    **settings: Reading,
) -> ReadAnswers:
    """The function ``read`` at the end: the reader reads documents of the index."""
    names.models.check_default(model, READER)
    from telerank.answers.combine import check_mu
    from telerank.answers.stage import ReadAnswers

    docs = names.models.open_docs(READ)
    if mu is not None:
        check_mu(mu)  # before the reader is looked for
    stage = ReadAnswers(names.models.open_reader(model, **settings), docs, mu, name=model)
    return stage if field is None else replace(stage, field=field)


def read(**arguments: Annotated[Any, FieldsOf(read_last, ("names",))]) -> Any:  # noqa: ARG001
    """The function ``read`` where rankings are expected: it is refused."""
    raise ExpressionError(
        "read ends a pipeline, and its answers are no ranking: it can only come last, "
        "in a text for telerank answer"
    )


def pool(names: Names, name: str) -> Stage:
    """Candidate lists that come with a collection."""
    if names.pool is None:
        raise CollectionError(f"pool({name}) needs the collection that has these lists and the queries")
    return names.pool(name)


def where(names: Names, stage: Stage, filter: str) -> Stage:  # noqa: A002
    """The stage within the documents that pass a filter; see :meth:`telerank.stage.Stage.where`."""
    return stage.where(filter, None if names.index is None else names.index.docs)


OF_SEGMENTS = ("firstp", "maxp", "meanp", "sump", "kmaxp", "passages", "birch")
# Functions that make stages: a pipeline's text gives them what their signatures say. One that is named, since
# it needs torch, is imported when it is called.
#
# The sparse models are further ones: ``bm25``, ``lm_dirichlet``, … (:mod:`telerank.sparse.similarities`).
FUNCTIONS: dict[str, Callable[..., Any] | str] = {
    "boolean": boolean,
    "dense": dense,
    "impact": impact,
    "rerank": rerank,
    "maxsim": maxsim,
    "minmax": minmax,
    "prob": prob,
    "softmax": softmax,
    "within": within,
    "where": where,
    "interleave": interleave,
    "rrf": rrf,
    "pool": pool,
    "run": RunFile,
    "group": group,
    "rm3": rm3,
    "bo1": bo1,
    "rocchio": rocchio,
    LIKE: like,
    GIVEN: documents,
    SIMPLE: simple,
    SYNONYMS: synonyms,
    **{name: f"telerank.segments.stage:{name}" for name in OF_SEGMENTS},
    "read": read,
}


def save_pipeline(index: Index, name: str, text: str | Stage) -> Stage:
    """Keep a pipeline with the index under a name, which then stands for it in other texts.

    A pipeline of that name is replaced. The text is read first, so that nothing is saved that does not work.

    Raises
    ------
    CollectionError
        If the name is not a word, or is that of a function.
    ExpressionError
        If the text cannot be read.
    """
    if not re.fullmatch(r"[^\W\d][\w.:-]*", name):
        raise CollectionError(f"{name!r}: the name of a pipeline is a word, such as best or bm25-tuned")
    if name in FUNCTIONS or is_similarity(name):
        raise CollectionError(f"{name!r} is the name of a function: choose another one")
    known = index.pipelines
    stage = pipeline(str(text) if isinstance(text, str) else text.text, index)
    save_pipelines(index, {**known, name: stage.text})
    return stage


def saved_pipeline(index: Index, name: str) -> str:
    """The text of a saved pipeline.

    Raises
    ------
    CollectionError
        If there is no such pipeline.
    """
    saved = index.pipelines
    if name not in saved:
        raise CollectionError(
            f"{index.folder}: no pipeline {name!r} (there are: {', '.join(saved) or 'none'})"
        )
    return saved[name]


def remove_pipeline(index: Index, name: str) -> None:
    """Forget a saved pipeline.

    Raises
    ------
    CollectionError
        If there is no such pipeline.
    """
    saved_pipeline(index, name)
    save_pipelines(index, {other: text for other, text in index.pipelines.items() if other != name})
