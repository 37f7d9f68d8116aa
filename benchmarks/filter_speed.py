"""Times of filtered searches and facets by selectivity, on msdocs with three derived, seeded columns.

``python benchmarks/filter_speed.py FOLDER`` builds an index of the first ``--passages`` of ``msdocs``, and
measures BM25 at depths 10 and 1000, unfiltered and filtered in turn, in one process. A filter should take at
most 1.2 times the time of the search without one, and one that 1 % pass less than that search. The columns
are drawn with a seed: ``share``, a number from 0 to 999; ``kind``, one of five texts; ``block``, the number
of the stretch of 1 % of the passages, so that its rows stand together.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from results_page import write

import telerank as tr
from telerank.show.tables import Table, render_markdown
from telerank.types import Doc

KINDS = ("guide", "reference", "tutorial", "concept", "sample")
FILTERS = {
    "100 %": "share >= 0",
    "50 %": "share < 500",
    "20 %": 'kind == "guide"',
    "10 %": "share < 100",
    "5 %": "share < 50",
    "1 %": "share < 10",
    "0.1 %": "share < 1",
    "20 %, together": "block < 20",
    "1 %, together": "block == 42",
}


def derive(docs: Iterator[Doc], count: int) -> Iterator[Doc]:
    """The documents with the columns, the same for the same number."""
    draw = random.Random(29)
    for number, doc in enumerate(islice(docs, count)):
        columns = {"share": draw.randrange(1000), "kind": draw.choice(KINDS), "block": number * 100 // count}
        yield replace(doc, columns=columns)


def queries_of(index: tr.Index, count: int) -> list[str]:
    """Queries of two to six words that stand together in documents, drawn with a seed."""
    draw = random.Random(7)
    docs = index.sparse.segments[0].docs
    queries: list[str] = []
    while len(queries) < count:
        words = docs.get_row(draw.randrange(len(docs))).text.split()
        size = draw.randint(2, 6)
        if len(words) > size:
            start = draw.randrange(len(words) - size)
            queries.append(" ".join(words[start : start + size]))
    return queries


def milliseconds(search: Callable[[str], object], queries: list[str]) -> float:
    """The mean processor time of a query: what else runs on the machine does not count."""
    began = time.process_time()
    for query in queries:
        search(query)
    return 1000 * (time.process_time() - began) / len(queries)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--passages", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="put the table into docs/results/speed.md")
    options = parser.parse_args()
    if not (options.folder / "manifest.json").is_file():
        docs = derive(tr.collection("msdocs").docs(), options.passages)
        tr.index(docs, options.folder, analyzer="english")
    index = tr.open(options.folder)
    queries = queries_of(index, options.queries)
    plain = index.bm25()
    stages = {name: plain.where(text) for name, text in FILTERS.items()}
    rows: dict[str, list[str]] = {}
    for name, stage in stages.items():
        first = milliseconds((stage % 10).search, queries[:1])
        rows[name] = [f"{first:.1f} ms"]
    for depth in (10, 1000):
        for stage in (plain, *stages.values()):
            milliseconds((stage % depth).search, queries)  # terms are prepared, and copied
        times: dict[str, list[float]] = {name: [] for name in ("", *stages)}
        for _ in range(options.rounds):
            for name, stage in (("", plain), *stages.items()):
                times[name].append(milliseconds((stage % depth).search, queries))
        for name in stages:
            ratio = statistics.median(a / b for a, b in zip(times[name], times[""], strict=True))
            rows[name] += [f"{statistics.median(times[name]):.3f} ms", f"{ratio:.2f}"]
        rows.setdefault("no filter", ["–"]).extend([f"{statistics.median(times['']):.3f} ms", "1"])
    for name, stage in (("no filter", plain), *stages.items()):
        facets = milliseconds(lambda query, stage=stage: index.facets(query, "kind", stage), queries[:20])
        rows[name].append(f"{facets:.1f} ms")
    columns = ["passes", "first query", "top 10", "ratio", "top 1000", "ratio", "facet of kind"]
    table = render_markdown(Table.of(columns, [[name, *rows[name]] for name in ("no filter", *stages)]))
    about = f"{len(index):,} passages, {len(queries)} queries, processor time, {options.rounds} rounds."
    print(about, table, sep="\n\n")
    if options.write:
        command = "```sh\npython benchmarks/filter_speed.py FOLDER\n```"
        write("speed", "filter speed", f"{command}\n\n{about}\n\n{table}")


if __name__ == "__main__":
    main()
