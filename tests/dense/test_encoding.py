"""Encoding: batches, shards, what a crash leaves, what is refused."""

from __future__ import annotations

import os
import shutil
import signal
import tracemalloc
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from filelock import FileLock

from small_vectors import FINGERPRINT, Letters, docs, made, stored, write_vectors
from telerank.dense.encode import Encoding, encode_documents
from telerank.dense.manifest import VectorManifest
from telerank.dense.vectors import Vectors
from telerank.dense.writer import VectorWriter
from telerank.errors import DocumentError, IndexDamaged, IndexFault, IndexLocked, ModelError
from telerank.retrieval.index import Index
from telerank.sparse.writer import build_index
from telerank.stored import MANIFEST
from telerank.types import Doc

TEXTS = [f"{number} bears {'a' * (number % 45)} and {number * 7 % 13} cats" for number in range(50)]


def encoded(folder, texts=TEXTS, **how):
    return encode_documents(docs(texts), folder, Letters(), encoding=Encoding(shard=8, **how))


def test_rows_stand_in_the_order_of_the_documents_whatever_the_batches(tmp_path):
    small = encoded(tmp_path / "small", dtype="float32", batch_tokens=1)
    large = encoded(tmp_path / "large", dtype="float32", batch_tokens=10_000)
    letters = Letters()
    wanted = letters.encode_tokens(letters.tokenize(TEXTS)[0])
    for vectors in (small, large):
        assert list(vectors.docnos) == [doc.docno for doc in docs(TEXTS)]
        assert (vectors.take(np.arange(len(TEXTS))) == wanted).all()
    assert [len(shard) for shard in small.shards] == [8, 8, 8, 8, 8, 8, 2]


def test_what_was_cut_is_counted(tmp_path):
    vectors = encoded(tmp_path / "v")
    assert vectors.manifest.cut == sum(len(text) > 40 for text in TEXTS)
    assert vectors.manifest.settings == {"reads": 40, "shard": 8, "batch_tokens": 4096}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8"])
def test_stored_vectors_are_as_near_as_their_type_allows(dtype, tmp_path):
    wanted = made(300, 50)
    found = stored(tmp_path / "v", wanted, dtype).take(np.arange(300)[::-1])[::-1]
    largest = np.abs(wanted).max(axis=1, keepdims=True)
    allowed = {"float32": 0, "float16": 2**-11, "bfloat16": 2**-8, "int8": 1 / 254 + 1e-6}[dtype]
    assert (np.abs(found - wanted) <= allowed * largest).all()
    assert dtype == "float32" or (found != wanted).any()


def test_a_number_beyond_float16_is_refused(tmp_path):
    with pytest.raises(DocumentError, match=r"beyond float16 .65504.: choose bfloat16 or float32"):
        stored(tmp_path / "v", np.full((3, 4), 1e6, np.float32), "float16")


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 3e38])
def test_a_vector_without_finite_scores_is_refused(wrong, tmp_path):
    vectors = made(5, 4)
    vectors[3, 1] = wrong
    with pytest.raises(DocumentError, match="shard 0: document 4: its vector has a length of"):
        stored(tmp_path / "v", vectors)


def test_no_document_is_no_collection(tmp_path):
    with pytest.raises(DocumentError, match="no document to encode"):
        encoded(tmp_path / "v", [])
    assert not (tmp_path / "v").exists()


def test_a_docno_twice_is_refused_and_the_vectors_stay_unfinished(tmp_path):
    with pytest.raises(DocumentError, match="'d1' comes twice"):
        encode_documents([*docs(TEXTS[:9]), docs(TEXTS[:2])[1]], tmp_path / "v", Letters())
    assert not (tmp_path / "v").exists()


def test_vectors_that_are_there_are_replaced_only_when_asked(tmp_path):
    encoded(tmp_path / "v")
    assert encoded(tmp_path / "v") == Vectors(tmp_path / "v")
    with pytest.raises(IndexFault, match="holds vectors already: overwrite them"):
        VectorWriter(tmp_path / "v", Vectors(tmp_path / "v").manifest)
    again = encode_documents(docs(TEXTS[:3]), tmp_path / "v", Letters(), overwrite=True)
    assert len(again) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["v"]


def test_a_folder_of_other_things_is_left_alone(tmp_path):
    (tmp_path / "v").mkdir()
    (tmp_path / "v/letter.txt").write_text("dear")
    for overwrite in (False, True):
        with pytest.raises(IndexFault, match="holds other things; vectors need a folder of their own"):
            encode_documents(docs(TEXTS), tmp_path / "v", Letters(), overwrite=overwrite)


def test_two_writers_do_not_meet(tmp_path):
    manifest = VectorManifest(4, "float32", "m", FINGERPRINT)
    with VectorWriter(tmp_path / "v", manifest) as writer:
        with pytest.raises(IndexLocked, match="another process encodes into it"):
            VectorWriter(tmp_path / "v", manifest)
        writer.add(["a"], ["text"], made(1, 4))
    assert len(Vectors(tmp_path / "v")) == 1


DYING = """
import os, signal, sys
from small_vectors import Letters, docs
from telerank.dense.encode import Encoding, encode_documents
steps = 0
def hook(event, arguments):
    global steps
    writes = event in ("os.rename", "os.mkdir", "os.remove") or (event == "open" and int(str(arguments[2] or 0)) & 3)
    if writes and sys.argv[1] in str(arguments[0]):
        steps += 1
        if steps == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
texts = [f"{n} bears {'a' * (n % 45)} and {n * 7 % 13} cats" for n in range(50)]
sys.addaudithook(hook)
encode_documents(docs(texts), sys.argv[1], Letters(), encoding=Encoding(shard=8))
print("whole")
"""


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.skipif(os.name != "posix", reason="kill -9")
@pytest.mark.parametrize("step", [3, 7, 12, 19, 33, 40, 48])
def test_a_killed_run_goes_on_to_the_same_bytes(forks, step, tmp_path):
    usual = files(encoded(tmp_path / "usual").folder)
    folder = tmp_path / "v"
    (died,) = forks.run(DYING, folder, step)
    assert died.status == -signal.SIGKILL, died.errors
    part = tmp_path / "v.writing"
    kept = len(VectorManifest.read(part).shards) if (part / MANIFEST).is_file() else 0
    asked: list[int] = []

    class Counting(Letters):
        def tokenize(self, texts):
            asked.append(len(texts))
            return super().tokenize(texts)

    if not folder.exists():
        encode_documents(docs(TEXTS), folder, Counting(), encoding=Encoding(shard=8))
        assert len(asked) == 7 - kept
    assert files(folder) == usual
    assert sorted(path.name for path in tmp_path.iterdir()) == ["usual", "v"]


def interrupted(folder):
    """Two shards, then an accident."""

    def failing():
        yield from docs(TEXTS[:20])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode_documents(failing(), folder, Letters(), encoding=Encoding(shard=8))


def test_an_unfinished_folder_is_not_opened(tmp_path):
    interrupted(tmp_path / "v")
    with pytest.raises(IndexFault, match="no vectors here"):
        Vectors(tmp_path / "v")
    with pytest.raises(IndexFault, match="is not finished: encode again"):
        Vectors(tmp_path / "v.writing")


def test_another_model_or_type_does_not_go_on_where_one_stopped(tmp_path):
    interrupted(tmp_path / "v")
    with pytest.raises(IndexFault, match=r"was begun with fingerprint .*; begin anew"):
        encode_documents(docs(TEXTS), tmp_path / "v", Letters(seed=1), encoding=Encoding(shard=8))
    with pytest.raises(IndexFault, match="was begun with dtype 'float16', not 'int8'"):
        encoded(tmp_path / "v", dtype="int8")
    whole = encode_documents(
        docs(TEXTS), tmp_path / "v", Letters(seed=1), encoding=Encoding(shard=8), overwrite=True
    )
    assert len(whole) == 50


def test_other_documents_do_not_go_on_where_one_stopped(tmp_path):
    interrupted(tmp_path / "v")
    with pytest.raises(IndexFault, match="its shard 1 was made from other documents"):
        encoded(tmp_path / "v", [*TEXTS[:9], "another", *TEXTS[10:]])
    with pytest.raises(IndexFault, match="was made from more documents"):
        encoded(tmp_path / "v", TEXTS[:8])


def test_a_shard_that_was_damaged_meanwhile_is_not_kept(tmp_path):
    interrupted(tmp_path / "v")
    damage(tmp_path / "v.writing/vectors.0001.npy")
    with pytest.raises(IndexDamaged, match=r"vectors.0001.npy: damaged"):
        encoded(tmp_path / "v")


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "name", ["vectors.0003.npy", "codes.0000.npy", "bounds.0006.npy", "docnos.bin", MANIFEST]
)
def test_a_damaged_file_is_named(name, tmp_path):
    vectors = encoded(tmp_path / "v")
    vectors.verify()
    damage(vectors.folder / name)
    with pytest.raises(IndexDamaged, match=name):
        Vectors(tmp_path / "v")
    (vectors.folder / name).unlink()
    with pytest.raises(IndexDamaged if name != MANIFEST else IndexFault, match=f"{name}: missing|no vectors"):
        Vectors(tmp_path / "v")


def test_a_large_damaged_file_is_named_when_verified(tmp_path):
    vectors = stored(tmp_path / "v", made(9000, 64), shard=9000)
    damage(vectors.folder / "vectors.0000.npy")
    with pytest.raises(IndexDamaged, match=r"vectors.0000.npy: damaged .its checksum differs"):
        Vectors(tmp_path / "v").verify()


def test_vectors_of_wrong_shape_are_refused(tmp_path):
    blocks = [(["a", "b"], made(2, 5))]
    with pytest.raises(DocumentError, match="expected 2 vectors of 4 dimensions, got an array of shape"):
        write_vectors(tmp_path / "v", blocks, VectorManifest(4, "float32", "m", FINGERPRINT))


def test_unknown_types_and_sizes_are_refused(tmp_path):
    with pytest.raises(ModelError, match="no type of vectors is called 'float8'"):
        encoded(tmp_path / "v", dtype="float8")
    with pytest.raises(ModelError, match="batch_tokens must be at least 1, got 0"):
        Encoding(batch_tokens=0)


def test_progress_is_told(tmp_path):
    told = []
    encode_documents(docs(TEXTS), tmp_path / "v", Letters(), progress=lambda *what: told.append(what))
    assert told[-1] == ("encoding", 50, None)


def test_what_encoding_holds_does_not_grow_with_the_collection(tmp_path):
    def peak(count: int) -> int:
        texts = (Doc(f"d{n}", f"{n} cats") for n in range(count))
        tracemalloc.start()
        encode_documents(texts, tmp_path / str(count), Letters(256), encoding=Encoding("float32", shard=500))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(600)
    few, many = peak(2500), peak(6000)  # 6 MB of vectors, 1.5 of codes; three shards are in memory
    assert many < few + 500_000


@pytest.mark.parametrize("at_work", [True, False])
def test_what_a_killed_writer_left_beside_complete_vectors_is_swept(tmp_path, at_work):
    encoded(tmp_path / "v")
    for name in ("v.writing", "v.old.writing"):
        shutil.copytree(tmp_path / "v", tmp_path / name)
    with FileLock(tmp_path / "v.writing.lock") if at_work else nullcontext():
        encoded(tmp_path / "v")
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == (
        {"v", "v.writing", "v.old.writing"} if at_work else {"v"}
    )


def test_an_index_has_the_vectors_that_are_complete(tmp_path):
    build_index(docs(TEXTS), tmp_path / "index", workers=1)
    folder = encoded(tmp_path / "index" / "vectors" / "letters").folder
    for ending in (".writing", ".old.writing"):
        shutil.copytree(folder, f"{folder}{ending}")
    assert Index(tmp_path / "index").vectors == {"letters": folder}


def test_a_reader_meets_old_or_new_vectors_while_they_are_replaced(tmp_path):
    stop, opened = Event(), Counter()

    def read() -> None:
        while not stop.is_set():
            vectors = Vectors(tmp_path / "v")
            opened[(vectors.manifest.fingerprint[-1], len(vectors.docnos))] += 1

    encoded(tmp_path / "v")
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(read)
        try:
            for number in range(40):
                texts = TEXTS[: 50 - number % 2]
                encode_documents(docs(texts), tmp_path / "v", Letters(seed=number % 2), overwrite=True)
        finally:
            stop.set()
        reader.result()
    assert opened.keys() == {("0", 50), ("1", 49)}
