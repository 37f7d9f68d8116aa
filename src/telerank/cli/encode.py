"""``telerank encode``: the documents of a collection, or of an index, to vectors on the disk."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from telerank.cli import console
from telerank.cli.console import counted
from telerank.cli.options import AsJson, Encoding, FormatOption
from telerank.errors import CollectionError, IndexFault

if TYPE_CHECKING:
    from telerank.dense.approximate import RecallReport
    from telerank.dense.encoder import Encoder
    from telerank.dense.vectors import Encoded, Vectors
    from telerank.types import Doc

_BATCH, _BATCH_OF_GPU = 4096, 65_536  # tokens; on a processor larger batches fall out of its cache
_QUERIES = 200  # of a collection, of which an approximate index's recall is measured


def encode(
    collection: Annotated[
        str,
        typer.Argument(
            metavar="COLLECTION",
            help="A folder, a file, an ir_datasets id, or an index, whose documents these are.",
        ),
    ],
    vectors: Annotated[
        str | None,
        typer.Argument(
            metavar="VECTORS",
            help="The folder of the vectors; of an index by default INDEX/vectors/MODEL.",
        ),
    ] = None,
    *,
    model: Annotated[
        str,
        typer.Option(
            "--model", "-m", help="`minilm` (extra minilm), a folder, or a name on the Hugging Face hub."
        ),
    ] = "minilm",
    dtype: Annotated[
        str, typer.Option("--dtype", help="Numbers on the disk: float32, float16, bfloat16 or int8.")
    ] = "float16",
    shard_size: Annotated[
        int, typer.Option("--shard-size", min=1, help="Documents of a shard: what a crash can cost.")
    ] = 16_384,
    batch_tokens: Annotated[
        int | None,
        typer.Option(
            "--batch-tokens",
            min=1,
            help="Tokens of a batch: its longest text times its texts. Default: 4096, on a GPU 65536.",
        ),
    ] = None,
    precision: Annotated[
        str, typer.Option("--precision", help="Of the model's matrix products: float32 or bfloat16.")
    ] = "float32",
    device: Annotated[
        str | None, typer.Option("--device", help="`cpu`, `cuda`, …; default: the GPU where there is one.")
    ] = None,
    approximate: Annotated[
        str | None,
        typer.Option(
            "--approximate",
            help="Build such an index beside the vectors (extra ann): `hnsw`, `ivfpq(lists=1024)`.",
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the vectors that are there.")
    ] = False,
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Encode the documents of a collection into a folder of vectors, to be searched.

    A run that was killed goes on, when called again, after the last shard that it wrote.

    Example: `telerank encode xquad-en vectors --model minilm --dtype bfloat16`

    Example: `telerank encode xquad-en vectors --approximate hnsw`
    """
    from telerank.dense.encode import Encoding as How
    from telerank.dense.encoder import TorchEncoder
    from telerank.dense.vectors import Vectors

    source = _Source(collection, format, encoding)
    folder = Path(vectors) if vectors is not None else source.folder(model)
    encoder = TorchEncoder(model, device, precision)
    if approximate is not None and not overwrite and (folder / "manifest.json").is_file():
        made = _there(Vectors(folder), source, encoder)
    else:
        tokens = batch_tokens or (_BATCH if encoder.device_type == "cpu" else _BATCH_OF_GPU)
        how = How(dtype, shard_size, tokens, source.name, source.state)
        made = _encode(source, folder, encoder, how, overwrite=overwrite)
    report = None if approximate is None else _build(made, approximate, source, encoder)
    if as_json:
        print(json.dumps(_record(made, report), ensure_ascii=False))  # noqa: T201


class _Source:
    """What is encoded: a collection, or an index's documents."""

    def __init__(self, where: str, format_: str | None, encoding: str) -> None:
        import telerank
        from telerank.corpus.formats import open_collection

        path = Path(where)
        self.index = telerank.open(path) if format_ is None and (path / "segments").is_dir() else None
        self.collection = (
            open_collection(where, format=format_, encoding=encoding) if self.index is None else None
        )
        self.name = self.collection.name if self.collection else path.resolve().name
        self.state = self.index.sparse.state if self.index else ""
        self.size = len(self.index) if self.index else self.collection.size if self.collection else None

    def docs(self) -> Iterator[Doc]:
        if self.collection is not None:
            return self.collection.docs()
        return iter(self.index.docs) if self.index else iter(())

    def folder(self, model: str) -> Path:
        from telerank.dense.retriever import folder_name

        if self.index is None:
            raise CollectionError(
                f"encode: give a folder for the vectors: telerank encode {self.name} VECTORS"
            )
        return self.index.folder / "vectors" / folder_name(model)

    def queries(self, encoder: Encoder) -> Encoded | None:
        """The first queries of the collection as vectors, if it has any."""
        from itertools import chain, islice

        members = self.collection.queries.values() if self.collection else ()
        texts = [query.text for query in islice(chain.from_iterable(one() for one in members), _QUERIES)]
        return encoder.encode_queries(texts) if texts else None


def _encode(source: _Source, folder: Path, encoder: Encoder, how: Any, *, overwrite: bool) -> Vectors:
    from telerank.dense.encode import encode_documents

    console.say(f"{encoder.name}: {encoder.dimension} dimensions")  # loads it
    began = time.perf_counter()
    with console.progress(of=source.size) as progress:
        made = encode_documents(
            source.docs(), folder, encoder, encoding=how, overwrite=overwrite, progress=progress
        )
    seconds = time.perf_counter() - began
    rate = f"{seconds:.1f} s, {len(made) / seconds:,.0f} a second"
    what = f"{counted(len(made), 'document')} of {source.name} into {folder}"
    console.say(f"encoded {what}: {made.dimension} x {made.dtype} ({rate})")
    if made.manifest.cut:
        longest = made.manifest.settings["model"]["document"]["max_length"]
        console.say(f"{counted(made.manifest.cut, 'document')} longer than {longest} tokens: cut there")
    return made


def _there(made: Vectors, source: _Source, encoder: Encoder) -> Vectors:
    """Vectors that were made before, if they are this model's, and those of the index as it is."""
    from telerank.dense.retriever import DenseRetriever

    DenseRetriever(made, encoder)
    if made.manifest.source != source.state:
        raise IndexFault(f"{made.folder}: the index has changed since: telerank encode --overwrite")
    return made


def _build(made: Vectors, kind: str, source: _Source, encoder: Encoder) -> RecallReport:
    from telerank.dense.approximate import build_approximate

    began = time.perf_counter()
    with console.progress() as progress:
        report = build_approximate(made, kind, queries=source.queries(encoder), progress=progress)
    seconds = time.perf_counter() - began
    found = ", ".join(f"R@{k} {share:.4f}" for k, share in report.recall.items())
    console.say(f"built {report.kind} over {len(made):,} vectors ({seconds:.1f} s)")
    console.say(f"recall against exact search, {report.queries} {report.sampled}: {found}")
    return report


def _record(made: Vectors, report: RecallReport | None) -> dict[str, Any]:
    manifest = made.manifest
    record = {
        "folder": str(made.folder),
        "rows": len(made),
        "dimension": made.dimension,
        "dtype": made.dtype,
        "model": manifest.model,
        "fingerprint": manifest.fingerprint,
        "cut": manifest.cut,
        "settings": manifest.settings,
    }
    return record if report is None else {**record, "approximate": report.__dict__}
