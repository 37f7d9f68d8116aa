"""``telerank data make-long-documents`` and ``make-far-relevant``: documents with known relevant text."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge, Le
from rich.table import Column, Table

from telerank.cli import console, options
from telerank.cli.derive import derive
from telerank.cli.options import Format, PrintJson, Texts
from telerank.errors import CollectionError
from telerank.parameters import Flags, Help

if TYPE_CHECKING:
    from telerank.corpus.derived.writing import WrittenDocuments

_LIMITS = (128, 256, 512, 1024, 2048)

_Out = Annotated[Path, Flags("OUT"), Help("The folder to write.")]
_Seed = Annotated[int, Help("Seed of everything that is drawn.")]
_Overwrite = Annotated[bool, Help("Replace existing long documents.")]


@derive
def make_long_documents(
    out: _Out,
    sets: Annotated[list[str], Flags("SET"), Help("SQuAD-style sets.")],
    *,
    least_words: Annotated[
        int, Ge(0), Help("Ask only about articles of more words; the others are distractors.")
    ] = 0,
    folds: Annotated[int, Ge(1), Help("Number of splits by article; 1: the split `all`.")] = 5,
    seed: _Seed = 0,
    overwrite: _Overwrite = False,
    encoding: Texts = "utf-8",
    as_json: PrintJson = False,
) -> None:
    """Join the paragraphs of question-answering sets to long documents with answers, in folds by article.

    Articles that an earlier set has, by their titles, are left out.

    Example: `telerank data make-long-documents french-long fquad piaf --least-words 400`
    """
    from telerank.show.progress import show_progress
    from telerank.verbs.data import articles, folder

    settings = articles.ArticleSettings(least_words, folds, seed)
    folder.check_target(out, overwrite=overwrite)
    with show_progress() as progress:
        opened = [options.open_collection(name, None, encoding) for name in sets]
        documents = articles.join_articles(opened, settings, progress=progress)
        written = folder.write_long_documents(out, documents, overwrite=overwrite, progress=progress)
    _show(written, as_json=as_json)


@derive
def make_far_relevant(
    out: _Out,
    collection: Annotated[str, Flags("COLLECTION"), Help("A collection of passages with queries and qrels.")],
    *,
    beyond: Annotated[int, Ge(0), Help("Tokens before the relevant passage, at least.")] = 512,
    length: Annotated[int, Ge(1), Help("Tokens of a document, at most.")] = 1400,
    tokenizer: Annotated[
        Path | None,
        Flags("--tokenizer", "FILE"),
        Help("Count the tokens of a tokenizer.json (or of a folder with one), not words."),
    ] = None,
    queries: Annotated[
        int | None, Ge(1), Help("Only as many queries of each split, drawn by the seed.")
    ] = None,
    filler: Annotated[
        float,
        Ge(0.0),
        Le(1.0),
        Help("Share of the articles that become filler; their questions are left out."),
    ] = 0.0,
    folds: Annotated[int, Ge(0), Help("Number of splits by document. Default: keep the splits.")] = 0,
    halve: Annotated[
        str | None,
        Flags("--halve", "SPLIT"),
        Help("A split that becomes two by document, SPLIT-1 and SPLIT-2."),
    ] = None,
    seed: _Seed = 0,
    overwrite: _Overwrite = False,
    format: Format = None,  # noqa: A002
    encoding: Texts = "utf-8",
    as_json: PrintJson = False,
) -> None:
    """Make long documents of passages so that the relevant one begins late, as MS MARCO FarRelevant does.

    Example: `telerank data make-far-relevant far-french piaf --filler 0.5 --folds 5`
    """
    from telerank.show.progress import show_progress
    from telerank.verbs.data import far, folder, positions

    try:
        settings = far.FarSettings(beyond, length, queries, filler, folds, seed, halve)
    except ValueError as error:  # options that do not go together
        raise CollectionError(f"make-far-relevant: {error}") from error
    folder.check_target(out, overwrite=overwrite)
    spans = positions.word_spans if tokenizer is None else positions.tokenizer_spans(tokenizer)
    unit = "words" if tokenizer is None else f"tokens of {tokenizer.name}"
    with show_progress() as progress, ExitStack() as resources:
        opened = options.open_collection(collection, format, encoding)
        documents = far.make_far_relevant(
            opened, settings, spans=spans, unit=unit, resources=resources, progress=progress
        )
        written = folder.write_long_documents(out, documents, overwrite=overwrite, progress=progress)
    _show(written, as_json=as_json)


def _show(written: WrittenDocuments, *, as_json: bool) -> None:
    manifest = written.manifest
    if as_json:
        console.print_json(manifest)
        return
    kinds = manifest["documents"]
    console.out.print(
        f"{kinds['relevant']:,} documents with relevant text, {kinds.get('distractors', 0):,} distractors"
    )
    left_out = [f"{count:,} {reason.replace('_', ' ')}" for reason, count in manifest["left_out"].items()]
    console.out.print(f"left out: {', '.join(left_out)}")
    if offsets := manifest.get("offsets"):
        aligned = offsets["answers"] - offsets["absent"]
        console.out.print(
            f"answers: {_share(aligned, offsets['answers'])} are aligned; of these "
            f"{_share(offsets['exact'], aligned)} stand at their offset, "
            f"{offsets['moved'] + offsets['nearest']:,} were moved to where they stand"
        )
    table = Table("split", *(Column(name, justify="right") for name in ("queries", "relevant", "answers")))
    for split, counts in written.counts.items():
        table.add_row(split, *(f"{counts[name]:,}" for name in ("queries", "relevant", "answers")))
    console.out.print(table)
    before = written.words_before
    shares = (
        f"{limit:,}: {_share(sum(words >= limit for words in before), len(before))}" for limit in _LIMITS
    )
    console.out.print(f"answers that begin after as many words: {', '.join(shares)}")


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"
