"""Trainings of every kind, each of a second, for the laws that all of them obey (``test_laws_of_trainings.py``)."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path

import torch
from reader_place import reader_place, reader_training
from safetensors.torch import load_file
from small_term_weights import scored_training, weights_place, weights_training
from small_texts import mlm_training, text_place
from small_training import (
    expander_training,
    hard_run,
    late_training,
    losses,
    small_place,
    splade_training,
    training,
    triples,
)

from small_ranking import dev_lists, ranking_training, small_ranking
from small_segments import segment_training, small_segments
from telerank.training.bi_encoder.train import train_bi_encoder
from telerank.training.expander.train import train_expander
from telerank.training.late_interaction.train import train_late
from telerank.training.mlm.train import train_mlm
from telerank.training.reader.train import FIT, train_reader
from telerank.training.reranker.train import train_reranker
from telerank.training.splade.train import train_splade
from telerank.training.term_weights.train import train_term_weights
from telerank.trec import read_run

FEW = {"steps": 4, "warm_up": 1, "eps": 1e-2, "max_gradient_norm": None}
"""``eps`` keeps Adam from enlarging gradients that are nothing but rounding; no update forgets the gradients' scale."""
STILL = {"dropout": 0.0}
HINGE = {"objective": "margin", "margin": 1.0, "of": "logit"}
DMN = {"kind": "bert-dmn", "frozen": True, "head": {"hidden": 8, "episodes": 2}}
MONOBERT = {"kind": "monobert"}


def toy_folder(folder: Path) -> Path:
    """The folder, with all that the trainings read."""
    for name, make in (
        ("pairs", small_place),
        ("lists", small_ranking),
        ("segments", small_segments),
        ("questions", reader_place),
        ("texts", text_place),
        ("weights", weights_place),
    ):
        (folder / name).mkdir(parents=True)
        make(folder / name)
    hard_run(folder / "hard.run")
    return folder


def _hard(toys: Path) -> dict:
    return {"negatives": {"run": str(toys / "hard.run"), "depth": 5}}


def noisy_trainings(toys: Path) -> dict:
    """Trainings with dropout by name, each with what trains it, to be stopped and resumed.

    With accumulation, cached gradients, weights of an objective, and negatives that are drawn anew.
    """
    sources = {
        "run": _hard(toys),
        "ids": triples(toys / "ids.tsv"),
        "texts": triples(toys / "texts.tsv", texts=True),
    }
    classified = {"loss": {"objective": "classification"}}
    resampled = {"run": str(toys / "lists" / "train.run"), "per_positive": 1, "resample": True}
    lists = {"optimisation": {"accumulation": 2, "batch": 4}, "data": {"negatives": resampled}}
    pairs = {name: training(toys / "pairs", data=data, **classified) for name, data in sources.items()}
    ranked = {
        "monobert": ranking_training(toys / "lists", model=MONOBERT, **lists),
        "frozen": ranking_training(toys / "lists", model=DMN, **lists),
        "frozen on triples": _on_triples(toys / "lists"),
        "monobert by dev loss": _by_dev_loss(toys, {**MONOBERT, "dropout": 0.5}),
        "frozen by dev loss": _by_dev_loss(
            toys, {"kind": "bert", "frozen": True, "head": {"hidden": [8], "dropout": 0.5}}
        ),
    }
    return {
        **{name: (train_bi_encoder, config) for name, config in pairs.items()},
        "splade": (train_splade, _static_splade(toys)),
        "splade of two": (train_splade, splade_training(toys / "pairs", model={"queries": "own"})),
        "late": (train_late, late_training(toys / "pairs", data=_hard(toys))),
        **{name: (train_reranker, config) for name, config in ranked.items()},
        "best": (
            train_reranker,
            segment_training(toys / "segments", "best", {"iterations": 2}, dev={"queries": 5}),
        ),
        "reader": (train_reader, reader_training(toys / "questions")),
        "mlm": (train_mlm, mlm_training(toys / "texts")),
        "expander": (train_expander, expander_training(toys / "pairs")),
        "deepct": (train_term_weights, weights_training(toys / "weights")),
        "deepimpact": (train_term_weights, scored_training(toys / "weights", "deepimpact")),
    }


def _on_triples(lists: Path):
    """A training of seven updates on 20 triples, six to an update: the seventh begins within a window."""
    (lists / "triples.tsv").write_text("".join(f"1{i}\td{i}\td{i + 1}\n" for i in range(20)))
    data = {"triples": {"file": str(lists / "triples.tsv"), "window": 8}, "negatives": None}
    length = {"epochs": 2.0, "steps": None}
    return ranking_training(lists, model=DMN, data=data, optimisation=length, checkpoint_every=5)


def _static_splade(toys: Path, **changes):
    """A training whose queries have weights of pieces, some of which fall below 0."""
    fast = {"queries": "static", "static_start": "ones", "static_rate": 200.0}
    model = {**fast, **changes.pop("model", {})}
    return splade_training(toys / "pairs", data=_hard(toys), model=model, **changes)


def _by_dev_loss(toys: Path, model: dict):
    """A training whose dev loss soon rises, on documents that are cut."""
    return ranking_training(
        toys / "lists",
        model={**model, "max_length": 9, "max_query": None},
        dev=dev_lists(toys / "lists", measures="loss", every=1, patience=4),
        optimisation={"steps": 40, "batch": 4, "learning_rate": 0.05, "warm_up": 0},
        checkpoint_every=2,
    )


def still_trainings(toys: Path) -> dict:
    """Trainings without dropout by name, each with what trains it; several processes do what one does.

    Shares differ, and of ``one group`` the second process has nothing to learn from. Encoders have a pooler,
    which only re-rankers use.
    """
    dev = {"split": "dev", "every": 3, "measures": "RR"}
    parts = {"optimisation": {**FEW, "batch": 5, "accumulation": 2, "tokens": 64}}
    looked = {"dev": dev_lists(toys / "lists", every=3), "test": dev_lists(toys / "lists", queries=5)}
    one = {"optimisation": {**FEW, "batch": 1}}
    dmn, head = {**DMN, "head": {**DMN["head"], **STILL}, **STILL}, {"head": STILL, **STILL}
    pairs = {
        "margin": {"data": _hard(toys), "optimisation": {**FEW, "batch": 10, "chunk": 4}, "dev": dev},
        "cached": {"optimisation": {**FEW, "batch": 5, "chunk": 2}},
        "towers": {
            "model": {"towers": "two", **STILL},
            "loss": {"objective": "softmax"},
            "optimisation": {**FEW, "chunk": None},
        },
        "cached towers": {"model": {"towers": "two", **STILL}, "optimisation": {**FEW, "chunk": 2}},
        "classification": {
            "data": _hard(toys),
            "loss": {"objective": "classification"},
            "optimisation": {**FEW, "max_gradient_norm": 0.5},
        },
    }
    monobert = {**MONOBERT, **STILL}
    lists = {
        "parts": {"model": monobert, **parts, **looked},
        "recomputed": {"model": monobert, **parts, "recompute": True},
        "one group": {"model": monobert, **one, "dev": dev_lists(toys / "lists", every=2)},
        "stored": {"model": dmn, **parts, **looked},
    }
    best = segment_training(
        toys / "segments", "best", {"iterations": 2}, loss=HINGE, model=head, optimisation={"eps": 1e-2}
    )
    frozen = {
        "model": {"frozen_embeddings": True, **STILL},
        "optimisation": {**FEW, "batch": 3, "accumulation": 2},
    }
    questions = {"sets": [{"collection": str(toys / "questions" / "two.json")}], "every": 4, "patience": 8}
    pairs = {n: training(toys / "pairs", **{"model": STILL, **own}) for n, own in pairs.items()}
    lists = {n: ranking_training(toys / "lists", **own) for n, own in lists.items()}
    return {
        **{name: (train_bi_encoder, config) for name, config in pairs.items()},
        "splade": (
            train_splade,
            _static_splade(toys, model=STILL, optimisation={**FEW, "batch": 10, "chunk": 4}, dev=dev),
        ),
        "late": (
            train_late,
            late_training(toys / "pairs", model=STILL, optimisation={**FEW, "batch": 5, "chunk": 2}),
        ),
        **{name: (train_reranker, config) for name, config in lists.items()},
        "best": (train_reranker, best),
        "reader": (train_reader, reader_training(toys / "questions", dev=questions, **frozen)),
        "mlm": (train_mlm, mlm_training(toys / "texts", dev={"documents": 24, "every": 4}, **frozen)),
        "expander": (
            train_expander,
            expander_training(
                toys / "pairs", model=STILL, optimisation=FEW, dev={"split": "dev", "every": 4, "patience": 8}
            ),
        ),
        **{name: (train_term_weights, config) for name, config in _still_weights(toys, dev).items()},
    }


def _still_weights(toys: Path, dev: dict) -> dict:
    """Trainings of term weights, of documents, and of scores by cached gradients."""
    few = {"model": STILL, "dev": dev, "optimisation": {**FEW, "batch": 5}}
    cached = {**few, "optimisation": {**FEW, "batch": 5, "chunk": 2}}
    return {
        "deepct": weights_training(toys / "weights", **few),
        **{kind: scored_training(toys / "weights", kind, **cached) for kind in ("unicoil", "deepimpact")},
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
    files = [output / "data.json", output / "test.json"]
    return {path.name: json.loads(path.read_text()) for path in files if path.exists()}


def scores_of(output: Path) -> dict:
    """The scores of a training's test by query and document, and the threshold that a reader got."""
    runs = {
        ranking.query.qid: dict(ranking) for path in output.glob("test.run.gz") for ranking in read_run(path)
    }
    fits = {path.name: json.loads(path.read_text())["threshold"] for path in output.glob(FIT)}
    return {(qid, docno): score for qid, run in runs.items() for docno, score in run.items()} | fits


def features_of(output: Path) -> dict:
    """The bytes of each file of stored features."""
    files = [path for path in output.glob("features/**/*.*") if path.is_file()]
    return {str(path.relative_to(output)): path.read_bytes() for path in files}


@contextmanager
def counting_scored():
    """How many texts or pairs each call of an encoder had that learned nothing from them."""
    sizes = []

    def count(module, _given, output):
        rows = len(output.last_hidden_state) if type(module).__name__ == "BertModel" else 0
        if rows > 1 and not module.training:  # a model that is loaded tries a row
            sizes.append(rows)

    handle = torch.nn.modules.module.register_module_forward_hook(count)
    try:
        yield sizes
    finally:
        handle.remove()


def selections_of(output: Path) -> dict:
    """What the iterations of a training selected, and their results."""
    files = [*output.glob("selections/*.jsonl"), *output.glob("iterations.json")]
    return {path.name: path.read_text() for path in files}
