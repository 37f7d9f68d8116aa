"""``telerank data align-passages``: where in documents the relevant passages of their queries stand."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from rich.table import Column, Table

from telerank.cli import console, options
from telerank.cli.derive import derive
from telerank.cli.options import PrintJson, Texts
from telerank.errors import CollectionError
from telerank.parameters import Flags, Help


@derive
def align_passages(
    out: Annotated[
        Path, Flags("OUT"), Help("The file to write: `answers.jsonl` in the folder of DOCUMENTS.")
    ],
    documents: Annotated[str, Flags("DOCUMENTS"), Help("A collection of documents with queries and qrels.")],
    passages: Annotated[
        str, Flags("PASSAGES"), Help("A collection of passages with qrels of these queries.")
    ],
    *,
    split: Annotated[
        list[str] | None,
        Help("Queries of this split of DOCUMENTS; may be repeated. Default: all with qrels."),
    ] = None,
    overwrite: Annotated[bool, Help("Replace an existing file.")] = False,
    encoding: Texts = "utf-8",
    as_json: PrintJson = False,
) -> None:
    """Find relevant passages in the relevant documents of their queries, as MS MARCO's two tasks have them.

    Example: `telerank data align-passages COLLECTION/answers.jsonl COLLECTION PASSAGES`
    """
    from telerank.corpus.answers import write_answers
    from telerank.corpus.long_documents import positions
    from telerank.show.progress import show_progress

    if out.is_dir():
        raise CollectionError(f"{out}: expected a file to write, this is a folder")
    if out.exists() and not overwrite:
        raise CollectionError(f"{out}: already exists; replace it with --overwrite")
    with show_progress() as progress:
        of_documents = options.open_collection(documents, None, encoding)
        of_passages = options.open_collection(passages, None, encoding)
        alignment = positions.align_passages(of_documents, of_passages, split or (), progress=progress)
        write_answers(out, alignment.answers())
    if as_json:
        counts = {name: {**asdict(own), "share": own.share} for name, own in alignment.splits.items()}
        console.print_json({"splits": counts, "relevant_passages": alignment.every})
        return
    table = Table("split", *(Column(name, justify="right") for name in ("passages", "aligned", "share")))
    for name, own in alignment.splits.items():
        table.add_row(name, f"{own.passages:,}", f"{own.aligned:,}", _percent(own.share))
    console.out.print(table)
    missing = sum(own.missing for own in alignment.splits.values())
    aligned_passages = sum(own.aligned for own in alignment.splits.values())
    console.out.print(
        f"passages: relevant to a query with a relevant document; {missing:,} are not in {of_passages.name}"
    )
    of_all = _percent(aligned_passages / alignment.every)
    console.out.print(f"aligned: {of_all} of the {alignment.every:,} relevant passages of any query")


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"
