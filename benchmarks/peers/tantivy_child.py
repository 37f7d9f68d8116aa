"""tantivy."""

from __future__ import annotations

import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import tantivy

from peers.serve import Engine, Hits, serve

MODEL = "bm25(k1=1.2, b=0.75)"
HEAP = 2_000_000_000


class Tantivy(Engine):
    """One writing thread, a heap that holds the whole build so that one segment results, no positions.

    Its BM25 has fixed parameters, the factor k1 + 1, and lengths in one lossy byte. Hits are not counted,
    which would keep it from skipping.
    """

    version = version("tantivy")

    def __init__(self, *, text: bool) -> None:
        builder = tantivy.SchemaBuilder()
        builder.add_text_field(
            "text", tokenizer_name="en_stem" if text else "whitespace", index_option="freq"
        )
        builder.add_unsigned_field("row", stored=True)
        self.schema = builder.build()
        self.index: tantivy.Index = None
        self.searcher: tantivy.Searcher = None

    def build(self, documents: Path, folder: Path) -> None:
        folder.mkdir(parents=True)
        writer = tantivy.Index(self.schema, str(folder)).writer(HEAP, 1)
        with documents.open(encoding="utf-8") as lines:
            for row, line in enumerate(lines):
                writer.add_document(tantivy.Document(text=line, row=row))
        writer.commit()
        writer.wait_merging_threads()

    def open(self, folder: Path) -> None:
        self.index = tantivy.Index.open(str(folder))
        self.searcher = self.index.searcher()

    def search(self, queries: list[str], k: int, model: str) -> tuple[list[int], list[Hits]]:
        if model != MODEL:
            raise ValueError(f"this engine has {MODEL} only, not {model}")
        times, hits = [], []
        for query in queries:
            start = time.perf_counter_ns()
            found = self.searcher.search(self._query(query.split()), k, count=False).hits
            times.append(time.perf_counter_ns() - start)
            rows = [self.searcher.doc(address)["row"][0] for _, address in found]
            hits.append((np.array(rows, np.int64), np.array([score for score, _ in found], np.float32)))
        return times, hits

    def _query(self, terms: list[str]) -> tantivy.Query:
        should = tantivy.Occur.Should
        each = [(should, tantivy.Query.term_query(self.schema, "text", term, "freq")) for term in terms]
        return tantivy.Query.boolean_query(each)


if __name__ == "__main__":
    serve(Tantivy(text="--text" in sys.argv))
