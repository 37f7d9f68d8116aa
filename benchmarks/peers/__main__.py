"""A short run of the peers by themselves: builds, checks rankings, prints times."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from peers import check, corpus
from peers.engine import PEERS, Peer, open_peer
from peers.interleave import interleaved
from telerank.sparse.similarities.families import parse_similarity
from telerank.text import Analyzer

BM25 = {"tantivy": "bm25(k1=1.2, b=0.75)"}
OTHERS = (
    "bm25(k1=0.9, b=0.4)",
    "lm_dirichlet(mu=1000)",
    "lm_jelinek_mercer(lambda=0.1)",
    "dfr(basic_model=in, after_effect=l, normalization=h2(c=1))",
    "dfi(independence=chisquared)",
)


def main() -> None:
    options = _options()
    analyze = Analyzer.parse("english")
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch, ExitStack() as stack:
        folder = Path(scratch)
        count = corpus.write(corpus.passages(options.passages, options.documents), folder / "texts")
        start = time.process_time()
        corpus.write_analysed(corpus.lines(folder / "texts"), analyze, folder / "documents")
        print(f"analysis     {count / (time.process_time() - start):8.0f} documents/s")
        texts = corpus.queries(corpus.lines(folder / "texts"), analyze, count, options.queries)
        queries = [analyze(text) for text in texts]
        peers = [stack.enter_context(open_peer(name, options.core)) for name in options.peers]
        for peer in peers:
            _built(
                peer, folder / ("texts" if peer.name.endswith("-text") else "documents"), folder / peer.name
            )
        searching = [peer for peer in peers if not peer.name.endswith("-text")]
        for k in (10, 1000):
            _bm25(searching, queries, folder / "documents", k)
        for peer in peers:
            if peer.name == "lucene":
                _other_models(peer, queries, folder / "documents")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path(os.environ.get("TELERANK_DATA", ".")) / "msdocs" / "passages.tsv.xz"
    parser.add_argument("--passages", type=Path, default=default)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--core", type=int, default=min(os.sched_getaffinity(0)))
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    return parser.parse_args()


def _built(peer: Peer, documents: Path, folder: Path) -> None:
    built = peer.build(documents, folder)
    peer.open(folder)
    print(
        f"{peer.name:12} {peer.version:28} built {built.documents_per_second:8.0f} documents/s of core time, "
        f"{built.seconds:6.1f} s, {built.disk_bytes / 1e6:6.1f} MB, peak {built.peak_bytes / 1e6:5.0f} MB"
    )


def _bm25(peers: list[Peer], queries: list[list[str]], documents: Path, k: int) -> None:
    models = {peer.name: BM25.get(peer.name, OTHERS[0]) for peer in peers}
    for peer in peers:
        lossy = peer.name in ("lucene", "tantivy")
        found = peer.search(queries, k, models[peer.name])
        agreed = _agreement(
            found, queries, documents, models[peer.name], k, lossy=lossy, count_empty=peer.name != "lucene"
        )
        print(f"top-{k:4} {peer.name:12} {agreed}")
    times = interleaved({peer.name: partial(peer.search, queries, k, models[peer.name]) for peer in peers})
    for name, taken in times.items():
        print(f"top-{k:4} {name:12} ms: p50, p99, mean {taken}")


def _other_models(peer: Peer, queries: list[list[str]], documents: Path) -> None:
    for model in OTHERS:
        for k in (10, 1000):
            found = peer.search(queries, k, model)
            agreed = _agreement(found, queries, documents, model, k, lossy=True)
            times = interleaved({model: partial(peer.search, queries, k, model)}, rounds=3)[model]
            print(f"top-{k:4} {peer.name} {model:60} ms: p50, p99, mean {times}; {agreed}")


def _agreement(found, queries, documents, model, k, *, lossy, count_empty=False) -> check.Agreement:
    rounded = check.one_byte if lossy else check.exact
    with documents.open(encoding="utf-8") as lines:
        truth = check.reference(lines, queries, parse_similarity(model), rounded, count_empty=count_empty)
    factor = 2.2 if model == BM25["tantivy"] else 1.0  # tantivy keeps k1 + 1
    return check.agreement(found, truth, k, factor)


if __name__ == "__main__":
    main()
