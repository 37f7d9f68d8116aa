"""Settings of a training of term weights on the small collection, whose queries have no word of documents."""

from __future__ import annotations

import json
from pathlib import Path

from changed_records import change_record
from small_models import small_encoder
from small_set import write_beir
from telerank.training.term_weights.config import TermWeightTraining

PAIRS = 24


def weights_place(folder: Path) -> Path:
    """A collection whose queries hold only the first of a document's words, and an encoder."""
    small_encoder(folder / "encoder")
    docs = [
        {"_id": f"d{i}", "title": "", "text": f"d{i} x{i % 5}, x{i % 7} d{(i + 1) % 40}"} for i in range(40)
    ]
    names = {"train": 1, "dev": 2}
    queries = {f"{n}{i}": f"d{i} q{i}" for n in names.values() for i in range(PAIRS)}
    qrels = {
        "train": [(f"1{i}", f"d{i}", 1) for i in range(PAIRS)] + [("11", "d0", 1), ("12", "d0", 1)],
        "dev": [(f"2{i}", f"d{i}", 1) for i in range(18, PAIRS)],
    }
    write_beir(folder / "collection", docs, queries, qrels)
    return folder


def weights_training(place: Path, **changes) -> TermWeightTraining:
    """A training of eight updates."""
    record = {
        "data": {"collection": str(place / "collection"), "analyzer": "standard"},
        "model": {"start": str(place / "encoder"), "query_length": 8, "document_length": 16},
        "optimisation": {"steps": 8, "warm_up": 2, "batch": 6, "learning_rate": 0.003},
        "checkpoint_every": 3,
        "log_every": 1,
    }
    return TermWeightTraining.model_validate(change_record(record, changes))


def scored_training(place: Path, kind: str, **changes) -> TermWeightTraining:
    """The same of weights that are learned through scores."""
    own = weights_training(place).model_dump(mode="json", exclude_unset=True)
    own["model"]["kind"] = kind
    return TermWeightTraining.model_validate(change_record(own, changes))


def counts_of(output: Path) -> dict[str, int]:
    """What a training says of its data."""
    counts: dict[str, int] = json.loads((output / "data.json").read_text())
    return counts
