"""``telerank index``, ``pipeline``: build, change, check, describe an index, and save pipelines with it."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Gt, Lt

from telerank.cli import console, options
from telerank.cli.commands import derive, group
from telerank.errors import IndexFault, count_noun
from telerank.parameters import AnalyzerName, CopySetting, Flags, Help

if TYPE_CHECKING:
    from telerank.retrieval.folder_update import FolderChanges

Workers = Annotated[int | None, Ge(1), Flags("-j"), Help("Processes that build; default: one per core.")]

NewWeights = Annotated[
    str | None, Help("Weights of terms of the new documents, if the index has those of files.")
]

Following = Annotated[
    bool, Help("Encode new texts for the vectors of the index; `telerank encode` does it later, too.")
]


@derive
def build(
    data: options.CollectionOptions,
    index: options.IndexName,
    *,
    analyzer: AnalyzerName = "standard",
    copies: Annotated[
        CopySetting,
        Help(
            "Copies of a text, in all but case and blanks; `near`: also nearly equal ones (extra: copies). "
            "What is left out still counts in the statistics of terms."
        ),
    ] = "count",
    columns: Annotated[
        str | None,
        Help(
            "Kinds of columns, such as 'date:date topics:list': string, list, number, date, boolean, none; "
            "others are inferred."
        ),
    ] = None,
    fields: Annotated[
        str | None,
        Help(
            "Fields that are indexed by themselves, too: title, text, columns of texts; such as title,text. "
            "Models such as bm25f(title=3, text=1) and bm25(field=title) read them."
        ),
    ] = None,
    positions: Annotated[bool, Help("Keep where terms stand, which searches of phrases need.")] = False,
    weights: Annotated[
        str | None,
        Help(
            "Weights of terms for `impact`, beside the counts: a file or folder of JSON lines "
            '`{"id": …, "vector": {term: weight}}`, plain or .gz, or a CIFF (.ciff, .ciff.gz).'
        ),
    ] = None,
    weights_model: Annotated[
        str | None,
        Help("A model such as SPLADE or DeepCT that makes weights of terms: a folder or a name on the hub."),
    ] = None,
    expansion: Annotated[
        str | None,
        Help(
            "Queries that `telerank expand` has predicted for the documents: a field `expansion`, which "
            "bm25f(title=1, text=1, expansion=1, lengths=combined) searches with the others."
        ),
    ] = None,
    overwrite: Annotated[bool, Help("Replace an existing index.")] = False,
    workers: Workers = None,
) -> None:
    """Index the documents of a collection.

    An existing index of the same documents and analyzer is kept; one of others is refused.

    Example: `telerank index build dila idx-fr --analyzer french`

    Example: `telerank index build scifact idx --fields title,text`
    """
    import telerank as tr
    from telerank.columns.kinds import parse_columns
    from telerank.sparse.index import describe_copies, has_index

    kinds = None if columns is None else parse_columns(columns)
    opened = data.open()
    is_new = overwrite or not has_index(Path(index))
    began = time.perf_counter()
    built = tr.index(
        opened,
        index,
        analyzer=analyzer,
        copies=copies,
        columns=kinds,
        fields=() if fields is None else [name.strip() for name in fields.split(",")],
        positions=positions,
        weights=weights,
        weights_model=weights_model,
        expansion=expansion,
        overwrite=overwrite,
        workers=workers,
    )
    documents = len(built)
    if not is_new:
        console.say(f"{count_noun(documents, 'document')} of {opened.name} are in {index} already")
        return
    seconds = time.perf_counter() - began
    rate = f"{seconds:.1f} s, {documents / seconds:,.0f} a second"
    console.say(f"indexed {count_noun(documents, 'document')} of {opened.name} into {index} ({rate})")
    for what, count in describe_copies(built.sparse.manifest).items():
        if count:
            setting = "leave-out-near" if "near" in what else "leave-out"
            hint = "" if "left out" in what else f" (--copies {setting}: without them)"
            console.say(f"{what}: {count:,}{hint}")
    if opened.search_notice:
        console.say(opened.search_notice)


@derive
def add(
    data: options.CollectionOptions,
    index: options.IndexName,
    *,
    update: Annotated[bool, Help("Replace documents of the same docno.")] = False,
    weights: NewWeights = None,
    expansion: Annotated[str | None, Help("Queries that were predicted for the documents.")] = None,
    vectors: Following = True,
    workers: Workers = None,
) -> None:
    """Add the documents of a collection to an index, as a new segment.

    If the index has vectors, texts that it did not have are encoded.

    Example: `telerank index add new.jsonl idx --update`
    """
    import telerank as tr

    opened = data.open()
    added = tr.open(index).add(
        opened, update=update, weights=weights, expansion=expansion, vectors=vectors, workers=workers
    )
    console.say(f"added {count_noun(added, 'document')} of {opened.name} to {index}")
    if opened.search_notice:
        console.say(opened.search_notice)


@derive
def update(
    folder: Annotated[str, Flags("FOLDER"), Help("The folder of files.")],
    index: options.IndexName,
    *,
    weights: NewWeights = None,
    vectors: Following = True,
    workers: Workers = None,
    as_json: options.PrintJson = False,
) -> None:
    """Bring an index up to date with the folder of files that it was built from.

    Files are compared by their contents: only new and changed ones are read, and those that are gone are
    deleted. If the index has vectors, only passages with a new text are encoded. What cannot be read is
    counted and named; `info` has all of it.

    Example: `telerank index update documents idx`
    """
    import telerank as tr
    from telerank.sparse.index import has_index

    if has_index(Path(folder)) and not has_index(Path(index)):
        raise IndexFault(
            f"{folder} is an index: the folder comes first, `telerank index update {index} {folder}`"
        )
    changes = tr.open(index).update(folder, weights=weights, vectors=vectors, workers=workers)
    if as_json:
        console.print_json(_record_changes(changes))
    else:
        _say_changes(changes, folder, index)


def _record_changes(changes: FolderChanges) -> dict[str, Any]:
    """What an update did: of files that stay as they are the number, and the record of those not read."""
    files = {
        name: record
        for name, record in changes.files.items()
        if record.problem or name not in changes.unchanged
    }
    return {**asdict(replace(changes, files=files)), "unchanged": len(changes.unchanged)}


def _say_changes(changes: FolderChanges, folder: str, index: str) -> None:
    console.say(f"{index}: files of {folder}: {changes}")
    if changes.renamed:
        files = count_noun(len(changes.renamed), "file")
        console.say(f"the passages of {files} had numbers (#3) and are named by heading and text from now on")


@derive
def watch(
    folder: Annotated[str, Flags("FOLDER"), Help("The folder of files.")],
    index: options.IndexName,
    *,
    wait: Annotated[
        float, Gt(0), Lt(600), Help("Seconds without a change before an update; files are written meanwhile.")
    ] = 2.0,
    poll: Annotated[
        float | None,
        Gt(0),
        Lt(600),
        Help("Look at the files once in so many seconds, as network folders need it."),
    ] = None,
    workers: Workers = None,
    as_json: options.PrintJson = False,
) -> None:
    """Update an index whenever files of its folder change, until Ctrl-C or SIGTERM.

    What each update did is printed as `update` prints it, a line for each.

    Example: `telerank index watch documents idx`
    """
    import telerank as tr

    for changes in tr.open(index).watch(folder, wait=wait, poll=poll, workers=workers):
        if as_json:
            console.print_json(_record_changes(changes))
            sys.stdout.flush()
        else:
            _say_changes(changes, folder, index)


@derive
def delete(
    index: options.IndexName,
    names: Annotated[
        list[str], Flags("NAME"), Help("Docnos or files, or `-` for those on standard input, one a line.")
    ],
) -> None:
    """Delete documents, or all passages of files; `merge` removes them from the disk.

    Example: `telerank index delete idx 4983 5836`

    Example: `telerank index delete idx guide.pdf`
    """
    import telerank as tr

    lines = (sys.stdin.read().splitlines() if name == "-" else [name] for name in names)
    listed = [line.strip() for own in lines for line in own if line.strip()]
    deleted = tr.open(index).delete(listed)
    console.say(f"deleted {count_noun(deleted, 'document')} from {index}")


@derive
def merge(index: options.IndexName) -> None:
    """Merge all segments into one, without the deleted documents.

    Example: `telerank index merge idx`
    """
    import telerank as tr

    tr.open(index).merge()
    console.say(f"merged {index}")


@derive
def verify(index: options.IndexName) -> None:
    """Compare every file of an index with its checksum; the exit status is 2 if one is damaged.

    Example: `telerank index verify idx`
    """
    import telerank as tr

    console.say(f"{index}: {tr.open(index).verify():,} files are as they were written")


@derive
def info(index: options.IndexName, *, as_json: options.PrintJson = False) -> None:
    """Describe an index: analyzer, counts, sizes, vectors and saved pipelines.

    Example: `telerank index info idx --json`
    """
    import telerank as tr

    facts = {"folder": index, **tr.open(index).info()}
    if as_json:
        console.print_json(facts)
        return
    rows = [(name, text) for name, value in facts.items() for text in _describe(value)]
    console.write_columns(rows)


def _describe(value: object) -> list[str]:
    """The lines that show a value: a number, a text, or a mapping of texts."""
    if isinstance(value, dict):
        return [f"{name}: {text}" for name, text in value.items()]
    return [f"{value:,}" if isinstance(value, int) else str(value)]


@derive
def acronyms(
    index: options.IndexName,
    *,
    least: Annotated[int, Ge(1), Help("Documents that must explain an acronym.")] = 1,
) -> None:
    """Print the acronyms that the texts explain, as a file of synonyms to edit.

    "carte nationale d'identité (CNI)" becomes the line `CNI, carte nationale d'identité`. The option
    `--synonyms` of searches and of the service takes the file.

    Example: `telerank index acronyms idx --least 2`
    """
    import telerank as tr
    from telerank.syntax.acronyms import acronym_lines, find_acronyms

    for line in acronym_lines(find_acronyms(tr.open(index).docs.values(), least)):
        print(line)


@derive
def backup(
    index: options.IndexName,
    backup: Annotated[str, Flags("BACKUP"), Help("The folder or the .tar file of the backup.")],
) -> None:
    """Copy an index with its vectors, models and pipelines, while it is written to.

    A backup that is there is replaced at the end.

    Example: `telerank index backup idx idx.tar`
    """
    import telerank as tr

    manifest = tr.open(index).backup(backup)
    console.say(f"{backup}: {count_noun(len(manifest.files), 'file')} of {index}, {manifest.bytes:,} bytes")


@derive
def restore(
    backup: Annotated[str, Flags("BACKUP"), Help("The folder or the .tar file of a backup.")],
    index: options.IndexName,
    *,
    overwrite: Annotated[bool, Help("Replace an existing index.")] = False,
) -> None:
    """Restore an index from a backup, whose checksums are compared.

    Example: `telerank index restore idx.tar restored`
    """
    import telerank as tr

    documents = len(tr.restore(backup, index, overwrite=overwrite))
    console.say(f"restored {index} from {backup} ({count_noun(documents, 'document')})")


@derive
def export_ciff(
    index: options.IndexName,
    output: Annotated[str, Flags("OUT"), Help("The file to write, `.ciff` or `.ciff.gz`.")],
    *,
    weights: Annotated[bool, Help("Weights of terms, in whole steps, instead of counts.")] = False,
) -> None:
    """Write an index as CIFF, the Common Index File Format, which other search engines read.

    The same index gives the same bytes. Deleted documents are not written.

    Example: `telerank index export-ciff idx idx.ciff.gz`
    """
    import telerank as tr

    counts = tr.export_ciff(index, output, weights=weights)
    documents, terms = count_noun(counts.documents, "document"), count_noun(counts.terms, "term")
    console.say(f"wrote {output}: {documents}, {terms}, {count_noun(counts.postings, 'posting')}")


@group(
    build,
    add,
    update,
    watch,
    delete,
    merge,
    verify,
    info,
    acronyms,
    backup,
    restore,
    export_ciff,
    default="build",
)
def index() -> None:
    """Build, add, update, watch, delete, merge, verify, describe, back up, restore, export an index.

    `telerank index COLLECTION INDEX` is short for `telerank index build COLLECTION INDEX`; the options are
    those of `build`.

    Example: `telerank index scifact idx --analyzer english`
    """


_Name = Annotated[str, Flags("NAME"), Help("Name of the pipeline.")]


@derive
def save(
    index: options.IndexName,
    name: _Name,
    text: Annotated[str, Flags("PIPELINE"), Help("Text of the pipeline.")],
) -> None:
    """Save a pipeline with an index; a pipeline of that name is replaced.

    Example: `telerank pipeline save idx best "bm25 % 100 >> rerank(my-reranker) % 10"`
    """
    import telerank as tr
    from telerank.pipelines.functions import save_pipeline

    console.say(f"saved {name}: {save_pipeline(tr.open(index), name, text)}")


@derive
def ls(index: options.IndexName, *, as_json: options.PrintJson = False) -> None:
    """List the pipelines that are saved with an index.

    Example: `telerank pipeline ls idx`
    """
    import telerank as tr

    saved = tr.open(index).pipelines
    if as_json:
        console.print_json(saved)
    elif saved:
        console.write_columns(list(saved.items()))
    else:
        console.say(f"{index} has no saved pipelines")


@derive
def show(index: options.IndexName, name: _Name) -> None:
    """Print the text of a saved pipeline.

    Example: `telerank pipeline show idx best`
    """
    import telerank as tr
    from telerank.pipelines.functions import saved_pipeline

    print(saved_pipeline(tr.open(index), name))


@derive
def rm(index: options.IndexName, name: _Name) -> None:
    """Remove a saved pipeline.

    Example: `telerank pipeline rm idx best`
    """
    import telerank as tr
    from telerank.pipelines.functions import remove_pipeline

    remove_pipeline(tr.open(index), name)
    console.say(f"removed {name}")


@group(save, ls, show, rm)
def pipeline() -> None:
    """Save pipelines with an index by name, list, show and remove them.

    The name of a saved pipeline stands for it in `--model` and in other pipelines.

    Example: `telerank pipeline save idx best "bm25(k1=0.9, b=0.4) % 100"`
    """
