"""Trainings of every kind in several processes, whose gradients are summed: the numbers that each ends with."""

from __future__ import annotations

import hashlib
from pathlib import Path

from reader_place import reader_place, reader_training
from safetensors.torch import load_file
from small_training import hard_run, losses, small_place, training

from small_ranking import dev_lists, ranking_training, small_ranking
from small_segments import segment_training, small_segments
from telerank.training.bi_encoder.train import train_bi_encoder
from telerank.training.reader.train import train_reader
from telerank.training.reranker.train import train_reranker

FEW = {"steps": 4, "warm_up": 1}


def summed_place(folder: Path) -> Path:
    for name, make in (("pairs", small_place), ("lists", small_ranking), ("segments", small_segments)):
        (folder / name).mkdir(parents=True)
        make(folder / name)
    (folder / "questions").mkdir()
    reader_place(folder / "questions")
    hard_run(folder / "hard.run")
    return folder


def trainings(place: Path) -> dict:
    """Settings by name, each with what trains them; shares differ, a process may have nothing to learn from.

    Encoders have a pooler, which only re-rankers use.
    """
    hard = {"negatives": {"run": str(place / "hard.run"), "depth": 5}}
    apart = {"data": hard, "loss": {"objective": "classification"}}
    parts = {"optimisation": {**FEW, "batch": 5, "accumulation": 2, "tokens": 64}}
    dmn = {"kind": "bert-dmn", "frozen": True, "head": {"hidden": 8, "episodes": 2}}
    one = {"optimisation": {**FEW, "batch": 1}}
    pairs = {
        "cached": {"optimisation": {**FEW, "batch": 5, "chunk": 2}},
        "towers": {"model": {"towers": "two"}, "optimisation": {**FEW, "chunk": None}},
        "cached towers": {"model": {"towers": "two"}, "optimisation": {**FEW, "chunk": 2}},
        "classification": {**apart, "optimisation": {**FEW, "max_gradient_norm": 0.5}},
    }
    lists = {
        "parts": {"model": {"kind": "monobert"}, **parts},
        "recomputed": {"model": {"kind": "monobert"}, **parts, "recompute": True},
        "one group": {"model": {"kind": "monobert"}, **one, "dev": dev_lists(place / "lists", every=2)},
        "stored": {"model": dmn, **parts},
    }
    best = segment_training(place / "segments", "best", {"iterations": 2}, optimisation={"batch": 3})
    asked = {"model": {"frozen_embeddings": True}, "optimisation": {**FEW, "batch": 3, "accumulation": 2}}
    return {
        **{n: (train_bi_encoder, training(place / "pairs", **own)) for n, own in pairs.items()},
        **{n: (train_reranker, ranking_training(place / "lists", **own)) for n, own in lists.items()},
        "best": (train_reranker, best),
        "reader": (train_reader, reader_training(place / "questions", **asked)),
    }


def numbers_of(output: Path) -> dict:
    """The losses, and a digest of each file of weights below the folder of a training."""
    weights = {}
    for path in sorted(output.rglob("model/**/*.safetensors")):
        digest = hashlib.sha256()
        for name, tensor in sorted(load_file(path).items()):
            digest.update(name.encode() + tensor.numpy().tobytes())
        weights[str(path.relative_to(output))] = digest.hexdigest()
    logs = {str(path.parent.relative_to(output)): losses(path.parent) for path in output.rglob("log.jsonl")}
    return {"weights": weights, "losses": logs}
