"""The recipes of the papers, on collections small enough to check, and what a recipe may say."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import yaml

from papers import small_msmarco
from small_models import small_encoder
from telerank.corpus.formats import open_collection
from telerank.errors import CollectionError, FormatError
from telerank.evaluate.latency import time_stage
from telerank.evaluate.measures import measure
from telerank.experiments.provenance import machine, versions
from telerank.fuse import interleave_rankings
from telerank.recipes.candidates import scoring
from telerank.recipes.places import Places
from telerank.recipes.recipe import Order, run_recipe
from telerank.recipes.schema import read_recipe
from telerank.sparse.index import SparseIndex
from telerank.stage import Stage
from telerank.trec import read_run, write_run
from telerank.types import Query, Ranking

FOLDER = Path(__file__).parent.parent.parent / "recipes"
REPBERT = FOLDER / "repbert"
RECIPES = sorted(path for path in FOLDER.rglob("*.yaml") if path.stem.startswith(("table", "figure")))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    small_msmarco(folder / "msmarco")
    return folder


@pytest.fixture
def places(data, monkeypatch):
    monkeypatch.delenv("TELERANK_DATA", raising=False)
    return Places.of([str(data)])


def served(name: str, places, folder: Path, **order):
    recipe = read_recipe(REPBERT / f"{name}.yaml")
    return run_recipe(recipe, name, Order(places, folder, **{"skip": ("MiniLM",), **order}))


def cells(table) -> list[list[str]]:
    return [[cell.text.strip() for cell in row] for row in table.rows]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_every_recipe_of_the_repository_is_read_and_says_its_source(path):
    recipe = read_recipe(path)
    assert re.search(r"20\d\d", recipe.source)
    if path.parent == REPBERT:  # the data at hand, where the paper's is not
        assert any(one.of_paper for one in recipe.data)
        assert len(recipe.data) > 1


def test_all_of_repbert_is_there():
    names = {path.stem for path in RECIPES if path.parent == REPBERT}
    assert names == {"table1", "figure1a", "table2", "figure2", "table3", "table4"}


@pytest.mark.parametrize("name", ["table3", "table4"])
def test_printed_diagonals_agree_between_tables(name):
    printed = read_recipe(REPBERT / f"{name}.yaml").analysis.published
    assert list(printed) == [*printed[next(iter(printed))]]
    other = read_recipe(REPBERT / "figure1a.yaml").analysis.published
    if name == "table4":
        assert {one: row[one] for one, row in printed.items()} == {
            one: values["1000"] for one, values in other.items()
        }


def test_table_1_measures_quality_and_latency_beside_what_is_printed(places, data, tmp_path):
    found = served("table1", places, tmp_path)
    (table,) = found.result.tables
    assert table.columns[:7] == ("system", "RR@10", "paper", "R@1000", "paper", "ms/query", "paper")
    rows = {row[0]: row[1:] for row in cells(table)}
    index = SparseIndex(tmp_path / "msmarco" / "index-english")
    collection = open_collection(data / "msmarco")
    qrels = collection.judged("dev.small")
    queries = [one for one in collection.split_queries("dev.small") if one.qid in qrels]
    run = (index.retriever("bm25(k1=0.9, b=0.4)") % 1000).run(queries)
    mean = measure(run, qrels, "RR@10 R@1000").mean
    bm25 = rows["BM25(Anserini)"]
    assert bm25[:4] == [f"{mean['RR@10']:.3f}", "0.184", f"{mean['R@1000']:.3f}", "0.853"]
    assert float(bm25[4]) > 0
    assert (bm25[5], rows["BM25 + BERT Large"][5]) == ("50", "3,400")
    assert rows["RepBERT"][:2] == ["–", "0.304"]
    assert found.lacking["doc2query"] == "not given: its run on this data"
    assert found.lacking["BM25(Anserini) + MiniLM"] == "it needs MiniLM"
    assert found.queries == 24


def test_results_are_written_with_all_that_made_them(places, tmp_path):
    found = served("figure1a", places, tmp_path)
    assert found.folder == tmp_path / "figure1a-msmarco"
    written = {path.name for path in found.folder.iterdir()}
    assert written == {"tables.md", "tables.html", "results.json", "recall.svg", "recall.png", "runs"}
    record = json.loads((found.folder / "results.json").read_text(encoding="utf-8"))
    assert record["recipe"]["analysis"]["depths"][-1] == 1000
    assert record["data"]["name"] == "msmarco"
    assert record["systems"]["LM Dirichlet"] == "lm_dirichlet"
    assert record["seed"] == 0
    assert {"telerank", "python", "numpy"} <= record["versions"].keys()
    assert record["machine"] == machine()
    recall = record["results"]["recall"]["BM25(Anserini)"]
    assert all(a <= b for a, b in pairwise(recall))
    text = (found.folder / "tables.md").read_text(encoding="utf-8")
    assert "0.857" in text
    assert "Not measured: doc2query, DeepCT, docTTTTTquery (not given: its run on this data)" in text


def test_runs_that_the_user_gives_stand_for_systems(places, tmp_path):
    first = served("table3", places, tmp_path)
    write_run(tmp_path / "mine.run", list(read_run(first.made["LM Dirichlet"].run))[:-1])
    given = {"doc2query": str(tmp_path / "mine.run")}
    found = served("table3", places, tmp_path, given=given)
    assert found.made["doc2query"].how == "the run mine.run, which answers 23 of 24 queries"
    matrix = found.result.record
    lists = zip(read_run(found.made["BM25(Anserini)"].run), read_run(tmp_path / "mine.run"), strict=False)
    assert matrix["alone"]["doc2query"]["RR@10"] > 0
    qrels = {one["first"]: one for one in matrix["combinations"] if one["second"] == "doc2query"}
    assert 0 < qrels["BM25(Anserini)"]["mean"] <= 1
    assert interleave_rankings(next(lists)).docnos


def test_combinations_print_the_paper_s_matrix_too(places, tmp_path):
    measured, printed = served("table4", places, tmp_path).result.tables
    assert measured.columns == ("", "+ BM25(Anserini)", "+ LM Dirichlet")
    rows = {row[0]: row[1:] for row in cells(printed)}
    assert rows["BM25(Anserini)"][4] == "0.957 (+12%)"
    assert rows["DeepCT"][:3] == ["–", "–", "0.904"]  # what cannot be read is not guessed


def test_consistency_is_with_the_official_candidates_where_they_are(places, data, tmp_path):
    found = served("figure2", places, tmp_path)
    assert found.result.record["reference"] == "official top 1000"
    pool = {
        one.query.qid: set(one.docnos)
        for one in open_collection(data / "msmarco").pools["dev.small/top1000"]()
    }
    run = list(read_run(found.made["BM25(Anserini)"].run))
    firsts = [one.docnos[0] in pool[one.query.qid] for one in run]
    assert found.result.record["consistency"]["BM25(Anserini)"][0] == pytest.approx(np.mean(firsts))
    assert any("at most 30 candidates" in note for note in found.notes)


def test_without_them_it_is_with_the_next_reference(data, tmp_path):
    places = Places({"msmarco-slice": str(data / "msmarco")}, ())
    found = served("figure2", places, tmp_path, skip=("MiniLM", "official top 1000"))
    assert found.result.record["reference"] == "BM25(Anserini)"
    assert not any("a rough guide" in note for note in found.notes)  # the paper prints no values of it
    table = served("table4", places, tmp_path)
    assert any("are of other data: a rough guide" in note for note in table.notes)


def test_reranking_takes_the_first_reranker_that_can_be_had(places, tmp_path):
    found = served("table2", places, tmp_path, skip=("MiniLM", "MiniLM as re-ranker"))
    assert found.result.record["reranker"] == "DFR as re-ranker"
    collection = open_collection(places.folders[0] / "msmarco")
    queries = {query.qid: query for query in collection.split_queries()}
    dfr = SparseIndex(tmp_path / "msmarco" / "index-english").retriever("dfr")
    reranked = []
    for ranking in read_run(found.made["BM25(Anserini)"].run):
        scores = dict(dfr.search(queries[ranking.query.qid]))
        candidates = ranking.docnos[:5]
        reranked.append(Ranking.ranked(ranking.query, candidates, [scores[docno] for docno in candidates]))
    qrels = collection.judged()
    expected = measure(reranked, qrels, "RR@10").mean["RR@10"]
    assert found.result.record["RR@10"]["BM25(Anserini)"][0] == pytest.approx(expected)
    with pytest.raises(CollectionError, match="no re-ranker can be had here: BERT Large: not given"):
        served("table2", places, tmp_path, skip=("MiniLM", "MiniLM as re-ranker", "DFR as re-ranker"))


def test_indexes_are_used_again_only_for_the_same_documents(data, places, tmp_path):
    served("figure1a", places, tmp_path)
    index = tmp_path / "msmarco" / "index-english" / "manifest.json"
    before = index.read_bytes()
    served("table4", places, tmp_path)
    assert index.read_bytes() == before
    other = small_msmarco(tmp_path / "other", passages=100)
    served("table4", Places({"msmarco": str(other)}, ()), tmp_path)
    assert len(SparseIndex(tmp_path / "msmarco" / "index-english")) == 100


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_bi_encoder_of_the_user_is_encoded_once_and_searched(places, tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    encoder = str(small_encoder(tmp_path / "encoder"))
    given = {"RepBERT": encoder, "MiniLM": encoder}
    found = served("table1", places, tmp_path, given=given, skip=())
    fused = found.made["BM25(Anserini) + MiniLM"]
    collection = open_collection(places.folders[0] / "msmarco")
    query = next(collection.split_queries())
    in_run = next(one for one in read_run(fused.run) if one.query.qid == query.qid)
    assert fused.stage.search(query).docnos == in_run.docnos
    assert found.result.record["latency_ms"]["BM25(Anserini) + MiniLM"]["queries"] == 24
    assert found.made["RepBERT"].how == "bi-encoder encoder"
    assert found.made["RepBERT"].stage is not None
    assert found.result.record["means"]["RepBERT"]["R@1000"] == 1.0  # all 120 passages
    (vectors,) = (tmp_path / "msmarco").glob("vectors-*/manifest.json")
    before = vectors.stat().st_mtime_ns
    again = served("table4", places, tmp_path, given=given)
    assert vectors.stat().st_mtime_ns == before
    assert again.result.record["alone"]["RepBERT"]["R@1000"] == 1.0
    by = {"MiniLM as re-ranker": given["RepBERT"]}
    reranked = served("table2", places, tmp_path, given=by).result
    assert reranked.record["unscored"]["BM25(Anserini)"] == 0
    ranking = next(read_run(again.made["RepBERT"].run))
    candidates = Ranking.ranked(query, ranking.docnos[::7], range(len(ranking.docnos[::7])))
    (scored,) = scoring(again.made["RepBERT"].stage)([candidates])
    assert dict(scored) == pytest.approx({d: dict(ranking)[d] for d in candidates.docnos}, rel=1e-5)


def test_what_is_not_there_is_told(places, tmp_path, monkeypatch):
    with pytest.raises(
        CollectionError, match=r"no data here for this recipe \(msmarco, msmarco-slice, insur"
    ):
        served("table1", Places({}, ()), tmp_path)
    with pytest.raises(CollectionError, match=r"no data here for this recipe \(scifact\)"):
        served("table1", places, tmp_path, only="scifact")
    with pytest.raises(CollectionError, match="the recipe knows no data 'trec'; it takes: msmarco"):
        served("table1", places, tmp_path, only="trec")
    with pytest.raises(CollectionError, match="has no system 'BERT'; it has: BM25"):
        served("table1", places, tmp_path, given={"BERT": "x.run"})
    with pytest.raises(CollectionError, match=r"--system RepBERT=x\.run: no such file"):
        served("table1", places, tmp_path, given={"RepBERT": "x.run"})
    write_run(tmp_path / "strange.run", [Ranking(Query("strange", ""), ("1",), [1.0])])
    with pytest.raises(CollectionError, match=r"no query of it is in msmarco, split dev\.small"):
        served("table1", places, tmp_path, given={"RepBERT": str(tmp_path / "strange.run")})
    with pytest.raises(CollectionError, match="--data nowhere: expected NAME=PATH"):
        Places.of(["nowhere"])


def test_the_environment_names_a_folder_of_data(data, monkeypatch, tmp_path):
    monkeypatch.setenv("TELERANK_DATA", str(data))
    recipe = read_recipe(REPBERT / "table1.yaml")
    found, place = Places.of([]).find(recipe.data, None, tmp_path)
    assert (found.name, place) == ("msmarco", str(data / "msmarco"))


GOOD = yaml.safe_load((REPBERT / "table1.yaml").read_text())


def broken(tmp_path, **changes) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump({**GOOD, **changes}, sort_keys=False))
    return path


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sytems": {}}, "sytems: Extra inputs are not permitted"),
        ({"systems": {"a": {"model": "bm25", "colour": "red"}}}, r"systems\.a\.colour: Extra inputs"),
        ({"systems": {"a": {}}}, "exactly one of model, dense, run, pool, fuse, given, rerank; got none"),
        ({"systems": {"a": {"model": "bm25", "run": "x"}}}, r"got \['model', 'run'\]"),
        ({"systems": {"a": {"fuse": ["b"]}}}, "a needs 'b', which is no system above it"),
        ({"systems": {"a": {"model": "dfi", "weights": [1]}}}, "weights are for the method linear"),
        ({"analysis": {"kind": "beauty"}}, "analysis: Input tag 'beauty'"),
        (
            {"analysis": {"kind": "consistency", "depths": [1], "references": ["nothing"]}},
            "the reference 'nothing' is none of the systems",
        ),
        ({"analysis": {"kind": "recall", "depths": [0]}}, r"analysis\.recall\.depths\.0: Input should be gr"),
        ({"analysis": {"kind": "combination", "measure": "RR AP"}}, "one measure is asked for, got 'RR AP'"),
        ({"analysis": {"kind": "combination", "measure": "Beauty"}}, "there is no measure 'Beauty'"),
        ({"data": []}, "data: Tuple should have at least 1 item"),
    ],
)
def test_a_recipe_that_says_what_recipes_do_not_is_refused(tmp_path, changes, told):
    with pytest.raises(FormatError, match=told) as refused:
        read_recipe(broken(tmp_path, **changes))
    assert "\n" not in str(refused.value)


def test_what_is_no_yaml_is_refused_with_its_line(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("title: x\nsystems: {a: [\n")
    with pytest.raises(FormatError, match=r"recipe\.yaml:3: expected YAML"):
        read_recipe(path)


class Slow(Stage):
    """Counts what it is asked."""

    def __init__(self):
        self.asked = []

    def __call__(self, stream):
        for ranking in stream:
            self.asked.append(ranking.query.qid)
            yield ranking

    def explanation(self, query, docno):
        raise KeyError(query, docno)


def test_latency_asks_one_query_at_a_time_after_a_warm_up():
    stage = Slow()
    queries = [Query(str(i), "") for i in range(30)]
    found = time_stage(stage, queries, sample=10, seed=3)
    assert found.queries == 10
    assert len(stage.asked) == 15
    assert stage.asked[:5] == stage.asked[5:10]
    assert 0 < found.median <= found.p99
    again = Slow()
    time_stage(again, queries, sample=10, seed=3)
    assert again.asked == stage.asked
    with pytest.raises(ValueError, match="no query to time"):
        time_stage(stage, [])


def test_the_machine_is_described_in_a_line():
    assert re.fullmatch(r".+, (1 core|\d+ cores), \d+ GiB, \w+", machine())
    assert versions()["telerank"]
