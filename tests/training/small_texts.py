"""Texts in the words of small encoders, each of which goes on by a rule: after d3 comes d4."""

from __future__ import annotations

import json
import random
from pathlib import Path

from changed_records import change_record
from small_models import small_encoder
from telerank.training.mlm.config import MaskedTraining


def text_place(folder: Path) -> Path:
    """An encoder, and ``texts.jsonl``: 80 documents of 3 to 60 words."""
    small_encoder(folder / "encoder")
    draw = random.Random(0)
    lines = []
    for number in range(80):
        begin, length = draw.randrange(40), draw.randrange(3, 60)
        text = " ".join(f"d{(begin + place) % 40}" for place in range(length))
        lines.append(json.dumps({"docno": f"t{number}", "text": text}))
    (folder / "texts.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def mlm_training(place: Path, **changes) -> MaskedTraining:
    """A training of eight updates on windows of 24 pieces."""
    record = {
        "data": {"sets": [{"collection": str(place / "texts.jsonl")}]},
        "model": {"start": str(place / "encoder"), "max_length": 24},
        "optimisation": {"steps": 8, "warm_up": 2, "batch": 6, "learning_rate": 0.003},
        "checkpoint_every": 3,
        "log_every": 1,
    }
    return MaskedTraining.model_validate(change_record(record, changes))
