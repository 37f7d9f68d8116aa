"""``telerank train reranker`` from the command line: one training, several seeds and sizes, cross-validation."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import yaml  # noqa: E402

from small_ranking import QUERIES, dev_lists, ranking_settings, small_ranking  # noqa: E402
from telerank.cli.main import main  # noqa: E402
from telerank.evaluate.measures import measure  # noqa: E402
from telerank.models.reranker import load_reranker  # noqa: E402
from telerank.train.reranker_outcome import Outcome, together  # noqa: E402
from telerank.train.reranker_study import Study, Variant, variants  # noqa: E402
from telerank.trec import load_qrels, read_qrels, read_run  # noqa: E402


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return small_ranking(tmp_path_factory.mktemp("place"))


@pytest.fixture
def write(place, tmp_path, monkeypatch):
    """Writes ``config.yaml`` into the folder that is the current one."""
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def written(**changes):
        model = {"frozen": True, "head": {"hidden": [4]}}
        settings = ranking_settings(place, optimisation={"steps": 2, "warm_up": 1}, model=model, **changes)
        Path("config.yaml").write_text(yaml.safe_dump(settings))

    yield written
    torch.set_num_threads(threads)


def run(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["telerank", "train", "reranker", "config.yaml", *words])
    with pytest.raises(SystemExit) as left:
        main()
    return left.value.code or 0


def test_a_training_says_what_it_learns_from_and_leaves_a_model(write, place, monkeypatch, capsys):
    write(dev=dev_lists(place, every=1))
    assert run(monkeypatch, "-o", "trained") == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "update 1: loss" in said.err
    assert "dev " in said.err
    assert f"queries: {QUERIES}; relevant pairs: {QUERIES}" in said.err
    assert said.err.splitlines()[-1] == "trained trained/model"
    assert load_reranker("./trained/model").shape.frozen
    assert run(monkeypatch, "-o", "trained") == 2
    assert "resume it, or name another folder" in " ".join(capsys.readouterr().err.split())
    assert run(monkeypatch, "-o", "trained", "--resume") == 0


def test_a_training_with_a_test_prints_its_table(write, place, monkeypatch, capsys):
    write(test=dev_lists(place, queries=10))
    assert run(monkeypatch, "-o", "trained") == 0
    said = capsys.readouterr().out
    assert "first stage" in said
    assert "re-ranked" in said
    assert "10 test queries, 59 candidates." in said
    assert Path("trained/table.md").read_text().startswith("| training | AP | RR |")
    assert Path("trained/checkpoints/00000002").exists()
    assert run(monkeypatch, "-o", "trained", "--resume", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)["trainings"]
    assert (found["queries"], found["candidates"], set(found["measures"])) == (10, 59, {"AP", "RR"})


def test_sizes_and_seeds_give_means_spread_and_a_plot(write, place, monkeypatch, capsys):
    write(test=dev_lists(place, queries=10))
    words = ("-o", "curve", "--sizes", "4,8", "--seeds", "0,1")
    assert run(monkeypatch, *words) == 0
    said = capsys.readouterr()
    assert "4 queries" in said.out
    assert said.out.count("±") == 5  # two measures of two sizes, and the note
    assert "size-4/seed-1: queries: 4" in " ".join(said.err.split())
    assert Path("curve/sizes.png").read_bytes().startswith(b"\x89PNG")
    assert Path("curve/size-8/seed-1/model/reranker.json").exists()
    assert not Path("curve/size-8/seed-1/checkpoints").exists()
    assert len(list(Path("curve/features").iterdir())) == 1  # one encoder, one store
    before = Path("curve/size-4/seed-0/test.json").stat().st_mtime_ns
    assert run(monkeypatch, "-o", "curve", "--sizes", "4", "--seeds", "0,1,2", "--resume") == 0
    assert Path("curve/size-4/seed-0/test.json").stat().st_mtime_ns == before
    assert "Means over 3 seeds" in capsys.readouterr().out
    assert run(monkeypatch, *words) == 2
    assert "holds a training" in " ".join(capsys.readouterr().err.split())


def test_cross_validation_orders_every_query_by_a_model_that_has_not_seen_it(
    write, place, monkeypatch, capsys
):
    write(folds=3, test={"split": "train", "run": str(place / "train.run"), "measures": ["RR"]})
    assert run(monkeypatch, "-o", "cross") == 0
    assert "fold 2" in capsys.readouterr().out
    rankings = list(read_run("cross/test.run.gz"))
    assert len({one.query.qid for one in rankings}) == QUERIES
    qrels = load_qrels(read_qrels(place / "collection" / "qrels" / "train.tsv"))
    record = json.loads(Path("cross/table.json").read_text())
    assert [one["queries"] for one in record["folds"]] == [8, 8, 8]
    whole = record["trainings"][0]["measures"]["RR"]
    assert whole == pytest.approx(measure(rankings, qrels, "RR").mean["RR"])
    counts = json.loads(Path("cross/fold-1/data.json").read_text())
    assert counts["queries"] == counts["queries kept back for dev and test"] * 2 == 16
    wanted = yaml.safe_load(Path("cross/fold-1/config.yaml").read_text())
    assert (wanted["folds"], wanted["held_out"]) == (3, 1)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--seeds", "0,0"), "--seeds: expected different whole numbers from 0 on, got '0,0'"),
        (("--sizes", "0"), "--sizes: expected different whole numbers from 1 on, got '0'"),
        (("--sizes", "many"), "--sizes: expected different whole numbers from 1 on, got 'many'"),
        (("--seeds", "0,1"), "compare trainings by their test: add the section test"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_trained(
    write, monkeypatch, capsys, words, says
):
    write()
    assert run(monkeypatch, *words) == 2
    assert says in " ".join(capsys.readouterr().err.split())
    assert not Path("trained").exists()


def outcome(queries, value, **more):
    counts = {"candidates": 10 * queries, "without": 0, "before": {"AP": 0.5}}
    return Outcome(queries=queries, measures={"AP": value}, **{**counts, **more})


def test_folds_are_put_together_by_their_queries():
    whole = together([outcome(1, 0.2, before={"AP": 1.0}), outcome(3, 0.6, without=1)])
    assert whole == Outcome(4, 40, 1, {"AP": pytest.approx(0.5)}, {"AP": pytest.approx(0.625)})


def test_a_table_of_seeds_has_their_mean_and_spread():
    found = {Variant(seed=seed): outcome(4, value) for seed, value in ((0, 0.2), (1, 0.4))}
    table = Study(("AP",), found, {}).table()
    rows = [[cell.text for cell in row] for row in table.rows]
    assert rows == [
        ["first stage", "0.5000"],
        ["seed 0", "0.2000"],
        ["seed 1", "0.4000"],
        ["mean over seeds", "0.3000 ± 0.1414"],
    ]


def test_a_variant_is_a_folder_and_a_configuration(place):
    from small_ranking import ranking_training

    config = ranking_training(place, folds=2, test={"split": "train", "run": "r"})
    asked = variants(config, seeds=(3, 4), sizes=(10,))
    assert [str(one.folder) for one in asked[:2]] == ["size-10/seed-3/fold-0", "size-10/seed-3/fold-1"]
    assert len(set(asked)) == 4
    wanted = asked[3].of(config)
    assert (wanted.data.queries, wanted.seed, wanted.held_out) == (10, 4, 1)
    assert variants(ranking_training(place)) == [Variant()]
