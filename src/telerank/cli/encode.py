"""``telerank encode``: encode the documents of a collection, or of an index, into vectors."""

from __future__ import annotations

from typer import Argument, Option

from telerank.cli import console, options


def encode(
    collection: str = Argument(
        metavar="COLLECTION",
        help="A folder, a file, an ir_datasets id, or an index, whose documents are encoded.",
    ),
    vectors: str | None = Argument(
        None, metavar="VECTORS", help="Folder for the vectors; default for an index: INDEX/vectors/MODEL."
    ),
    *,
    model: str = Option(
        "minilm", help="`minilm` (extra minilm), a folder, or a name on the Hugging Face hub."
    ),
    dtype: str = Option("float16", help="Type of the numbers on disk: float32, float16, bfloat16 or int8."),
    shard_size: int = Option(16_384, min=1, help="Documents per shard: the most that a crash can lose."),
    batch_tokens: int | None = Option(
        None, min=1, help="Tokens per batch, padding included. Default: 4096, on a GPU 65536."
    ),
    precision: str = Option(
        "auto", help="auto (bfloat16 on a GPU that computes in it, else float32), float32, tf32 or bfloat16."
    ),
    device: options.Device = None,
    approximate: str | None = Option(
        None, help="Build an approximate index beside the vectors (extra ann): `hnsw`, `ivfpq(lists=1024)`."
    ),
    overwrite: bool = Option(False, "--overwrite", help="Replace existing vectors."),
    format: options.FormatOption = None,  # noqa: A002
    encoding: options.Encoding = "utf-8",
    as_json: options.AsJson = False,
) -> None:
    """Encode the documents of a collection or an index into a folder of vectors, to search them.

    An interrupted run resumes after the last shard that was written. Existing vectors of the same documents,
    model and type are kept. Under `torchrun` the processes share the documents, on a GPU each.

    Example: `telerank encode xquad-en vectors --model minilm --dtype bfloat16`

    Example: `telerank encode xquad-en vectors --approximate hnsw`
    """
    import telerank as tr
    from telerank.verbs.index import open_source
    from telerank.verbs.train import is_first_process

    encoded = tr.encode(
        open_source(collection, format=format, encoding=encoding),
        vectors,
        model=model,
        dtype=dtype,
        shard=shard_size,
        batch_tokens=batch_tokens,
        precision=precision,
        device=device,
        approximate=approximate,
        overwrite=overwrite,
    )
    if not is_first_process():
        return
    for line in str(encoded).splitlines():
        console.say(line)
    if as_json:
        console.print_json(encoded.record())
