"""Writers of stored folders and files that are killed: what is read is old or new, and the next one sweeps."""

from __future__ import annotations

import json
import re
import shutil
import signal
import tempfile
from pathlib import Path

import faiss
import pytest
from small_training import losses

import telerank as tr
from accidents import Dying
from folder_changes import CHANGES, NEW, OLD
from small_stored import WIDTH
from small_vectors import Letters
from telerank.corpus.docstore import Docstore
from telerank.corpus.formats import open_collection
from telerank.dense.retriever import DenseRetriever
from telerank.dense.vectors import Vectors
from telerank.late_interaction.store import TokenVectors
from telerank.retrieval.folder_update import read_record
from telerank.retrieval.index_tokens import list_tokens
from telerank.retrieval.index_vectors import documents_of
from telerank.training.checkpoint import list_checkpoints, read_state
from telerank.training.features.store import FeatureStore


@pytest.fixture(scope="module")
def dying():
    faiss.omp_set_num_threads(1)  # its threads wait for each other by spinning
    process = Dying(Path(__file__).with_name("folder_changes.py"))
    yield process
    process.close()


def read_vectors(folder: Path) -> object:
    vectors = Vectors(folder / "v")
    vectors.verify()
    return vectors.manifest.fingerprint, len(vectors.docnos)


def read_approximate(folder: Path) -> object:
    retriever = DenseRetriever(Vectors(folder / "v"), Letters(), approximate="hnsw")
    assert retriever.search("old")
    return retriever.report.parameters


def read_features(folder: Path) -> object:
    store = FeatureStore(folder / "store", "0" * 64, WIDTH)
    pairs = [(f"query {n}", f"passage {n}. of {n}") for n in range(len(store))]
    assert len(store) >= 4
    assert len(store.batch(store.rows(pairs)).cls) == len(store)
    return len(store)


def read_model(folder: Path) -> object:
    files = ("config.json", "weights", "pooling/config.json")
    assert (folder / "config.yaml").stat().st_size
    return [(folder / name).read_text() for name in files]


def read_checkpoints(folder: Path) -> object:
    checkpoints = list_checkpoints(folder)
    read = [(read_state(each).record, read_model(each)) for each in checkpoints]
    return read[-1:]  # that a training resumes from


def read_ranking_set(folder: Path) -> object:
    collection = open_collection(folder / "set")
    return {doc.text.split()[1] for doc in collection.docs()}, len(list(collection.split_queries("train")))


def read_run_file(folder: Path) -> object:
    docno = (folder / "x.run").read_text().split()[2]
    record = folder / "x.run.json"
    assert not record.exists() or json.loads(record.read_text())["pipeline"] == docno
    return docno


def read_results(folder: Path) -> object:
    """What there is of results is of one version if they are complete, which ``results.json`` says."""
    results = folder / "results"
    if not (results / "results.json").exists():
        return NEW
    title = json.loads((results / "results.json").read_text())["experiment"]["title"]
    assert f"# {title}\n" in (results / "tables.md").read_text()
    assert f"<title>{title}" in (results / "report.html").read_text()
    assert f"title: {title}\n" in (results / "experiment.yaml").read_text()
    return title


def read_index(folder: Path) -> object:
    tr.open(folder).verify(progress=False)
    return {doc.docno: doc.text for doc in tr.open(folder).docs.values()}


def read_tokens(folder: Path) -> dict[str, object]:
    """The vectors of each document that has some."""
    index = tr.open(folder / "tokens-idx")
    if not list_tokens(index.folder):
        return {}
    vectors = TokenVectors(index.folder / "tokens" / "late", documents_of(index.sparse))
    vectors.verify()
    stored = {}
    for docno in index.docs:
        part, row = vectors.locations[0][index.docs.locate(docno)[1]].tolist()
        if part >= 0:
            begin, end = vectors.parts[part].spans[row]
            stored[docno] = vectors.parts[part].codes[begin:end].tobytes()
    return stored


def read_sparse_file(folder: Path) -> dict[str, object]:
    file = folder / "vectors.jsonl.gz"
    return {"vectors": file.read_bytes()} if file.exists() else {}


def read_weights(folder: Path) -> dict[str, object]:
    if not (folder / "weights-idx" / "manifest.json").exists():
        return {}
    index = tr.open(folder / "weights-idx")
    index.verify(progress=False)
    [entry] = index.sparse.manifest.segments
    return {name: file.crc32 for name, file in entry.files.items()}


ENCODINGS = {"tokens": read_tokens, "sparse_file": read_sparse_file, "weights": read_weights}
READERS = {
    "encode": read_vectors,
    "approximate": read_approximate,
    "docstore": lambda folder: list(Docstore(folder / "texts")) if (folder / "texts").exists() else None,
    "features": read_features,
    "model": lambda folder: read_model(folder / "model"),
    "checkpoints": read_checkpoints,
    "ranking_set": read_ranking_set,
    "conversion": lambda folder: (
        (folder / "beir").exists() and len(list(open_collection(folder / "beir").docs()))
    ),
    "run": read_run_file,
    "results": read_results,
    "backup": lambda folder: read_index(folder / "b" / "index"),
    "backup_tar": lambda folder: read_index(tr.restore(folder / "b.tar", tempfile.mkdtemp()).folder),
    "restore": lambda folder: read_index(folder / "restored"),
    "update_files": lambda folder: {doc.docno: doc.text for doc in tr.open(folder / "idx").docs.values()},
}


def names(folder: Path) -> set[str]:
    return {re.sub(r"\.\w{8}\.faiss", ".faiss", str(path.relative_to(folder))) for path in folder.rglob("*")}


def copied(folder: Path, name: str) -> Path:
    return Path(shutil.copytree(folder / "old", folder / name))


@pytest.mark.parametrize("kills", [4, pytest.param(100, marks=pytest.mark.process)])
@pytest.mark.parametrize("change", READERS)
def test_a_change_killed_at_any_file_event_leaves_old_or_new_and_the_next_one_sweeps(
    dying, tmp_path, change, kills
):
    read = READERS[change]
    (tmp_path / "old").mkdir()
    CHANGES[change](tmp_path / "old", OLD)
    changed = copied(tmp_path, "changed")
    before = read(changed)
    steps = int(re.fullmatch(r"done after (\d+)", dying.change(change, changed).said)[1])
    after = read(changed)
    assert before != after
    met = []
    spread = {1 + kill * steps // (kills // 2) for kill in range(kills // 2)}
    for step in sorted(spread.union(range(max(steps - kills // 2, 0) + 1, steps + 1))):  # it ends by renaming
        folder = copied(tmp_path, f"s{step}")
        assert dying.change(change, folder, at=step).status == -signal.SIGKILL
        met.append(read(folder))
        assert met[-1] in (before, after)
        said = dying.change(change, folder).said
        assert said.startswith("done") or (met[-1] == after and "already exists" in said)
        assert read(folder) == after
        if (
            change == "update_files"
        ):  # one that goes on after its commit adds a segment with the same documents
            record = read_record(folder / "idx")
            assert {name: file.documents for name, file in record.files.items()} == dict.fromkeys(after, 1)
        else:
            assert names(folder) == names(changed)
        shutil.rmtree(folder)
    assert met == sorted(met, key=lambda state: state == after)  # never back again


@pytest.mark.parametrize("kills", [3, pytest.param(12, marks=pytest.mark.process)])
@pytest.mark.parametrize("change", ENCODINGS)
def test_an_encoding_killed_at_any_file_event_goes_on_to_the_same_bytes(dying, tmp_path, change, kills):
    read = ENCODINGS[change]
    (tmp_path / "old").mkdir()
    CHANGES[change](tmp_path / "old", OLD)
    whole = copied(tmp_path, "whole")
    assert not read(whole)
    steps = int(re.fullmatch(r"done after (\d+)", dying.change(change, whole).said)[1])
    expected, sizes = read(whole), set()
    assert expected
    for step in sorted({1 + (kill + 1) * (steps - 1) // kills for kill in range(kills)}):
        folder = copied(tmp_path, f"s{step}")
        assert dying.change(change, folder, at=step).status == -signal.SIGKILL
        done = read(folder)
        assert done.items() <= expected.items()
        sizes.add(len(done))
        said = dying.change(change, folder).said
        assert said.startswith("done") or (done == expected and "is there already" in said)
        assert read(folder) == expected
        if change != "weights" and said.startswith("done"):  # a segment has a name of its own
            assert names(folder) == names(whole)
        shutil.rmtree(folder)
    assert len(sizes) > (change == "tokens")  # some documents are whole when others are not yet


@pytest.mark.process
def test_a_training_killed_at_any_of_twenty_moments_goes_on_to_the_same_losses_and_model(dying, tmp_path):
    (tmp_path / "old").mkdir()
    CHANGES["train"](tmp_path / "old", OLD)

    def read(folder: Path) -> object:
        weights = sorted((folder / "out" / "model").rglob("*.safetensors"))
        assert weights
        return losses(folder / "out"), [file.read_bytes() for file in weights]

    whole = copied(tmp_path, "whole")
    steps = int(re.fullmatch(r"done after (\d+)", dying.change("train", whole).said)[1])
    for moment in range(20):
        folder = copied(tmp_path, f"m{moment}")
        assert dying.change("train", folder, at=1 + moment * steps // 20).status == -signal.SIGKILL
        assert dying.change("train", folder).said.startswith("done")
        assert read(folder) == read(whole)
        assert names(folder) == names(whole)
        shutil.rmtree(folder)
