"""``telerank rerank``: the documents of a run, scored anew by a model that reads pairs."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from telerank.cli import console
from telerank.cli.console import counted
from telerank.cli.options import AsJson, Encoding, FormatOption, Split, check_one_dash
from telerank.cli.output import write_json_lines
from telerank.errors import CollectionError, ModelError

if TYPE_CHECKING:
    from telerank.corpus.collection import Collection
    from telerank.reranking.calibration import Calibration
    from telerank.reranking.scorer import Scorer
    from telerank.reranking.stage import Docs
    from telerank.types import Ranking


def rerank(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run file of candidates; `-`: standard input.")],
    *,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            help="The folder OUTPUT/model of `telerank train reranker`, or a cross-encoder of the hub.",
        ),
    ],
    index: Annotated[
        str | None, typer.Option("--index", "-i", help="The index whose documents these are.")
    ] = None,
    collection: Annotated[
        str | None,
        typer.Option(
            "--collection",
            "-c",
            help="The collection that has the queries, and the documents unless --index is given.",
        ),
    ] = None,
    queries: Annotated[
        str | None,
        typer.Option("--queries", "-q", help="A file of queries: TREC, TSV or JSONL; else the collection's."),
    ] = None,
    split: Split = None,
    depth: Annotated[
        int | None,
        typer.Option("--depth", min=1, help="Candidates of a query to score. Default: all."),
    ] = None,
    k: Annotated[
        int | None, typer.Option("-k", min=1, help="Documents of a query that are written. Default: all.")
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", help="A file for the run (.gz packs it); `-`: standard output.")
    ] = "-",
    backend: Annotated[
        str, typer.Option("--backend", help="torch; openvino or onnx (extra fast): faster on a processor.")
    ] = "torch",
    precision: Annotated[
        str,
        typer.Option(
            "--precision",
            help="float32; float32-fast (torch); bfloat16 (torch, openvino); int8 (openvino, with --dev).",
        ),
    ] = "float32",
    dev: Annotated[
        str | None,
        typer.Option(
            "--dev",
            help="For int8: a run over other queries of the collection. One half calibrates, on the other "
            "the loss is measured and printed.",
        ),
    ] = None,
    dev_split: Annotated[
        str | None,
        typer.Option(
            "--dev-split",
            help="The split of --dev's queries and qrels. Default: the only one.",
        ),
    ] = None,
    max_query: Annotated[
        int | None,
        typer.Option("--max-query", min=1, help="Tokens at which a query is cut. Default: the model's own."),
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option("--max-length", min=1, help="Tokens at which a pair is cut. Default: the model's own."),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads",
            "-j",
            min=1,
            help="Threads of the model. Default: the back end's own choice.",
        ),
    ] = None,
    batch_tokens: Annotated[
        int | None,
        typer.Option(
            "--batch-tokens",
            min=1,
            help="Tokens of a batch, padding counted. Default: 2,048 on a processor, 65,536 on a GPU.",
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="`cpu`, `cuda`, …; default: the GPU where there is one.")
    ] = None,
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Score the documents of a run anew with a re-ranker; write the run that comes out.

    Example: `telerank rerank bm25.run -m my-reranker -c scifact --split test --depth 2 -o reranked.run`

    Example: `telerank rerank bm25.run -m my-reranker -i idx -q scifact/queries.jsonl --depth 2 -k 1`
    """
    from telerank.corpus.formats import open_collection
    from telerank.reranking.scorer import Scorer
    from telerank.reranking.stage import CrossReranker

    if (precision == "int8") != (dev is not None):
        raise ModelError("rerank: int8 goes with --dev, a run to calibrate it and to measure its loss on")
    if dev is not None and collection is None:
        raise ModelError("rerank: --dev needs --collection, which has its queries and qrels")
    check_one_dash([run, *([dev] if dev else [])])
    lengths: dict[str, Any] = {"max_query": max_query, "max_length": max_length}
    scorer = Scorer(model, backend, precision, threads, batch_tokens, device, **lengths)
    opened = open_collection(collection, format=format, encoding=encoding) if collection else None
    texts = _queries(opened, queries, split)
    with ExitStack() as stack, console.progress() as progress:
        tried = (
            list(_Candidates(dev, _queries(opened, None, dev_split), f"{collection}", depth)) if dev else []
        )
        apart = frozenset(one.query.qid for one in tried)
        asked = _Candidates(run, texts, queries or f"{collection}", depth, apart)
        candidates, needed, total = _looked_through(asked, docnos=index is None)
        needed.update(docno for one in tried for docno in one.docnos)
        docs = _docs(index, opened, needed, stack, " or ".join([run, *([dev] if dev else [])]))
        loss: Calibration | None = None
        if opened is not None and dev:
            from telerank.reranking.calibration import calibrate

            loss = calibrate(scorer, docs, tried, opened.judged(dev_split))
            scorer = loss.scorer
        stage = CrossReranker(scorer, docs, k)
        began = time.perf_counter()
        found = _told(stage(candidates), scorer, total, progress)
        _write(found, output, as_json=as_json)
    record = _record(scorer, time.perf_counter() - began) | ({} if loss is None else {"loss": loss.record()})
    settings = {"run": run, "depth": depth, "k": k, "index": index, "collection": collection, **lengths}
    if output != "-":
        text = json.dumps({**record, **settings}, indent=1, ensure_ascii=False)
        Path(f"{output}.json").write_text(text + "\n", encoding="utf-8")
    _say(scorer, record, loss)


def _queries(opened: Collection | None, file: str | None, split: str | None) -> dict[str, str]:
    from telerank.trec import read_topics

    if file is None and opened is None:
        raise CollectionError("rerank: the queries' texts are missing: give --queries or --collection")
    found = read_topics(file) if file is not None else opened.split_queries(split) if opened else ()
    return {query.qid: query.text for query in found}


@dataclass(frozen=True)
class _Candidates:
    """The first ``depth`` of each query of a run, with its text; the file is read anew by each iteration.

    A query of ``apart`` is refused: what calibrates and measures int8 is not scored.
    """

    run: str
    texts: Mapping[str, str]
    where: str
    depth: int | None
    apart: frozenset[str] = frozenset()

    @property
    def is_piped(self) -> bool:
        """Whether it can be read once only: standard input, or what else is no file."""
        return self.run == "-" or (Path(self.run).exists() and not Path(self.run).is_file())

    def __iter__(self) -> Iterator[Ranking]:
        from telerank.trec import read_run
        from telerank.types import Query

        for ranking in read_run(self.run):
            qid = ranking.query.qid
            if qid not in self.texts:
                known = f"{len(self.texts):,} queries of {self.where}"
                raise CollectionError(f"{self.run}: query {qid} is none of the {known}")
            if qid in self.apart:
                raise CollectionError(
                    f"{self.run}: query {qid} is in --dev, too: int8 needs other queries there"
                )
            asked = replace(ranking, query=Query(qid, self.texts[qid]))
            yield asked if self.depth is None else asked.cut(self.depth)


def _looked_through(asked: _Candidates, *, docnos: bool) -> tuple[Iterable[Ranking], set[str], int | None]:
    """What to score; the documents in it, where ``docnos`` are wanted; and how many pairs, if that is known.

    A run that is wrong somewhere is refused here, before anything is scored, unless it is piped.
    """
    needed: set[str] = set()
    candidates: Iterable[Ranking] = asked
    if asked.is_piped:
        if not docnos:
            return asked, needed, None
        candidates = list(asked)  # it cannot be read twice, and its documents must be known before
    total = 0
    for ranking in candidates:
        total += len(ranking)
        needed.update(ranking.docnos if docnos else ())
    return candidates, needed, total


def _docs(
    index: str | None, opened: Collection | None, needed: set[str], stack: ExitStack, whose: str
) -> Docs:
    """The index's documents; or those of the collection that are needed, in a docstore for the time being."""
    import telerank
    from telerank.corpus.docstore import Docstore, DocstoreWriter

    if index is not None:
        return telerank.open(index).docs
    if opened is None:
        raise CollectionError("rerank: the documents' texts are missing: give --index or --collection")
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    with DocstoreWriter(folder) as writer:
        for doc in opened.docs():
            if doc.docno in needed:
                writer.add(doc)
                needed.remove(doc.docno)
    if needed:
        more = f" (and {len(needed) - 1:,} more)" if len(needed) > 1 else ""
        raise CollectionError(f"{whose}: {min(needed)!r}{more} is none of the documents of {opened.name}")
    return Docstore(folder)


def _told(found: Iterable[Ranking], scorer: Scorer, total: int | None, progress: Any) -> Iterator[Ranking]:
    for ranking in found:
        progress("scoring", scorer.counts.pairs, total)
        yield ranking


def _write(found: Iterator[Ranking], output: str, *, as_json: bool) -> None:
    from telerank.trec import write_run

    if as_json:
        write_json_lines(found, output)
    else:
        write_run(output, found)


def _record(scorer: Scorer, seconds: float) -> dict[str, Any]:
    from importlib.metadata import version

    given = scorer.setting
    needed = {"openvino": ("openvino",), "onnx": ("onnxruntime",)}.get(given.backend, ())
    return {
        "model": scorer.name,
        "backend": given.backend,
        "precision": given.precision,
        "pairs": scorer.counts.pairs,
        "seconds": round(seconds, 3),
        "cut pairs": scorer.counts.cut_pairs,
        "cut tokens": scorer.counts.cut,
        "versions": {name: version(name) for name in ("telerank", "torch", "transformers", *needed)},
    }


def _say(scorer: Scorer, record: dict[str, Any], loss: Calibration | None) -> None:
    pairs, seconds = record["pairs"], record["seconds"]
    rate = f"{seconds:.1f} s, {pairs / max(seconds, 1e-9):,.0f} a second"
    console.say(
        f"scored {counted(pairs, 'pair')} by {scorer.name} in {scorer.backend} {scorer.precision} ({rate})"
    )
    if record["cut pairs"]:
        longest = scorer.reranker.shape.max_length
        lost = f"{record['cut tokens']:,} tokens were not read"
        console.say(f"{counted(record['cut pairs'], 'pair')} longer than {longest} tokens: cut there, {lost}")
    if loss is not None:
        console.say(str(loss))
