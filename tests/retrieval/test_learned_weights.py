"""An index with the weights of a model: what follows its files, a model that has changed, damage, backups."""

from __future__ import annotations

import shutil
import threading
import time
import warnings
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import telerank as tr
from small_late import small_late
from small_models import small_masked, small_weigher
from small_vectors import Letters
from telerank.errors import IndexDamaged, IndexFault, MissingVectors, UpdateFailed
from telerank.retrieval import watch
from telerank.types import Query

TEXTS = {f"{number}.txt": f"d{number} q{number} x{number % 3} d{number + 1}" for number in range(8)}
QUERIES = ("d3 q3", "x1", "d7 d20 x2", "q5")
KINDS = ("splade", "deepct")


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, str]:
    """A model of pieces, and one of words."""
    root = tmp_path_factory.mktemp("models")
    made = {
        "splade": small_masked(root / "splade"),
        "deepct": small_weigher(root / "deepct", seed=0, scale=100),
    }
    return {kind: str(folder) for kind, folder in made.items()}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    return folder


def build(docs, folder: Path, model: str) -> tr.Index:
    return tr.index(docs, folder, analyzer="standard", weights_model=model, workers=1, progress=False)


def rankings(index: tr.Index) -> list[dict[str, float]]:
    return [dict(index.impact().search(Query(query, query))) for query in QUERIES]


def change_files(folder: Path) -> None:
    (folder / "1.txt").write_text("d20 q5 x2")
    (folder / "2.txt").rename(folder / "moved.txt")
    (folder / "3.txt").unlink()
    (folder / "new.txt").write_text("x1 d7, q5 d3")


def same(found: list[dict[str, float]]) -> list[object]:
    """Equal but for what another batch rounds."""
    return [pytest.approx(each, rel=2e-3) for each in found]


@pytest.mark.parametrize("kind", KINDS)
def test_an_updated_index_ranks_as_one_that_is_made_anew(models, files, tmp_path, kind):
    index = build(files, tmp_path / "idx", models[kind])
    before = rankings(index)
    change_files(files)
    changes = index.update(files, workers=1, progress=False)
    assert (len(changes.added), len(changes.changed), len(changes.moved), len(changes.gone)) == (1, 1, 1, 1)
    fresh = build(files, tmp_path / "fresh", models[kind])
    expected = rankings(fresh)
    assert expected != before
    assert any("new.txt" in each for each in expected)
    assert index.sparse.manifest.term_weights == fresh.sparse.manifest.term_weights
    for _ in range(2):
        assert rankings(index) == same(expected)
        index.merge(progress=False)


@contextmanager
def later(change):
    """Make a change while the watcher waits."""
    timer = threading.Timer(0.1, change)
    timer.start()
    yield
    timer.join()


def follow(index: tr.Index, files: Path):
    return closing(index.watch(files, wait=0.2, workers=1))


def test_a_watched_index_has_weights_of_new_files_and_none_of_removed_ones(models, files, tmp_path):
    pytest.importorskip("watchfiles")
    index = build(files, tmp_path / "idx", models["splade"])
    with follow(index, files) as watched:
        next(watched)
        with later(lambda: change_files(files)):
            assert next(watched).gone == ("3.txt",)
    expected = rankings(build(files, tmp_path / "fresh", models["splade"]))
    assert rankings(tr.open(tmp_path / "idx")) == same(expected)


def test_a_watched_index_whose_weights_are_in_a_file_loses_documents_and_tells_that_it_gets_none(
    files, tmp_path, monkeypatch
):
    pytest.importorskip("watchfiles")
    monkeypatch.setattr(watch, "_RETRY", 0.1)
    lines = [f'{{"id": "{name}", "vector": {{"x": {1 + number}}}}}\n' for number, name in enumerate(TEXTS)]
    (tmp_path / "w.jsonl").write_text("".join(lines))
    index = tr.index(files, tmp_path / "idx", weights=tmp_path / "w.jsonl", workers=1, progress=False)
    new = files / "new.txt"

    def add_until_told():
        new.write_text("new")
        until = time.monotonic() + 60
        while not any(each.category is UpdateFailed for each in caught) and time.monotonic() < until:
            time.sleep(0.05)
        new.unlink()

    with warnings.catch_warnings(record=True) as caught, follow(index, files) as watched:
        warnings.simplefilter("always")
        next(watched)
        with later((files / "7.txt").unlink):
            assert next(watched).gone == ("7.txt",)
        with later(add_until_told):
            assert not next(watched).added  # it goes on when the new file is away
    said = next(str(each.message) for each in caught if each.category is UpdateFailed)
    assert "give those of new documents, too" in said
    assert "\n" not in said
    found = tr.open(tmp_path / "idx").impact().search("x")
    assert found.docnos == tuple(sorted(TEXTS.keys() - {"7.txt"}, reverse=True))


ACTIONS = {
    "impact": lambda index, _: index.impact().search("d1"),
    "impact of the name": lambda index, model: index.impact(model).search("d1"),
    "pipeline": lambda index, _: tr.pipeline("impact % 3", index).search("d1"),
    "explanation": lambda index, _: index.impact().explain("d1", "0.txt"),
    "add": lambda index, _: index.add({"new": "d1"}, progress=False),
    "update": lambda index, _: index.update(index.folder.with_name("files"), workers=1, progress=False),
}


@pytest.fixture(scope="module")
def changed(tmp_path_factory) -> tuple[Path, str]:
    """A folder with files and an index, whose model is another by now."""
    root = tmp_path_factory.mktemp("changed")
    model = str(small_masked(root / "model"))
    (root / "files").mkdir()
    for name, text in TEXTS.items():
        (root / "files" / name).write_text(text)
    build(root / "files", root / "idx", model)
    other = small_masked(root / "other", seed=1)
    shutil.copy(other / "model.safetensors", root / "model" / "model.safetensors")
    (root / "files" / "new.txt").write_text("new")
    return root, model


@pytest.mark.parametrize("action", ACTIONS)
def test_a_model_that_has_changed_is_refused_in_a_line(changed, action):
    root, model = changed
    index = tr.open(root / "idx")
    with pytest.raises(
        IndexFault, match=r"its weights of terms are those of .*model \(\w{12}\), not"
    ) as told:
        ACTIONS[action](index, model)
    assert "\n" not in str(told.value)
    again = tr.open(root / "idx")
    assert len(again) == len(TEXTS)
    assert again.bm25().search("d3").docnos  # what needs no model goes on
    assert again.impact(str(root / "other")).search("d1").docnos  # another encoder of queries is named


def test_documents_get_no_vectors_of_tokens_of_a_model_that_has_changed(tmp_path):
    model = small_late(tmp_path / "colbert")
    index = tr.index(TEXTS, tmp_path / "idx", analyzer="whitespace", workers=1, progress=False)
    index.encode_tokens(str(model), progress=False)
    shutil.rmtree(model)
    small_late(model, seed=1)
    with pytest.warns(MissingVectors, match="these vectors were made by .*, not by") as told:
        index.add({"new": "d1 q1"}, workers=1, progress=False)
    assert "\n" not in str(told[0].message)
    assert len(tr.open(tmp_path / "idx")) == len(TEXTS) + 1
    assert "1 document without" in index.info()["vectors of tokens"]["colbert"]


def flip(file: Path) -> None:
    """Change a bit in the middle of a file."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 16
    file.write_bytes(content)


def test_verifying_names_each_damaged_file_of_weights_and_of_vectors(models, tmp_path):
    index = build(TEXTS, tmp_path / "idx", models["splade"])
    index.encode_tokens(str(small_late(tmp_path / "colbert")), progress=False)
    index.encode(Letters(), name="letters", progress=False)
    files = [
        path for path in index.folder.rglob("*.*") if path.parent != index.folder and path.stat().st_size
    ]
    kinds = ("weights.", "tokens/colbert/", "vectors/letters/")
    chosen = {kind: [file for file in files if kind in str(file.relative_to(index.folder))] for kind in kinds}
    assert all(len(each) > 2 for each in chosen.values())
    assert index.verify(progress=False) >= sum(map(len, chosen.values()))
    for file in (file for each in chosen.values() for file in each):
        before = file.read_bytes()
        flip(file)
        with pytest.raises(IndexDamaged, match=file.name):
            index.verify(progress=False)
        file.write_bytes(before)
    index.verify(progress=False)


@pytest.mark.parametrize(("kind", "name"), [("splade", "b"), ("deepct", "b.tar")])
def test_a_restored_index_has_the_same_weights(models, tmp_path, kind, name):
    index = build(TEXTS, tmp_path / "idx", models[kind])
    index.add({"new": "d3 q3 x1"}, workers=1, progress=False)
    index.delete(["5.txt"])
    index.backup(tmp_path / name, progress=False)
    expected = rankings(index)
    assert any(expected)
    shutil.rmtree(tmp_path / "idx")
    again = tr.restore(tmp_path / name, tmp_path / "restored", progress=False)
    assert rankings(again) == expected
    assert again.info()["weights of terms"].startswith(f"of {models[kind]}, ")
    again.add({"more": "d20 q5"}, workers=1, progress=False)
    assert "more" in {docno for ranking in rankings(again) for docno in ranking}
