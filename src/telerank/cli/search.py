"""``telerank search``: a run over the queries of a collection, or the answer to one query."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from telerank.cli import console
from telerank.cli.options import AsJson, Encoding, FormatOption, IndexArgument, Split
from telerank.errors import CollectionError

if TYPE_CHECKING:
    from telerank.cli.searched import Searched
    from telerank.stage import Stage
    from telerank.types import Query, Ranking

_FIRST, _ALL = 10, 1000  # default depths: of what a person reads, of a run
_BATCH = 64  # queries answered at a time
_SNIPPET = 200  # characters of a document that are shown


def search(
    index: IndexArgument,
    collection: Annotated[
        str | None,
        typer.Argument(metavar="COLLECTION", help="Whose queries: a folder, a file, or an ir_datasets id."),
    ] = None,
    *,
    query: Annotated[
        str | None,
        typer.Option(
            "--query", "-q", help="One query, answered for reading; `-`: the lines of standard input."
        ),
    ] = None,
    topics: Annotated[
        str | None,
        typer.Option("--topics", help="A file of queries: TREC, TSV or JSONL; `-`: standard input."),
    ] = None,
    split: Split = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            help="`bm25(k1=0.9, b=0.4)`, `lm_dirichlet(mu=1000)`, `dfr`, `dfi`, …; `dense(minilm)`: its "
            "vectors. Default: bm25; of a folder of vectors, the model that made them.",
        ),
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option(
            "--depth", "-k", min=1, help="Documents retrieved for a query. Default: 1000; with --query 10."
        ),
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", help="A file for the run (.gz packs it); `-`: standard output.")
    ] = "-",
    analyzer: Annotated[
        str | None, typer.Option("--analyzer", "-a", help="Refuse an index that was built with another.")
    ] = None,
    approximate: Annotated[
        str | None,
        typer.Option("--approximate", help="Search vectors by this index beside them: `hnsw` or `ivfpq`."),
    ] = None,
    threads: Annotated[int, typer.Option("--threads", "-j", min=1, help="Threads that answer queries.")] = 1,
    explain: Annotated[
        bool, typer.Option("--explain", help="With --query: each term's contribution.")
    ] = False,
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Search an index or vectors: write a run over the queries of a collection, or answer one query.

    Example: `telerank search idx scifact --split test --model "bm25(k1=0.9, b=0.4)" -o bm25.run`

    Example: `telerank search idx --query "does aspirin prevent cancer" -k 5`

    Example: `telerank search vectors xquad-en -o dense.run`
    """
    from telerank.cli.searched import Asked, opened

    if (collection is not None) + (query is not None) + (topics is not None) != 1:
        raise CollectionError("search: give one of a COLLECTION, --query or --topics")
    batch = 1 if query else _BATCH
    searched = opened(index, Asked(model, analyzer, approximate, threads, batch))
    stage = searched.stage % (depth or (_ALL if query is None else _FIRST))
    if query is not None:
        for text in _lines() if query == "-" else [query]:
            _answer(searched, stage, text.strip(), explain=explain, as_json=as_json)
        return
    queries, source = _queries(collection, topics, split, format, encoding)
    described = searched.described(stage)
    settings = {"index": searched.identity, "queries": source, "stage": described, "split": split}
    _write(stage, queries, output, settings, as_json=as_json)


def _queries(
    collection: str | None, topics: str | None, split: str | None, format_: str | None, encoding: str
) -> tuple[list[Query], str]:
    from telerank.corpus.formats import open_collection
    from telerank.trec import read_topics

    if topics is not None:
        return list(read_topics(topics, format=format_)), topics
    opened = open_collection(collection or "", format=format_, encoding=encoding)
    return list(opened.split_queries(split)), opened.name


def _write(
    stage: Stage, queries: list[Query], output: str, settings: dict[str, Any], *, as_json: bool
) -> None:
    """Write the run, and beside it (``.json``) what made it."""
    from telerank.cli.output import write_json_lines
    from telerank.trec import write_run

    empty: list[str] = []
    with console.progress() as progress:

        def counted(rankings: Iterable[Ranking]) -> Iterator[Ranking]:
            for number, ranking in enumerate(rankings, 1):
                if not len(ranking):
                    empty.append(ranking.query.qid)
                progress("searching", number, len(queries))
                yield ranking

        rankings = counted(stage.run(queries))
        if as_json:
            write_json_lines(rankings, output)
        else:
            write_run(output, rankings)
    if output != "-":
        record = json.dumps({**settings, "versions": _versions()}, indent=1, ensure_ascii=False)
        Path(f"{output}.json").write_text(record + "\n", encoding="utf-8")
        console.say(f"{len(queries):,} queries searched; run in {output}, its settings in {output}.json")
    if empty:
        more = " …" if len(empty) > 5 else ""
        console.say(f"{len(empty)} of {len(queries)} queries found nothing: {', '.join(empty[:5])}{more}")


def _lines() -> Iterator[str]:
    """Of standard input, which is UTF-8 whatever the locale says."""
    from telerank.trec import open_text

    with open_text("-") as lines:
        yield from lines


def _answer(searched: Searched, stage: Stage, text: str, *, explain: bool, as_json: bool) -> None:
    ranking = stage.search(text)
    if as_json:
        print(json.dumps(_record(searched, stage, ranking, explain=explain), ensure_ascii=False))  # noqa: T201
        return
    if not len(ranking):
        print(f"nothing found for {console.plain(repr(text))}")  # noqa: T201
        return
    print(console.plain(text))  # noqa: T201
    rows = [("rank", "score", "docno", "document")]
    for rank, (docno, score) in enumerate(ranking, 1):
        doc = searched.doc(docno)
        title = f"{doc.title} " if doc.title else ""
        rows.append((str(rank), f"{score:.4f}", docno, title + _snippet(doc.text)))
    console.write_columns(rows)
    if explain:
        for docno in ranking.docnos:
            print(console.plain(f"\n{docno}\n{stage.explain(ranking.query, docno)}"))  # noqa: T201


def _record(searched: Searched, stage: Stage, ranking: Ranking, *, explain: bool) -> dict[str, Any]:
    from dataclasses import asdict

    found = []
    for rank, (docno, score) in enumerate(ranking, 1):
        one: dict[str, Any] = {"rank": rank, "score": score, **asdict(searched.doc(docno))}
        if explain:
            one["explanation"] = asdict(stage.explain(ranking.query, docno))
        found.append(one)
    return {"query": ranking.query.text, "ranking": found}


def _snippet(text: str) -> str:
    words = " ".join(chain.from_iterable(line.split() for line in text[: 4 * _SNIPPET].splitlines()))
    return words if len(words) <= _SNIPPET else f"{words[:_SNIPPET]}…"


def _versions() -> dict[str, str]:
    import platform
    from importlib.metadata import version

    return {
        "python": platform.python_version(),
        **{name: version(name) for name in ("telerank", "numpy", "numba")},
    }
