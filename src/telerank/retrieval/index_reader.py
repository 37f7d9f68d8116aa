"""An index as it is searched: first stages over its words and over the vectors beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from annotated_types import Ge

from telerank.columns.filters import Filter
from telerank.corpus.readers.files.folder import FileRecord
from telerank.dense.manifest import VectorManifest, folder_name, is_vectors
from telerank.drafts import DRAFT
from telerank.errors import ByName, CollectionError, IndexDamaged, IndexFault, known_names
from telerank.feedback.like import LIKE, TERMS, Like
from telerank.parameters import check_methods
from telerank.retrieval.index_vectors import open_vectors
from telerank.retrieval.model_sources import locate_model
from telerank.retrieval.passages import find_passages
from telerank.show.notebook import render_rows
from telerank.show.progress import show_progress
from telerank.sparse.boolean import BooleanRetriever, Join
from telerank.sparse.index import PIPELINES, VECTORS, IndexDocs, SparseIndex
from telerank.sparse.retriever import SparseRetriever
from telerank.sparse.similarities.base import Similarity
from telerank.sparse.similarities.families import (
    BM25,
    DFI,
    DFR,
    LMDirichlet,
    LMJelinekMercer,
    parse_similarity,
)
from telerank.sparse.similarities.fields import BM25F, Over, list_fields, over_what
from telerank.stored import FolderReader
from telerank.syntax.parser import Syntax
from telerank.syntax.reading import read_typed
from telerank.syntax.stage import SimpleSyntax
from telerank.text import Analyzer
from telerank.types import Doc, Location, ProgressSetting, Query, Ranking, as_query

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from telerank.dense.encoder import Encoder
    from telerank.dense.retriever import DenseRetriever
    from telerank.retrieval.facets import Facet
    from telerank.stage import Stage
    from telerank.vocabulary.suggestions import Suggestion


@check_methods("index")
class IndexReader(FolderReader):
    """What :class:`telerank.Index` searches and shows; only that class changes an index.

    ``has_texts`` says whether there are words and texts; ``default_pipeline`` is searched if none is named.
    Two are equal if their folders and contents are; it pickles as its folder.

    Raises
    ------
    IndexFault
        If there is no index.
    IndexDamaged
        If a file is missing or not what was written; the message names it.
    AnalyzerError
        If the index's analyzer makes other terms here than where the index was built.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()
        self._sparse = None if is_vectors(self.folder) else SparseIndex(folder)
        self._contents = self._sparse
        self._encoders: dict[str, Encoder] = {}  # those that were given, by the names of their vectors
        self._chosen: Filter | None = None  # what documents there are
        self.has_texts = self._sparse is not None
        self.default_pipeline = "bm25" if self.has_texts else "dense"

    @property
    def sparse(self) -> SparseIndex:
        """The inverted index and the texts.

        Raises
        ------
        IndexFault
            If the folder holds vectors alone.
        """
        if self._sparse is None:
            raise IndexFault(f"{self.folder}: holds vectors alone, without words and texts")
        return self._sparse

    @property
    def docs(self) -> IndexDocs:
        """The documents by docno."""
        return self.sparse.docs if self._chosen is None else replace(self.sparse.docs, chosen=self._chosen)

    def within(self, chosen: Filter | str) -> Self:
        """The index as if the documents that do not pass a filter were not there; its statistics stay.

        Frequencies of terms, from which scores are computed, still count all documents.

        Raises
        ------
        FilterError
            If a text cannot be read as a filter, or a column is unknown or of another kind.
        """
        chosen = Filter.parse(chosen) if isinstance(chosen, str) else chosen
        chosen.bind(self.columns)
        view = copy(self)
        view._chosen = chosen.both(self._chosen)  # noqa: SLF001 — of its own kind
        return view

    def __getitem__(self, docno: str) -> Doc:
        """The document of a docno; without a text if there are vectors alone."""
        return self.docs[docno] if self.has_texts else Doc(docno, "")

    def __contains__(self, docno: object) -> bool:
        return isinstance(docno, str) and docno in self.docs

    def __iter__(self) -> Iterator[str]:
        return iter(self.docs)

    def passages(self, file: str) -> list[str]:
        """The docnos of the passages of a file, in their order, or of the file itself if it is not cut.

        ``file`` is its path in the folder, or its docno; :func:`telerank.types.whole_docno` is the way back.

        Raises
        ------
        UnknownDocument
            If there is no such file; the message names the nearest.
        """
        return find_passages(self.docs, file, self._files)

    @cached_property
    def _files(self) -> Mapping[str, FileRecord]:
        """The records of the files that the index was made from; none if it was made otherwise."""
        from telerank.retrieval.folder_update import read_record

        record = read_record(self.folder)
        return {} if record is None else record.files

    def locate(self, docno: str, start: int = 0, end: int | None = None) -> Location | None:
        """File, pages and heading of the characters ``start`` to ``end`` of a document's text.

        None if the document was not read from a file of its own, or there are vectors alone. An answer stands
        at ``index.locate(answer.docno, answer.start, answer.end)``.

        Raises
        ------
        KeyError
            If there is no such document.
        """
        return self[docno].locate(start, end)

    def locate_hit(self, docno: str, query: str) -> Location | None:
        """File, page and heading of a document's text where most of a query's terms stand, or the rarest.

        Pages and heading of the whole text if it has none of them; None as for :meth:`locate`.

        Raises
        ------
        KeyError
            If there is no such document.
        """
        from telerank.retrieval.location import locate_best

        return locate_best(self.sparse, self[docno], query) if self.has_texts else None

    @property
    def columns(self) -> dict[str, str]:
        """The kinds of the documents' columns, by name (:mod:`telerank.columns.kinds`)."""
        return self._sparse.columns if self._sparse is not None else {}

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that are indexed by themselves, too, which models may read."""
        return self._sparse.fields if self._sparse is not None else ()

    @property
    def analyzer(self) -> Analyzer:
        return self.sparse.analyzer

    def languages(self, text: str) -> dict[str, float]:
        """The probability of each language of a query, the likeliest first; none if the index has one.

        From 0.9 on a query is analysed in that language, else in all (:mod:`telerank.text.languages`).
        """
        return self.analyzer.languages(text)

    def require_analyzer(self, analyzer: Analyzer | str) -> None:
        """Check that the index was built with this analyzer.

        Raises
        ------
        AnalyzerError
            If it was not, or the analyzer cannot be read.
        """
        self.sparse.require(Analyzer.parse(analyzer) if isinstance(analyzer, str) else analyzer)

    def retriever(
        self, model: Similarity | str, field: str | None = None, over: Over = None
    ) -> SparseRetriever:
        """The retriever of a similarity, or of its text; it may read a field, or weights as :meth:`bm25`."""
        similarity = parse_similarity(model) if isinstance(model, str) else model
        return SparseRetriever(self.sparse, over_what(similarity, field, over), chosen=self._chosen)

    def bm25(
        self, k1: float = BM25.k1, b: float = BM25.b, *, field: str | None = None, over: Over = None
    ) -> SparseRetriever:
        """BM25 of the whole texts, of one ``field``, as the other models have it, too, or ``over`` weights.

        >>> index.bm25(k1=8, b=0.9, over="weights")  # with DeepCT's weights instead of counts
        """
        return self.retriever(BM25(k1, b), field, over)

    def bm25f(
        self,
        weights: Mapping[str, float] | None = None,
        k1: float = BM25F.k1,
        b: float = BM25F.b,
        *,
        own_b: Mapping[str, float] | None = None,
        lengths: Literal["fields", "combined"] = "fields",
    ) -> SparseRetriever:
        """BM25F of fields with ``weights`` (None: all of the index, each with 1), some with a b of their own.

        >>> index.bm25f({"title": 3, "text": 1}, own_b={"title": 0.3})
        """
        return self.retriever(BM25F(list_fields(weights), k1, b, list_fields(own_b), lengths))

    def lm_dirichlet(self, mu: float = LMDirichlet.mu, *, field: str | None = None) -> SparseRetriever:
        return self.retriever(LMDirichlet(mu), field)

    def lm_jelinek_mercer(
        self, lambda_: float = LMJelinekMercer.lambda_, *, field: str | None = None
    ) -> SparseRetriever:
        return self.retriever(LMJelinekMercer(lambda_), field)

    def dfr(self, model: DFR | None = None, *, field: str | None = None) -> SparseRetriever:
        return self.retriever(model or DFR(), field)

    def dfi(self, independence: str = DFI.independence, *, field: str | None = None) -> SparseRetriever:
        return self.retriever(DFI(independence), field)

    def boolean(self, join: Join = "and") -> BooleanRetriever:
        """The documents that fulfil a query such as ``passport AND (lost OR stolen) NOT visa``.

        ``join`` is the operator of words that stand side by side. ``within(index.boolean(), …)`` ranks them.
        """
        return BooleanRetriever(self.sparse, join)

    def simple(self, stage: Stage | None = None) -> SimpleSyntax:
        """The stage (None: BM25) for queries as people type them (:mod:`telerank.syntax.parser`).

        >>> index.simple(index.bm25()).search('"carte vitale" -perte title:assurance')

        The stage ``simple(STAGE)`` of a pipeline does the same. Its ``read`` tells how a query is read.
        """
        return SimpleSyntax(self.bm25() if stage is None else stage, self.sparse, within=self._chosen)

    def like(
        self,
        docno: str,
        k: Annotated[int, Ge(1)] = 10,
        *,
        fb_terms: int = TERMS,
        model: Similarity | str | None = None,
    ) -> Ranking:
        """The ``k`` documents that are most like one, without that itself.

        They are found by its ``fb_terms`` most informative terms, under ``model`` (None: BM25). The stage
        ``like()`` of a pipeline does the same, for queries that are docnos.

        >>> index.like("42")

        Raises
        ------
        UnknownDocument
            If there is no document of that docno.
        """
        self.docs.locate(docno)
        similarity = parse_similarity(model) if isinstance(model, str) else model
        return Like(self.sparse, fb_terms, similarity, depth=k).search(Query(LIKE, docno))

    def correct(self, query: str, *, syntax: Syntax = "none", progress: ProgressSetting = None) -> str:
        """The query with words that no document has replaced by what was probably meant; itself if there is
        none.

        In the ``simple`` syntax operators, columns and beginnings of words are no words. The words are those
        of the documents that are searched; they are read when they are first needed, in
        some seconds, and kept in the user's cache (:mod:`telerank.vocabulary.lexicon`).

        >>> index.correct("imprimmerie")
        'imprimerie'
        """
        from telerank.vocabulary.spelling import correct

        kept = read_typed(self.sparse, query, self._chosen).kept if syntax == "simple" else ()
        with show_progress(progress) as shown:
            return correct(self.sparse, query, shown, kept=kept)

    def suggest(
        self, typed: str, k: Annotated[int, Ge(1)] = 8, *, progress: ProgressSetting = None
    ) -> list[Suggestion]:
        """What may be searched for: titles that begin as what was typed, or frequent words that end it.

        Accents and case do not count. The words are those of :meth:`correct`.
        """
        from telerank.vocabulary.suggestions import suggest

        with show_progress(progress) as shown:
            return suggest(self.sparse, typed, k, shown)

    @property
    def vectors(self) -> Mapping[str, Path]:
        """The folders of the vectors that are here, by the names that :meth:`dense` takes."""
        if self._sparse is None:
            return {folder_name(VectorManifest.read(self.folder).model): self.folder}
        folders = sorted(path for path in (self.folder / VECTORS).glob("*") if path.suffix != DRAFT)
        return ByName("vectors", {folder.name: folder for folder in folders if is_vectors(folder)})

    def dense(
        self,
        model: str | None = None,
        *,
        approximate: str | None = None,
        candidates: int = 1000,
        models: Mapping[str, str | Path] | None = None,
        make_encoder: Callable[[str, str], Encoder] | None = None,
    ) -> DenseRetriever:
        """The retriever over the vectors that :meth:`telerank.Index.encode` made; None: the only ones here.

        ``approximate`` (``hnsw``, ``ivfpq``) searches an approximate index beside the vectors for
        ``candidates``, which are scored exactly. A warning (:class:`~telerank.errors.MissingVectors`) counts
        the documents that have no vector, and are not found. The model is looked for among ``models``, those
        kept with the index, in the folders of ``TELERANK_MODELS``, as a path, and on the hub.
        ``make_encoder`` makes the encoder of a model and a precision, for example one that is loaded already.

        Raises
        ------
        IndexFault
            If there are no such vectors or no such approximate index, or no document has a vector.
        ModelError
            If the model of that name is not the one that made the vectors.
        MissingExtra
            If torch, FAISS or the model's package is not installed.
        """
        from telerank.dense.retriever import open_retriever
        from telerank.dense.vectors import Vectors

        name, folder = self._named_vectors(model)
        vectors = Vectors(folder) if self._sparse is None else open_vectors(folder, self._sparse)
        source = self._locate_model(name, vectors.manifest, model, models)
        if make_encoder is not None:
            encoder: Encoder | str = make_encoder(
                source, vectors.manifest.settings.get("precision", "float32")
            )
        else:
            encoder = source if models else self._encoders.get(name, source)
        opened = open_retriever(
            vectors, encoder, name=name, docs=None if self._sparse is None else self._sparse.docs
        )
        opened = replace(opened, chosen=self._chosen)
        return opened if approximate is None else opened.approximately(approximate, candidates)

    def facets(
        self,
        query: str | Query,
        columns: str | Sequence[str],
        model: Stage | None = None,
        *,
        where: str | None = None,
        values: int = 10,
        depth: int = 1000,
    ) -> list[Facet]:
        """How many of the documents that a query finds have each value of columns.

        A column is ``type``, ``date:year`` or ``date:month``; ``model`` is the stage that finds, by default
        BM25. Of a first stage over words all documents are counted that hold a term of the query; of another
        stage the first ``depth`` of its ranking, and :attr:`~telerank.retrieval.facets.Facet.is_exact` is
        False. The ``values`` most frequent texts are kept.

        >>> index.facets("prime d'activité", ["type", "date:year"], where='"emploi" in topics')

        Raises
        ------
        ArgumentError
            If there is no such column, or it cannot be counted so.
        FilterError
            If the filter cannot be read, or a column of it is unknown or of another kind.
        """
        from telerank.retrieval.facets import count_facets

        stage: Stage = self.bm25() if model is None else model
        stage = stage if where is None else stage.where(where, self.docs)
        names = [columns] if isinstance(columns, str) else columns
        return count_facets(self.sparse, stage, as_query(query), names, values=values, depth=depth)

    def verify(self, *, progress: ProgressSetting = None) -> int:
        """Compare every file with its checksum, those of vectors, too; the number of files.

        Raises
        ------
        IndexDamaged
            If a file is missing or damaged; the message names it.
        """
        from telerank.retrieval.backup import verify_index

        with show_progress(progress) as shown:
            return verify_index(self.folder, shown)

    def info(self) -> dict[str, int | float | str | dict[str, str]]:
        """Analyzer, counts and sizes, by name; the vectors and the saved pipelines."""
        from telerank.retrieval.description import describe_index

        return describe_index(self)

    def _locate_model(
        self,
        name: str,
        manifest: VectorManifest,
        model: str | None = None,
        models: Mapping[str, str | Path] | None = None,
    ) -> str:
        """The model that encodes: the one of that name, or else the one that the vectors name."""
        source = locate_model(model or name, models=models, index=self.folder)
        is_named = source != (model or name) or Path(source).is_dir()
        return source if is_named else locate_model(manifest.model, models=models, index=self.folder)

    def _reopen(self) -> None:
        self._sparse = SparseIndex(self.folder)
        self._contents = self._sparse
        vars(self).pop("_files", None)  # read again

    def _repr_html_(self) -> str:
        rows = [(name, value) for name, value in self.info().items() if not isinstance(value, dict) or value]
        return render_rows(("", ""), rows, str(self.folder))

    def arrays(self, model: str | None = None) -> tuple[list[str], npt.NDArray[np.float32]]:
        """The docnos and the vectors (N, D) of a model, in memory; None: the only ones here.

        Raises
        ------
        IndexFault
            If there are no such vectors.
        """
        from telerank.dense.vectors import Vectors

        folder = self._named_vectors(model)[1]
        return (Vectors(folder) if self._sparse is None else open_vectors(folder, self._sparse)).arrays()

    def vectors_folder(self, model: str) -> Path:
        """The folder in the index for the vectors of a model."""
        return self.folder / VECTORS / folder_name(model)

    @property
    def pipelines(self) -> dict[str, str]:
        """The texts of the pipelines saved with the index, by name.

        Raises
        ------
        IndexDamaged
            If their file cannot be read.
        """
        file = self.folder / PIPELINES
        if not file.is_file():
            return ByName("pipeline", {})
        try:
            saved = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, OSError, RecursionError) as error:
            raise IndexDamaged(f"{file}: damaged ({error})") from error
        if not isinstance(saved, dict) or not all(isinstance(text, str) for text in saved.values()):
            raise IndexDamaged(f"{file}: expected names with texts of pipelines")
        return ByName("pipeline", saved)

    def __len__(self) -> int:
        return len(self.docs) if self._sparse is not None else VectorManifest.read(self.folder).rows

    def _named_vectors(self, model: str | None) -> tuple[str, Path]:
        known = self.vectors
        if model is None and len(known) == 1:
            return next(iter(known.items()))
        name = "" if model is None else folder_name(model)
        if name in known:
            return name, known[name]
        names = ", ".join(known) or "none"
        if model is None:
            raise CollectionError(f"{self.folder}: name the model of the vectors (there are: {names})")
        if self._sparse is None:  # the only vectors there are; whether the model made them is checked
            return name, self.folder
        raise IndexFault(
            f"{self.folder}: no vectors of {model} ({known_names(known, name)}); encode the index first"
        )
