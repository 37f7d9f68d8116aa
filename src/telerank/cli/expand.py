"""``telerank expand``: predict queries for the documents of a collection."""

from __future__ import annotations

from typing import Annotated, Any

from telerank.cli import console, options
from telerank.cli.commands import derive
from telerank.parameters import FieldsOf, Flags, Help


@derive
def expand(
    collection: Annotated[
        str, Flags("COLLECTION"), Help("A folder, a file, an ir_datasets id, or an index.")
    ],
    output: Annotated[
        str, Flags("OUT"), Help("The file to write, such as `queries.jsonl` or `queries.jsonl.gz`.")
    ],
    *,
    format: options.Format = None,  # noqa: A002
    encoding: options.Texts = "utf-8",
    **settings: Annotated[Any, FieldsOf("telerank.verbs.index:expand", ("docs", "output"))],
) -> None:
    """Predict queries for documents (doc2query), with which `--expansion` expands an index.

    OUT has a line `{"id": …, "predicted_queries": […]}` for each document. An interrupted run goes on where
    it was, to the same bytes. `data convert --expansion OUT` writes the texts with the queries appended.

    Example: `telerank expand scifact queries.jsonl --model my-expander --queries 5`

    Example: `telerank expand scifact best.jsonl --predicted queries.jsonl --filter my-reranker --keep 0.3`
    """
    from telerank.verbs.index import expand as write_queries
    from telerank.verbs.index import open_source

    written = write_queries(open_source(collection, format=format, encoding=encoding), output, **settings)
    for line in str(written).splitlines():
        console.say(line)
