"""A collection in which word q7 asks for word d7, lists of candidates, and a configuration that trains in a second."""

from __future__ import annotations

from pathlib import Path

from changed_records import change_record
from small_models import small_encoder
from small_set import write_beir

QUERIES = 24


def small_ranking(folder: Path) -> Path:
    """``encoder``, ``collection`` with splits train and dev, and ``train.run`` and ``dev.run`` of six documents."""
    small_encoder(folder / "encoder")
    docs = [{"_id": f"d{i}", "text": f"d{i} x{i % 5}. x{i % 7} d{i} x{i % 3}"} for i in range(40)]
    names = {"train": 1, "dev": 2}
    queries = {f"{n}{i}": f"q{i}" for n in names.values() for i in range(QUERIES)}
    qrels = {split: [(f"{n}{i}", f"d{i}", 1) for i in range(QUERIES)] for split, n in names.items()}
    write_beir(folder / "collection", docs, queries, qrels)
    for split, n in names.items():
        places = [(i, (7 * i + j) % 40 if j else i, j) for i in range(QUERIES) for j in range(6)]
        seen = dict.fromkeys((i, doc) for i, doc, _ in places)
        rows = (f"{n}{i} Q0 d{doc} 0 {40 - (doc * 7) % 40} small\n" for i, doc in seen)
        (folder / f"{split}.run").write_text("".join(rows))
    return folder


def ranking_settings(folder: Path, **changes) -> dict:
    """Settings as a file has them: eight updates of a BERT with layers on its first token."""
    record = {
        "data": {
            "collection": str(folder / "collection"),
            "negatives": {"run": str(folder / "train.run"), "per_positive": 2},
        },
        "model": {"kind": "bert", "start": str(folder / "encoder"), "max_query": 8, "max_length": 32},
        "optimisation": {"steps": 8, "warm_up": 2, "batch": 6, "learning_rate": 0.003},
        "checkpoint_every": 3,
        "log_every": 1,
    }
    return change_record(record, changes)


def ranking_training(folder: Path, **changes):
    """:func:`ranking_settings`, read."""
    from telerank.training.reranker.config import RerankerTraining

    return RerankerTraining.model_validate(ranking_settings(folder, **changes))


def dev_lists(folder: Path, **more) -> dict:
    return {"split": "dev", "run": str(folder / "dev.run"), **more}
