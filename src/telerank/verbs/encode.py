"""Encoding documents into vectors."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from annotated_types import Ge

from telerank.corpus.collection import Collection
from telerank.corpus.read_fields import FieldNames, as_field_names, check_known
from telerank.dense.manifest import check_name, folder_name, is_vectors
from telerank.errors import ArgumentError, CollectionError, count_noun
from telerank.parameters import Device, Flags, Help
from telerank.retrieval.index import Index, stream_documents
from telerank.retrieval.index_tokens import is_late
from telerank.retrieval.index_vectors import count_lacking, finish_vectors
from telerank.retrieval.model_sources import locate_model
from telerank.show.progress import continued, show_progress
from telerank.training import launched
from telerank.types import TEXT_FIELDS, Progress, ProgressSetting, silent
from telerank.verbs.index import describe_docs, open_source

if TYPE_CHECKING:
    from telerank.dense.encode import Encoding
    from telerank.dense.encoder import TorchEncoder
    from telerank.dense.retriever import RecallReport
    from telerank.dense.static import StaticEncoder
    from telerank.dense.vectors import Vectors
    from telerank.late_interaction.store import TokenVectors
    from telerank.sparse.weights.vector_writing import WrittenVectors

_FILES = (".jsonl", ".jsonl.gz", ".jsonl.xz")
_QUERIES = 200  # queries of a collection that the recall of an approximate index is measured with


@dataclass(frozen=True, eq=False)
class EncodedDocuments:
    """Vectors in a folder, and how they were made; ``seconds`` is None if they were there already.

    ``approximate`` describes the approximate index beside them, ``memory`` what did not fit into memory,
    ``encoded`` counts the documents that had no vector before.
    """

    folder: Path
    vectors: Vectors
    seconds: float | None
    approximate: RecallReport | None = None
    memory: str = ""
    encoded: int = 0

    def record(self) -> dict[str, Any]:
        """The properties of the vectors and of the approximate index, for JSON."""
        manifest = self.vectors.manifest
        record = {
            "folder": str(self.folder),
            "rows": len(self.vectors),
            "dimension": self.vectors.dimension,
            "dtype": self.vectors.dtype,
            "model": manifest.model,
            "fingerprint": manifest.fingerprint,
            "fields": list(manifest.fields or TEXT_FIELDS),
            "cut": manifest.cut,
            "settings": manifest.settings,
        }
        return record if self.approximate is None else {**record, "approximate": asdict(self.approximate)}

    def __str__(self) -> str:
        manifest, rows = self.vectors.manifest, len(self.vectors)
        size = f"{self.vectors.dimension} x {self.vectors.dtype}"
        size += f" of {', '.join(manifest.fields)}" if manifest.fields else ""
        count = rows if self.seconds is None else self.encoded
        label = f"{count_noun(count, 'document')} of {manifest.collection}"
        computed = manifest.settings.get("precision", "float32")
        by = manifest.model if computed == "float32" else f"{manifest.model} in {computed}"
        if self.seconds is None:
            lines = [f"{label} are in {self.folder} already: {size} by {by}"]
        else:
            rate = f"{self.seconds:.1f} s, {count / self.seconds:,.0f} a second"
            lines = [f"encoded {label} into {self.folder}: {size} by {by} ({rate})"]
            lines += [f"{count_noun(rows, 'document')} have vectors now"] if count < rows else []
        if manifest.cut:
            lines.append(manifest.cut_note)
        if self.memory:
            lines.append(self.memory)
        if (report := self.approximate) is not None:
            recall = ", ".join(f"R@{k} {share:.4f}" for k, share in report.recall.items())
            sampled = f"{report.queries} {report.sampled}"
            lines.append(f"{report.kind}: recall against exact search, {sampled}: {recall}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class EncodedTokens:
    """Vectors of tokens in a folder of an index, and the seconds that those took which it lacked."""

    folder: Path
    vectors: TokenVectors
    seconds: float

    def record(self) -> dict[str, Any]:
        """The properties of the vectors, for JSON."""
        manifest = self.vectors.manifest
        return {
            "folder": str(self.folder),
            "documents": len(self.vectors),
            "tokens": sum(part.tokens for part in manifest.parts),
            "dimension": manifest.dimension,
            "model": manifest.model,
            "fingerprint": manifest.fingerprint,
            "cut": manifest.cut,
            "settings": manifest.settings,
        }

    def __str__(self) -> str:
        facts = self.record()
        size = f"{facts['tokens']:,} x {facts['dimension']} bytes by {facts['model']}"
        documents = count_noun(len(self.vectors), "document")
        line = f"the tokens of {documents} have vectors in {self.folder}: {size} ({self.seconds:.1f} s)"
        cut = self.vectors.manifest.cut_note
        return f"{line}\n{cut}" if cut else line


def encode(
    docs: Index | Collection | str | Path,
    folder: str | Path | None = None,
    *,
    model: Annotated[
        str, Help("`minilm` (extra minilm), a folder, or a name on the Hugging Face hub.")
    ] = "minilm",
    dtype: Annotated[
        str, Help("Type of the numbers on disk: float32, float16, bfloat16 or int8.")
    ] = "float16",
    shard: Annotated[
        int, Ge(1), Flags("--shard-size"), Help("Documents that are encoded and written together.")
    ] = 16_384,
    batch_tokens: Annotated[
        int | None, Ge(1), Help("Tokens per batch, padding included. Default: 4096, on a GPU 65536.")
    ] = None,
    precision: Annotated[
        str, Help("auto (bfloat16 on a GPU that computes in it, else float32), float32, tf32 or bfloat16.")
    ] = "auto",
    device: Device = None,
    fields: Annotated[
        str | None,
        Help("Fields of documents that are encoded, such as title,topics. Default: title and text."),
    ] = None,
    name: Annotated[
        str | None, Help("Name of the vectors in an index, which `dense(NAME)` takes. Default: the model's.")
    ] = None,
    approximate: Annotated[
        str | None,
        Help("Build an approximate index beside the vectors (extra ann): `hnsw`, `ivfpq(lists=1024)`."),
    ] = None,
    overwrite: Annotated[bool, Help("Replace existing vectors.")] = False,
    progress: ProgressSetting = None,
) -> EncodedDocuments | EncodedTokens | WrittenVectors:
    """Encode the documents of an index or of a collection (or of the path of either).

    With a bi-encoder each gets a vector. With a late-interaction model each of its tokens gets one, in a byte
    a dimension, for ``maxsim``; then the documents are an index. If ``folder`` is the name of a file that
    ends in ``.jsonl`` or ``.jsonl.gz``, a model of sparse vectors (SPLADE, DeepCT, …) writes a line of JSON
    for each document, which ``tr.index(…, weights=folder)`` reads, and other engines do. Both take of the
    settings ``device`` and ``overwrite``.
    The vectors of an index lie in it if no folder is given; if it has some by the model, documents that have
    none are encoded. ``dtype`` is the type of numbers on disk; ``shard`` documents are written together; an
    interrupted call goes on where it was. Vectors of the same documents, model and type that are there are
    kept. ``fields`` are read instead of title and text, and decide with the model which vectors these are;
    ``name`` lets an index have several of a model. ``approximate`` (``hnsw``, ``ivfpq``) builds an
    approximate index beside the vectors, whose recall is measured with queries of the collection. Under
    ``torchrun`` the processes share the documents, and the first one writes.

    Raises
    ------
    CollectionError
        If a collection is given without a folder.
    ArgumentError
        If the documents have no such field, a folder has a name, too, a setting is not one of vectors of
        tokens or of sparse ones, or a file of those is there already.
    IndexFault
        If the folder holds other vectors (and ``overwrite`` is not set), or something else.
    ModelError
        If there is no such model, or a setting is invalid.
    MissingExtra
        If torch, the model's package or FAISS is not installed; a static encoder needs no torch.
    """
    from telerank.dense.encode import Encoding, encode_documents
    from telerank.dense.encoder import TorchEncoder

    if make_other := _find_other(folder, model):
        given = {"dtype": dtype, "shard": shard, "batch_tokens": batch_tokens, "precision": precision}
        _refuse_settings(make_other, given | {"fields": fields, "name": name, "approximate": approximate})
        return make_other(docs, folder, model, device, overwrite=overwrite, progress=progress)
    make: Callable[..., Vectors] = encode_documents
    if launched.is_shared():
        from telerank.training.shares import encode_shares

        device, make = launched.join(device), encode_shares
        progress = progress if launched.is_first() else silent
    written = _Target(folder, name, as_field_names(fields))
    source, target, encoder = launched.each(partial(_prepare, docs, written, model, device, precision))
    of_index = (source.folder.name, source.sparse.state) if isinstance(source, Index) else (source.name, "")

    def describe() -> Encoding:
        tokens = encoder.batch_tokens if batch_tokens is None else batch_tokens
        return Encoding(dtype, shard, tokens, *of_index, written.fields)

    how = launched.each(describe)
    size, stream = launched.each(lambda: stream_documents(source))
    is_new = overwrite or not is_vectors(target)
    index = source if isinstance(source, Index) and folder is None else None
    lacking = 0 if is_new or index is None else count_lacking(target, index.sparse)
    began = time.perf_counter()
    with show_progress(progress, size, kept=continued(target)) as shown:
        if is_new or index is None:
            vectors = make(stream, target, encoder, encoding=how, overwrite=overwrite, progress=shown)
        if index is not None:
            vectors = _follow(index.folder, target, encoder, how, shown)
    seconds = time.perf_counter() - began if is_new or lacking else None
    if isinstance(encoder, TorchEncoder):
        encoder.room.take_least(launched.gather(encoder.room.tokens))
    report = None
    if approximate is not None and launched.is_first():
        report = _approximate(vectors, approximate, source, encoder, progress)
    encoded = lacking or len(vectors)
    return EncodedDocuments(target, vectors, seconds, report, encoder.describe_memory(), encoded)


def _find_other(
    folder: str | Path | None, model: str
) -> Callable[..., EncodedTokens | WrittenVectors] | None:
    """What encodes into something else than a vector for each document; None: nothing else."""
    if folder is not None and str(folder).endswith(_FILES):
        return _encode_sparse
    return _encode_tokens if is_late(model) else None


def _refuse_settings(make_other: Callable[..., Any], given: Mapping[str, object]) -> None:
    """Raise ArgumentError if a setting that these vectors do not have is not its default."""
    defaults = inspect.signature(encode).parameters
    others = [name for name, value in given.items() if value != defaults[name].default]
    if others:
        what = "vectors of tokens" if make_other is _encode_tokens else "a file of sparse vectors"
        raise ArgumentError(f"encode: {', '.join(others)}: not for {what} (title and text are encoded)")


def _encode_sparse(
    docs: Index | Collection | str | Path,
    output: str | Path,
    model: str,
    device: str | None,
    *,
    overwrite: bool,
    progress: ProgressSetting,
) -> WrittenVectors:
    """The vectors of terms of all documents in a file."""
    from telerank.sparse.weights.encoder import TermEncoder
    from telerank.sparse.weights.vector_writing import write_vectors

    source, target = open_source(docs) if isinstance(docs, str | Path) else docs, Path(output)
    index = source if isinstance(source, Index) else None
    encoder = TermEncoder(locate_model(model, index=index.folder if index else None), device)
    if target.exists() and not overwrite:
        raise ArgumentError(f"{target}: is there already: overwrite it (overwrite=True)")
    described = describe_docs(source)
    with show_progress(progress, described.size, kept=continued(target.parent, "what is encoded")) as shown:
        return write_vectors(described, target, (model, encoder), index.analyzer if index else None, shown)


def _encode_tokens(
    docs: Index | Collection | str | Path,
    folder: str | Path | None,
    model: str,
    device: str | None,
    *,
    overwrite: bool,
    progress: ProgressSetting,
) -> EncodedTokens:
    """The vectors of the tokens of an index's documents."""
    from telerank.late_interaction.encoder import LateEncoder

    source = open_source(docs) if isinstance(docs, str | Path) else docs
    if not isinstance(source, Index) or folder is not None:
        raise CollectionError(
            f"{model} makes vectors of tokens, which are kept with an index: give an index alone"
        )
    encoder = LateEncoder(locate_model(model, index=source.folder), device)
    began = time.perf_counter()
    vectors = source.encode_tokens(encoder, name=folder_name(model), overwrite=overwrite, progress=progress)
    return EncodedTokens(vectors.folder, vectors, time.perf_counter() - began)


class _Target(NamedTuple):
    """Where vectors are written, and which fields they are of."""

    folder: str | Path | None
    name: str | None
    fields: FieldNames

    def in_index(self, index: Index, model: str) -> Path:
        """The folder in an index."""
        default = index.vectors_folder(model)
        return default if self.name is None else default.with_name(check_name(self.name))


def _prepare(
    docs: Index | Collection | str | Path,
    written: _Target,
    model: str,
    device: str | None,
    precision: str,
) -> tuple[Index | Collection, Path, TorchEncoder | StaticEncoder]:
    """The documents, the folder of their vectors, and the encoder."""
    from telerank.dense.encoder import open_encoder

    source = open_source(docs) if isinstance(docs, str | Path) else docs
    if written.name is not None and (written.folder is not None or not isinstance(source, Index)):
        raise ArgumentError("encode: a name is that of vectors in an index, without a folder")
    check_known(written.fields, source.docs if isinstance(source, Index) else None)
    located = locate_model(model, index=source.folder if isinstance(source, Index) else None)
    encoder = open_encoder(located, device, precision)
    if written.folder is not None:
        return source, Path(written.folder), encoder
    if isinstance(source, Index):
        return source, written.in_index(source, model), encoder
    raise CollectionError(f"encode: give a folder for the vectors: telerank encode {source.name} VECTORS")


def _follow(
    index: Path, folder: Path, encoder: TorchEncoder | StaticEncoder, encoding: Encoding, progress: Progress
) -> Vectors:
    """The vectors of an index, when its documents that had none have one; the first process encodes them."""

    def finish() -> Vectors:
        return finish_vectors(index, folder, encoder, encoding, progress)

    launched.each(lambda: finish() if launched.is_first() else None)
    return launched.each(finish)


def _approximate(
    vectors: Vectors,
    kind: str,
    source: Index | Collection,
    encoder: TorchEncoder | StaticEncoder,
    progress: ProgressSetting,
) -> RecallReport:
    from telerank.dense.retriever import build_approximate

    streams = source.queries.values() if isinstance(source, Collection) else ()
    texts = [query.text for query in islice(chain.from_iterable(stream() for stream in streams), _QUERIES)]
    with show_progress(progress) as shown:
        return build_approximate(
            vectors, kind, queries=encoder.encode_queries(texts) if texts else None, progress=shown
        )
