"""What several processes share: dev, test and stored features of small models that learned nothing yet."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from pathlib import Path
from unittest.mock import patch

import torch
from reader_place import reader_place, reader_training
from small_training import hard_run, small_place, training

from small_ranking import dev_lists, ranking_training, small_ranking
from small_segments import dev_of, segment_training, small_segments
from small_stored import TableEncoder
from telerank.answers.scorer import SpanReader
from telerank.models.encoders.tokens import SideTokenizer
from telerank.training.bi_encoder import dev
from telerank.training.bi_encoder.train import BiEncoderJob
from telerank.training.features.store import FeatureStore
from telerank.training.parallel import Processes
from telerank.training.reader.train import ReaderJob
from telerank.training.reranker.pair_logits import EndToEnd
from telerank.training.reranker.stored_logits import Stored
from telerank.training.reranker.train import RerankerJob
from telerank.training.task import TrainingDevice
from telerank.trec import read_run
from telerank.types import silent

PAIRS = [(f"query {n % 5}", f"passage {n}. It has " + "some words. " * (n % 7)) for n in range(100)]
RANKED = {
    "monobert": {"kind": "monobert"},
    "frozen": {"kind": "bert-dmn", "frozen": True, "head": {"hidden": 8, "episodes": 2}},
}


def shared_place(folder: Path) -> Path:
    for name, make in (("pairs", small_place), ("lists", small_ranking), ("segments", small_segments)):
        (folder / name).mkdir()
        make(folder / name)
    (folder / "questions").mkdir()
    reader_place(folder / "questions")
    hard_run(folder / "hard.run")
    return folder


@contextmanager
def counting(owner: type, method: str):
    """The numbers of items that this process gives to a method."""
    inner, sizes = getattr(owner, method), []

    def counted(self, items, *args, **given):
        sizes.append(len(items))
        return inner(self, items, *args, **given)

    setattr(owner, method, counted)
    try:
        yield sizes
    finally:
        setattr(owner, method, inner)


def compute_all(place: Path, output: Path, processes: Processes) -> dict[str, dict]:
    """The values of each case; ``count`` is how many texts, pairs or questions this process computed."""
    hardware = TrainingDevice(torch.device("cpu"), nullcontext, processes)
    cases = {
        "bi-encoder": (bi_encoder_values, SideTokenizer, "pad"),
        "monobert": (ranked_values, EndToEnd, "score"),
        "frozen": (ranked_values, Stored, "score"),
        "segments": (segment_values, EndToEnd, "score"),
        "reader": (reader_values, SpanReader, "read"),
        "store": (stored_values, TableEncoder, "features"),
    }
    values = {}
    for name, (compute, owner, method) in cases.items():
        folder = output / name
        folder.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(0)
        with counting(owner, method) as sizes:
            values[name] = compute(place, folder, hardware, name)
        values[name]["count"] = sum(sizes)
    return values


def bi_encoder_values(place, folder, hardware, _name):
    data = {"negatives": {"run": str(place / "hard.run"), "depth": 5}}
    config = training(place / "pairs", data=data, dev={"split": "dev", "measure": "RR"})
    task = BiEncoderJob(config, folder, folder).make_task(None, hardware, silent)
    with patch.object(dev, "_TOKENS", 32):  # several batches
        return dev_values(task)


def ranked_values(place, folder, hardware, name):
    """The test's run, too, and how many pairs this process sees in the store."""
    lists, own = dev_lists(place / "lists"), {"measures": ["RR", "AP"], "store": name == "frozen"}
    config = ranking_training(
        place / "lists", model=RANKED[name], dev=lists, test={**lists, **own, "queries": 20}
    )
    job = RerankerJob.open(config, folder, folder)
    task = job.make_task(None, hardware, silent)
    values = dev_values(task)
    hardware.processes.first(lambda: task.save(folder / "model"))
    job.measure(silent, processes=hardware.processes)
    task.prepare(0, silent)
    rows = len(task.scorer.stored.store) if name == "frozen" else 0
    run = {ranking.query.qid: dict(ranking) for ranking in read_run(folder / "test.run.gz")}
    return {**values, "run": run, "rows": rows}


def segment_values(place, folder, hardware, _name):
    config = segment_training(place / "segments", "first", dev=dev_of(place / "segments"))
    return dev_values(RerankerJob.open(config, folder, folder).make_task(None, hardware, silent))


def reader_values(place, folder, hardware, _name):
    asked = {"sets": [{"collection": str(place / "questions" / "two.json")}], "measure": "F1"}
    config = reader_training(place / "questions", dev=asked, device="cpu")
    task = ReaderJob(config, folder, folder).make_task(None, hardware, silent)
    fitted, _ = task.dev_set.fit(task.reader, silent)
    return {**dev_values(task), "threshold": fitted.settings.threshold}


def stored_values(_place, folder, hardware, _name):
    encoder, processes = TableEncoder(), hardware.processes
    store, pairs = FeatureStore(folder, encoder.fingerprint, encoder.width), PAIRS if processes.leads else []
    written = store.fill(pairs, encoder, shard=16, batch_tokens=300, processes=processes)
    return {"written": written, "rows": len(store)}


def dev_values(task) -> dict:
    return {"dev": task.dev(silent), "dev_loss": task.dev_loss(silent)}
