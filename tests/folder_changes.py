"""Every stored folder or file in an old state, and changes that replace it by a new one (see :mod:`accidents`)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path += [str(Path(__file__).parent / part) for part in ("corpus", "training")]

import faiss
import torch
from memory_sets import qa_set
from small_training import small_place, training

import telerank as tr
from accidents import Change, serve
from small_late import small_late
from small_models import small_masked, small_weigher
from small_stored import WIDTH, TableEncoder
from small_vectors import Letters, docs
from telerank.corpus.collection import Collection
from telerank.corpus.derived.ranking_set import RankingSetSettings, make_ranking_set, write_ranking_set
from telerank.corpus.writing import convert
from telerank.dense.encode import Encoding, encode_documents
from telerank.dense.retriever import build_approximate
from telerank.dense.vectors import Vectors
from telerank.experiments.analysis import AnalysisResult
from telerank.experiments.comparison import JudgedQueries
from telerank.experiments.data import ExperimentData
from telerank.experiments.report import ExperimentOutcome, write_report
from telerank.experiments.schema import DataSpec, Experiment
from telerank.late_interaction import store
from telerank.pipelines.run_files import LazyRun
from telerank.show.tables import Table
from telerank.sparse.weights import vector_writing
from telerank.training.bi_encoder.config import BiEncoderTraining
from telerank.training.bi_encoder.train import train_bi_encoder
from telerank.training.checkpoint import CheckpointState, sweep_output, write_checkpoint, write_model
from telerank.training.examples.reading import stored_docs
from telerank.training.features.store import FeatureStore
from telerank.types import Query, Ranking
from telerank.verbs.index import index

OLD, NEW = "old", "new"


def encode(folder: Path, version: str) -> None:
    texts = [f"{version} {number} {'a' * number}" for number in range(12)]
    encoder = Letters(seed=version == NEW)
    encode_documents(docs(texts), folder / "v", encoder, encoding=Encoding(shard=8), overwrite=True)


def approximate(folder: Path, version: str) -> None:
    if version == OLD:
        encode(folder, OLD)
    build_approximate(Vectors(folder / "v"), "hnsw(links=4)" if version == OLD else "hnsw(links=8)")


def docstore(folder: Path, version: str) -> None:
    if version == NEW:
        stored_docs(
            Collection("c", "memory", lambda: iter(docs([f"text {n}" for n in range(20)]))), folder / "texts"
        )


def features(folder: Path, version: str) -> None:
    pairs = [(f"query {n}", f"passage {n}. of {n}") for n in range(4 if version == OLD else 8)]
    FeatureStore(folder / "store", "0" * 64, WIDTH).fill(pairs, TableEncoder(), shard=4)


def _training() -> BiEncoderTraining:
    return BiEncoderTraining.model_validate({"data": {"collection": "c"}, "keep": 1})


def _save(version: str) -> Change:
    def save(folder: Path) -> None:
        (folder / "pooling").mkdir(parents=True)
        for name in ("config.json", "weights", "pooling/config.json"):
            (folder / name).write_text(version)

    return save


def model(folder: Path, version: str) -> None:
    sweep_output(folder)
    write_model(folder / "model", _training(), _save(version))


def checkpoints(folder: Path, version: str) -> None:
    (folder / "checkpoints").mkdir(exist_ok=True)
    sweep_output(folder)
    state = CheckpointState({"version": version}, {"task": {"seen": torch.ones(3)}})
    write_checkpoint(folder, 3 if version == OLD else 6, _training(), _save(version), state)


def _towns(version: str) -> Collection:
    texts = {f"d{n}": f"the {version} town {n} lies by river r{n}" for n in range(8)}
    asked = [(f"by which river is {n}", f"d{n}", f"r{n}") for n in range(8)]
    return qa_set("towns", texts, {"train": asked})


def ranking_set(folder: Path, version: str) -> None:
    made = make_ranking_set([_towns(version)], RankingSetSettings("random"))
    write_ranking_set(folder / "set", made, overwrite=True)


def conversion(folder: Path, version: str) -> None:
    if version == NEW:
        convert(_towns(version), folder / "beir", "beir")


def run(folder: Path, version: str) -> None:
    ranking = Ranking.ranked(Query("q", version), (version,), (1.0,))
    LazyRun(lambda: iter([ranking]), lambda: {"pipeline": version}).save(folder / "x.run")


def results(folder: Path, version: str) -> None:
    spec = Experiment.model_validate(
        {"title": version, "data": {"d": {"about": version}}, "analyses": [{"kind": "recall", "depths": [1]}]}
    )
    result = AnalysisResult((Table.of([version], [[version]]),), {"version": version})
    collection = Collection("d", "memory", lambda: iter(()), size=1)
    data = ExperimentData("d", DataSpec(), "d", collection, folder, JudgedQueries((), {}), None)
    write_report(ExperimentOutcome(spec, data, "", {}, {}, (result,), folder / "results", 1.5))


def update_files(folder: Path, version: str) -> None:
    files = {"a.txt": "one", "b.txt": "two", "c.txt": "three", "f.txt": "one"}
    if version == NEW:
        files = {"a.txt": "changed", "d.txt": "three", "e.txt": "five", "f.txt": "one"}
    texts = folder / "plain"
    texts.mkdir(exist_ok=True)
    for name in {file.name for file in texts.iterdir()} - files.keys():
        (texts / name).unlink()
    for name, text in files.items():
        (texts / name).write_text(text)
    if version == OLD:
        index(texts, folder / "idx", copies="leave-out", workers=1)
    else:
        tr.open(folder / "idx").update(texts, workers=1)


def _index_of(folder: Path, version: str) -> Path:
    target = folder / f"idx-{version}"
    if not target.exists():
        index({str(n): f"{version} {n}" for n in range(3)}, target, workers=1)
    return target


def backup(folder: Path, version: str) -> None:
    for each in (OLD, NEW) if version == OLD else ():
        _index_of(folder, each)
    tr.open(_index_of(folder, version)).backup(folder / "b", progress=False)


def backup_tar(folder: Path, version: str) -> None:
    for each in (OLD, NEW) if version == OLD else ():
        _index_of(folder, each)
    tr.open(_index_of(folder, version)).backup(folder / "b.tar", progress=False)


def restore(folder: Path, version: str) -> None:
    for each in (OLD, NEW) if version == OLD else ():
        tr.open(_index_of(folder, each)).backup(folder / each, progress=False)
    tr.restore(folder / version, folder / "restored", overwrite=True, progress=False)


def train(folder: Path, version: str) -> None:
    if version == OLD:
        small_place(folder)
    else:
        shorter = {"optimisation": {"steps": 5}, "dev": {"split": "dev", "every": 2}}
        config = training(folder, **shorter, checkpoint_every=2, keep=2)
        train_bi_encoder(config, folder / "out", resume=True)


def tokens(folder: Path, version: str) -> None:
    if version == OLD:
        small_late(folder / "late")
        index(_TEXTS, folder / "tokens-idx", workers=1)
    else:
        tr.open(folder / "tokens-idx").encode_tokens(str(folder / "late"), progress=False)


def sparse_file(folder: Path, version: str) -> None:
    if version == OLD:
        small_masked(folder / "masked")
        index(_TEXTS, folder / "file-idx", workers=1)
    else:
        tr.encode(tr.open(folder / "file-idx"), folder / "vectors.jsonl.gz", model=str(folder / "masked"))


def weights(folder: Path, version: str) -> None:
    if version == OLD:
        small_weigher(folder / "unicoil", "unicoil", seed=0, queries="model")
    else:
        index(_TEXTS, folder / "weights-idx", weights_model=str(folder / "unicoil"), workers=1)


_TEXTS = {f"n{number}": f"d{number} q{number % 5} x{number % 3} d{number + 1}" for number in range(12)}
_STORED = (encode, approximate, docstore, features, model, checkpoints, ranking_set, conversion, run, results)
_BACKUPS = (backup, backup_tar, restore)
_LEARNED = (tokens, sparse_file, weights)
CHANGES = {change.__name__: change for change in (*_STORED, *_BACKUPS, *_LEARNED, update_files, train)}


def main() -> None:
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    store.PART, vector_writing._WINDOW = 5, 4
    with tempfile.TemporaryDirectory() as warm:
        for version in (OLD, NEW):
            for change in CHANGES.values():
                change(Path(warm), version)
    serve({name: lambda folder, change=change: change(folder, NEW) for name, change in CHANGES.items()})


if __name__ == "__main__":
    main()
