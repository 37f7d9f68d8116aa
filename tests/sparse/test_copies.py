"""Exact and near copies are counted, and left out on request, after any change as in a new index."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import telerank as tr
from commands import ok
from telerank.errors import ArgumentTypeError, IndexFault, MissingExtra
from telerank.sparse.copies import CopyKeys
from telerank.sparse.copy_search import CopySource, find_copies
from telerank.sparse.index import SparseIndex
from telerank.sparse.writer import IndexWriter
from telerank.text import Analyzer

WORDS = [f"mot{n}" for n in range(400)]


def text(seed: int, changed: int = 0, words: int = 120) -> str:
    """Random words, of which the last ones are others."""
    rng = random.Random(seed)
    first = rng.choices(WORDS, k=words)
    return " ".join(first[: words - changed] + random.Random(seed + 1000 * changed).choices(WORDS, k=changed))


TEXTS = {
    "d9": text(1),
    "d10": text(1).upper(),
    "d2": f"  {text(1)}\n",
    "e": text(1, changed=3),
    "f": text(1, changed=60),
    "g": text(2),
    "h": "",
    "i": " ",
}


@pytest.mark.parametrize(
    ("copies", "exact", "near", "left"),
    [
        ("count", 3, None, set()),
        ("leave-out", 3, None, {"d2", "d9", "i"}),
        ("count-near", 3, 1, set()),
        ("leave-out-near", 3, 1, {"d2", "d9", "i", "e"}),
    ],
)
def test_of_copies_the_first_docno_stays_and_the_others_are_counted_or_left_out(
    tmp_path, copies, exact, near, left
):
    if near is not None:
        pytest.importorskip("datasketch")
    index = tr.index(TEXTS, tmp_path / "idx", copies=copies, workers=1)
    assert set(TEXTS) - set(index.docs) == left
    assert len(index) == len(TEXTS) - len(left)
    found = index.bm25().search("mot1 mot2 mot3 mot4 mot5 mot6").docnos
    assert "d10" in found
    assert not left & {*found}
    done = ", left out" if left else ""
    facts = {name: value for name, value in index.info().items() if "copies" in name}
    assert facts == {
        f"exact copies{done}": exact,
        **({} if near is None else {f"near copies{done}": near}),
    }
    assert tr.index(TEXTS, tmp_path / "idx", copies=copies) == index
    with pytest.raises(IndexFault, match=f"built with the copies {copies}, not "):
        tr.index(TEXTS, tmp_path / "idx", copies="leave-out" if copies == "count" else "count")
    index.verify()


def rankings(index: tr.Index) -> list[dict[str, float]]:
    return [
        dict(index.bm25().search(query)) for query in (" ".join(WORDS[n : n + 9]) for n in range(0, 90, 9))
    ]


@pytest.mark.parametrize("copies", ["leave-out", "leave-out-near"])
def test_random_changes_end_in_the_documents_and_the_counts_of_a_new_index(tmp_path, copies):
    if copies.endswith("near"):
        pytest.importorskip("datasketch")
    rng = random.Random(7)
    wanted = {f"d{n}": text(n % 5, changed=n % 3) for n in range(12)}
    index = tr.index(wanted, tmp_path / "idx", copies=copies, workers=1)
    for step in range(12):
        docno = f"d{rng.randrange(20)}"
        if docno in wanted and rng.random() < 0.5 and len(wanted) > 3:
            assert index.delete(docno) == 1  # also one that is left out
            del wanted[docno]
        else:
            wanted[docno] = text(rng.randrange(5), changed=rng.randrange(3))
            index.add({docno: wanted[docno]}, update=True, workers=1)
        if step % 6 != 5:
            continue
        index.merge()
        new = tr.index(wanted, tmp_path / "new", copies=copies, workers=1, overwrite=True)
        assert dict(index.docs.items()) == dict(new.docs.items())
        assert {*index.sparse.stored_docs} == {*wanted}
        assert index.info()["exact copies, left out"] == new.info()["exact copies, left out"]
        assert index.sparse.manifest.near_copies == new.sparse.manifest.near_copies
        assert 0 < len(new) < len(wanted)
        assert rankings(index) == rankings(new)


@pytest.mark.parametrize("copies", ["count", "count-near", "leave-out-near"])
def test_after_each_change_the_copies_are_those_of_a_new_index_without_comparing_all(
    tmp_path, monkeypatch, copies
):
    if copies.endswith("near"):
        pytest.importorskip("datasketch")
    rng = random.Random(copies)

    def some_text() -> str:
        return text(rng.randrange(60), changed=rng.choice([0, 0, 2, 3, 5, 60]), words=60)

    wanted = {f"d{n:03}": some_text() for n in range(160)}
    index = tr.index(wanted, tmp_path / "idx", copies=copies, workers=1)
    with monkeypatch.context() as patched:
        patched.setattr("telerank.sparse.writer.find_copies", None)  # which compares all
        for step in range(16):
            docnos = rng.sample(sorted(wanted), rng.choice([1, 1, 4]))
            if step % 8 == 6:
                with IndexWriter(index.folder, workers=1) as writer:
                    writer._fold(len(writer.manifest.segments) - 3, lambda *_: None)
            elif rng.random() < 0.4:
                index.delete(docnos)
                wanted = {docno: one for docno, one in wanted.items() if docno not in docnos}
            else:
                new = {docno: some_text() for docno in [*docnos, f"n{step}"]}
                wanted |= new
                index.add(new, update=True, workers=1)
            if step % 4 != 3:
                continue
            found = index.sparse.manifest
            with monkeypatch.context() as plain:
                plain.setattr("telerank.sparse.writer.find_copies", find_copies)
                fresh = tr.index(wanted, tmp_path / "new", copies=copies, workers=1, overwrite=True)
            expected = fresh.sparse.manifest
            assert (found.exact_copies, found.near_copies) == (expected.exact_copies, expected.near_copies)
            assert {*index.docs} == {*fresh.docs}
    assert expected.exact_copies > 5
    assert (expected.near_copies > 5) == copies.endswith("near")


def test_an_index_whose_copies_were_found_without_bands_is_compared_as_a_whole(tmp_path):
    """As indexes of an earlier version."""
    index = tr.index(TEXTS, tmp_path / "idx", copies="leave-out", workers=1)
    manifest = index.sparse.manifest
    (segment,) = manifest.segments
    files = {name: file for name, file in segment.files.items() if not name.startswith(("bands", "kinds"))}
    replace(manifest, segments=(replace(segment, files=files, kinds=None),)).write(index.folder)
    index = tr.open(index.folder)
    index.delete("d10")
    assert {*TEXTS} - {*index.docs} == {"d10", "d9", "i"}
    index.verify()


def test_a_folder_brings_its_copies_up_to_date(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    for name, content in {"a.md": "le texte", "b.md": "Le  texte", "c.md": "autre"}.items():
        (docs / name).write_text(content)
    index = tr.index(docs, tmp_path / "idx", copies="leave-out", workers=1)
    assert list(index.docs) == ["a.md", "c.md"]
    (docs / "a.md").unlink()
    index.update(docs, workers=1)
    assert sorted(index.docs) == ["b.md", "c.md"]
    (docs / "b.md").write_text("autre")
    (docs / "d.md").write_text("autre")
    index.update(docs, workers=1)
    assert (sorted(index.docs), index.info()["exact copies, left out"]) == (["b.md"], 2)
    (docs / "c.md").unlink()  # it is left out
    (docs / "b.md").unlink()
    index.update(docs, workers=1)
    assert sorted(index.docs) == ["d.md"]
    assert index.sparse.manifest.exact_copies == 0


def test_near_copies_are_those_of_all_pairs(tmp_path):
    """Against the similarity of the sets themselves, where it is far enough from the threshold."""
    pytest.importorskip("datasketch")
    texts = [text(seed, changed, 150) for seed in range(40) for changed in (0, 4, 45)]
    keys = CopyKeys(tmp_path, near=True)
    for one in texts:
        keys.add(one)
    keys.close()
    names = [f"{n:03}" for n in range(len(texts))]
    found = find_copies([CopySource(tmp_path, np.ones(len(texts), bool), names)], near=True)
    assert (found.exact, found.near) == (0, 40)
    assert (found.kinds[0] == 2).tolist() == [False, True, False] * 40


def test_an_index_without_keys_and_a_missing_package_are_no_surprise(tmp_path, monkeypatch):
    with IndexWriter(tmp_path / "old", Analyzer.parse("none"), workers=1) as writer:
        writer.add([tr.Doc("a", "x"), tr.Doc("b", "x")])
    index = tr.open(tmp_path / "old")  # as indexes were before copies were looked for
    index.add({"c": "x"}, workers=1)
    index.merge()
    assert len(index) == 3
    assert not [name for name in index.info() if "copies" in name]
    assert SparseIndex(tmp_path / "old").manifest.copies == ""
    monkeypatch.setattr("telerank.sparse.writer.find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"telerank\[copies\]"):
        tr.index({"a": "x"}, tmp_path / "new", copies="count-near")
    with pytest.raises(ArgumentTypeError, match="copies must be"):
        tr.index({"a": "x"}, tmp_path / "new", copies="near")


def test_the_command_says_how_many_copies_there_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f'{{"docno": "{n}", "text": "same"}}\n' for n in range(3)]
    Path("docs.jsonl").write_text("".join(lines))
    assert "exact copies: 2 (--copies leave-out: without them)" in ok("index docs.jsonl idx").stderr
    errors = ok("index docs.jsonl other --copies leave-out").stderr
    assert "indexed 1 document of docs.jsonl" in errors
    assert "exact copies, left out: 2" in errors
    assert "exact copies, left out" in ok("index info other").stdout
