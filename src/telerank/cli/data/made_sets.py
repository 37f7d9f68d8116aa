"""``telerank data`` makes collections: ranking sets, long documents, and answers of aligned passages."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import Ge, Le
from rich.table import Column, Table

from telerank.cli import console, options
from telerank.cli.commands import derive
from telerank.cli.options import Format, PrintJson, Texts
from telerank.errors import CollectionError, count_noun
from telerank.parameters import Flags, Help
from telerank.show.progress import show_progress

if TYPE_CHECKING:
    from telerank.corpus.derived.ranking_set import RankingSet
    from telerank.corpus.writing import WrittenDocuments


@derive
def make_ranking_set(
    out: Annotated[Path, Flags("OUT"), Help("The folder to write.")],
    sets: Annotated[list[str], Flags("SET"), Help("Collections with questions and qrels.")],
    *,
    negatives: Annotated[Literal["bm25", "random", "gold"], Help("How negatives are chosen.")] = "bm25",
    depth: Annotated[int, Ge(1), Help("Number of negatives for each question.")] = 10,
    split_by: Annotated[
        Literal["question", "paragraph", "article"], Help("No two parts share one of these.")
    ] = "question",
    seed: Annotated[int, Help("Seed of the split and of random negatives.")] = 0,
    analyzer: Annotated[str, Flags("-a"), Help("Analyzer for `--negatives bm25`.")] = "standard",
    model: Annotated[
        str, Help("Pipeline for `--negatives bm25`; documents are encoded for its `dense(ENCODER)`.")
    ] = "bm25",
    titles: Annotated[
        bool, Help("Keep the titles of documents, which are searched with their texts.")
    ] = True,
    overwrite: Annotated[bool, Help("Replace an existing ranking set.")] = False,
    format: Format = None,  # noqa: A002
    encoding: Texts = "utf-8",
    as_json: PrintJson = False,
) -> None:
    """Merge question-answering sets, remove duplicate questions, split 80/10/10 and find negatives.

    If the set is split by question, nearly every paragraph of the test questions also occurs in train, with
    another question; the last column counts them. If it is split by paragraph or by article, none does, and
    negatives are of the same part. The part of an article, 70/10/20, depends on its title and the seed, as in
    the training of a reader (`articles`).

    Example: `telerank data make-ranking-set french-apart piaf fquad --analyzer french --split-by paragraph`
    """
    from telerank.corpus.derived import ranking_set as sets_of
    from telerank.verbs.data import first_stage_over

    description = f"{model} over {analyzer}" if negatives == "bm25" else ""
    settings = sets_of.RankingSetSettings(negatives, depth, split_by, seed, description, titles)
    sets_of.check_target(out, overwrite=overwrite)
    with show_progress() as progress:
        first_stage = first_stage_over(model, analyzer, progress) if description else None
        opened = [options.open_collection(name, format, encoding) for name in sets]
        ranking_set = sets_of.make_ranking_set(opened, settings, first_stage=first_stage, progress=progress)
        sets_of.write_ranking_set(out, ranking_set, overwrite=overwrite)
    if as_json:
        console.print_json(ranking_set.manifest())
    else:
        _show_ranking_set(ranking_set)


def _show_ranking_set(ranking_set: RankingSet) -> None:
    tally, leaks = ranking_set.merged.tally, ranking_set.leaks
    console.out().print(
        f"{count_noun(tally.questions, 'question')}; left out: "
        f"{count_noun(tally.duplicate_questions, 'duplicate')}, "
        f"{tally.without_positive:,} without a relevant document"
    )
    console.out().print(
        f"{count_noun(tally.documents, 'document')}; merged: {tally.duplicate_documents:,} of the same text; "
        f"refused as negatives for holding the answer: {ranking_set.refused.get('holds the answer', 0):,}"
    )
    short = f"< {ranking_set.settings.depth} negatives"
    names = ("questions", "pairs", short, "paragraphs", "also in train")
    table = Table("part", *(Column(name, justify="right", no_wrap=True) for name in names))
    for part, counts in ranking_set.counts().items():
        leak = leaks.get(part)
        shown = ("", "")
        if leak:
            share = f" ({_share(leak.in_train, leak.documents)})" if leak.documents else ""
            shown = f"{leak.documents:,}", f"{leak.in_train:,}{share}"
        pairs = counts["positives"] + counts["negatives"]
        numbers = (counts["questions"], pairs, counts["short_of_negatives"])
        table.add_row(part, *(f"{number:,}" for number in numbers), *shown)
    console.out().print(table)


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
        int, Ge(0), Help("Each document has more words: shorter articles are joined to such documents.")
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
    from telerank.corpus import writing
    from telerank.corpus.derived import articles

    settings = articles.ArticleSettings(least_words, folds, seed)
    writing.check_target(out, overwrite=overwrite)
    with show_progress() as progress:
        opened = [options.open_collection(name, None, encoding) for name in sets]
        documents = articles.join_articles(opened, settings, progress=progress)
        written = writing.write_long_documents(out, documents, overwrite=overwrite, progress=progress)
    _show_documents(written, as_json=as_json)


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
    from telerank.corpus import lengths, writing
    from telerank.corpus.derived import far

    try:
        settings = far.FarSettings(beyond, length, queries, filler, folds, seed, halve)
    except ValueError as error:  # options that do not go together
        raise CollectionError(f"make-far-relevant: {error}") from error
    writing.check_target(out, overwrite=overwrite)
    spans = lengths.word_spans if tokenizer is None else lengths.tokenizer_spans(tokenizer)
    unit = "words" if tokenizer is None else f"tokens of {tokenizer.name}"
    with show_progress() as progress, ExitStack() as resources:
        opened = options.open_collection(collection, format, encoding)
        documents = far.make_far_relevant(
            opened, settings, spans=spans, unit=unit, resources=resources, progress=progress
        )
        written = writing.write_long_documents(out, documents, overwrite=overwrite, progress=progress)
    _show_documents(written, as_json=as_json)


def _show_documents(written: WrittenDocuments, *, as_json: bool) -> None:
    manifest = written.manifest
    if as_json:
        console.print_json(manifest)
        return
    kinds = manifest["documents"]
    console.out().print(
        f"{kinds['relevant']:,} documents with relevant text, {kinds.get('distractors', 0):,} distractors"
    )
    if joined := manifest.get("joined", {}).get("short_articles"):
        of_them = count_noun(manifest["joined"]["documents"], "document")
        console.out().print(f"{count_noun(joined, 'short article')} joined to {of_them}")
    left_out = [f"{count:,} {reason.replace('_', ' ')}" for reason, count in manifest["left_out"].items()]
    console.out().print(f"left out: {', '.join(left_out)}")
    if offsets := manifest.get("offsets"):
        aligned = offsets["answers"] - offsets["absent"]
        console.out().print(
            f"answers: {_share(aligned, offsets['answers'])} are aligned; of these "
            f"{_share(offsets['exact'], aligned)} stand at their offset, "
            f"{offsets['moved'] + offsets['nearest']:,} were moved to where they stand"
        )
    table = Table("split", *(Column(name, justify="right") for name in ("queries", "relevant", "answers")))
    for split, counts in written.counts.items():
        table.add_row(split, *(f"{counts[name]:,}" for name in ("queries", "relevant", "answers")))
    console.out().print(table)
    before = written.words_before
    shares = (
        f"{limit:,}: {_share(sum(words >= limit for words in before), len(before))}" for limit in _LIMITS
    )
    console.out().print(f"answers that begin after as many words: {', '.join(shares)}")


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"


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
    from telerank.corpus import lengths
    from telerank.corpus.answers import write_answers

    if out.is_dir():
        raise CollectionError(f"{out}: expected a file to write, this is a folder")
    if out.exists() and not overwrite:
        raise CollectionError(f"{out}: already exists; replace it with --overwrite")
    with show_progress() as progress:
        of_documents = options.open_collection(documents, None, encoding)
        of_passages = options.open_collection(passages, None, encoding)
        alignment = lengths.align_passages(of_documents, of_passages, split or (), progress=progress)
        write_answers(out, alignment.answers())
    if as_json:
        counts = {name: {**asdict(own), "share": own.share} for name, own in alignment.splits.items()}
        console.print_json({"splits": counts, "relevant_passages": alignment.every})
        return
    table = Table("split", *(Column(name, justify="right") for name in ("passages", "aligned", "share")))
    for name, own in alignment.splits.items():
        table.add_row(name, f"{own.passages:,}", f"{own.aligned:,}", _share(own.aligned, own.passages))
    console.out().print(table)
    missing = sum(own.missing for own in alignment.splits.values())
    aligned_passages = sum(own.aligned for own in alignment.splits.values())
    console.out().print(
        f"passages: relevant to a query with a relevant document; {missing:,} are not in {of_passages.name}"
    )
    of_all = _share(aligned_passages, alignment.every)
    console.out().print(f"aligned: {of_all} of the {alignment.every:,} relevant passages of any query")
