"""``telerank rerank``: score the documents of a run again with a re-ranker."""

from __future__ import annotations

from collections import deque

from typer import Argument, Option

from telerank.cli import console, options
from telerank.errors import CollectionError, ModelError


def rerank(
    run: str = Argument(
        metavar="RUN",
        help="Run file of candidates; `-`: standard input; `pool(NAME)`: candidate lists of the collection.",
    ),
    *,
    model: str = Option(
        ..., help="The folder OUTPUT/model of `telerank train reranker`, or a cross-encoder on the hub."
    ),
    index: str | None = Option(None, "--index", "-i", help="The index that has the documents."),
    collection: str | None = Option(
        None,
        "--collection",
        "-c",
        help="The collection that has the queries, and the documents unless --index is given.",
    ),
    queries: str | None = Option(
        None, "--queries", "-q", help="File of queries: TREC, TSV or JSONL, instead of the collection's."
    ),
    split: options.Split = None,
    depth: int | None = Option(None, min=1, help="Documents of each query to score. Default: all."),
    keep: options.Keep = None,
    output: options.RunOutput = "-",
    backend: str = Option(
        "torch",
        help="torch; compiled: the transformer by torch.compile, whose first batches take half a minute and "
        "which gained nothing on an H100; openvino or onnx (extra fast): faster on a processor.",
    ),
    precision: str = Option(
        "auto",
        help="auto (bfloat16 on a GPU that computes in it, else float32); float32; float32-fast, "
        "tf32 (torch); bfloat16 (torch, openvino); int8 (openvino, with --dev).",
    ),
    dev: str | None = Option(
        None,
        help="For int8: a run over other queries of the collection. One half calibrates, the "
        "other measures what it loses.",
    ),
    dev_split: str | None = Option(
        None, help="Split of the queries and qrels of --dev. Default: the only one."
    ),
    max_query: int | None = Option(
        None, min=1, help="Tokens at which a query is cut. Default: the model's own."
    ),
    max_length: int | None = Option(
        None, min=1, help="Tokens at which a pair is cut. Default: the model's own."
    ),
    threads: int | None = Option(
        None, "--threads", "-j", min=1, help="Threads of the model. Default: the back end's own choice."
    ),
    batch_tokens: int | None = Option(
        None, min=1, help="Tokens per batch, padding included. Default: 2048, on a GPU 65536."
    ),
    device: options.Device = None,
    format: options.FormatOption = None,  # noqa: A002
    encoding: options.Encoding = "utf-8",
    as_json: options.AsJson = False,
) -> None:
    """Score the documents of a run again with a re-ranker, and write the new run.

    Under `torchrun` the processes share the queries, on a GPU each.

    Example: `telerank rerank bm25.run --model my-reranker -c scifact --split test --depth 2 -o reranked.run`

    Example: `telerank rerank bm25.run --model my-reranker -i idx -q scifact/queries.jsonl --depth 2 -k 1`
    """
    if queries is None and collection is None:
        raise CollectionError("rerank: the queries' texts are missing: give --queries or --collection")
    if index is None and collection is None:
        raise CollectionError("rerank: the documents' texts are missing: give --index or --collection")
    if dev is not None and collection is None:
        raise ModelError("rerank: --dev needs --collection, which has its queries and qrels")
    options.check_one_dash([run, *([dev] if dev else [])])
    import telerank as tr
    from telerank.verbs.rerank import DevRun, open_topics, rerank_run
    from telerank.verbs.train import is_first_process

    data = options.open_collection(collection, format, encoding) if collection else None
    reranked = rerank_run(
        run,
        model,
        tr.open(index) if index is not None else data,
        open_topics(queries, encoding=encoding) if queries is not None else data,
        split=split if queries is None else None,
        depth=depth,
        k=keep,
        dev=DevRun(dev, data, dev_split) if dev and data else None,
        backend=backend,
        precision=precision,
        threads=threads,
        tokens=batch_tokens,
        device=device,
        max_query=max_query,
        max_length=max_length,
    )
    if not is_first_process():
        deque(reranked, maxlen=0)  # its share; the first process writes
        return
    reranked.save(output, as_json=as_json)
    for remark in reranked.remarks:
        console.say(remark)
