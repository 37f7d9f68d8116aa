"""A collection of long documents in which one segment answers, and settings that train on segments in seconds."""

from __future__ import annotations

import json
from pathlib import Path

from changed_records import change_record
from small_models import small_encoder
from small_set import write_beir

QUERIES = 12
PLACE = {i: i % 3 for i in range(QUERIES)}
"""The number of the sentence that answers query i, in document i."""


def small_segments(folder: Path) -> Path:
    """``encoder``, ``collection`` with splits train and dev and runs of five documents.

    Document i has three sentences of five words, one of which begins with word ``d<i>``, the answer; document
    0 has one sentence more.
    """
    small_encoder(folder / "encoder")
    docs = [{"_id": f"d{i}", "title": "x6", "text": text_of(i)} for i in range(20)]
    names = {"train": 1, "dev": 2}
    queries = {f"{n}{i}": f"q{i}" for n in names.values() for i in range(QUERIES)}
    qrels = {  # the next document is judged, and not relevant
        split: [(f"{n}{i}", f"d{(i + j) % 20}", 1 - j) for j in (0, 1) for i in range(QUERIES)]
        for split, n in names.items()
    }
    write_beir(folder / "collection", docs, queries, qrels)
    for split, n in names.items():
        rows = [
            f"{n}{i} Q0 d{(i + j) % 20} {j} {40 - (i * 7 + j * 3) % 20} small\n"
            for i in range(QUERIES)
            for j in range(5)
        ]
        (folder / f"{split}.run").write_text("".join(rows))
    (folder / "answers.jsonl").write_text(
        "\n".join(json.dumps(answer_of(n, i)) for n in (1, 2) for i in PLACE)
    )
    return folder


def text_of(i: int) -> str:
    """The text of document i."""
    place = PLACE.get(i, 0)
    words = [f"d{i} x1 x2 x3 x4." if n == place else f"x{n} x5 x{i % 5} x3 x1." for n in range(3)]
    return " ".join([*words, *(["x1 x1 x1 x1 x1."] if i == 0 else [])])


def answer_of(n: int, i: int) -> dict:
    """The answer of query i of split n, as a line of a file; the offset of document 4's is wrong."""
    text = f"d{i} x1 x2"
    start = text_of(i).index(text) if i != 4 else 0
    return {"query-id": f"{n}{i}", "corpus-id": f"d{i}", "text": text, "start": start}


def segment_settings(folder: Path, select: str, segments: dict | None = None, **changes) -> dict:
    """Settings as a file has them: segments of a sentence each, eight updates."""
    record = {
        "data": {
            "collection": str(folder / "collection"),
            "negatives": {"run": str(folder / "train.run"), "per_positive": 2},
            "segments": {
                "select": select,
                "window": {"length": 6, "sentences": True},
                "answers": str(folder / "answers.jsonl"),
                **(segments or {}),
            },
        },
        "model": {"kind": "bert", "start": str(folder / "encoder"), "max_query": 4, "max_length": 32},
        "optimisation": {"steps": 4, "warm_up": 1, "batch": 4, "learning_rate": 0.003},
        "loss": {"objective": "pointwise", "class_weights": False},
        "checkpoint_every": 2,
        "log_every": 1,
        "device": "cpu",
    }
    if select == "best":
        record["dev"] = dev_of(folder)
    return change_record(record, changes)


def dev_of(folder: Path, **more) -> dict:
    return {
        "split": "dev",
        "run": str(folder / "dev.run"),
        "measures": "RR",
        "every": 2,
        "patience": 4,
        **more,
    }


def segment_training(folder: Path, select: str, segments: dict | None = None, **changes):
    """:func:`segment_settings`, read."""
    from telerank.training.reranker.config import RerankerTraining

    return RerankerTraining.model_validate(segment_settings(folder, select, segments, **changes))
