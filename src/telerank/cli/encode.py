"""``telerank encode``: encode the documents of a collection, or of an index, into vectors."""

from __future__ import annotations

from typing import Annotated, Any

from telerank.cli import console, options
from telerank.cli.commands import derive
from telerank.parameters import FieldsOf, Flags, Help
from telerank.verbs import encode as verbs


@derive
def encode(
    collection: Annotated[
        str,
        Flags("COLLECTION"),
        Help("A folder, a file, an ir_datasets id, or an index, whose documents are encoded."),
    ],
    vectors: Annotated[
        str | None,
        Flags("VECTORS"),
        Help(
            "Folder for the vectors; default for an index: INDEX/vectors/MODEL. Or a file, `OUT.jsonl` or "
            "`OUT.jsonl.gz`, for the sparse vectors of a model such as SPLADE."
        ),
    ] = None,
    *,
    format: options.Format = None,  # noqa: A002
    encoding: options.Texts = "utf-8",
    as_json: options.PrintJson = False,
    **settings: Annotated[Any, FieldsOf(verbs.encode, ("docs", "folder"))],
) -> None:
    """Encode the documents of a collection or an index into a folder of vectors, to search them.

    An interrupted run resumes after the last shard that was written. Existing vectors of the same documents,
    model and type are kept. Under `torchrun` the processes share the documents, on a GPU each.

    Example: `telerank encode xquad-en vectors --model minilm --dtype bfloat16`

    Example: `telerank encode xquad-en vectors --approximate hnsw`

    Example: `telerank encode scifact scifact.jsonl.gz --model my-splade`
    """
    from telerank.verbs.index import open_source
    from telerank.verbs.train import is_first_process

    encoded = verbs.encode(open_source(collection, format=format, encoding=encoding), vectors, **settings)
    if not is_first_process():
        return
    for line in str(encoded).splitlines():
        console.say(line)
    if as_json:
        console.print_json(encoded.record())
