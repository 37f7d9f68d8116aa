"""telerank encode, and telerank search of what it made, as they are typed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from telerank.cli.main import app, main
from telerank.trec import read_run

pytest.importorskip("torch")
pytest.importorskip("transformers")

DOCS = {f"d{n}": f"q{n} d{n} d{n % 4} x{n % 3}" for n in range(12)}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    from small_models import small_encoder

    return str(small_encoder(tmp_path_factory.mktemp("models") / "small-bert"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A BEIR folder ``set`` in the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "set/qrels").mkdir(parents=True)
    write("set/corpus.jsonl", [{"_id": docno, "title": "", "text": text} for docno, text in DOCS.items()])
    write("set/queries.jsonl", [{"_id": f"q{n}", "text": f"q{n} d{n}"} for n in range(5)])
    lines = [f"q{n}\td{n}\t1" for n in range(5)]
    (tmp_path / "set/qrels/test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines, ""]))
    return tmp_path


def write(path, records):
    Path(path).write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def ok(*arguments: str):
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def refusal(monkeypatch, capsys, *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", ["telerank", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_a_collection_is_encoded_and_searched(folder, model):
    made = json.loads(ok("encode", "set", "v", "--model", model, "--dtype", "float32", "--json").stdout)
    assert (made["rows"], made["dimension"], made["dtype"], made["cut"]) == (12, 32, "float32", 0)
    ok("search", "v", "set", "--split", "test", "-k", "3", "-o", "dense.run")
    rankings = list(read_run("dense.run"))
    assert [len(ranking) for ranking in rankings] == [3] * 5
    record = json.loads(Path("dense.run.json").read_text())
    assert record["pipeline"] == "dense(small-bert) % 3"
    (vectors,) = record["sources"].values()
    assert vectors["fingerprint"] == made["fingerprint"]
    said = ok("search", "v", "-q", "q1 d1", "-k", "2", "--explain").stdout
    assert "cosine of the angle" in said


def test_an_index_is_encoded_and_shows_texts(folder, model):
    ok("index", "set", "idx")
    said = ok("encode", "idx", "--model", model).stderr
    assert "encoded 12 documents of idx into" in said
    assert (folder / "idx/vectors/small-bert/manifest.json").is_file()
    found = json.loads(
        ok("search", "idx", "-q", "q1 d1", "--model", f"dense({model})", "-k", "2", "--json").stdout
    )
    assert [one["text"] for one in found["ranking"]] == [DOCS[one["docno"]] for one in found["ranking"]]
    ok("index", "verify", "idx")
    ok("index", "add", "set", "idx", "--update")
    assert "the index has changed" in str(
        CliRunner().invoke(app, ["search", "idx", "-q", "q1", "--model", f"dense({model})"]).exception
    )
    ok("encode", "idx", "--model", model, "--overwrite")
    ok("search", "idx", "-q", "q1", "--model", f"dense({model})")


def test_an_approximate_index_is_built_later_and_searched(folder, model):
    pytest.importorskip("faiss")
    ok("encode", "set", "v", "--model", model)
    said = ok("encode", "set", "v", "--model", model, "--approximate", "hnsw(links=8)").stderr
    assert "recall against exact search, 5 queries: R@10 " in said
    assert "encoded" not in said
    ok("search", "v", "set", "--split", "test", "--model", "dense(approximate=hnsw)", "-o", "near.run")
    assert json.loads(Path("near.run.json").read_text())["pipeline"].endswith("approximate=hnsw) % 1000")


@pytest.mark.parametrize(
    "case",
    [
        (["encode", "set"], "give a folder for the vectors: telerank encode set VECTORS"),
        (["encode", "set", "v", "--dtype", "float8"], "no type of vectors is called 'float8'"),
        (["encode", "set", "v", "--dtype", "float32"], "holds other vectors already"),
        (["encode", "set", "set"], "holds other things; vectors need a folder of their own"),
        (["search", "v", "-q", "x", "--analyzer", "french"], "holds vectors alone"),
        (["index", "set", "v", "--overwrite"], "expected an index, got 'vectors'"),
        (["search", "idx", "-q", "x", "--model", "dense(other)"], "no vectors of other"),
        (["search", "v", "-q", "x", "--model", "dense(approximate=ivfpq)"], "no approximate index 'ivfpq'"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(case, folder, model, monkeypatch, capsys):
    arguments, said = case
    ok("index", "set", "idx")
    ok("encode", "set", "v", "--model", model)
    options = ["--model", model] if arguments[0] == "encode" else []
    assert said in refusal(monkeypatch, capsys, *arguments, *options)


@pytest.mark.parametrize("device", ["nonsense", "cuda:77"])
def test_a_device_that_is_not_there_is_named(folder, model, monkeypatch, capsys, device):
    said = refusal(monkeypatch, capsys, "encode", "set", "v", "--model", model, "--device", device)
    assert said.startswith(f"telerank: device '{device}': ")
    assert not (folder / "v").exists()


def test_another_model_is_refused(folder, model, monkeypatch, capsys):
    from small_models import small_encoder

    other = small_encoder(folder / "other", seed=1)
    ok("encode", "set", "v", "--model", model)
    said = refusal(monkeypatch, capsys, "search", "v", "-q", "x", "--model", f"dense({other})")
    assert "its vectors were made by" in said


def test_an_approximate_index_is_of_this_model_and_of_the_index_as_it_is(folder, model, monkeypatch, capsys):
    from small_models import small_encoder

    other = str(small_encoder(folder / "other", seed=1))
    ok("index", "set", "idx")
    ok("encode", "idx", "v", "--model", model)
    said = refusal(monkeypatch, capsys, "encode", "idx", "v", "--model", other, "--approximate", "hnsw")
    assert "holds other vectors already" in said
    ok("index", "delete", "idx", "d3")
    said = refusal(monkeypatch, capsys, "encode", "idx", "v", "--model", model, "--approximate", "hnsw")
    assert "the index has changed since" in said
