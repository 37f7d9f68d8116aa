"""``telerank rerank``: score the documents of a run again with a re-ranker."""

from __future__ import annotations

from collections import deque
from typing import Annotated, Any

from annotated_types import Ge

from telerank.cli import console, options
from telerank.cli.commands import derive
from telerank.computing import PairComputing
from telerank.errors import CollectionError, ModelError
from telerank.parameters import FieldsOf, Flags, Help, Split


@derive
def rerank(
    run: Annotated[
        str,
        Flags("RUN"),
        Help("Run file of candidates; `-`: standard input; `pool(NAME)`: candidate lists of the collection."),
    ],
    *,
    model: Annotated[
        str,
        Flags("--model"),
        Help("The folder OUTPUT/model of `telerank train reranker`, or a cross-encoder on the hub."),
    ],
    index: Annotated[str | None, Flags("-i"), Help("The index that has the documents.")] = None,
    collection: Annotated[
        str | None,
        Flags("-c"),
        Help("The collection that has the queries, and the documents unless --index is given."),
    ] = None,
    queries: Annotated[
        str | None,
        Flags("-q"),
        Help("File of queries: TREC, TSV or JSONL, instead of the collection's."),
    ] = None,
    split: Split = None,
    depth: Annotated[int | None, Ge(1), Help("Documents of each query to score. Default: all.")] = None,
    keep: options.Kept = None,
    output: options.RunFile = "-",
    dev: Annotated[
        str | None,
        Help(
            "For int8: a run over other queries of the collection. One half calibrates, the other measures "
            "what it loses."
        ),
    ] = None,
    dev_split: Annotated[
        str | None, Help("Split of the queries and qrels of --dev. Default: the only one.")
    ] = None,
    format: options.Format = None,  # noqa: A002
    encoding: options.Texts = "utf-8",
    as_json: options.PrintJson = False,
    **settings: Annotated[Any, FieldsOf(PairComputing)],
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
    from telerank.corpus.readers.plain import open_topics
    from telerank.verbs.rerank import DevRun, rerank_run
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
        **settings,
    )
    if not is_first_process():
        deque(reranked, maxlen=0)  # its share; the first process writes
        return
    reranked.save(output, as_json=as_json)
    for remark in reranked.remarks:
        console.say(remark)
