"""An index as its users see it: first stages over its words and over the vectors beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from telerank.corpus.collection import Collection
from telerank.corpus.in_memory import read_docs
from telerank.dense.manifest import VectorManifest, folder_name, is_vectors
from telerank.drafts import DRAFT, replace_file
from telerank.errors import CollectionError, IndexDamaged, IndexFault, known_names
from telerank.model_names import find_folder
from telerank.parameters import check_methods
from telerank.retrieval.index_vectors import complete_vectors, copy_vectors, finish_vectors, open_vectors
from telerank.show.notebook import render_rows
from telerank.show.progress import show_progress
from telerank.sparse.index import MODELS, PIPELINES, VECTORS, IndexDocs, SparseIndex
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
from telerank.stored import FolderReader
from telerank.text import Analyzer
from telerank.types import Doc, Location, ProgressSetting

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from telerank.corpus.readers.files.folder import FileRecord
    from telerank.dense.encoder import Encoder
    from telerank.dense.retriever import DenseRetriever
    from telerank.dense.vectors import Vectors
    from telerank.retrieval.folder_update import FolderChanges
    from telerank.sparse.writer import BeforeCommit, IndexWriter


@check_methods("index")
class Index(FolderReader):
    """The index in a folder, or a folder of vectors, which then has :meth:`dense` alone.

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
        return self.sparse.docs

    def doc(self, docno: str) -> Doc:
        """The document of a docno; without a text if there are vectors alone."""
        return self.docs[docno] if self.has_texts else Doc(docno, "")

    def locate(self, docno: str, start: int = 0, end: int | None = None) -> Location | None:
        """File, pages and heading of the characters ``start`` to ``end`` of a document's text.

        None if the document was not read from a file of its own, or there are vectors alone. An answer stands
        at ``index.locate(answer.docno, answer.start, answer.end)``.

        Raises
        ------
        KeyError
            If there is no such document.
        """
        return self.doc(docno).locate(start, end)

    def locate_hit(self, docno: str, query: str) -> Location | None:
        """File, page and heading of a document's text where most of a query's terms stand, or the rarest.

        Pages and heading of the whole text if it has none of them; None as for :meth:`locate`.

        Raises
        ------
        KeyError
            If there is no such document.
        """
        from telerank.retrieval.location import locate_hit

        return locate_hit(self.sparse, docno, query) if self.has_texts else None

    @property
    def analyzer(self) -> Analyzer:
        return self.sparse.analyzer

    def require_analyzer(self, analyzer: Analyzer | str) -> None:
        """Check that the index was built with this analyzer.

        Raises
        ------
        AnalyzerError
            If it was not, or the analyzer cannot be read.
        """
        self.sparse.require(Analyzer.parse(analyzer) if isinstance(analyzer, str) else analyzer)

    def retriever(self, model: Similarity | str) -> SparseRetriever:
        """The retriever of a similarity, or of its text: ``bm25(k1=0.9, b=0.4)``."""
        return SparseRetriever(self.sparse, parse_similarity(model) if isinstance(model, str) else model)

    def bm25(self, k1: float = BM25.k1, b: float = BM25.b) -> SparseRetriever:
        return self.retriever(BM25(k1, b))

    def lm_dirichlet(self, mu: float = LMDirichlet.mu) -> SparseRetriever:
        return self.retriever(LMDirichlet(mu))

    def lm_jelinek_mercer(self, lambda_: float = LMJelinekMercer.lambda_) -> SparseRetriever:
        return self.retriever(LMJelinekMercer(lambda_))

    def dfr(self, model: DFR | None = None) -> SparseRetriever:
        return self.retriever(model or DFR())

    def dfi(self, independence: str = DFI.independence) -> SparseRetriever:
        return self.retriever(DFI(independence))

    @property
    def vectors(self) -> Mapping[str, Path]:
        """The folders of the vectors that are here, by the names that :meth:`dense` takes."""
        if self._sparse is None:
            return {folder_name(VectorManifest.read(self.folder).model): self.folder}
        folders = sorted(path for path in (self.folder / VECTORS).glob("*") if path.suffix != DRAFT)
        return {folder.name: folder for folder in folders if is_vectors(folder)}

    def dense(
        self,
        model: str | None = None,
        *,
        approximate: str | None = None,
        candidates: int = 1000,
        models: Mapping[str, str | Path] | None = None,
        make_encoder: Callable[[str, str], Encoder] | None = None,
    ) -> DenseRetriever:
        """The retriever over the vectors that :meth:`encode` made with a model; None: the only ones here.

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
        opened = open_retriever(vectors, encoder, name=name)
        return opened if approximate is None else opened.approximately(approximate, candidates)

    def encode(
        self,
        model: str | Encoder = "minilm",
        *,
        name: str | None = None,
        overwrite: bool = False,
        progress: ProgressSetting = None,
    ) -> Vectors:
        """Encode the documents with a bi-encoder and keep the vectors with the index, for :meth:`dense`.

        ``model`` is a name, or an encoder with a device and a precision of its own. ``name`` is the name that
        :meth:`dense` takes, by default the model's. An interrupted call goes on where it was, half a minute
        before at most. If vectors of the same model are there, only documents that have none are encoded.

        Raises
        ------
        IndexFault
            If other vectors of that name are there.
        ModelError
            If there is no such model.
        MissingExtra
            If torch or the model's package is not installed.
        """
        from telerank.dense.encode import Encoding, encode_documents
        from telerank.dense.encoder import TorchEncoder

        encoder = TorchEncoder(locate_model(model, index=self.folder)) if isinstance(model, str) else model
        folder = self.vectors_folder(name or (model if isinstance(model, str) else model.name))
        settings = Encoding(
            batch_tokens=encoder.batch_tokens, collection=self.folder.name, source=self.sparse.state
        )
        with show_progress(progress, len(self)) as shown:
            if overwrite or not is_vectors(folder):
                docs = self.docs.values()
                encode_documents(
                    docs, folder, encoder, encoding=settings, overwrite=overwrite, progress=shown
                )
            vectors = finish_vectors(self.folder, folder, encoder, settings, shown)
        self._encoders[folder.name] = encoder
        self._reopen()
        return vectors

    def add(
        self,
        docs: Documents,
        *,
        update: bool = False,
        vectors: bool = True,
        workers: int | None = None,
        progress: ProgressSetting = None,
    ) -> int:
        """Add documents as a new segment, which this index then has, too; the number of documents.

        With ``update`` they replace documents of the same docno. If the index has ``vectors``, texts that it
        did not have are encoded once the documents are added; without, :meth:`encode` does it later.

        Raises
        ------
        IndexFault
            If the index cannot be written to.
        DocumentError
            If there is no document, one cannot be stored, or a docno is there (and ``update`` is not set).
        """
        total, stream = stream_documents(docs)
        changing = self._change(workers, vectors=vectors, progress=progress)
        with changing as writer, show_progress(progress, total) as shown:
            return writer.add(stream, update=update, progress=shown)

    def update(
        self,
        folder: str | Path,
        *,
        vectors: bool = True,
        workers: int | None = None,
        progress: ProgressSetting = None,
    ) -> FolderChanges:
        """Bring the index up to date with the folder of files that it was made from.

        Files are compared by the hashes of their contents, so only those that are new or have changed are
        read; of a file with another name the documents are kept under it. One commit makes all changes.
        ``vectors`` are as for :meth:`add`.
        Warnings (:class:`~telerank.errors.UnreadFiles`) name the files that were not read.

        Raises
        ------
        IndexFault
            If the index was not made from a folder of files, or it cannot be written to.
        CollectionError
            If the folder has none of the index's files.
        DocumentError
            If a document cannot be stored.
        MissingExtra
            If what reads a kind of files is not installed.
        """
        from telerank.corpus.readers.files.folder import warn_unread
        from telerank.retrieval.folder_update import update_folder

        with self._following(progress, vectors=vectors) as before, show_progress(progress) as shown:
            changes = update_folder(
                folder, self.folder, workers=workers, before_commit=before, progress=shown
            )
        warn_unread(changes.files)
        return changes

    def delete(self, docnos: Iterable[str]) -> int:
        """Delete documents; the number of documents.

        Raises
        ------
        DocumentError
            If a docno is not in the index; then none is deleted.
        """
        with self._change(vectors=False) as writer:
            return writer.delete(docnos)

    def merge(self, *, vectors: bool = True, progress: ProgressSetting = None) -> None:
        """Merge all segments into one, without the deleted documents; with ``vectors``, theirs, too."""
        with self._change(vectors=vectors, progress=progress) as writer, show_progress(progress) as shown:
            writer.merge(shown)

    def verify(self, *, progress: ProgressSetting = None) -> int:
        """Compare every file with its checksum; the number of files.

        Raises
        ------
        IndexDamaged
            If a file is missing or damaged; the message names it.
        """
        with show_progress(progress) as shown:
            self.sparse.verify(shown)
        return sum(len(segment.files) for segment in self.sparse.manifest.segments)

    def info(self) -> dict[str, int | float | str | dict[str, str]]:
        """Analyzer, counts and sizes, by name; the vectors and the saved pipelines."""
        from telerank.retrieval.description import describe_index

        return describe_index(self)

    @contextmanager
    def _change(
        self, workers: int | None = None, *, vectors: bool, progress: ProgressSetting = None
    ) -> Iterator[IndexWriter]:
        """The writer of the index, whose changes this index has afterwards; ``vectors`` follow them."""
        from telerank.sparse.writer import IndexWriter  # what only searches needs no writer

        following = self._following(progress, vectors=vectors)
        with following as before_commit, IndexWriter(self.folder, workers=workers) as writer:
            writer.before_commit = before_commit
            yield writer

    @contextmanager
    def _following(self, progress: ProgressSetting, *, vectors: bool) -> Iterator[BeforeCommit | None]:
        """Let the vectors follow a change of the index, which this index has afterwards."""
        folders = self.vectors if vectors else {}
        yield copy_vectors(self.folder, folders.values()) if folders else None
        self._reopen()
        if folders:
            with show_progress(progress) as shown:
                complete_vectors(self.sparse, folders, self._open_encoder, shown)

    def _open_encoder(self, name: str, manifest: VectorManifest) -> Encoder:
        """The encoder of vectors, by their name."""
        from telerank.dense.encoder import TorchEncoder

        if name in self._encoders:
            return self._encoders[name]
        precision = manifest.settings.get("precision", "float32")
        return TorchEncoder(self._locate_model(name, manifest), precision=precision)

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
        return source if is_named or folder_name(manifest.model) != name else manifest.model

    def _reopen(self) -> None:
        self._sparse = SparseIndex(self.folder)
        self._contents = self._sparse

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
            return {}
        try:
            saved = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, OSError, RecursionError) as error:
            raise IndexDamaged(f"{file}: damaged ({error})") from error
        if not isinstance(saved, dict) or not all(isinstance(text, str) for text in saved.values()):
            raise IndexDamaged(f"{file}: expected names with texts of pipelines")
        return saved

    def __len__(self) -> int:
        return len(self._sparse) if self._sparse is not None else VectorManifest.read(self.folder).rows

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


Documents: TypeAlias = Collection | str | Path | Mapping[str, str] | Iterable[Any] | Any
"""A collection or its path, documents, texts by docno, or a data frame (:mod:`telerank.corpus.in_memory`)."""


def stream_documents(
    docs: Documents | Index, files: dict[str, FileRecord] | None = None
) -> tuple[int | None, Iterator[Doc]]:
    """The number of documents, if it is known without reading them, and the documents.

    If they are files, ``files`` gets the record of each once it was read.
    """
    if isinstance(docs, Index):
        return len(docs), iter(docs.docs.values())
    # the readers of collections are not loaded to search an index
    from telerank.corpus.formats import open_collection
    from telerank.retrieval.folder_update import recorded_docs

    if isinstance(docs, str | Path):
        docs = open_collection(docs)
    if isinstance(docs, Collection):
        return docs.size, docs.docs() if files is None else recorded_docs(docs, files)
    return (len(docs) if isinstance(docs, Sized) else None), read_docs(docs)


def save_pipelines(index: Index, pipelines: Mapping[str, str]) -> None:
    """Replace the pipelines that are saved with the index."""
    text = json.dumps(dict(pipelines), ensure_ascii=False, indent=1) + "\n"
    replace_file(index.folder / PIPELINES, text.encode())


def locate_model(
    name: str, *, models: Mapping[str, str | Path] | None = None, index: Path | None = None
) -> str:
    """The path of a model, or the name itself, which is then a path or a name on the hub.

    The first of these that exists: a model of the experiment (``models``), a model kept with the ``index``,
    a folder of ``TELERANK_MODELS``.
    """
    if models is not None and name in models:
        return str(models[name])
    if index is not None and (index / MODELS / name).exists():
        return str(index / MODELS / name)
    return str(find_folder(name) or name)


def open(folder: str | Path) -> Index:  # noqa: A001 — telerank.open reads as it should
    """The index in a folder, or the vectors in one; raises as :class:`Index`."""
    return Index(folder)
