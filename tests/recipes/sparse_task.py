"""A collection small enough to check by hand, on which settings and analyzers make a difference."""

from __future__ import annotations

import random

from telerank.recipes.sparse import FAMILIES, Plan, Task
from telerank.sparse.similarities import BM25, Similarity
from telerank.types import Doc, Query

WORDS = [f"word{i}" for i in range(100)]


def task(questions: int = 30, seed: int = 1) -> Task:
    """Documents of random words; a question repeats some of its document's, half of them in capitals."""
    rng = random.Random(seed)
    docs = [Doc(f"d{i:02}", " ".join(rng.choices(WORDS, k=rng.randint(4, 30)))) for i in range(40)]
    queries, qrels = [], {}
    for i in range(questions):
        doc = rng.choice(docs)
        words = rng.sample(doc.text.split(), 3) + rng.choices(WORDS, k=1)
        queries.append(Query(f"q{i:02}", " ".join(rng.choice((word, word.upper())) for word in words)))
        qrels[f"q{i:02}"] = {doc.docno: 1}
    return Task(lambda: iter(docs), tuple(queries), qrels)


def few(default: Similarity) -> tuple[Similarity, ...]:
    """A grid of three for BM25, and of the defaults alone for the others."""
    return (BM25(0.3, 0), BM25(1.2, 0.75), BM25(3, 1)) if isinstance(default, BM25) else (default,)


def plan(**changes) -> Plan:
    settings = {
        "analyzers": {"folded": "standard", "plain": "none"},
        "measures": "R@1 AP@5",
        "objective": "AP@5",
        "settings": few,
    }
    return Plan(**(settings | changes))


SYSTEMS = 2 * 2 * len(FAMILIES)
