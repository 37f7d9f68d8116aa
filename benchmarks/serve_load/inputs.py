"""What is served and asked: an index of a collection, a re-ranker, queries, and generations of an index."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import telerank as tr
from telerank.models.loading import locate, quiet
from telerank.types import Doc

RERANKER = "cross-encoder"


@dataclass(frozen=True)
class Texts:
    """The documents and the queries of a collection."""

    docs: Sequence[Doc]
    queries: Sequence[str]

    @classmethod
    def of(cls, folder: Path) -> Texts:
        data = tr.collection(folder)
        return cls(list(data.docs()), [query.text for query in data.split_queries(None)])


def index_docs(docs: Sequence[Doc], file: Path, index: Path, analyzer: str) -> None:
    """Run ``telerank index``, which makes the files beside and puts them in place at once."""
    with file.open("w", encoding="utf-8") as lines:
        for doc in docs:
            values = {"_id": doc.docno, "title": doc.title, "text": doc.text, **columns_of(doc.docno)}
            lines.write(json.dumps(values, ensure_ascii=False) + "\n")
    command = [sys.executable, "-m", "telerank", "index", str(file), str(index)]
    command += ["--analyzer", analyzer, "--overwrite", "--workers", "1"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(f"{' '.join(command)}:\n{ended.stderr[-2000:]}")


def columns_of(docno: str) -> dict[str, object]:
    """Columns that a hash of the docno draws: one of five kinds, one to three of ten topics, a day."""
    drawn = Random(docno)
    topics = drawn.sample([f"topic {number}" for number in range(10)], drawn.randint(1, 3))
    day = f"{drawn.randint(2000, 2024)}-{drawn.randint(1, 12):02}-{drawn.randint(1, 28):02}"
    return {"kind": f"kind {drawn.randint(1, 5)}", "topics": topics, "day": day}


def generations(docs: Sequence[Doc]) -> Iterator[list[Doc]]:
    """The documents as the 1st, 2nd, … generation: its number is in each docno, title and text."""
    number = 0
    while True:
        number += 1
        mark = mark_of(number)
        yield [Doc(f"{doc.docno}-{mark}", f"{doc.text} {mark}", f"{doc.title} {mark}") for doc in docs]


def mark_of(generation: int) -> str:
    return f"édition{generation}"


def check_generation(body: bytes) -> str:
    """What is mixed in a reply: every hit is of the generation that the reply says."""
    reply: dict[str, Any] = json.loads(body)
    mark = mark_of(reply["generation"])
    for hit in reply["hits"]:
        texts = hit["docno"].rpartition("-")[2], hit["title"].split()[-1], hit["text"].split()[-1]
        if set(texts) != {mark}:
            return f"generation {reply['generation']} with {', '.join(texts)}"
    return "" if reply["hits"] else "no hits"


def save_reranker(folder: Path) -> Path:
    """MiniLM under a classification layer drawn at random, as the hub has cross-encoders."""
    made: Any = AutoModelForSequenceClassification
    torch.manual_seed(0)
    with quiet():
        made.from_pretrained(locate("minilm"), num_labels=1).save_pretrained(folder)
        AutoTokenizer.from_pretrained(locate("minilm")).save_pretrained(folder)
    return folder
