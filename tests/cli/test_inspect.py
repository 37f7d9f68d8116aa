"""telerank inspect, as it is typed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from telerank.cli.main import app, main
from telerank.errors import CollectionError
from telerank.trec import write_run
from telerank.types import Query, Ranking

pytest.importorskip("torch")
pytest.importorskip("transformers")

SENTENCES = [" ".join(f"d{(3 * n + i) % 40}" for i in range(2 + n % 3)) + "." for n in range(12)]
DOCS = {f"d{n}": " ".join(SENTENCES[n % 7 : n % 7 + 1 + n % 4]) for n in range(12)}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """An encoder, and two re-rankers that have it."""
    from small_models import small_encoder
    from telerank.models.rerankers.reranker import Shape, fresh_reranker, save_reranker

    folder = tmp_path_factory.mktemp("models")
    start = small_encoder(folder / "start")
    lengths = {"max_query": 8, "max_length": 20}
    save_reranker(fresh_reranker(start, Shape("monobert", **lengths)), folder / "mono")
    head = {"hidden": 8, "episodes": 2}
    save_reranker(fresh_reranker(start, Shape("bert-dmn", **lengths, head=head)), folder / "dmn")
    return folder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A BEIR folder ``set`` and a run of it in the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "set/qrels").mkdir(parents=True)
    write("set/corpus.jsonl", [{"_id": docno, "title": "", "text": text} for docno, text in DOCS.items()])
    write("set/queries.jsonl", [{"_id": f"q{n}", "text": f"q{n} q{n + 1}"} for n in range(5)])
    lines = [f"q{n}\td{n + i}\t1" for n in range(5) for i in range(3)]
    (tmp_path / "set/qrels/test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines, ""]))
    write_run("all.run", [Ranking.ranked(Query(f"q{n}", ""), list(DOCS), range(12)) for n in range(5)])
    return tmp_path


def write(path, records):
    Path(path).write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def ok(*arguments: str):
    result = CliRunner().invoke(app, ["inspect", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def refusal(monkeypatch, capsys, *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", ["telerank", "inspect", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_diffusion_of_several_checkpoints_is_told_and_drawn(folder, models):
    asked = ("diffusion", "set", models / "start", models / "mono", "--candidates", "all.run", "-n", "30")
    told = ok(*asked, "--plot", "diffusion.svg", "--as", "markdown")
    assert "Diffusion of information in 30 pairs of set" in told.stdout
    assert "plot in diffusion.svg" in told.stderr
    assert b"inner-passage" in Path("diffusion.svg").read_bytes()
    record = json.loads(ok(*asked, "--json").stdout)
    start, mono = record["checkpoints"]["start"], record["checkpoints"]["mono"]
    assert list(start["spreads"]) == ["CLS-query", "CLS-passage", "inner-passage"]
    assert start == mono  # which was not trained
    assert start["pairs"] == 30


def test_embeddings_are_measured_and_mapped(folder, models):
    pytest.importorskip("sklearn")
    asked = ("tsne", "set", models / "start", models / "mono", "--candidates", "all.run", "-n", "12")
    told = ok(*asked, "--perplexity", "5", "--neighbours", "4", "--plot", "map.png")
    assert "12 relevant and 12 other pairs of set" in told.stdout
    assert Path("map.png").read_bytes().startswith(b"\x89PNG")
    record = json.loads(ok(*asked, "--perplexity", "5", "--neighbours", "4", "--json").stdout)
    start = record["checkpoints"]["start"]
    assert start["width"] == 32
    assert [(len(one["points"]), len(one["points"][0])) for one in start["maps"]] == [(24, 2), (24, 3)]
    assert sum(pair["relevant"] for pair in record["pairs"]) == 12
    assert start == record["checkpoints"]["mono"]


def test_too_few_pairs_are_refused_before_a_model_is_read(folder):
    asked = ("tsne", "set", "no-model", "--candidates", "all.run", "-n", "12", "--neighbours", "30")
    with pytest.raises(CollectionError, match="12 pairs of a class are too few for 30 neighbours"):
        ok(*asked)


def test_gates_are_shown_sentence_by_sentence(folder, models):
    told = ok(
        "gates", "--model", models / "dmn", "-q", "q1", "--text", " ".join(SENTENCES), "--plot", "gates.svg"
    )
    assert "not read" in told.stdout
    assert SENTENCES[0] in told.stdout
    assert b"episode" in Path("gates.svg").read_bytes()
    record = json.loads(
        ok("gates", "--model", models / "dmn", "-q", "q1", "--docno", "d3", "--docs", "set", "--json").stdout
    )
    assert [sentence["text"] for sentence in record["sentences"]] == SENTENCES[3:7]
    assert record["episodes"] == 2


def test_the_highest_gate_of_an_episode_is_strong_in_a_table(folder, models):
    from telerank.verbs.inspect import gates

    (table,) = gates(str(models / "dmn"), "q1", " ".join(SENTENCES)).tables()
    for episode in (1, 2):
        gates_of = [float(row[episode].text) for row in table.rows if row[episode].text != "not read"]
        strong = [float(row[episode].text) for row in table.rows if row[episode].strong]
        assert strong == [max(gates_of)]
    ok("gates", "--model", models / "dmn", "-q", "q1", "--text", "d1 d2. \x1b[2Jd3.", "-o", "gates.md")
    assert Path("gates.md").read_text(encoding="utf-8").startswith("**q1")
    shown = ok("gates", "--model", models / "dmn", "-q", "q1", "--text", "d1 d2. \x1b[2Jd3.").stdout
    assert "\x1b[2J" not in shown
    assert "\ufffd[2Jd3." in shown


def test_faithfulness_is_told_for_every_episode(folder, models):
    asked = ("faithfulness", "set", "--model", models / "dmn", "--candidates", "all.run")
    told = ok(*asked).stdout
    for row in ("episode 1", "episode 2", "mean of the episodes", "longest sentence"):
        assert row in told
    record = json.loads(ok(*asked, "--json").stdout)
    assert record["pairs"] + record["skipped"] == 60
    relevant = json.loads(ok(*asked, "--relevant", "--json").stdout)
    assert relevant["pairs"] + relevant["skipped"] == 15


def test_what_cannot_be_looked_at_is_refused_in_one_line(folder, models, monkeypatch, capsys):
    def told(*arguments):
        return refusal(monkeypatch, capsys, *arguments)

    mono, dmn = models / "mono", models / "dmn"
    assert "set: say with --candidates which pairs (it has no pools: a run file)" in told(
        "diffusion", "set", mono
    )
    assert "none.run: no run file, nor a pool of set" in told(
        "diffusion", "set", mono, "--candidates", "none.run"
    )
    assert "a monobert has no gates" in told(
        "faithfulness", "set", "--model", mono, "--candidates", "all.run"
    )
    assert "give --text, or --docno with --docs" in told("gates", "--model", dmn, "-q", "q1")
    assert "set has no document 'd99'" in told(
        "gates", "--model", dmn, "-q", "q1", "--docno", "d99", "--docs", "set"
    )
    assert "p.gif: expected the name of a plot" in told("diffusion", "set", mono, "--plot", "p.gif")
    assert "a model is given twice" in told("diffusion", "set", mono, mono, "--candidates", "all.run")
    assert "device 'nothing'" in told(
        "diffusion", "set", mono, "--candidates", "all.run", "--device", "nothing"
    )
