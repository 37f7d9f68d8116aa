"""telerank inspect, as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import ok, refusal
from small_models import small_encoder
from small_set import write_beir
from telerank.trec import write_run
from telerank.types import Query, Ranking

pytest.importorskip("torch")
pytest.importorskip("transformers")

SENTENCES = [" ".join(f"d{(3 * n + i) % 40}" for i in range(2 + n % 3)) + "." for n in range(12)]
DOCS = {f"d{n}": " ".join(SENTENCES[n % 7 : n % 7 + 1 + n % 4]) for n in range(12)}
TEXT = f"'{' '.join(SENTENCES)}'"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """An encoder ``start``, two re-rankers that have it, a BEIR folder ``set`` and a run of it."""
    from telerank.models.rerankers.kinds import Shape
    from telerank.models.rerankers.reranker import fresh_reranker, save_reranker

    folder = tmp_path_factory.mktemp("prepared")
    start = small_encoder(folder / "start")
    lengths = {"max_query": 8, "max_length": 20}
    save_reranker(fresh_reranker(start, Shape("monobert", **lengths)), folder / "mono")
    head = {"hidden": 8, "episodes": 2}
    save_reranker(fresh_reranker(start, Shape("bert-dmn", **lengths, head=head)), folder / "dmn")
    docs = ({"_id": docno, "title": "", "text": text} for docno, text in DOCS.items())
    qrels = [(f"q{n}", f"d{n + i}", 1) for n in range(5) for i in range(3)]
    write_beir(folder / "set", docs, {f"q{n}": f"q{n} q{n + 1}" for n in range(5)}, {"test": qrels})
    rankings = [Ranking.ranked(Query(f"q{n}", ""), list(DOCS), range(12)) for n in range(5)]
    write_run(folder / "all.run", rankings)
    return folder


@pytest.fixture(autouse=True)
def folder(prepared, monkeypatch):
    monkeypatch.chdir(prepared)


def test_diffusion_of_several_checkpoints_is_printed_and_drawn():
    command = "inspect diffusion set ./start ./mono --candidates all.run -n 30"
    printed = ok(f"{command} --plot diffusion.svg --as markdown")
    assert "Diffusion of information in 30 pairs of set" in printed.stdout
    assert "plot in diffusion.svg" in printed.stderr
    assert b"inner-passage" in Path("diffusion.svg").read_bytes()
    record = json.loads(ok(f"{command} --json").stdout)
    start, mono = (record["checkpoints"][name] for name in ("start", "mono"))
    assert list(start["spreads"]) == ["CLS-query", "CLS-passage", "inner-passage"]
    assert start == mono  # which was not trained
    assert start["pairs"] == 30


def test_embeddings_are_measured_and_mapped():
    pytest.importorskip("sklearn")
    command = "inspect tsne set ./start ./mono --candidates all.run -n 12 --perplexity 5 --neighbours 4"
    shown = ok(f"{command} --plot map.png").stdout
    assert "12 relevant and 12 other pairs of set" in shown
    assert Path("map.png").read_bytes().startswith(b"\x89PNG")
    record = json.loads(ok(f"{command} --json").stdout)
    start, mono = (record["checkpoints"][name] for name in ("start", "mono"))
    assert start["width"] == 32
    assert [(len(each["points"]), len(each["points"][0])) for each in start["maps"]] == [(24, 2), (24, 3)]
    assert sum(pair["relevant"] for pair in record["pairs"]) == 12
    assert start == mono


def test_gates_are_shown_sentence_by_sentence():
    shown = ok(f"inspect gates --model ./dmn -q q1 --text {TEXT} --plot gates.svg").stdout
    assert "not read" in shown
    assert SENTENCES[0] in shown
    assert b"episode" in Path("gates.svg").read_bytes()
    record = json.loads(ok("inspect gates --model ./dmn -q q1 --docno d3 --docs set --json").stdout)
    assert [sentence["text"] for sentence in record["sentences"]] == SENTENCES[3:7]
    assert record["episodes"] == 2


def test_the_highest_gate_of_an_episode_is_strong_in_a_table():
    from telerank.verbs.inspect import gates

    (table,) = gates("./dmn", "q1", " ".join(SENTENCES)).tables()
    for episode in (1, 2):
        gates_of = [float(row[episode].text) for row in table.rows if row[episode].text != "not read"]
        strong = [float(row[episode].text) for row in table.rows if row[episode].strong]
        assert strong == [max(gates_of)]
    command = "inspect gates --model ./dmn -q q1 --text 'd1 d2. \x1b[2Jd3.'"
    ok(f"{command} -o gates.md")
    assert Path("gates.md").read_text(encoding="utf-8").startswith("**q1")
    shown = ok(command).stdout
    assert "\x1b[2J" not in shown
    assert "\ufffd[2Jd3." in shown


def test_faithfulness_is_measured_for_every_episode():
    command = "inspect faithfulness set --model ./dmn --candidates all.run"
    shown = ok(command).stdout
    for row in ("episode 1", "episode 2", "mean of the episodes", "longest sentence"):
        assert row in shown
    for option, pairs in (("", 60), ("--relevant", 15)):
        record = json.loads(ok(f"{command} {option} --json").stdout)
        assert record["pairs"] + record["skipped"] == pairs


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("diffusion set ./mono", "set: say with --candidates which pairs (it has no pools: a run file)"),
        ("diffusion set ./mono --candidates none.run", "none.run: no run file, nor a pool of set"),
        ("faithfulness set --model ./mono --candidates all.run", "a monobert has no gates"),
        ("gates --model ./dmn -q q1", "give --text, or --docno with --docs"),
        ("gates --model ./dmn -q q1 --docno d99 --docs set", "set has no document 'd99'"),
        ("diffusion set ./mono --plot p.gif", "p.gif: expected the name of a plot"),
        ("diffusion set ./mono ./mono --candidates all.run", "a model is given twice"),
        ("diffusion set ./mono --candidates all.run --device nothing", "device 'nothing'"),
        (
            "tsne set no-model --candidates all.run -n 12 --neighbours 30",
            "12 pairs of a class are too few for 30 neighbours",
        ),
    ],
)
def test_what_cannot_be_looked_at_is_refused(words, message):
    assert message in refusal(f"inspect {words}")
