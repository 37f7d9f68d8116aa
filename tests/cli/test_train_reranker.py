"""``telerank train reranker`` from the command line: one training, several seeds and sizes, cross-validation."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import yaml  # noqa: E402

from small_ranking import QUERIES, dev_lists, ranking_settings, small_ranking  # noqa: E402
from telerank.cli.main import main  # noqa: E402
from telerank.errors import FormatError  # noqa: E402
from telerank.evaluation.measures import measure  # noqa: E402
from telerank.models.rerankers.reranker import load_reranker  # noqa: E402
from telerank.training.reranker.outcome import RerankerOutcome, join_outcomes  # noqa: E402
from telerank.training.reranker.plan import TrainingPlan, Variant, read_plan  # noqa: E402
from telerank.training.reranker.study import Study  # noqa: E402
from telerank.training.settings import read_settings  # noqa: E402
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
    told = r"update 1: loss \d\.\d{4}, rate \S+, dev \d\.\d{4}, dev loss \d\.\d{4}, \d+:\d\d:\d\d, "
    assert re.search(told, " ".join(said.err.split()))
    assert Path("trained/losses.svg").exists()
    assert f"queries: {QUERIES}; relevant pairs: {QUERIES}" in said.err
    assert "pairs learned from: 36" in " ".join(said.err.split())
    assert said.err.splitlines()[-1] == "trained trained/model"
    assert load_reranker("./trained/model").shape.frozen
    assert run(monkeypatch, "-o", "trained") == 2
    assert "resume it (--resume), or name another folder" in " ".join(capsys.readouterr().err.split())
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


def antique(place: Path) -> Path:
    """The small collection in ANTIQUE's format: grade 2, which does not count, for a second candidate."""
    folder = place / "antique"
    folder.mkdir(exist_ok=True)
    docs = map(json.loads, (place / "collection" / "corpus.jsonl").read_text().splitlines())
    (folder / "antique-collection.txt").write_text("".join(f"{doc['_id']}\t{doc['text']}\n" for doc in docs))
    for split, n in (("train", 1), ("test", 2)):
        queries = "".join(f"{n}{i}\tq{i}\n" for i in range(QUERIES))
        (folder / f"antique-{split}-queries.txt").write_text(queries)
        grades = [(f"{n}{i}", doc, grade) for i in range(QUERIES) for doc, grade in ((i, 3), (7 * i + 1, 2))]
        qrels = "".join(f"{qid} Q0 d{doc % 40} {grade}\n" for qid, doc, grade in grades)
        (folder / f"antique-{split}.qrel").write_text(qrels)
    return folder


def test_a_training_and_evaluate_measure_with_the_same_grades(write, place, monkeypatch, capsys):
    collection, measures = str(antique(place)), ["AP", "nDCG@3", "P@1"]
    test = {**dev_lists(place, measures=measures), "split": "test"}
    write(data={"collection": collection}, test=test)
    assert run(monkeypatch, "-o", "trained", "--json") == 0
    (trained,) = json.loads(capsys.readouterr().out)["trainings"]
    words = ["telerank", "evaluate", collection, "trained/test.run.gz", "-m", " ".join(measures)]
    monkeypatch.setattr(sys, "argv", [*words, "--split", "test", "--json"])
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr()
    assert "antique: grades from 3 up are relevant; lower grades count as 0" in said.err
    assert json.loads(said.out)["runs"][0]["mean"] == trained["measures"]


def test_sizes_and_seeds_give_means_spread_and_a_plot(write, place, monkeypatch, capsys):
    write(test=dev_lists(place, queries=10))
    words = ("-o", "curve", "--sizes", "12,24", "--seeds", "0,1")  # of groups of three
    assert run(monkeypatch, *words) == 0
    said = capsys.readouterr()
    assert "12 pairs" in said.out
    assert said.out.count("±") == 5  # two measures of two sizes, and the note
    assert "pairs learned from: 12" in " ".join(said.err.split())
    assert Path("curve/sizes.png").read_bytes().startswith(b"\x89PNG")
    assert Path("curve/size-24/seed-1/model/reranker.json").exists()
    assert not Path("curve/size-24/seed-1/checkpoints").exists()
    assert len(list(Path("curve/features").iterdir())) == 1  # one encoder, one store
    before = Path("curve/size-12/seed-0/test.json").stat().st_mtime_ns
    assert run(monkeypatch, "-o", "curve", "--sizes", "12", "--seeds", "0,1,2", "--resume") == 0
    assert Path("curve/size-12/seed-0/test.json").stat().st_mtime_ns == before
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


def test_another_test_of_several_trainings_is_measured_without_training_again(
    write, place, monkeypatch, capsys
):
    write(test=dev_lists(place, queries=10))
    assert run(monkeypatch, "-o", "seeds", "--seeds", "0,1") == 0
    write(test=dev_lists(place, queries=10, measures=["P@1"]))
    assert run(monkeypatch, "-o", "seeds", "--seeds", "0,1", "--resume") == 0
    said = capsys.readouterr()
    assert said.err.count("update 2: loss") <= 2
    record = json.loads(Path("seeds/table.json").read_text())
    assert [list(one["measures"]) for one in record["trainings"]] == [["P@1"], ["P@1"]]
    assert yaml.safe_load(Path("seeds/seed-1/config.yaml").read_text())["test"]["measures"] == ["P@1"]
    assert not Path("seeds/seed-1/checkpoints").exists()


GRID = {"model.head.hidden": [[4], []], "optimisation.learning_rate": [0.003, 1e-12]}


def test_a_grid_trains_every_combination_and_tests_the_best_by_the_dev_measure(
    write, place, monkeypatch, capsys
):
    write(grid=GRID, dev=dev_lists(place, every=1, queries=9), test=dev_lists(place, queries=10))
    assert run(monkeypatch, "-o", "grid") == 0
    said = capsys.readouterr().out
    record = json.loads(Path("grid/grid.json").read_text())
    names = [str(path.parent.parent) for path in sorted(Path("grid").rglob("model/reranker.json"))]
    rates = ("learning_rate-0.003", "learning_rate-1e-12")
    assert names == [f"grid/{one}/{rate}" for one in ("hidden-4", "hidden-none") for rate in rates]
    values = [one["dev"][0] for one in record["combinations"]]
    assert (len(values), values) == (4, sorted(values, reverse=True))
    for one in record["combinations"]:
        head, rate = one["settings"].values()
        own = Path(f"grid/hidden-{head[0] if head else 'none'}/learning_rate-{rate}")
        wanted = yaml.safe_load((own / "config.yaml").read_text())
        assert (wanted["optimisation"]["learning_rate"], wanted["model"]["head"]["hidden"]) == (rate, head)
        looks = [json.loads(line)["dev"] for line in (own / "log.jsonl").read_text().splitlines()]
        assert one["dev"] == [max(looks)]
        assert (own / "test.json").exists() is (one is record["combinations"][0])
        assert not (own / "checkpoints").exists()
    assert len(list(Path("grid/features").iterdir())) == 1
    assert "dev AP" in Path("grid/grid.md").read_text().splitlines()[0]
    assert said.index("dev AP") < said.index("first stage")
    assert record["trainings"][0]["queries"] == 10


def test_a_grid_goes_on_where_it_was_killed_and_takes_more_values(write, place, monkeypatch, capsys):
    lists = {"dev": dev_lists(place, every=1, queries=9), "test": dev_lists(place, queries=10)}
    write(grid={"optimisation.learning_rate": [0.003]}, **lists)
    assert run(monkeypatch, "-o", "grid") == 0
    made = {path: path.stat().st_mtime_ns for path in Path("grid").rglob("model")}
    write(grid={"optimisation.learning_rate": [0.003, 0.001]}, **lists)
    assert run(monkeypatch, "-o", "grid") == 2
    assert "resume it (--resume), or name another folder" in " ".join(capsys.readouterr().err.split())
    assert run(monkeypatch, "-o", "grid", "--resume", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert [len(one["dev"]) for one in record["combinations"]] == [1, 1]
    (old,) = made
    assert old.stat().st_mtime_ns == made[old]


def test_of_a_grid_with_several_seeds_the_best_mean_is_chosen(write, place, monkeypatch, capsys):
    grid = {"optimisation.learning_rate": [0.003, 0.001]}
    write(grid=grid, dev=dev_lists(place, every=1, queries=9), test=dev_lists(place, queries=10))
    assert run(monkeypatch, "-o", "grid", "--seeds", "0,1") == 0
    record = json.loads(Path("grid/grid.json").read_text())
    assert [len(one["dev"]) for one in record["combinations"]] == [2, 2]
    assert [one["seed"] for one in record["trainings"]] == [0, 1]
    best = record["combinations"][0]["settings"]["optimisation.learning_rate"]
    assert {path.parent.parent.name for path in Path("grid").rglob("test.json")} == {f"learning_rate-{best}"}
    assert capsys.readouterr().out.count("Means over 2 seeds") == 2


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"dev": None}, "grid: the dev measure chooses: add the section dev"),
        ({"grid": {"optimisation.rate": [1]}}, "known keys, not 'optimisation.rate'"),
        (
            {"grid": {"optimisation.learning_rate": [1, -1]}},
            "learning_rate -1: optimisation.learning_rate: Input",
        ),
        ({"grid": {"seed.more": [1]}}, "seed: Input should be a valid integer"),
        ({"grid": {"dev.depth": [1, 2]}}, "trainings with another dev.depth cannot be compared"),
        ({"grid": {"seed": []}}, "grid: seed has no values"),
        ({"grid": {"model.kind": ["bert", "monobert"]}}, "grid: each model.kind has defaults of its own"),
        ({"grid": {"seed": [1, 1]}}, "more than one combination would be called seed-1"),
        (
            {"folds": 2, "test": {"split": "train", "run": "r"}},
            "grid: choose before, then train the folds with what was chosen",
        ),
    ],
)
def test_a_grid_that_cannot_be_is_refused_before_anything_is_trained(
    write, monkeypatch, capsys, changes, says
):
    write(**{"grid": GRID, "dev": {"split": "dev", "run": "dev.run"}} | changes)
    assert run(monkeypatch, "-o", "grid") == 2
    assert says in " ".join(capsys.readouterr().err.split())
    assert not Path("grid").exists()


def test_epochs_of_a_grid_stand_in_place_of_steps(write):
    write(grid={"optimisation.epochs": [1, "2"]}, dev={"split": "dev", "run": "dev.run"})
    told = read_settings("config.yaml", TrainingPlan)
    found = [one.apply(told).optimisation.epochs for one in told.combinations]
    assert found == [1, 2]
    assert [one.label for one in told.combinations] == ["optimisation.epochs 1", "optimisation.epochs 2"]


def test_a_size_that_is_too_large_is_refused_before_the_smaller_ones_are_trained(
    write, place, monkeypatch, capsys
):
    write(test=dev_lists(place, queries=10))
    assert run(monkeypatch, "-o", "curve", "--sizes", f"12,{3 * QUERIES + 1}") == 2
    says = f"expected data.pairs from 3, the pairs of a group, to {3 * QUERIES}, got {3 * QUERIES + 1}"
    assert says in " ".join(capsys.readouterr().err.split())
    assert not Path("curve").exists()


def test_a_grid_with_sizes_is_refused(write, place, monkeypatch, capsys):
    write(grid=GRID, dev=dev_lists(place))
    assert run(monkeypatch, "--sizes", "4,8") == 2
    assert "a grid chooses first" in " ".join(capsys.readouterr().err.split())


def test_seeds_and_sizes_may_be_in_the_file(write):
    write(seeds=[0, 1], sizes=[4])
    plan = read_plan("config.yaml", seeds=[7])
    assert plan.variants == [Variant(size=4, seed=7)]
    assert not {"grid", "seeds", "sizes"} & plan.variants[0].apply(plan).model_dump().keys()
    with pytest.raises(FormatError, match="seeds: expected different numbers, got 1, 1"):
        read_plan("config.yaml", seeds=[1, 1])


def test_settings_of_a_grid_that_end_alike_have_their_whole_names():
    one = Variant(
        seed=1, settings=(("model.dropout", "0.1"), ("model.head.dropout", "0.2"), ("a.b", '"c/d"'))
    )
    assert one.folder == Path("model.dropout-0.1/model.head.dropout-0.2/b-c-d/seed-1")
    assert one.label == "model.dropout 0.1, model.head.dropout 0.2, a.b c/d, seed 1"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--seeds", "0,0"), "--seeds: expected different whole numbers of at least 0, got '0,0'"),
        (("--sizes", "0"), "--sizes: expected different whole numbers of at least 1, got '0'"),
        (("--sizes", "many"), "--sizes: expected different whole numbers of at least 1, got 'many'"),
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
    return RerankerOutcome(queries=queries, measures={"AP": value}, **{**counts, **more})


def test_folds_are_put_together_by_their_queries():
    whole = join_outcomes([outcome(1, 0.2, before={"AP": 1.0}), outcome(3, 0.6, without=1)])
    assert whole == RerankerOutcome(4, 40, 1, {"AP": pytest.approx(0.5)}, {"AP": pytest.approx(0.625)})


def test_a_table_of_seeds_has_their_mean_and_spread():
    found = {Variant(seed=seed): outcome(4, value) for seed, value in ((0, 0.2), (1, 0.4))}
    table = Study(found).table()
    rows = [[cell.text for cell in row] for row in table.rows]
    assert rows == [
        ["first stage", "0.5000"],
        ["seed 0", "0.2000"],
        ["seed 1", "0.4000"],
        ["mean over seeds", "0.3000 ± 0.1414"],
    ]


def test_a_variant_is_a_folder_and_a_configuration(place):
    lists = {"split": "train", "run": str(place / "train.run")}
    plan = TrainingPlan.model_validate(
        ranking_settings(place, folds=2, test=lists, seeds=(3, 4), sizes=(10,))
    )
    asked = plan.variants
    assert [str(one.folder) for one in asked[:2]] == ["size-10/seed-3/fold-0", "size-10/seed-3/fold-1"]
    assert len(set(asked)) == 4
    wanted = asked[3].apply(plan)
    assert (wanted.data.pairs, wanted.data.queries, wanted.seed, wanted.held_out) == (10, None, 4, 1)
    assert TrainingPlan.model_validate(ranking_settings(place)).variants == [Variant()]
