"""Trainings of every kind, each of a second, for the laws that all of them obey (``test_laws_of_trainings.py``)."""

from __future__ import annotations

import json
from pathlib import Path

from reader_place import reader_place, reader_training
from safetensors.torch import load_file
from small_training import hard_run, losses, small_place, training, triples

from small_ranking import dev_lists, ranking_training, small_ranking
from small_segments import segment_training, small_segments
from telerank.training.bi_encoder.train import train_bi_encoder
from telerank.training.reader.train import train_reader
from telerank.training.reranker.train import train_reranker

FEW = {"steps": 4, "warm_up": 1, "eps": 1e-2, "max_gradient_norm": None}
"""``eps`` keeps Adam from enlarging gradients that are nothing but rounding; no update forgets the gradients' scale."""
STILL = {"dropout": 0.0}
HINGE = {"objective": "margin", "margin": 1.0, "of": "logit"}
DMN = {"kind": "bert-dmn", "frozen": True, "head": {"hidden": 8, "episodes": 2}}
MONOBERT = {"kind": "monobert"}


def toy_place(folder: Path) -> Path:
    """The folder, with all that the trainings read."""
    for name, make in (
        ("pairs", small_place),
        ("lists", small_ranking),
        ("segments", small_segments),
        ("questions", reader_place),
    ):
        (folder / name).mkdir(parents=True)
        make(folder / name)
    hard_run(folder / "hard.run")
    return folder


def _hard(place: Path) -> dict:
    return {"negatives": {"run": str(place / "hard.run"), "depth": 5}}


def noisy_trainings(place: Path) -> dict:
    """Trainings with dropout by name, each with what trains it, to be stopped and resumed.

    With accumulation, cached gradients, weights of an objective, and negatives that are drawn anew.
    """
    sources = {
        "run": _hard(place),
        "ids": triples(place / "ids.tsv"),
        "texts": triples(place / "texts.tsv", texts=True),
    }
    classified = {"loss": {"objective": "classification"}}
    resampled = {"run": str(place / "lists" / "train.run"), "per_positive": 1, "resample": True}
    lists = {"optimisation": {"accumulation": 2, "batch": 4}, "data": {"negatives": resampled}}
    pairs = {name: training(place / "pairs", data=data, **classified) for name, data in sources.items()}
    ranked = {
        "monobert": ranking_training(place / "lists", model=MONOBERT, **lists),
        "frozen": ranking_training(place / "lists", model=DMN, **lists),
        "monobert by dev loss": _by_dev_loss(place, {**MONOBERT, "dropout": 0.5}),
        "frozen by dev loss": _by_dev_loss(
            place, {"kind": "bert", "frozen": True, "head": {"hidden": [8], "dropout": 0.5}}
        ),
    }
    return {
        **{name: (train_bi_encoder, config) for name, config in pairs.items()},
        **{name: (train_reranker, config) for name, config in ranked.items()},
        "best": (train_reranker, segment_training(place / "segments", "best", {"iterations": 2})),
        "reader": (train_reader, reader_training(place / "questions")),
    }


def _by_dev_loss(place: Path, model: dict):
    """A training whose dev loss soon rises, on documents that are cut."""
    return ranking_training(
        place / "lists",
        model={**model, "max_length": 9, "max_query": None},
        dev=dev_lists(place / "lists", measure="loss", every=1, patience=4),
        optimisation={"steps": 40, "batch": 4, "learning_rate": 0.05, "warm_up": 0},
        checkpoint_every=2,
    )


def still_trainings(place: Path) -> dict:
    """Trainings without dropout by name, each with what trains it; several processes do what one does.

    Shares differ, and of ``one group`` the second process has nothing to learn from. Encoders have a pooler,
    which only re-rankers use.
    """
    dev = {"split": "dev", "every": 3, "measure": "RR"}
    parts = {"optimisation": {**FEW, "batch": 5, "accumulation": 2, "tokens": 64}}
    looked = {
        "dev": dev_lists(place / "lists", every=3),
        "test": dev_lists(place / "lists", queries=5),
    }
    one = {"optimisation": {**FEW, "batch": 1}}
    dmn, head = {**DMN, "head": {**DMN["head"], **STILL}, **STILL}, {"head": STILL, **STILL}
    pairs = {
        "margin": {"data": _hard(place), "optimisation": {**FEW, "batch": 10, "chunk": 4}, "dev": dev},
        "cached": {"optimisation": {**FEW, "batch": 5, "chunk": 2}},
        "towers": {
            "model": {"towers": "two", **STILL},
            "loss": {"objective": "softmax"},
            "optimisation": {**FEW, "chunk": None},
        },
        "cached towers": {"model": {"towers": "two", **STILL}, "optimisation": {**FEW, "chunk": 2}},
        "classification": {
            "data": _hard(place),
            "loss": {"objective": "classification"},
            "optimisation": {**FEW, "max_gradient_norm": 0.5},
        },
    }
    monobert = {**MONOBERT, **STILL}
    lists = {
        "parts": {"model": monobert, **parts, **looked},
        "recomputed": {"model": monobert, **parts, "recompute": True},
        "one group": {"model": monobert, **one, "dev": dev_lists(place / "lists", every=2)},
        "stored": {"model": dmn, **parts, **looked},
    }
    best = segment_training(
        place / "segments", "best", {"iterations": 2}, loss=HINGE, model=head, optimisation={"eps": 1e-2}
    )
    asked = {
        "model": {"frozen_embeddings": True, **STILL},
        "optimisation": {**FEW, "batch": 3, "accumulation": 2},
    }
    return {
        **{
            n: (train_bi_encoder, training(place / "pairs", **{"model": STILL, **own}))
            for n, own in pairs.items()
        },
        **{n: (train_reranker, ranking_training(place / "lists", **own)) for n, own in lists.items()},
        "best": (train_reranker, best),
        "reader": (train_reader, reader_training(place / "questions", **asked)),
    }


def weights_of(output: Path) -> dict:
    """The tensors of each model below the folder of a training, by file and name."""
    files = sorted(output.rglob("model/**/*.safetensors"))
    return {
        (str(file.relative_to(output)), name): tensor
        for file in files
        for name, tensor in load_file(file).items()
    }


def losses_of(output: Path) -> dict:
    """The losses of training and of dev in each log below the folder of a training."""
    logs = sorted(output.rglob("log.jsonl"))
    return {
        (str(log.parent.relative_to(output)), name, step): value
        for log in logs
        for name in ("loss", "dev_loss", "dev")
        for step, value in losses(log.parent, name).items()
        if value is not None
    }


def records_of(output: Path) -> dict:
    """What a training counted, and measured on its test."""
    return {
        path.name: json.loads(path.read_text())
        for name in ("data", "test")
        for path in output.glob(f"{name}.json")
    }


def selections_of(output: Path) -> dict:
    """What the iterations of a training selected, and their results."""
    files = [*output.glob("selections/*.jsonl"), *output.glob("iterations.json")]
    return {path.name: path.read_text() for path in files}
