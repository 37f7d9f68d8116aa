"""A collection, an encoder and settings so small that a training of them takes a second."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import torch

from changed_records import change_record
from small_models import small_encoder
from small_set import write_beir
from telerank.training.bi_encoder.config import BiEncoderTraining
from telerank.training.late_interaction.config import LateTraining
from telerank.training.parallel import ALONE
from telerank.training.splade.config import SpladeTraining
from telerank.training.task import TrainingDevice

PAIRS = 24
ON_CPU = TrainingDevice(torch.device("cpu"), nullcontext, ALONE)


def small_place(folder: Path) -> Path:
    """A collection in which word q7 asks for word d7, and an encoder that knows no word yet."""
    small_encoder(folder / "encoder")
    docs = [{"_id": f"d{i}", "title": "", "text": f"d{i} x{i % 5} x{i % 7}"} for i in range(40)]
    names = {"train": 1, "dev": 2}
    queries = {f"{n}{i}": f"q{i}" for n in names.values() for i in range(PAIRS)}
    qrels = {split: [(f"{n}{i}", f"d{i}", 1) for i in range(PAIRS)] for split, n in names.items()}
    write_beir(folder / "collection", docs, queries, qrels)
    return folder


def training(place: Path, **changes) -> BiEncoderTraining:
    record = {
        "data": {"collection": str(place / "collection")},
        "model": {"start": str(place / "encoder"), "query_length": 8, "document_length": 12},
        "optimisation": {
            "steps": 8,
            "warm_up": 2,
            "batch": 6,
            "accumulation": 2,
            "chunk": 4,
            "learning_rate": 0.003,
        },
        "checkpoint_every": 3,
        "log_every": 1,
    }
    return BiEncoderTraining.model_validate(change_record(record, changes))


def splade_training(place: Path, **changes) -> SpladeTraining:
    record = {
        "data": {"collection": str(place / "collection")},
        "model": {"start": str(place / "encoder"), "max_length": 12},
        "optimisation": {
            "steps": 8,
            "warm_up": 2,
            "batch": 6,
            "accumulation": 2,
            "chunk": 4,
            "learning_rate": 0.003,
        },
        "checkpoint_every": 3,
        "log_every": 1,
    }
    return SpladeTraining.model_validate(change_record(record, changes))


def late_training(place: Path, **changes) -> LateTraining:
    record = {
        "data": {"collection": str(place / "collection")},
        "model": {
            "start": str(place / "encoder"),
            "dimension": 16,
            "query_length": 8,
            "document_length": 12,
        },
        "optimisation": {
            "steps": 8,
            "warm_up": 2,
            "batch": 6,
            "accumulation": 2,
            "chunk": 4,
            "learning_rate": 0.003,
        },
        "checkpoint_every": 3,
        "log_every": 1,
    }
    return LateTraining.model_validate(change_record(record, changes))


def hard_run(path: Path) -> Path:
    """A run that ranks six documents for each query of the training split, its own among them."""
    lines = (f"1{i} Q0 d{(i + j) % 40} {j} {9 - j} t\n" for i in range(PAIRS) for j in range(6))
    path.write_text("".join(lines))
    return path


def triples(path: Path, *, texts: bool = False) -> dict:
    """The setting of a file of 60 triples for the training split, of ids or of texts."""
    rows = [(i % PAIRS, (3 * i + i % PAIRS + 1) % 40) for i in range(60)]
    ids = "".join(f"1{i}\td{i}\td{j}\n" for i, j in rows if i != j)
    named = (f"q{i}\td{i} x{i % 5} x{i % 7}\td{j} x{j % 5} x{j % 7}\n" for i, j in rows if i != j)
    path.write_text("".join(named) if texts else ids)
    return {"triples": {"file": str(path), "window": 16}}


def losses(output, name: str = "loss") -> dict[int, float]:
    lines = (Path(output) / "log.jsonl").read_text().splitlines()
    return {line["step"]: line[name] for line in map(json.loads, lines) if name in line}


def dev_losses(output) -> dict[int, float]:
    return losses(output, "dev_loss")
