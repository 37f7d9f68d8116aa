"""Small BEIR folders for tests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from telerank.trec import write_qrels, write_run
from telerank.types import Query, Ranking

QRELS = {f"q{i:02}": {"right": 1} for i in range(40)}
"""Those of :func:`write_three_runs`."""


def write_beir(
    folder: Path,
    docs: Iterable[Mapping[str, str]],
    queries: Mapping[str, str],
    qrels: Mapping[str, Iterable[tuple[str, str, int]]],
) -> Path:
    """Write a collection of documents as in its file, queries by qid, and qrels by split."""
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, docs)))
    records = ({"_id": qid, "text": text} for qid, text in queries.items())
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, records)))
    for split, rows in qrels.items():
        lines = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in rows)]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return folder


def write_small_set(folder: Path) -> None:
    """A folder ``set`` and two runs of it, ``a.run`` and ``b.run``, for tests of many commands."""
    docs = ({"_id": f"d{n}", "text": f"w{n} w{n % 3}"} for n in range(6))
    queries = {f"q{n}": f"w{n}" for n in range(4)}
    write_beir(folder / "set", docs, queries, {"test": [(f"q{n}", f"d{n}", 1) for n in range(4)]})
    for name in "ab":
        lines = (f"q{n} Q0 d{(n + i) % 6} 1 {6 - i} t\n" for n in range(4) for i in range(4))
        (folder / f"{name}.run").write_text("".join(lines))


def write_three_runs(folder: Path) -> None:
    """``weak.run``, ``strong.run`` and ``best.run``, which rank one document of each query better and better.

    The last puts it first; each has four documents that no other has.
    """
    random = np.random.default_rng(0)
    write_qrels(folder / "qrels.txt", QRELS)
    for name, most in (("weak", 9), ("strong", 3), ("best", 1)):
        rankings = []
        for qid in QRELS:
            docnos = [f"{name}{i}" for i in range(4)] + [f"wrong{i}" for i in range(5)]
            docnos.insert(int(random.integers(most)), "right")
            rankings.append(Ranking(Query(qid, ""), tuple(docnos), np.sort(random.normal(size=10))[::-1]))
        write_run(folder / f"{name}.run", rankings)
