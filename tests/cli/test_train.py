"""``telerank train`` from the command line: one training, several seeds and sizes, cross-validation."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import yaml  # noqa: E402

from commands import ok, refusal  # noqa: E402
from small_models import small_encoder  # noqa: E402
from small_ranking import QUERIES, dev_lists, ranking_settings, small_ranking  # noqa: E402
from small_set import write_beir  # noqa: E402
from telerank.errors import FormatError  # noqa: E402
from telerank.evaluation.measures import measure  # noqa: E402
from telerank.models.encoders.folders import load_bi_encoder  # noqa: E402
from telerank.models.rerankers.reranker import load_reranker  # noqa: E402
from telerank.training.reranker.plan import RerankerOutcome, Study, TrainingPlan, Variant, join_outcomes  # noqa: E402  # noqa: E402
from telerank.training.settings import read_settings  # noqa: E402
from telerank.trec import load_qrels, read_qrels, read_run  # noqa: E402

TRAIN = "train reranker config.yaml"


@pytest.fixture(scope="module")
def ranking(tmp_path_factory):
    return small_ranking(tmp_path_factory.mktemp("ranking"))


@pytest.fixture
def write(ranking, tmp_path, monkeypatch):
    """Writes ``config.yaml`` into the working folder; its lists of dev and of the test are those of dev."""
    monkeypatch.chdir(tmp_path)

    def settings(**changes):
        model = {"frozen": True, "head": {"hidden": [4]}}
        lists = {name: dev_lists(ranking, **changes.pop(name)) for name in ("dev", "test") if name in changes}
        short = {"steps": 2, "warm_up": 1}
        record = ranking_settings(ranking, optimisation=short, model=model, **changes, **lists)
        Path("config.yaml").write_text(yaml.safe_dump(record))

    return settings


DEV, TEST = {"every": 1, "queries": 9}, {"queries": 10}
GRID = {"model.head.hidden": [[4], []], "optimisation.learning_rate": [0.003, 1e-12]}


def flat(text: str) -> str:
    return " ".join(text.split())


def load(path: str):
    return json.loads(Path(path).read_text())


def test_a_training_says_what_it_learns_from_and_leaves_a_model(write):
    write(dev={"every": 1})
    printed = ok(f"{TRAIN} -o trained")
    assert printed.stdout == ""
    assert "update 1: loss" in printed.stderr
    line = r"update 1: loss \d\.\d{4}, rate \S+, dev \d\.\d{4}, dev loss \d\.\d{4}, \d+:\d\d:\d\d, "
    assert re.search(line, flat(printed.stderr))
    assert Path("trained/losses.svg").exists()
    assert f"queries: {QUERIES}; relevant pairs: {QUERIES}" in printed.stderr
    assert "pairs learned from: 36" in flat(printed.stderr)
    assert printed.stderr.splitlines()[-1] == "trained trained/model"
    assert load_reranker("./trained/model").shape.frozen
    assert "resume it (--resume), or name another folder" in refusal(f"{TRAIN} -o trained")
    ok(f"{TRAIN} -o trained --resume")


def test_a_training_with_a_test_prints_its_table(write):
    write(test=TEST)
    shown = ok(f"{TRAIN} -o trained").stdout
    for text in ("first stage", "re-ranked", "10 test queries, 59 candidates."):
        assert text in shown
    assert Path("trained/table.md").read_text().startswith("| training | AP | RR |")
    assert Path("trained/checkpoints/00000002").exists()
    (tested,) = json.loads(ok(f"{TRAIN} -o trained --resume --json").stdout)["trainings"]
    assert (tested["queries"], tested["candidates"], set(tested["measures"])) == (10, 59, {"AP", "RR"})


def antique(ranking: Path) -> Path:
    """The small collection in ANTIQUE's format: grade 2, which does not count, for a second candidate."""
    folder = ranking / "antique"
    folder.mkdir(exist_ok=True)
    docs = map(json.loads, (ranking / "collection" / "corpus.jsonl").read_text().splitlines())
    (folder / "antique-collection.txt").write_text("".join(f"{doc['_id']}\t{doc['text']}\n" for doc in docs))
    for split, n in (("train", 1), ("test", 2)):
        queries = "".join(f"{n}{i}\tq{i}\n" for i in range(QUERIES))
        (folder / f"antique-{split}-queries.txt").write_text(queries)
        grades = [(f"{n}{i}", doc, grade) for i in range(QUERIES) for doc, grade in ((i, 3), (7 * i + 1, 2))]
        qrels = "".join(f"{qid} Q0 d{doc % 40} {grade}\n" for qid, doc, grade in grades)
        (folder / f"antique-{split}.qrel").write_text(qrels)
    return folder


def test_a_training_and_evaluate_measure_with_the_same_grades(write, ranking):
    collection, measures = str(antique(ranking)), ["AP", "nDCG@3", "P@1"]
    write(data={"collection": collection}, test={"measures": measures, "split": "test"})
    (trained,) = json.loads(ok(f"{TRAIN} -o trained --json").stdout)["trainings"]
    command = f"evaluate {collection} trained/test.run.gz --split test --json -m '{' '.join(measures)}'"
    printed = ok(command)
    assert "antique: grades from 3 up are relevant; lower grades count as 0" in printed.stderr
    assert json.loads(printed.stdout)["runs"][0]["mean"] == trained["measures"]


def test_sizes_and_seeds_give_means_spread_and_a_plot(write):
    write(test=TEST)
    command = f"{TRAIN} -o curve --sizes 12,24 --seeds 0,1"  # of groups of three
    printed = ok(command)
    assert "12 pairs" in printed.stdout
    assert printed.stdout.count("±") == 5  # two measures of two sizes, and the note
    assert "pairs learned from: 12" in flat(printed.stderr)
    assert Path("curve/sizes.png").read_bytes().startswith(b"\x89PNG")
    assert Path("curve/size-24/seed-1/model/reranker.json").exists()
    assert not Path("curve/size-24/seed-1/checkpoints").exists()
    assert len(list(Path("curve/features").iterdir())) == 1  # one encoder, one store
    before = Path("curve/size-12/seed-0/test.json").stat().st_mtime_ns
    shown = ok(f"{TRAIN} -o curve --sizes 12 --seeds 0,1,2 --resume").stdout
    assert Path("curve/size-12/seed-0/test.json").stat().st_mtime_ns == before
    assert "Means over 3 seeds" in shown
    assert "holds a training" in refusal(command)


def test_cross_validation_orders_every_query_by_a_model_that_has_not_seen_it(write, ranking):
    write(folds=3, test={"split": "train", "run": str(ranking / "train.run"), "measures": ["RR"]})
    assert "fold 2" in ok(f"{TRAIN} -o cross").stdout
    rankings = list(read_run("cross/test.run.gz"))
    assert len({ranking.query.qid for ranking in rankings}) == QUERIES
    qrels = load_qrels(read_qrels(ranking / "collection" / "qrels" / "train.tsv"))
    record = load("cross/table.json")
    assert [fold["queries"] for fold in record["folds"]] == [8, 8, 8]
    whole = record["trainings"][0]["measures"]["RR"]
    assert whole == pytest.approx(measure(rankings, qrels, "RR").mean["RR"])
    counts = load("cross/fold-1/data.json")
    assert counts["queries"] == counts["queries kept back for dev and test"] * 2 == 16
    config = yaml.safe_load(Path("cross/fold-1/config.yaml").read_text())
    assert (config["folds"], config["held_out"]) == (3, 1)


def test_another_test_of_several_trainings_is_measured_without_training_again(write):
    write(test=TEST)
    ok(f"{TRAIN} -o seeds --seeds 0,1")
    write(test=TEST | {"measures": ["P@1"]})
    said = ok(f"{TRAIN} -o seeds --seeds 0,1 --resume").stderr
    assert "update 2: loss" not in said
    trainings = load("seeds/table.json")["trainings"]
    assert [list(each["measures"]) for each in trainings] == [["P@1"], ["P@1"]]
    assert yaml.safe_load(Path("seeds/seed-1/config.yaml").read_text())["test"]["measures"] == ["P@1"]
    assert not Path("seeds/seed-1/checkpoints").exists()


def test_a_grid_trains_every_combination_and_tests_the_best_by_the_dev_measure(write):
    write(grid=GRID, dev=DEV, test=TEST)
    shown = ok(f"{TRAIN} -o grid").stdout
    record = load("grid/grid.json")
    names = [str(path.parent.parent) for path in sorted(Path("grid").rglob("model/reranker.json"))]
    rates = ("learning_rate-0.003", "learning_rate-1e-12")
    assert names == [f"grid/{head}/{rate}" for head in ("hidden-4", "hidden-none") for rate in rates]
    values = [combination["dev"][0] for combination in record["combinations"]]
    assert (len(values), values) == (4, sorted(values, reverse=True))
    for combination in record["combinations"]:
        head, rate = combination["settings"].values()
        folder = Path(f"grid/hidden-{head[0] if head else 'none'}/learning_rate-{rate}")
        config = yaml.safe_load((folder / "config.yaml").read_text())
        assert (config["optimisation"]["learning_rate"], config["model"]["head"]["hidden"]) == (rate, head)
        looks = [json.loads(line)["dev"] for line in (folder / "log.jsonl").read_text().splitlines()]
        assert combination["dev"] == [max(looks)]
        assert (folder / "test.json").exists() is (combination is record["combinations"][0])
        assert not (folder / "checkpoints").exists()
    assert len(list(Path("grid/features").iterdir())) == 1
    assert "dev AP" in Path("grid/grid.md").read_text().splitlines()[0]
    assert shown.index("dev AP") < shown.index("first stage")
    assert record["trainings"][0]["queries"] == 10


def test_a_grid_goes_on_where_it_was_killed_and_takes_more_values_and_seeds(write):
    rate = "optimisation.learning_rate"
    write(grid={rate: [0.003]}, dev=DEV, test=TEST)
    ok(f"{TRAIN} -o grid --seeds 0,1")
    (old, *_) = Path("grid").rglob("model")
    before = old.stat().st_mtime_ns
    write(grid={rate: [0.003, 0.001]}, dev=DEV, test=TEST)
    command = f"{TRAIN} -o grid --seeds 0,1"
    assert "resume it (--resume), or name another folder" in refusal(command)
    assert ok(f"{command} --resume").stdout.count("Means over 2 seeds") == 2
    assert old.stat().st_mtime_ns == before
    record = load("grid/grid.json")
    assert [len(combination["dev"]) for combination in record["combinations"]] == [2, 2]
    assert [training["seed"] for training in record["trainings"]] == [0, 1]
    best = record["combinations"][0]["settings"][rate]
    assert Path(f"grid/learning_rate-{best}/seed-1/test.json").exists()


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
def test_a_grid_that_cannot_be_is_refused_before_anything_is_trained(write, ranking, changes, says):
    record = ranking_settings(ranking, model={"frozen": True, "head": {"hidden": [4]}})
    record |= {"grid": GRID, "dev": {"split": "dev", "run": "dev.run"}} | changes
    write()
    Path("config.yaml").write_text(yaml.safe_dump(record))
    assert says in refusal(f"{TRAIN} -o grid")
    assert not Path("grid").exists()


def test_epochs_of_a_grid_stand_in_place_of_steps(write):
    write(grid={"optimisation.epochs": [1, "2"]}, dev={})
    plan = read_settings("config.yaml", TrainingPlan)
    assert [variant.apply(plan).optimisation.epochs for variant in plan.combinations] == [1, 2]
    labels = [variant.label for variant in plan.combinations]
    assert labels == ["optimisation.epochs 1", "optimisation.epochs 2"]


def test_seeds_and_sizes_may_be_in_the_file(write):
    write(seeds=[0, 1], sizes=[4])
    plan = read_settings("config.yaml", TrainingPlan, {"seeds": [7]})
    assert plan.variants == [Variant(size=4, seed=7)]
    assert not {"grid", "seeds", "sizes"} & plan.variants[0].apply(plan).model_dump().keys()
    with pytest.raises(FormatError, match="seeds: expected different numbers, got 1, 1"):
        read_settings("config.yaml", TrainingPlan, {"seeds": [1, 1]})


def test_settings_of_a_grid_that_end_alike_have_their_whole_names():
    variant = Variant(
        seed=1, settings=(("model.dropout", "0.1"), ("model.head.dropout", "0.2"), ("a.b", '"c/d"'))
    )
    assert variant.folder == Path("model.dropout-0.1/model.head.dropout-0.2/b-c-d/seed-1")
    assert variant.label == "model.dropout 0.1, model.head.dropout 0.2, a.b c/d, seed 1"


@pytest.mark.parametrize(
    ("changes", "words", "says"),
    [
        ({}, "--seeds 0,0", "--seeds: expected different whole numbers of at least 0, got '0,0'"),
        ({}, "--sizes 0", "--sizes: expected different whole numbers of at least 1, got '0'"),
        ({}, "--sizes many", "--sizes: expected different whole numbers of at least 1, got 'many'"),
        ({}, "--seeds 0,1", "compare trainings by their test: add the section test"),
        ({"grid": GRID, "dev": {}}, "--sizes 4,8", "a grid chooses first"),
        (
            {"test": TEST},
            f"--sizes 12,{3 * QUERIES + 1}",
            f"expected data.pairs from 3, the pairs of a group, to {3 * QUERIES}, got {3 * QUERIES + 1}",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_trained(write, changes, words, says):
    write(**changes)
    assert says in refusal(f"{TRAIN} -o trained {words}")
    assert not Path("trained").exists()


def outcome(queries, value, **more):
    counts = {"candidates": 10 * queries, "without": 0, "before": {"AP": 0.5}}
    return RerankerOutcome(queries=queries, measures={"AP": value}, **{**counts, **more})


def test_folds_are_put_together_by_their_queries():
    whole = join_outcomes([outcome(1, 0.2, before={"AP": 1.0}), outcome(3, 0.6, without=1)])
    assert whole == RerankerOutcome(4, 40, 1, {"AP": pytest.approx(0.5)}, {"AP": pytest.approx(0.625)})


def test_a_table_of_seeds_has_their_mean_and_spread():
    outcomes = {Variant(seed=seed): outcome(4, value) for seed, value in ((0, 0.2), (1, 0.4))}
    table = Study(outcomes).table()
    rows = [[cell.text for cell in row] for row in table.rows]
    assert rows == [
        ["first stage", "0.5000"],
        ["seed 0", "0.2000"],
        ["seed 1", "0.4000"],
        ["mean over seeds", "0.3000 ± 0.1414"],
    ]


def test_a_variant_is_a_folder_and_a_configuration(ranking):
    lists = {"split": "train", "run": str(ranking / "train.run")}
    plan = TrainingPlan.model_validate(
        ranking_settings(ranking, folds=2, test=lists, seeds=(3, 4), sizes=(10,))
    )
    variants = plan.variants
    assert [str(variant.folder) for variant in variants[:2]] == [
        "size-10/seed-3/fold-0",
        "size-10/seed-3/fold-1",
    ]
    assert len(set(variants)) == 4
    applied = variants[3].apply(plan)
    assert (applied.data.pairs, applied.data.queries, applied.seed, applied.held_out) == (10, None, 4, 1)
    assert TrainingPlan.model_validate(ranking_settings(ranking)).variants == [Variant()]


CONFIG = {
    "data": {"collection": "pairs"},
    "model": {"start": "./encoder", "document_length": 12},
    "optimisation": {"steps": 4, "warm_up": 1, "batch": 2, "learning_rate": 0.001},
    "dev": {"split": "train", "queries": 2, "every": 2},
    "log_every": 1,
}
BI_ENCODER = "train bi-encoder config.yaml -o trained"


def test_a_training_of_a_bi_encoder_says_how_it_goes_and_leaves_a_model(write, tmp_path):
    small_encoder(tmp_path / "encoder")
    docs = ({"_id": f"d{i}", "text": f"d{i}"} for i in range(6))
    qrels = {"train": [(f"q{i}", f"d{i}", 1) for i in range(6)]}
    write_beir(tmp_path / "pairs", docs, {f"q{i}": f"q{i}" for i in range(6)}, qrels)
    Path("config.yaml").write_text(yaml.safe_dump(CONFIG))
    printed = ok(BI_ENCODER)
    assert printed.stdout == ""
    line = r"update 2: loss \d+\.\d{4}, rate 0\.001, dev \d\.\d{4}, dev loss \d\.\d{4}, \d+:\d\d:\d\d, \d+:\d\d:\d\d to go"
    assert re.search(line, flat(printed.stderr))
    assert printed.stderr.splitlines()[-1] == "trained trained/model"
    assert load_bi_encoder("./trained/model")[0].settings.document.max_length == 12
    assert "resume it (--resume), or name another folder" in refusal(BI_ENCODER)
    ok(f"{BI_ENCODER} --resume")


def test_a_setting_that_does_not_exist_is_refused(write):
    Path("config.yaml").write_text(yaml.safe_dump({**CONFIG, "epochs": 3}))
    assert refusal(BI_ENCODER) == "telerank: config.yaml: expected known keys, not 'epochs'"
    assert not Path("trained").exists()


def test_a_file_that_is_not_there_is_named(write):
    packaged = "bert-dmn/authors, bert-dmn/insuranceqa, best/robust04, best/trec-dl-2019"
    message = f"nowhere.yaml: no such file or packaged training; known: {packaged}"
    assert message in refusal("train bi-encoder nowhere.yaml")
    assert "; did you mean 'repbert/msmarco'?" in refusal("train bi-encoder repbert/msmarko")


def test_a_packaged_training_has_a_name(write):
    said = refusal("train bi-encoder repbert/insuranceqa")
    assert "insuranceqa-v2: " in said  # its collection is not in this folder
