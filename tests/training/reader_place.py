"""Question-answering sets in the words of small encoders: q7 asks for d7 in a text."""

from __future__ import annotations

import json
import random
from pathlib import Path

from changed_records import change_record
from small_models import small_encoder
from telerank.training.reader.config import ReaderTraining

LENGTHS = {"max_length": 24, "stride": 4, "max_question": 6, "max_answer": 4}


def squad_file(path: Path, *, articles=8, seed=0, unanswerable=False, wrong=()) -> Path:
    """Articles of two paragraphs with three questions each; ``wrong`` are ids whose answer stands nowhere."""
    draw = random.Random(seed)
    data = []
    for a in range(articles):
        paragraphs = []
        for p in range(2):
            words = [f"d{n}" for n in draw.sample(range(40), 5)] + [
                f"x{draw.randrange(40)}" for _ in range(7)
            ]
            draw.shuffle(words)
            text = " ".join(words)
            qas = []
            for q, word in enumerate([word for word in words if word[0] == "d"][:3]):
                qid = f"{path.stem}-{a}-{p}-{q}"
                answer = {
                    "text": "nowhere" if qid in wrong else word,
                    "answer_start": f" {text} ".index(f" {word} "),
                }
                clue = next(other for other in words if other[0] == "x")  # by which the text is retrieved
                qas.append({"id": qid, "question": f"q{word[1:]} {clue}", "answers": [answer]})
            if unanswerable:
                absent = next(n for n in range(40) if f"d{n}" not in words)
                qid = f"{path.stem}-{a}-{p}-no"
                qas.append({"id": qid, "question": f"q{absent}", "answers": [], "is_impossible": True})
            paragraphs.append({"context": text, "qas": qas})
        data.append({"title": f"Article {a}", "paragraphs": paragraphs})
    path.write_text(json.dumps({"data": data}))
    return path


def reader_place(folder: Path) -> Path:
    """An encoder, ``one.json`` with answers, and ``two.json`` in which some questions have none."""
    small_encoder(folder / "encoder")
    squad_file(folder / "one.json")
    squad_file(folder / "two.json", seed=1, unanswerable=True)
    return folder


def reader_training(place: Path, **changes) -> ReaderTraining:
    """A training of eight updates on both sets."""
    sets = [{"collection": str(place / "one.json")}, {"collection": str(place / "two.json")}]
    record = {
        "data": {"sets": sets},
        "model": {"start": str(place / "encoder"), **LENGTHS},
        "optimisation": {"steps": 8, "warm_up": 2, "batch": 6, "learning_rate": 0.003},
        "checkpoint_every": 3,
        "log_every": 1,
    }
    return ReaderTraining.model_validate(change_record(record, changes))
