"""An index as it was when it was opened, with the pipelines that can be run over it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from telerank.columns.filters import Filter
from telerank.compiled import start_warm
from telerank.errors import ExpressionError, FilterError, TelerankError
from telerank.expressions import Call, Word, parse_expression, quote, walk
from telerank.feedback.like import Like
from telerank.model_names import READER
from telerank.pipelines.functions import FUNCTIONS, ends_in_read, read_answers, read_pipeline
from telerank.pipelines.reader import Models, Names
from telerank.retrieval.folder_update import read_record
from telerank.retrieval.group import Column, FileGroups
from telerank.retrieval.impact import open_impact
from telerank.retrieval.index import Index
from telerank.retrieval.model_sources import locate_model
from telerank.service.errors import NotServed, ServiceError, Unprocessable, Unready
from telerank.service.models import Model, ModelFamily, ServedModels
from telerank.service.searching import bound_groups, check_cost, check_read, split_stages
from telerank.service.settings import ServiceSettings
from telerank.service.synonyms import WatchedSynonyms
from telerank.sparse.index import PIPELINES, TOKENS, VECTORS
from telerank.stage import Stage, change_stages
from telerank.stored import MANIFEST
from telerank.syntax.reading import ReadQuery, read_typed
from telerank.syntax.synonyms import SYNONYMS
from telerank.types import Query, whole_docno
from telerank.vocabulary.lexicon import open_lexicon

if TYPE_CHECKING:
    from telerank.answers.scorer import SpanReader
    from telerank.answers.stage import ReadAnswers
    from telerank.dense.encoder import Encoder
    from telerank.dense.retriever import DenseRetriever
    from telerank.reranking.scorer import Scorer
    from telerank.sparse.index import IndexDocs
    from telerank.sparse.weights.encoder import TermEncoder
    from telerank.types import Doc, Docs


# set when nobody waits any more for what a thread does for a request
given_up: ContextVar[Event] = ContextVar("given_up", default=Event())  # noqa: B039 — this one is never set


@dataclass(frozen=True)
class WatchedDocs:
    """Documents whose reading stops when nobody waits any more: what is long reads them as it goes on."""

    docs: IndexDocs = field(hash=False)

    @property
    def kinds(self) -> Mapping[str, str]:
        """The kinds of the documents' columns, by name."""
        return self.docs.kinds

    def __getitem__(self, docno: str) -> Doc:
        if given_up.get().is_set():
            raise Unready("given up: nobody waits for it")
        return self.docs[docno]

    def __contains__(self, docno: str) -> bool:
        return docno in self.docs


# A pipeline that ranks, or one that answers.
Filtered = TypeVar("Filtered", Stage, "ReadAnswers")
Signature: TypeAlias = tuple[tuple[str, int, int, int], ...]
_log = logging.getLogger(__name__)
_KEPT = 32  # pipelines of requests that are kept
READ_DEPTH = 20  # documents that a reader reads by default
_OF_FILES = ("run", "pool", SYNONYMS)  # functions that read what a service has not
_OF_MODELS = ("rerank", "read", "impact")
_SEARCHED = 1000  # documents of an index that are searched for passages
_PROBES = (8, 200)  # words of the queries that warm


def read_signature(folder: Path) -> Signature:
    """Which files say what is in an index, with their inodes, sizes and times; empty if it is missing."""
    files = [folder / MANIFEST, folder / PIPELINES]
    files += [file for kind in (VECTORS, TOKENS) for file in sorted(folder.glob(f"{kind}/*/{MANIFEST}"))]
    signature = []
    for file in (*files, *sorted(folder.glob(f"{VECTORS}/*/approximate.*.json"))):
        with suppress(OSError):
            status = file.stat()
            signature.append((str(file), status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(signature)


class ServedIndex:
    """An index with its pipelines: those of the settings, those saved with it, and texts of requests.

    Nothing is read from the folder once it is made: a change to it is seen by the next one alone.
    ``model`` and ``answer`` are the pipelines that the settings choose; ``pipelines`` are the texts by name,
    ``answering`` those that end in ``read(READER)``; ``unavailable`` says why others cannot be run here.
    ``has_passages``: its documents are of files, or of parts of them. ``generation`` is how often the index
    has been changed (0 of vectors alone), ``analyzer`` the name of its analyzer (None of vectors alone).

    Raises
    ------
    TelerankError
        If the index cannot be opened.
    """

    def __init__(self, name: str, models: ServedModels, settings: ServiceSettings) -> None:
        self.name, self.models, self.settings = name, models, settings
        folder = settings.indexes[name]
        self.signature = read_signature(folder)  # before: a change meanwhile is seen by the next look
        index = self.index = Index(folder)
        self.documents = len(index)
        self.generation = index.sparse.manifest.generation if index.has_texts else 0
        self.analyzer = index.analyzer.name if index.has_texts else None
        docnos = islice(index.docs, _SEARCHED) if index.has_texts else ()
        self.has_passages = read_record(folder) is not None or any(
            whole_docno(docno) != docno for docno in docnos
        )
        self.model, self.answer = (
            text and self._name_folders(text) for text in (settings.model, settings.answer)
        )
        self.pipelines: dict[str, str] = {}
        self.answering: dict[str, str] = {}
        self.unavailable: dict[str, str] = {}
        self._stages: dict[str, Any] = {}
        self._recent: dict[tuple[str, bool], Any] = {}
        self._retrievers: dict[str, DenseRetriever] = {}
        self._late: dict[str, Stage] = {}
        self._is_open = False
        self.synonyms = None if settings.synonyms is None else WatchedSynonyms(settings.synonyms, index)
        self.chosen: Filter | None = None
        self._open_weights()
        self._read_pipelines()

    def admits(self, chosen: Filter) -> bool:
        """Whether the documents have the columns of a filter."""
        try:
            chosen.bind(self.index.columns)
        except FilterError:
            return False
        return self.index.has_texts

    def within(self, chosen: Filter) -> ServedIndex:
        """The same without the documents that do not pass a filter: nothing of it tells of them."""
        view = copy(self)
        view.chosen = chosen
        view.index = self.index.within(chosen)
        view.documents = len(view.index)
        return view

    @property
    def vectors(self) -> list[str]:
        """The names of the vectors that can be searched."""
        return list(self._retrievers)

    @property
    def columns(self) -> dict[str, str]:
        """The kinds of the documents' columns, by name."""
        return self.index.columns

    @property
    def lacking(self) -> dict[str, int]:
        """How many documents have no vector, by the names of the vectors; without those that lack none."""
        if self.chosen is not None:
            return {}
        counts = {name: retriever.vectors.lacking for name, retriever in self._retrievers.items()}
        return {name: count for name, count in counts.items() if count}

    @property
    def default(self) -> str:
        """The name or the text of the pipeline that is searched if none is named."""
        if self.model is not None and self.model not in self.unavailable:
            return self.model
        return self.index.default_pipeline

    @property
    def default_answer(self) -> str | None:
        """The name or the text of the pipeline that answers if none is named; None if there is no reader."""
        if self.answer is not None and self.answer not in self.unavailable:
            return self.answer
        readers = self.models.readers.names if self.index.has_texts else []
        readers.sort(key=lambda name: name == READER)  # that of a saved pipeline before telerank's own
        return f"({self.default}) % {READ_DEPTH} >> read('{readers[0]}')" if readers else None

    def pipeline(
        self,
        text: str | None = None,
        group: Column | None = None,
        where: str | None = None,
        read: ReadQuery | None = None,
    ) -> Stage:
        """The pipeline of a name or a text; None: the default one. ``group`` groups its documents, too.

        It is searched within the filter ``where``, and among the documents that fulfil the conditions of a
        query that was ``read``.

        Raises
        ------
        NotServed
            If it names a model that the service was not started with.
        Unprocessable
            If the text cannot be read, or it would cost more than a request may.
        """
        chosen = text or self.default
        if chosen in self.answering:
            raise Unprocessable(f"the pipeline {chosen} ends in read: its answers are no ranking")
        stage: Stage = self._within(self._read(chosen, answering=False), where)
        stage = stage if self.synonyms is None else self.synonyms.expand(stage)
        stage = stage if read is None else read.restrict(stage)
        if group is None or isinstance(split_stages(stage)[-1], FileGroups):
            return stage
        return bound_groups(stage >> FileGroups(group), self.settings.limits)

    def read_query(self, query: str, where: str | None = None) -> ReadQuery:
        """A query in the simple syntax; only the documents within a filter, and that of the key, count.

        Raises
        ------
        Unprocessable
            If the filter cannot be read, or there are no words.
        """
        if not self.index.has_texts:
            raise Unprocessable(f"the index {self.name} holds vectors alone: queries are words")
        within = self.chosen if where is None else self._parse_filter(where).both(self.chosen)
        return read_typed(self.index.sparse, query, within)

    def _parse_filter(self, where: str) -> Filter:
        try:
            given = Filter.parse(where)
            given.bind(self.index.columns)  # the message has no part of the filter of the key
        except TelerankError as error:
            raise Unprocessable(f"filter: {self.scrub(str(error))}") from error
        return given

    def answers(
        self, text: str | None = None, where: str | None = None, read: ReadQuery | None = None
    ) -> ReadAnswers:
        """The pipeline of a name or a text that ends in ``read(READER)``; None: the default one.

        It is searched within the filter ``where``, for the query that was ``read``, with synonyms.

        Raises
        ------
        NotServed
            If it names a model that the service was not started with, or there is no reader.
        Unprocessable
            If the text cannot be read, or it would cost more than a request may.
        """
        chosen = text or self.default_answer
        if chosen is None:
            raise NotServed("no reader is served: start the service with --reader or --answer")
        if chosen in self.pipelines:
            raise Unprocessable(f"the pipeline {chosen} ranks: expected one that ends in read(READER)")
        stage: ReadAnswers = self._within(self._read(chosen, answering=True), where)
        if stage.first is None:
            return stage
        first = stage.first if self.synonyms is None else self.synonyms.expand(stage.first)
        return stage.behind(first if read is None else read.restrict(first))

    def _within(self, stage: Any, where: str | None) -> Any:
        """A pipeline within a filter, and within that of the key."""
        given = None if where is None else self._parse_filter(where)
        try:
            for chosen in filter(None, (given, self.chosen)):
                stage = stage.filtered(chosen)
            if isinstance(stage, Stage) and (given or self.chosen):
                stage = change_stages(stage, self._bind)
            elif given or self.chosen:
                stage = replace(stage, first=change_stages(stage.first, self._bind))
        except TelerankError as error:
            raise Unprocessable(f"filter: {self.scrub(str(error))}") from error
        return stage

    def _bind(self, part: Stage) -> Stage:
        """A stage with the documents that the key sees; none is like one that it does not see."""
        bound = part.with_docs(self.index.docs)
        return replace(bound, visible=self.chosen) if isinstance(bound, Like) else bound

    def check_visible(self, docno: str) -> None:
        """Raise NotServed for a document that the key does not see."""
        if self.chosen is not None and docno not in self.index.docs:
            raise NotServed(f"no document {docno!r} to which the pipeline gives a score")

    def warm(self) -> None:
        """Run every named pipeline once, with words of the first document: loads what they need."""
        start_warm()
        doc = next(iter(self.index.docs.values()), None) if self.index.has_texts else None
        words = (doc.full_text if doc else "a").split()
        query, long = (Query("warm", " ".join(words[:count])) for count in _PROBES)
        for name in (*self.pipelines, self.default):
            (self.pipeline(name) % READ_DEPTH).search(query)
        for name in self.answering:
            self.answers(name).answer(query)
        if self.index.has_texts:
            open_lexicon(self.index.sparse)
            # queries of many terms are ranked in another way
            (self.index.bm25() % READ_DEPTH).search(long)

    def scrub(self, message: str) -> str:
        """A message without the folder of the index."""
        return message.replace(str(self.index.folder), self.name)

    def _read_pipelines(self) -> None:
        """Read every pipeline of the settings and of the index, so that their models and vectors are open."""
        from telerank.dense.manifest import folder_name

        for name in self.settings.encoders:
            if folder_name(name) in self.index.vectors:
                try:
                    self.retriever(name)
                except TelerankError as error:
                    self.unavailable[f"dense({name})"] = self.scrub(str(error))
        pipelines = {**self.index.pipelines, **self.settings.pipelines}
        self._texts = {name: self._name_folders(text) for name, text in pipelines.items()}
        chosen = (self.model or self.index.default_pipeline, self.answer)
        others = {text: text for text in chosen if text and text not in self._texts}
        for name, text in {**self._texts, **others}.items():
            try:
                answering = ends_in_read(text)
                self._stages[name] = self._parse(text, answering=answering)
                (self.answering if answering else self.pipelines)[name] = text
            except (TelerankError, ValueError) as error:
                self.unavailable[name] = self.scrub(str(error))
        self._is_open = True

    def _open_weights(self) -> None:
        """Open the model that made the weights of terms, so that queries and `/embed_sparse` have it."""
        entry = self.index.sparse.manifest.term_weights if self.index.has_texts else None
        if entry is not None and entry.model:
            if self.models.has_here(entry.model):
                self.open_sparse(entry.model)
            else:
                self.unavailable["impact"] = "the model of the weights of terms cannot be opened here"

    def open_sparse(self, model: str) -> TermEncoder:
        """A model of weights of terms, by its name or its folder, which gets a name."""
        return self.open_model(self.models.sparse_encoders, self.models.name_model(model))

    def _name_folders(self, text: str) -> str:
        """A pipeline with names instead of the paths of models: replies show it, and no path."""
        try:
            tree = parse_expression(text)
        except ExpressionError:
            return text  # whoever reads the pipeline is told
        calls = (part for part in walk(tree) if isinstance(part, Call) and part.name in _OF_MODELS)
        words = [value for call in calls for _, value in call.arguments if isinstance(value, Word)]
        for word in sorted(words, key=lambda word: word.at, reverse=True):
            if "/" in word.text and Path(word.text).is_dir():
                start, name = text.index(word.text, word.at), self.models.name_folder(word.text)
                name = name if word.quoted else quote(name)
                text = text[:start] + name + text[start + len(word.text) :]
        return text

    def _read(self, text: str, *, answering: bool) -> Any:
        """The pipeline of a name or a text; a text is read and checked, unless it was just given for."""
        limits, key = self.settings.limits, (text, answering)
        if text in self.unavailable:
            raise Unprocessable(f"the pipeline {text} cannot be run here: {self.unavailable[text]}")
        stage: Any = self._stages.get(text) or self._recent.get(key)
        if stage is not None:
            return stage
        if len(text) > limits.pipeline_characters:
            most = f"at most {limits.pipeline_characters:,} characters"
            raise Unprocessable(f"a pipeline of a request has {most}, got {len(text):,}")
        try:
            if answering and not ends_in_read(text):
                raise ExpressionError(f"{text}: expected a pipeline that ends in read(READER)")
            stage = self._parse(text, answering=answering)
            if not answering:  # what is cut by the length of the page need not be cut by the text
                check_cost(stage % limits.documents, limits)
            elif stage.first is None:
                first = f"bm25 % {READ_DEPTH} >> {text}"
                raise ExpressionError(f"{text}: expected a first stage, such as {first}")
            elif text != self.default_answer:
                check_read(stage.first, limits)
        except ServiceError:
            raise
        except (TelerankError, ValueError) as error:
            raise Unprocessable(self.scrub(str(error))) from error
        self._recent = dict([*self._recent.items(), (key, stage)][-_KEPT:])
        return stage

    def _parse(self, text: str, *, answering: bool) -> Any:
        """The pipeline of a text; what it groups is bounded."""
        if not answering:
            return bound_groups(read_pipeline(text, self._make_names()), self.settings.limits)
        stage = read_answers(text, self._make_names())
        first = stage.first and bound_groups(stage.first, self.settings.limits)
        return replace(stage, first=first)

    def _make_names(self) -> Names:
        """What a text may name; it refers to this object, and so is made anew each time: no cycle."""
        functions = {name: each for name, each in FUNCTIONS.items() if name not in _OF_FILES}
        return Names(_OpenModels(self.index, served=self), functions=functions, texts=self._texts)

    def retriever(self, model: str | None) -> DenseRetriever:
        """The retriever over the vectors of a model; None: the only ones that there are."""
        known = {retriever.name: retriever for retriever in self._retrievers.values()} | self._retrievers
        if model in known:
            return known[model]
        if model is None and len(set(map(id, known.values()))) == 1:
            return next(iter(known.values()))
        if self._is_open:
            raise NotServed.named("vectors", model or "", known)
        name = model or next(iter(self.index.vectors), "")

        def make_encoder(source: str, precision: str) -> Encoder:
            return self.models.encoders.open(name, source, self._scope(source), precision=precision)

        opened: Any = self.index.dense(model, models=self.models.encoders.sources, make_encoder=make_encoder)
        return self._retrievers.setdefault(model or opened.name, opened)

    def maxsim(self, model: str | None) -> Stage:
        """The stage over the vectors of tokens of a model; None: the only ones that there are."""
        name = model or ""
        if name not in self._late:
            if self._is_open:
                raise NotServed.named("vectors of tokens", name, self._late)
            self._late[name] = self.index.maxsim(model)
        return self._late[name]

    def open_model(self, family: ModelFamily[Model], model: str, **settings: Any) -> Model:
        """A re-ranker or a reader of a pipeline, by its name."""
        if self._is_open:
            return family.find(model, self.name, **settings)
        sources = {**family.sources, **self.models.folders}
        source = locate_model(model, models=sources, index=self.index.folder)
        return family.open(model, source, self._scope(source), **settings)

    def _scope(self, source: str) -> str:
        """The name of the index if it keeps the model, else empty."""
        is_kept = Path(source).is_absolute() and Path(source).is_relative_to(self.index.folder)
        return self.name if is_kept else ""


@dataclass(frozen=True)
class _OpenModels(Models):
    """Opens models among those of the service, which load each once; after that, no others."""

    served: ServedIndex = field(kw_only=True)

    def check_default(self, model: str, default: str) -> None:
        """The models of the service are known by then."""

    def open_docs(self, function: str) -> Docs:
        if not self.served.index.has_texts:
            name = self.served.name
            raise Unprocessable(f"the index {name} holds vectors alone: {function} has no texts to read")
        return WatchedDocs(self.served.index.docs)

    def open_vectors(self, model: str | None, approximate: str | None, candidates: int) -> Stage:
        exact = self.served.retriever(model)
        return exact if approximate is None else exact.approximately(approximate, candidates)

    def open_maxsim(self, model: str | None) -> Stage:
        return self.served.maxsim(model)

    def open_impact(self, model: str | None, queries: str | None, table: str | None) -> Stage:
        if queries or table:
            raise Unprocessable("impact: a service reads no files of queries and no tables")
        index, open_encoder = self._need("impact"), self.served.open_sparse
        return open_impact(index.sparse, index.folder, {"model": model}, open_encoder=open_encoder)

    def open_reranker(self, model: str, **settings: Any) -> Scorer:
        return self.served.open_model(self.served.models.rerankers, model, **settings)

    def open_reader(self, model: str, **settings: Any) -> SpanReader:
        return self.served.open_model(self.served.models.readers, model, **settings)
