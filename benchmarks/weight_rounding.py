"""What rounding of weights to whole steps costs in rank: rankings by stored weights beside sums in float64.

    python benchmarks/weight_rounding.py COLLECTION SPLIT MODEL --documents 400

The first documents of the collection and all queries of the split are encoded by a SPLADE model.
"""

from __future__ import annotations

import argparse
import json
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import telerank as tr
from telerank.model_names import find_folder
from telerank.models.encoders.sparse import load_sparse_encoder

DEPTHS = (10, 1000)


def rank_exactly(vectors: dict[str, dict[str, float]], query: dict[str, float]) -> list[str]:
    """The documents by their sums in float64 of the weights as the model gave them, ties by docno."""
    scores = {
        docno: sum(weight * vector[term] for term, weight in query.items() if term in vector)
        for docno, vector in vectors.items()
    }
    ordered = sorted(scores.items(), key=lambda each: (each[1], each[0]), reverse=True)
    return [docno for docno, score in ordered if score > 0]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("collection", "split", "model"):
        parser.add_argument(name)
    parser.add_argument("--documents", type=int, default=400)
    given = parser.parse_args()
    collection = tr.collection(given.collection)
    docs = list(islice(collection.docs(), given.documents))
    queries = list(collection.split_queries(given.split))
    encoder = load_sparse_encoder(find_folder(given.model) or given.model)

    def weigh(texts: list[str], *, queries: bool) -> list[dict[str, float]]:
        return [encoder.weigh_pieces(vector) for vector in encoder.encode(texts, queries=queries)]

    encoded = weigh([doc.full_text for doc in docs], queries=False)
    vectors = {doc.docno: vector for doc, vector in zip(docs, encoded, strict=True)}
    asked = dict(zip(queries, weigh([query.text for query in queries], queries=True), strict=True))
    with TemporaryDirectory() as folder:
        files = [Path(folder, f"{name}.jsonl") for name in ("documents", "queries")]
        for file, own in zip(files, (vectors, {q.qid: v for q, v in asked.items()}), strict=True):
            file.write_text("".join(json.dumps({"id": n, "vector": v}) + "\n" for n, v in own.items()))
        index = tr.index(docs, Path(folder, "index"), weights=files[0])
        stage = index.impact(queries=files[1]) % max(DEPTHS)
        pairs = [
            (rank_exactly(vectors, own), list(stage.search(query).docnos)) for query, own in asked.items()
        ]
    print(f"{len(docs):,} documents, {len(queries):,} queries, weights {index.info()['weights of terms']}")
    for depth in DEPTHS:
        changed = sum(exact[:depth] != stored[:depth] for exact, stored in pairs)
        lost = sum(len({*exact[:depth]} - {*stored[:depth]}) for exact, stored in pairs)
        kept = sum(len(exact[:depth]) for exact, _ in pairs)
        print(f"first {depth:,}: {changed} queries in another order, {lost} of {kept:,} documents are others")


if __name__ == "__main__":
    main()
