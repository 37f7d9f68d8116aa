"""telerank encode, and telerank search of what it made, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import ok, refusal
from small_models import small_encoder
from small_set import write_beir
from telerank.trec import read_run

pytest.importorskip("torch")
pytest.importorskip("transformers")

DOCS = {f"d{n}": f"q{n} d{n} d{n % 4} x{n % 3}" for n in range(12)}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    small_encoder(folder / "small-bert")
    small_encoder(folder / "other", seed=1)
    return folder


@pytest.fixture(autouse=True)
def folder(models, tmp_path, monkeypatch):
    """A BEIR folder ``set``, and the models ``small-bert`` and ``other``, in the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TELERANK_MODELS", str(models))
    docs = ({"_id": docno, "title": "", "text": text} for docno, text in DOCS.items())
    queries = {f"q{n}": f"q{n} d{n}" for n in range(5)}
    write_beir(tmp_path / "set", docs, queries, {"test": [(f"q{n}", f"d{n}", 1) for n in range(5)]})


def test_a_collection_is_encoded_and_searched():
    facts = json.loads(ok("encode set v --model small-bert --dtype float32 --json").stdout)
    assert (facts["rows"], facts["dimension"], facts["dtype"], facts["cut"]) == (12, 32, "float32", 0)
    ok("search v set --split test -k 3 -o dense.run")
    assert [len(ranking) for ranking in read_run("dense.run")] == [3] * 5
    record = json.loads(Path("dense.run.json").read_text())
    assert record["pipeline"] == "dense(small-bert) % 3"
    (vectors,) = record["sources"].values()
    assert vectors["fingerprint"] == facts["fingerprint"]
    assert "cosine of the angle" in ok("search v -q 'q1 d1' -k 2 --explain").stdout


@pytest.mark.filterwarnings("default::telerank.errors.MissingVectors")
def test_an_index_is_encoded_and_shows_texts():
    ok("index set idx")
    assert "encoded 12 documents of idx into" in ok("encode idx --model small-bert").stderr
    assert Path("idx/vectors/small-bert/manifest.json").is_file()
    search = "search idx -q 'q1 d1' --model dense(small-bert) -k 2 --json"
    ranking = json.loads(ok(search).stdout)["ranking"]
    assert [row["text"] for row in ranking] == [DOCS[row["docno"]] for row in ranking]
    ok("index verify idx")
    added = {"_id": "new", "title": "", "text": "q1 d1 q2"}
    Path("new.jsonl").write_text(
        "".join(f"{json.dumps(each)}\n" for each in (added, {**added, "_id": "other"}))
    )
    ok("index add new.jsonl idx --no-vectors")
    lacking = "idx: the vectors of small-bert lack 2 of 14 documents (encode the index to add them)"
    assert lacking in ok(search).stderr
    vectors = json.loads(ok("index info idx --json").stdout)["vectors"]
    assert vectors["small-bert"].endswith("small-bert; 2 documents without")
    said = ok("encode idx --model small-bert").stderr
    assert "encoded 2 documents of idx into" in said
    assert "14 documents have vectors now" in said
    ok("index add set idx --update")
    ok("index delete idx new")
    ok("index merge idx")
    found = ok("search idx -q 'q1 d1' --model dense(small-bert) -k 20 --json")
    assert len(json.loads(found.stdout)["ranking"]) == 13
    assert found.stderr == ""
    ok("encode idx --model small-bert --overwrite")
    ok(search)


def test_an_approximate_index_is_built_later_and_searched():
    pytest.importorskip("faiss")
    ok("encode set v --model small-bert")
    said = ok("encode set v --model small-bert --approximate 'hnsw(links=8)'").stderr
    assert "recall against exact search, 5 queries: R@10 " in said
    assert "encoded" not in said
    ok("search v set --split test --model dense(approximate=hnsw) -o near.run")
    assert json.loads(Path("near.run.json").read_text())["pipeline"].endswith("approximate=hnsw) % 1000")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("encode set --model small-bert", "give a folder for the vectors: telerank encode set VECTORS"),
        ("encode set v --model small-bert --dtype float8", "no type of vectors is called 'float8'"),
        ("encode set v --model small-bert --dtype float32", "holds other vectors already"),
        ("encode set v --model other --approximate hnsw", "holds other vectors already"),
        ("encode set set --model small-bert", "holds other things; vectors need a folder of their own"),
        ("search v -q x --analyzer french", "holds vectors alone"),
        ("index set v --overwrite", "expected an index, got 'vectors'"),
        ("search idx -q x --model dense(other)", "no vectors of other"),
        ("search v -q x --model dense(other)", "its vectors were made by"),
        ("search v -q x --model dense(approximate=ivfpq)", "no approximate index 'ivfpq'"),
    ],
)
def test_what_does_not_fit_is_refused(command, message):
    ok("index set idx")
    ok("encode set v --model small-bert")
    assert message in refusal(command)


@pytest.mark.parametrize("device", ["nonsense", "cuda:77"])
def test_a_device_that_is_not_there_is_named(device):
    said = refusal(f"encode set v --model small-bert --device {device}")
    assert said.startswith("telerank: ")
    assert f"device '{device}': " in said
    assert not Path("v").exists()


def test_an_approximate_index_is_of_the_index_as_it_is():
    ok("index set idx")
    ok("encode idx v --model small-bert")
    ok("index delete idx d3")
    said = refusal("encode idx v --model small-bert --approximate hnsw")
    assert "the index has changed since" in said
