"""Recipes that train re-rankers, over a collection in which word q7 asks for word d7."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_models import small_encoder
from telerank.errors import CollectionError
from telerank.recipes.made import Made, runs_by_seed
from telerank.recipes.places import STARTS, Places
from telerank.recipes.recipe import Order, run_recipe
from telerank.recipes.rerankers import merged
from telerank.recipes.schema import read_recipe
from telerank.trec import read_run

QUERIES = 12
RECIPE = {
    "title": "a table of re-rankers",
    "source": "a paper",
    "data": [{"name": "small", "about": "a small set", "split": "test", "analyzer": "none"}],
    "systems": {
        "BM25": {"model": "bm25"},
        "frozen": {"rerank": "BM25", "depth": 4, "train": {"model": {"kind": "bert", "frozen": True}}},
        "whole": {"rerank": "BM25", "depth": 4, "train": {"model": {"kind": "monobert"}}, "seeds": [5]},
        "sum": {"fuse": ["BM25", "frozen"], "method": "linear", "weights": "tuned"},
    },
    "seeds": [1, 2],
    "training": {
        "data": {"split": "train", "negatives": {"run": "BM25", "depth": 4}},
        "model": {"start": ["no-such-folder/of/anybody", "tiny"], "max_query": 8, "max_length": 24},
        "optimisation": {"steps": 4, "warm_up": 1, "batch": 4, "learning_rate": 0.003},
        "dev": {"split": "dev", "run": "BM25", "depth": 4, "every": 2},
    },
    "analysis": {
        "kind": "quality",
        "measures": ["RR", "AP"],
        "latency_queries": 2,
        "published": {"whole": {"AP": 0.5}},
    },
}


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("rerankers")
    small_encoder(folder / "starts" / "tiny")
    data = folder / "data" / "small"
    (data / "qrels").mkdir(parents=True)
    docs = [{"_id": f"d{i}", "title": "", "text": f"d{i} x{i % 5} x{i % 7}"} for i in range(40)]
    (data / "corpus.jsonl").write_text("\n".join(map(json.dumps, docs)))
    splits = ("train", "dev", "test")
    queries = [{"_id": f"{split}{i}", "text": f"q{i} x{i % 5}"} for split in splits for i in range(QUERIES)]
    (data / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    for split in splits:
        lines = [f"{split}{i}\td{i}\t1" for i in range(QUERIES)]
        (data / "qrels" / f"{split}.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines]))
    return folder


def served(place: Path, output: Path, **changes):
    file = output / "recipe.yaml"
    output.mkdir(exist_ok=True)
    file.write_text(yaml.safe_dump({**RECIPE, **changes}, sort_keys=False))
    starts = Places.of([str(place / "starts")], STARTS)
    order = Order(Places.of([str(place / "data")]), output, starts=starts)
    return run_recipe(read_recipe(file), "table", order)


@pytest.fixture(scope="module")
def first(place, tmp_path_factory):
    return served(place, tmp_path_factory.mktemp("first"))


def test_each_seed_is_a_training_and_the_table_has_their_mean_and_spread(first):
    record = json.loads((first.folder / "results.json").read_text())["results"]
    of_seeds = [one["AP"] for one in record["by_seed"]["frozen"]]
    assert len(of_seeds) == 2
    assert record["means"]["frozen"]["AP"] == pytest.approx(sum(of_seeds) / 2)
    assert record["standard_deviation"]["frozen"]["AP"] == pytest.approx(
        abs(of_seeds[0] - of_seeds[1]) / 2**0.5
    )
    assert "whole" not in record["by_seed"]
    text = (first.folder / "tables.md").read_text()
    assert "± is the standard deviation over the seeds" in text
    assert "(no-such-folder/of/anybody is not here)" in text


def test_other_seeds_are_those_of_every_trained_system(place, first, tmp_path):
    """What was trained is found by its content: in another folder, for another recipe, from moved data."""
    recipe = first.recipe.with_seeds((2, 5))
    assert recipe.trained == ("frozen", "whole")
    for name in ("data", "starts"):
        shutil.copytree(place / name, tmp_path / name)
    shutil.copytree(first.folder.parent / "small", tmp_path / "out" / "small")
    starts = Places.of([str(tmp_path / "starts")], STARTS)
    order = Order(Places.of([str(tmp_path / "data")]), tmp_path / "out", starts=starts)
    found = run_recipe(recipe, "other-seeds", order)
    runs = [run for name in recipe.trained for run in found.made[name].runs]
    assert [run.parent.name.split("-")[:2] for run in runs] == [
        *(["frozen", "2"], ["frozen", "5"]),
        *(["whole", "2"], ["whole", "5"]),
    ]
    known, added = found.made["frozen"].runs[0].parent, found.made["frozen"].runs[1].parent
    assert known.name == first.made["frozen"].runs[1].parent.name
    config = "config.yaml"  # of the first training, not written again
    assert str(place) in (known / config).read_text()
    assert str(tmp_path) in (added / config).read_text()


def test_candidates_are_ordered_anew_and_no_other_documents_come(first):
    before = {one.query.qid: set(one.cut(4).docnos) for one in read_run(first.made["BM25"].run)}
    for name in ("frozen", "whole"):
        for run in first.made[name].runs:
            after = {one.query.qid: set(one.docnos) for one in read_run(run)}
            assert after == {qid: docnos for qid, docnos in before.items() if docnos}


def test_a_chain_of_both_stages_is_timed(first):
    record = json.loads((first.folder / "results.json").read_text())["results"]
    assert record["latency_ms"]["whole"]["mean"] > record["latency_ms"]["BM25"]["mean"]


def test_weights_are_chosen_by_the_other_folds_for_each_seed(first):
    assert "folds" in first.made["sum"].how
    assert len(first.made["sum"].runs) == len(first.made["frozen"].runs) == 2
    record = json.loads((first.folder / "results.json").read_text())["results"]
    assert len(record["by_seed"]["sum"]) == 2


def test_parts_of_a_fusion_are_taken_by_seed():
    once, thrice = Made(Path("a"), ""), Made(Path("b0"), "", seeds=(Path("b0"), Path("b1"), Path("b2")))
    assert runs_by_seed([once, thrice]) == [[Path("a"), Path(f"b{seed}")] for seed in range(3)]
    assert runs_by_seed([once, once]) == [[Path("a"), Path("a")]]


def test_what_is_trained_is_not_trained_again(place, first):
    output = first.folder.parent
    models = sorted(output.glob("small/trained/*/model/model.safetensors"))
    before = [one.stat().st_mtime_ns for one in models]
    served(place, output)
    assert [one.stat().st_mtime_ns for one in models] == before
    assert len(models) == 3


def test_another_start_of_the_same_name_is_trained_from(place, tmp_path):
    systems = {name: RECIPE["systems"][name] for name in ("BM25", "whole")}
    mine = tmp_path / "mine"
    for name in ("starts", "data"):
        shutil.copytree(place / name, mine / name)
    served(mine, tmp_path / "out", systems=systems)
    served(mine, tmp_path / "out", systems=systems)
    trained = tmp_path / "out" / "small" / "trained"
    assert len(list(trained.iterdir())) == 1
    shutil.rmtree(mine / "starts" / "tiny")
    small_encoder(mine / "starts" / "tiny", seed=1)
    served(mine, tmp_path / "out", systems=systems)
    assert len(list(trained.iterdir())) == 2
    with (mine / "data" / "small" / "corpus.jsonl").open("a") as corpus:
        corpus.write('\n{"_id": "new", "title": "", "text": "x1"}')
    served(mine, tmp_path / "out", systems=systems)
    assert len(list(trained.iterdir())) == 3


def test_only_some_queries_are_asked_where_the_recipe_says_so(place, tmp_path):
    systems = {name: RECIPE["systems"][name] for name in ("BM25", "whole")}
    few = served(place, tmp_path, systems=systems, queries=5)
    assert few.queries == 5
    assert {one.query.qid for one in read_run(few.made["whole"].run)} <= {
        one.query.qid for one in read_run(few.made["BM25"].run)
    }
    assert sum(1 for _ in read_run(few.made["BM25"].run)) == 5
    (told,) = tmp_path.glob("small/trained/*/test.json")
    tested, means = json.loads(told.read_text()), few.result.record["means"]["whole"]
    assert tested["queries"] == sum(1 for _ in read_run(few.made["whole"].run))
    assert tested["measures"]["AP"] == pytest.approx(means["AP"])


def test_a_trained_reranker_can_be_given_instead(place, first, tmp_path):
    model = next(first.folder.parent.glob("small/trained/whole-*/model"))
    systems = {"BM25": {"model": "bm25"}, "mine": {"rerank": "BM25", "depth": 4, "reranker": str(model)}}
    given = served(place, tmp_path, systems=systems)
    found = {one.query.qid: one.docnos for one in read_run(given.made["mine"].run)}
    assert found == {one.query.qid: one.docnos for one in read_run(first.made["whole"].run)}


def test_a_mistake_in_a_training_names_the_system(place, tmp_path):
    systems = {"BM25": {"model": "bm25"}, "bad": {"rerank": "BM25", "train": {"loss": {"objective": "hope"}}}}
    with pytest.raises(CollectionError, match=r"the recipe's training of bad: loss\.objective"):
        served(place, tmp_path, systems=systems)


def test_settings_are_laid_over_others_key_by_key():
    base = {"a": {"b": 1, "c": {"d": 2}}, "e": 3}
    assert merged(base, {"a": {"c": {"d": 4}}, "e": None}) == {"a": {"b": 1, "c": {"d": 4}}}
    assert base == {"a": {"b": 1, "c": {"d": 2}}, "e": 3}
