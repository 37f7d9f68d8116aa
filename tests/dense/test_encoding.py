"""Encoding: batches, shards, what a crash leaves, what is refused."""

from __future__ import annotations

import shutil
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
from telerank.dense.encode import Encoding, VectorWriter, encode_documents
from telerank.dense.manifest import VectorManifest
from telerank.dense.vectors import Vectors
from telerank.errors import DocumentError, IndexDamaged, IndexFault, IndexLocked, ModelError
from telerank.retrieval.index import Index
from telerank.sparse.writer import build_index
from telerank.stored import MANIFEST
from telerank.types import Doc

TEXTS = [f"{number} bears {'a' * (number % 45)} and {number * 7 % 13} cats" for number in range(50)]
SHARDS = Encoding(shard=8)
OF_FOUR = VectorManifest(4, "float32", "m", FINGERPRINT)


def encoded(folder, texts=TEXTS, seed=0, overwrite=False, **how):
    encoding = Encoding(shard=8, **how)
    return encode_documents(docs(texts), folder, Letters(seed=seed), encoding=encoding, overwrite=overwrite)


def names(folder):
    return {path.name for path in folder.iterdir()}


def test_rows_stand_in_the_order_of_the_documents_whatever_the_batches(tmp_path):
    letters, calls = Letters(), []
    expected = letters.encode_tokens(letters.tokenize(TEXTS)[0])
    for batch in (1, 10_000):
        vectors = encode_documents(
            docs(TEXTS),
            tmp_path / f"{batch}",
            letters,
            encoding=Encoding("float32", 8, batch),
            progress=lambda *call: calls.append(call),
        )
        assert list(vectors.docnos) == [doc.docno for doc in docs(TEXTS)]
        assert (vectors.take(np.arange(len(TEXTS))) == expected).all()
        assert [len(shard) for shard in vectors.shards] == [8, 8, 8, 8, 8, 8, 2]
        assert vectors.manifest.cut == sum(len(text) > 40 for text in TEXTS)
        assert vectors.manifest.settings == {"reads": 40, "shard": 8, "batch_tokens": batch}
        assert calls[-1] == ("encoding", 50, None)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8"])
def test_stored_vectors_are_as_near_as_their_type_allows(dtype, tmp_path):
    expected = made(300, 50)
    kept = stored(tmp_path / "v", expected, dtype).take(np.arange(300)[::-1])[::-1]
    largest = np.abs(expected).max(axis=1, keepdims=True)
    allowed = {"float32": 0, "float16": 2**-11, "bfloat16": 2**-8, "int8": 1 / 254 + 1e-6}[dtype]
    assert (np.abs(kept - expected) <= allowed * largest).all()
    assert dtype == "float32" or (kept != expected).any()


def test_vectors_that_cannot_be_stored_are_refused(tmp_path):
    with pytest.raises(DocumentError, match=r"beyond float16 .65504.: choose bfloat16 or float32"):
        stored(tmp_path / "v", np.full((3, 4), 1e6, np.float32), "float16")
    for wrong in (np.nan, np.inf, 3e38):
        vectors = made(5, 4)
        vectors[3, 1] = wrong
        with pytest.raises(DocumentError, match="shard 0: document 4: its vector has a length of"):
            stored(tmp_path / "v", vectors)
    with pytest.raises(DocumentError, match="expected 2 vectors of 4 dimensions, got an array of shape"):
        write_vectors(tmp_path / "v", [(["a", "b"], made(2, 5))], OF_FOUR)
    with pytest.raises(ModelError, match="no type of vectors is called 'float8'"):
        Encoding("float8")
    with pytest.raises(ModelError, match="batch_tokens must be at least 1, got 0"):
        Encoding(batch_tokens=0)


def test_documents_without_a_text_each_are_refused_and_the_vectors_stay_unfinished(tmp_path):
    with pytest.raises(DocumentError, match="no document to encode"):
        encoded(tmp_path / "none", [])
    with pytest.raises(DocumentError, match="'d1' comes twice"):
        encode_documents([*docs(TEXTS[:9]), docs(TEXTS[:2])[1]], tmp_path / "twice", Letters())
    assert not {"none", "twice"} & names(tmp_path)


def test_vectors_that_are_there_are_replaced_only_when_asked(tmp_path):
    encoded(tmp_path / "v")
    assert encoded(tmp_path / "v") == Vectors(tmp_path / "v")
    with pytest.raises(IndexFault, match="holds vectors already: overwrite them"):
        VectorWriter(tmp_path / "v", Vectors(tmp_path / "v").manifest)
    assert len(encoded(tmp_path / "v", TEXTS[:3], overwrite=True)) == 3
    assert names(tmp_path) == {"v"}


def test_a_folder_of_other_things_is_left_alone(tmp_path):
    (tmp_path / "v").mkdir()
    (tmp_path / "v/letter.txt").write_text("dear")
    for overwrite in (False, True):
        with pytest.raises(IndexFault, match="holds other things; vectors need a folder of their own"):
            encoded(tmp_path / "v", overwrite=overwrite)


def test_two_writers_do_not_meet(tmp_path):
    with VectorWriter(tmp_path / "v", OF_FOUR) as writer:
        with pytest.raises(IndexLocked, match="another process encodes into it"):
            VectorWriter(tmp_path / "v", OF_FOUR)
        writer.add([Doc("a", "text")], made(1, 4))
    assert len(Vectors(tmp_path / "v")) == 1


@pytest.fixture
def interrupted(tmp_path):
    """Two shards, then an accident."""

    def failing():
        yield from docs(TEXTS[:20])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode_documents(failing(), tmp_path / "v", Letters(), encoding=SHARDS)
    return tmp_path / "v"


def test_unfinished_vectors_are_not_opened_and_go_on_with_the_same_model_type_and_documents(interrupted):
    for folder, message in (("v", "no vectors here"), ("v.writing", "is not finished: encode again")):
        with pytest.raises(IndexFault, match=message):
            Vectors(interrupted.with_name(folder))
    others = {
        r"was begun with fingerprint .*; begin anew": {"seed": 1},
        "was begun with dtype 'float16', not 'int8'": {"dtype": "int8"},
        "its shard 1 was made from other documents": {"texts": [*TEXTS[:9], "another", *TEXTS[10:]]},
        "was made from more documents": {"texts": TEXTS[:8]},
    }
    for message, how in others.items():
        with pytest.raises(IndexFault, match=message):
            encoded(interrupted, **how)
    assert len(encoded(interrupted, seed=1, overwrite=True)) == 50


def test_an_interrupted_run_goes_on_to_the_same_bytes_and_keeps_no_damaged_shard(interrupted, tmp_path):
    shutil.copytree(tmp_path, tmp_path / "copy", ignore=shutil.ignore_patterns("copy"))
    damage(tmp_path / "copy/v.writing/vectors.0001.npy")
    with pytest.raises(IndexDamaged, match=r"vectors.0001.npy: damaged"):
        encoded(tmp_path / "copy/v")
    shards = []

    class Counting(Letters):
        def tokenize(self, texts):
            shards.append(len(texts))
            return super().tokenize(texts)

    encode_documents(docs(TEXTS), interrupted, Counting(), encoding=SHARDS)
    assert shards == [8, 8, 8, 8, 2]  # the others were whole
    usual = encoded(tmp_path / "usual").folder
    assert names(interrupted) == names(usual)
    assert all((interrupted / path.name).read_bytes() == path.read_bytes() for path in usual.iterdir())


class Dying(Letters):
    """Ends in the middle of a shard; ``computed`` are the texts that it encoded."""

    def __init__(self, after: int) -> None:
        super().__init__()
        object.__setattr__(self, "computed", [])
        object.__setattr__(self, "after", after)

    def _encode(self, tokens):
        if len(self.computed) >= self.after:
            raise KeyboardInterrupt
        self.computed.extend(tokens)
        return super()._encode(tokens)


@pytest.mark.parametrize("at", [3, 9, 12, 22])
def test_what_was_computed_of_a_shard_is_not_computed_again_and_the_bytes_are_the_same(tmp_path, at):
    usual = encode_documents(docs(TEXTS), tmp_path / "usual", Letters(), encoding=Encoding(shard=20)).folder
    left = []
    for after, change in ((at, None), (at, "other texts"), (at, "damage"), (1000, "at last")):
        encoder, texts = Dying(after), TEXTS
        if change == "damage":
            for file in (tmp_path / "v.writing").glob("unfinished.*.bin"):
                damage(file)
        elif change == "other texts":
            texts = [f"{text}!" for text in TEXTS]
        with nullcontext() if after == 1000 else pytest.raises((KeyboardInterrupt, IndexFault)):
            encode_documents(docs(texts), tmp_path / "v", encoder, encoding=Encoding(shard=20))
        left.append(len(encoder.computed))
    if at < 20:  # of the first shard, which is kept by texts
        assert left == [at + -at % 3, at + -at % 3, at + -at % 3, 50 - (at + -at % 3)]
    assert sum(left) >= 50
    assert names(tmp_path / "v") == names(usual)
    assert all((tmp_path / "v" / path.name).read_bytes() == path.read_bytes() for path in usual.iterdir())


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


def test_a_damaged_or_missing_file_is_named(tmp_path):
    folder = encoded(tmp_path / "v").folder
    for name in ("vectors.0003.npy", "codes.0000.npy", "bounds.0006.npy", "docnos.bin", MANIFEST):
        Vectors(folder).verify()
        good = (folder / name).read_bytes()
        damage(folder / name)
        with pytest.raises(IndexDamaged, match=name):
            Vectors(folder)
        (folder / name).unlink()
        with pytest.raises(
            IndexFault if name == MANIFEST else IndexDamaged, match=f"{name}: missing|no vectors"
        ):
            Vectors(folder)
        (folder / name).write_bytes(good)


def test_a_large_damaged_file_is_named_when_verified(tmp_path):
    vectors = stored(tmp_path / "v", made(9000, 64), shard=9000)
    damage(vectors.folder / "vectors.0000.npy")
    with pytest.raises(IndexDamaged, match=r"vectors.0000.npy: damaged .its checksum differs"):
        Vectors(tmp_path / "v").verify()


def test_what_encoding_holds_does_not_grow_with_the_collection(tmp_path):
    def peak(count: int) -> int:
        texts = (Doc(f"d{n}", f"{n} cats") for n in range(count))
        tracemalloc.start()
        encode_documents(texts, tmp_path / str(count), Letters(256), encoding=Encoding("float32", shard=500))
        held = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return held

    peak(600)
    few, many = peak(2500), peak(6000)  # 6 MB of vectors, 1.5 of codes; three shards are in memory
    assert many < few + 500_000


@pytest.mark.parametrize("at_work", [True, False])
def test_what_a_killed_writer_left_beside_complete_vectors_is_swept(tmp_path, at_work):
    build_index(docs(TEXTS), tmp_path / "index", workers=1)
    folder = tmp_path / "index/vectors/v"
    encoded(folder)
    drafts = {"v.writing", "v.old.writing"}
    for name in drafts:
        shutil.copytree(folder, folder.with_name(name))
    assert Index(tmp_path / "index").vectors == {"v": folder}
    with FileLock(folder.with_name("v.writing.lock")) if at_work else nullcontext():
        encoded(folder)
    left = {path.name for path in folder.parent.iterdir() if path.is_dir()}
    assert left == ({"v"} | drafts if at_work else {"v"})


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
            for number in range(20):
                texts, encoder = docs(TEXTS[: 50 - number % 2]), Letters(seed=number % 2)
                encode_documents(texts, tmp_path / "v", encoder, overwrite=True)
        finally:
            stop.set()
        reader.result()
    assert opened.keys() == {("0", 50), ("1", 49)}
