"""An index as its users see it: searched (:mod:`telerank.retrieval.index_reader`), changed, copied."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from telerank.computing import Count
from telerank.corpus.collection import Collection
from telerank.corpus.derived.predicted import EXPANSION, counting_unexpanded, expanding
from telerank.corpus.in_memory import read_docs
from telerank.corpus.read_fields import as_field_names, check_known
from telerank.corpus.readers.files.folder import FileRecord
from telerank.dense.manifest import VectorManifest, check_name, folder_name, is_vectors
from telerank.drafts import replace_file
from telerank.errors import ArgumentError, ArgumentTypeError, IndexFault, show_value
from telerank.late_interaction.encoder import LateEncoder
from telerank.parameters import check_methods
from telerank.retrieval.index_reader import IndexReader
from telerank.retrieval.index_tokens import encode_tokens, follow_tokens, list_tokens, open_maxsim
from telerank.retrieval.index_vectors import complete_vectors, copy_vectors, finish_vectors
from telerank.retrieval.model_sources import locate_model
from telerank.retrieval.passages import find_passages
from telerank.show.progress import continued, show_progress, unchanged
from telerank.sparse.index import PIPELINES, SparseIndex
from telerank.types import Doc, ProgressSetting

if TYPE_CHECKING:
    from telerank.dense.encoder import Encoder
    from telerank.dense.vectors import Vectors
    from telerank.late_interaction.stage import MaxSim
    from telerank.late_interaction.store import TokenVectors
    from telerank.retrieval.backup import BackupManifest
    from telerank.retrieval.folder_update import FolderChanges
    from telerank.sparse.weights.retriever import ImpactRetriever
    from telerank.sparse.weights.writing import WeightSource
    from telerank.sparse.writer import BeforeCommit, IndexWriter


@check_methods("index")
class Index(IndexReader):
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

    def encode(
        self,
        model: str | Encoder = "minilm",
        *,
        name: str | None = None,
        fields: str | Sequence[str] = (),
        overwrite: bool = False,
        progress: ProgressSetting = None,
    ) -> Vectors:
        """Encode the documents with a bi-encoder and keep the vectors with the index, for :meth:`dense`.

        ``model`` is a name, or an encoder with a device and a precision of its own. ``name`` is the name that
        :meth:`dense` takes, by default the model's. An interrupted call goes on where it was, half a minute
        before at most. If vectors of the same model are there, only documents that have none are encoded.
        ``fields`` are encoded instead of title and text, ``["title", "topics"]``, also those of
        documents that are added later.

        Raises
        ------
        IndexFault
            If other vectors of that name are there.
        ModelError
            If there is no such model.
        ArgumentError
            If the documents have no such field.
        MissingExtra
            If torch or the model's package is not installed.
        """
        from telerank.dense.encode import Encoding, encode_documents
        from telerank.dense.encoder import open_encoder

        read = as_field_names(fields)
        check_known(read, self.docs)
        encoder = open_encoder(locate_model(model, index=self.folder)) if isinstance(model, str) else model
        folder = self.vectors_folder(model if isinstance(model, str) else model.name)
        if name is not None:
            folder = folder.with_name(check_name(name))
        settings = Encoding(
            batch_tokens=encoder.batch_tokens,
            collection=self.folder.name,
            source=self.sparse.state,
            fields=read,
        )
        with show_progress(progress, len(self), kept=continued(folder)) as shown:
            if overwrite or not is_vectors(folder):
                docs = self.docs.values()
                encode_documents(
                    docs, folder, encoder, encoding=settings, overwrite=overwrite, progress=shown
                )
            vectors = finish_vectors(self.folder, folder, encoder, settings, shown)
        self._encoders[folder.name] = encoder
        self._reopen()
        return vectors

    def encode_tokens(
        self,
        model: str | LateEncoder,
        *,
        name: str | None = None,
        overwrite: bool = False,
        progress: ProgressSetting = None,
    ) -> TokenVectors:
        """Encode each token of the documents with a late-interaction model, for :meth:`maxsim`.

        A byte a dimension is kept with the index. ``name`` is the name that :meth:`maxsim` takes, by default
        the model's. An interrupted call goes on after the last 1024 documents that were written; if vectors
        of the same model are there, only documents that have none are encoded.

        Raises
        ------
        IndexFault
            If vectors of another model are there by that name.
        ModelError
            If there is no such model, or it has no vectors of tokens.
        MissingExtra
            If torch is not installed.
        """
        encoder = LateEncoder(locate_model(model, index=self.folder)) if isinstance(model, str) else model
        named = (
            folder_name(model if isinstance(model, str) else model.name) if name is None else check_name(name)
        )
        with show_progress(progress, len(self)) as shown:
            return encode_tokens(self.sparse, encoder, named, overwrite=overwrite, progress=shown)

    def maxsim(self, model: str | None = None, *, models: Mapping[str, str | Path] | None = None) -> MaxSim:
        """The re-ranker over the vectors that :meth:`encode_tokens` made; None: the only ones here.

        >>> index.bm25() % 1000 >> index.maxsim("colbert") % 10

        Raises
        ------
        IndexFault
            If there are no such vectors.
        ModelError
            If the model of that name is not the one that made them.
        """
        return open_maxsim(self.sparse, model, models)

    def add(
        self,
        docs: Documents,
        *,
        update: bool = False,
        weights: str | Path | None = None,
        expansion: str | Path | None = None,
        vectors: bool = True,
        workers: Count | None = None,
        progress: ProgressSetting = None,
    ) -> int:
        """Add documents as a new segment, which this index then has, too; the number of documents.

        With ``update`` they replace documents of the same docno. If the index has ``vectors``, texts that it
        did not have are encoded once the documents are added; without, :meth:`encode` does it later. If it
        has weights of terms from files, ``weights`` is a file of those of the documents; a model's are made.
        ``expansion`` is a file of queries that were predicted for the documents, if those of the index were
        expanded.

        Raises
        ------
        IndexFault
            If the index cannot be written to, or was not expanded and ``expansion`` is given.
        DocumentError
            If there is no document, one cannot be stored, or a docno is there (and ``update`` is not set).
        FormatError
            If the file of weights, or of queries, is none; the message names the line.
        """
        is_expanded = EXPANSION in self.sparse.fields
        if expansion is not None and not is_expanded:
            raise IndexFault(f"{self.folder}: its documents are not expanded: index them with --expansion")
        total, stream = stream_documents(docs)
        changing = self._change(workers, vectors=vectors, progress=progress)
        shown_bar = show_progress(progress, total, kept=unchanged(self.folder))
        with expanding(expansion) as expand_docs, changing as writer, shown_bar as shown:
            stream = expand_docs(stream)
            if is_expanded and expansion is None:
                stream = counting_unexpanded(stream, self.folder)
            if (source := open_weights(weights)) is not None:
                writer.choose_weights(source)
            return writer.add(stream, update=update, progress=shown)

    def impact(
        self,
        model: str | None = None,
        *,
        queries: str | Path | None = None,
        table: str | Path | None = None,
        models: Mapping[str, str | Path] | None = None,
    ) -> ImpactRetriever:
        """The retriever over weights of terms: the sum of the query's weight times the document's.

        The weights of a query are those that a ``model`` such as SPLADE gives it; those of a file of
        vectors, ``queries``, by its id; or, of the terms that it holds, those of a ``table``, a JSON object
        of weights by term. With none of these they come from the model that made the index's weights or, if
        those are of files, are how often the query holds each term.

        >>> tr.index(docs, "idx", weights_model="splade").impact().search("olive press")

        Raises
        ------
        IndexFault
            If the index has no weights of terms. Searches raise it if the model that made them has changed.
        ArgumentError
            If the weights of queries are given in two ways.
        FormatError
            If a file has none.
        """
        from telerank.retrieval.impact import open_impact

        sources = {"model": model, "queries": queries, "table": table}
        opened = open_impact(self.sparse, self.folder, sources, models)
        return replace(opened, chosen=self._chosen)

    def update(
        self,
        folder: str | Path | Any,
        *,
        weights: str | Path | None = None,
        vectors: bool = True,
        workers: Count | None = None,
        progress: ProgressSetting = None,
    ) -> FolderChanges:
        """Bring the index up to date with the folder of files that it was made from.

        Files are compared by the hashes of their contents, so only those that are new or have changed are
        read; of a file with another name the documents are kept under it. One commit makes all changes.
        ``weights`` and ``vectors`` are as for :meth:`add`. Documents whose text is as before keep their
        predicted queries; a warning (:class:`~telerank.errors.MissingQueries`) counts the others, if the
        index is expanded.
        Warnings (:class:`~telerank.errors.UnreadFiles`) name the files that were not read.

        Raises
        ------
        IndexFault
            If the index was not made from a folder of files, or it cannot be written to.
        CollectionError
            If the folder has no file of the index by its name, and less than half of them by others: it is
            another folder, such as one within it.
        DocumentError
            If a document cannot be stored.
        MissingExtra
            If what reads a kind of files is not installed.
        """
        if not isinstance(folder, str | Path):
            expected = "index.update: folder must be a text or a path"
            hint = "documents are replaced by index.add(docs, update=True)"
            raise ArgumentTypeError(f"{expected}, got {show_value(folder)}: {hint}")
        from telerank.corpus.readers.files.folder import warn_unread
        from telerank.retrieval.folder_update import update_folder

        with (
            self._following(progress, vectors=vectors) as before,
            show_progress(progress, kept=unchanged(self.folder)) as shown,
        ):
            changes = update_folder(
                folder,
                self.folder,
                weights=open_weights(weights),
                workers=workers,
                before_commit=before,
                progress=shown,
            )
        warn_unread(changes.files)
        return changes

    def watch(
        self, folder: str | Path, *, wait: float = 2.0, poll: float | None = None, workers: int | None = None
    ) -> Iterator[FolderChanges]:
        """Update the index whenever files of its folder change, for ever: what each update did.

        The first update is that of now. Others begin when no file has changed for ``wait`` seconds, so that
        files that are being written are waited for. ``poll`` looks at the files once in so many seconds
        instead, as network folders need it. An update that fails is tried again; warnings
        (:class:`~telerank.errors.UpdateFailed`) say why, and name the files that cannot be read, once each.

        >>> for changes in index.watch("documents"):
        ...     print(changes.added)

        Raises
        ------
        IndexLocked
            If another process watches a folder for this index.
        IndexFault, CollectionError, DocumentError
            As :meth:`update`, of the first update.
        MissingExtra
            If watchfiles is not installed.
        """
        from telerank.retrieval.watch import watch_folder

        return watch_folder(self, Path(folder), wait=wait, poll=poll, workers=workers)

    def backup(self, backup: str | Path, *, progress: ProgressSetting = None) -> BackupManifest:
        """Copy the index, with vectors, models and saved pipelines, into a folder or a ``.tar`` file.

        Others may write to the index meanwhile: what is copied is its state at one moment. A backup that is
        there is replaced at the end. :func:`telerank.restore` makes an index of it.

        Raises
        ------
        IndexFault
            If something else is there, or the index changes too often.
        IndexDamaged
            If a file of the index is missing or damaged.
        """
        from telerank.retrieval.backup import backup_index

        with show_progress(progress) as shown:
            return backup_index(self.folder, backup, shown)

    def delete(self, names: str | Iterable[str]) -> int:
        """Delete documents by docno, or all passages of files; the number of documents.

        A file that is still in its folder stays deleted until its contents or its name change.

        >>> index.delete("guide.pdf")

        Raises
        ------
        UnknownDocument
            If a name is that of no document and no file; then none is deleted.
        """
        listed = [names] if isinstance(names, str) else names
        with self._change(vectors=False) as writer:
            docs = SparseIndex(self.folder).stored_docs  # nobody else changes it now
            return writer.delete(
                docno
                for name in listed
                for docno in ([name] if name in docs else find_passages(docs, name, {}))
            )

    def merge(self, *, vectors: bool = True, progress: ProgressSetting = None) -> None:
        """Merge all segments into one, without the deleted documents; with ``vectors``, theirs, too."""
        with (
            self._change(vectors=vectors, progress=progress) as writer,
            show_progress(progress, kept=unchanged(self.folder)) as shown,
        ):
            writer.merge(shown)

    @contextmanager
    def _change(
        self, workers: Count | None = None, *, vectors: bool, progress: ProgressSetting = None
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
        tokens = list_tokens(self.folder) if vectors else {}
        yield copy_vectors(self.folder, folders.values()) if folders else None
        self._reopen()
        if folders:
            kept = f"the documents are in {self.folder}: encode it to add the vectors that they lack"
            with show_progress(progress, kept=kept) as shown:
                complete_vectors(self.sparse, folders, self._open_encoder, shown)
        if tokens:
            with show_progress(progress) as shown:
                follow_tokens(self.sparse, shown)

    def _open_encoder(self, name: str, manifest: VectorManifest) -> Encoder:
        """The encoder of vectors, by their name."""
        from telerank.dense.encoder import open_encoder

        if name in self._encoders:
            return self._encoders[name]
        precision = manifest.settings.get("precision", "float32")
        return open_encoder(self._locate_model(name, manifest), precision=precision)


Documents: TypeAlias = Collection | str | Path | Mapping[str, str] | Iterable[Any] | Any
"""A collection or its path, documents, texts by docno, or a data frame (:mod:`telerank.corpus.in_memory`)."""


def open_weights(weights: str | Path | None, model: str | None = None) -> WeightSource | None:
    """Where the weights of terms of new documents come from; None from nowhere.

    Raises
    ------
    ArgumentError
        If files and a model are given.
    CollectionError
        If there are no such files.
    """
    from telerank.sparse.weights.ciff import ENDS, CiffWeights
    from telerank.sparse.weights.encoder import TermEncoder
    from telerank.sparse.weights.vectors import FileWeights, list_files

    if weights is not None and model is not None:
        raise ArgumentError("weights: give a file or a model, not both")
    if model is not None:
        return TermEncoder(locate_model(model))
    if weights is None:
        return None
    list_files(weights)
    return CiffWeights(str(weights)) if str(weights).endswith(ENDS) else FileWeights(str(weights))


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


def open(folder: str | Path) -> Index:  # noqa: A001 — telerank.open reads as it should
    """The index in a folder, or the vectors in one; raises as :class:`Index`."""
    return Index(folder)
