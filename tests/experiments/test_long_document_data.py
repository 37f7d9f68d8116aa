"""Experiments that make long documents of collections, and the files of BeST on made sets of their formats."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from telerank.errors import CollectionError
from telerank.experiments.data import Sources, is_here, open_data
from telerank.experiments.packaged import FOLDER
from telerank.experiments.schema import DataSpec, Experiment, read_experiment
from telerank.verbs.experiment import run_experiment

BEST = FOLDER / "best"


def towns(path: Path, count: int = 12) -> Path:
    path.mkdir(parents=True)
    articles = [
        {
            "title": f"Town {n}",
            "paragraphs": [
                {
                    "context": f"the {what} of town number{n} is called {what}{n} today",
                    "qas": [
                        {
                            "id": f"{n}-{what}",
                            "question": f"{what} of number{n}",
                            "answers": [
                                {
                                    "text": f"{what}{n}",
                                    "answer_start": len(f"the {what} of town number{n} is called "),
                                }
                            ],
                        }
                    ],
                }
                for what in ("river", "church", "mill")
            ],
        }
        for n in range(count)
    ]
    (path / "all.json").write_text(json.dumps({"data": articles}), encoding="utf-8")
    return path


def experiment(**data) -> Experiment:
    analyses = [{"kind": "quality", "measures": ["RR"], "latency_queries": 0}]
    return Experiment.model_validate(
        {"title": "Long", "data": {"long": data}, "systems": {"BM25": "bm25"}, "analyses": analyses}
    )


def test_articles_are_made_once_and_again_for_another_recipe(tmp_path):
    sources = Sources({"towns": str(towns(tmp_path / "towns"))})
    first = experiment(made_of=["towns"], made_as="articles", split="fold1", recipe={"folds": 3})
    assert is_here("long", first.data["long"], sources)
    data = open_data("long", first, sources, tmp_path / "kept")
    assert data.collection.splits == ("fold1", "fold2", "fold3")
    manifest = tmp_path / "kept" / "long" / "articles" / "long-documents.json"
    written = manifest.stat().st_mtime_ns
    open_data("long", first, Sources(), tmp_path / "kept")  # its sets need not be here any more
    assert manifest.stat().st_mtime_ns == written
    other = experiment(made_of=["towns"], made_as="articles", split="fold1", recipe={"folds": 4})
    assert not is_here("long", other.data["long"], Sources(), tmp_path / "kept")
    assert len(open_data("long", other, sources, tmp_path / "kept").collection.splits) == 4


def test_far_relevant_documents_are_made_of_one_collection(tmp_path):
    sources = Sources({name: str(towns(tmp_path / name)) for name in ("a", "b")})
    recipe = {"beyond": 20, "length": 60, "filler": 0.5, "folds": 2}
    spec = experiment(made_of=["a"], made_as="far-relevant", split="fold1", recipe=recipe)
    collection = open_data("long", spec, sources, tmp_path / "kept").collection
    assert all(len(doc.text.split()) <= 60 for doc in collection.docs())
    two = experiment(made_of=["a", "b"], made_as="far-relevant", split="fold1", recipe=recipe)
    with pytest.raises(CollectionError, match="made of one collection, not of 2"):
        open_data("long", two, sources, tmp_path / "other")


@pytest.mark.parametrize("made_as", ["articles", "far-relevant", "ranking-set"])
def test_an_unknown_setting_of_a_recipe_is_refused(made_as, tmp_path):
    spec = DataSpec(made_of=("a",), made_as=made_as, recipe={"depths": 3})
    with pytest.raises(CollectionError, match=f"recipe of {made_as}: .*depths"):
        open_data(
            "long", experiment(**spec.model_dump()), Sources({"a": str(towns(tmp_path / "a"))}), tmp_path
        )


def run(tmp_path: Path, name: str, data: str, *sources: str):
    """A file of BeST without its models on made sets."""
    record = read_experiment(BEST / f"{name}.yaml").on(data).record()
    models = set(record.pop("models"))
    record["systems"] = {
        key: text for key, text in record["systems"].items() if not any(model in text for model in models)
    }
    record["systems"]["DFR"] = "dfr % 100"
    named = {"system", "baseline"}  # of an analysis of two systems with models
    record["analyses"] = [own for own in record["analyses"] if not named & own.keys()]
    record["training"] = {}
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(record, sort_keys=False), encoding="utf-8")
    (outcome,) = run_experiment(path, data=sources, output=tmp_path / "out")
    return (outcome.folder / "tables.md").read_text(encoding="utf-8")


def robust(path: Path) -> Path:
    docs = "".join(
        f"<DOC>\n<DOCNO>FT-{n}</DOCNO>\n<TEXT>\nword{n} and word{n % 5} of town\n</TEXT>\n</DOC>\n"
        for n in range(20)
    )
    (path / "ft").mkdir(parents=True)
    (path / "ft" / "1").write_text(docs)
    topics = (
        f"<top>\n<num> Number: {n}\n<title> word{n}\n<desc> Description:\nwhere is word{n} of town\n</top>\n"
        for n in range(10)
    )
    (path / "topics.robust04.txt").write_text("".join(topics))
    (path / "qrels.robust04.txt").write_text("".join(f"{n} 0 FT-{n} {1 + n % 2}\n" for n in range(10)))
    return path


@pytest.mark.parametrize("field", ["title", "description"])
def test_table_1_runs_on_a_made_set_of_the_format_of_robust04(field, tmp_path):
    name = f"robust04-{field}"
    tables = run(tmp_path, "table1", name, f"{name}={robust(tmp_path / 'disks')}")
    assert "Superscripts are the systems that differ, p \\< 0.01 in a paired t-test over 10 queries" in tables
    printed = {"title": "0.471", "description": "0.519"}[field]
    assert printed in tables
    assert "Not analysed: By the position of the known relevant text" in tables


def test_table_1_makes_its_long_documents_and_measures_by_position(tmp_path):
    for name in ("covid-qa", "squad2-dev-half", "xquad-en"):
        towns(tmp_path / "sets" / name)  # articles of the same titles: only those of the first are kept
    tables = run(tmp_path, "table1", "english-long-1", str(tmp_path / "sets"))
    assert "12 documents" in tables
    assert "0 to 127 (" in tables
    assert "By the position of the known relevant text" in tables


FILES = ("table1", "table2", "figure1", "figure2", "documents")


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_negatives_of_sets_that_are_here_are_relevant_elsewhere(name, small):
    """Folds and kept-back queries are by document: what no query of the training asks for is no negative."""
    spec = read_experiment(BEST / f"{name}.yaml", small=small)
    made = [data for data, own in spec.data.items() if not own.paper]
    assert made
    for data in made:
        assert spec.on(data).training["data"]["negatives"]["only"] == "relevant-elsewhere", data


def test_dev_queries_of_far_english_are_none_that_mono_bert_has_learned_from():
    """It learns from train queries of the slice of MS MARCO that far-english is made of."""
    spec = read_experiment(BEST / "figure2.yaml").on("far-english")
    learned = spec.models["monoBERT"].settings["data"]
    assert (learned["collection"], learned["split"]) == ("msmarco-slice", "train")
    (data,) = spec.data.values()
    assert data.made_of == ("msmarco-slice",)
    parts = {spec.training["dev"]["split"], data.split}
    assert parts == {f"{data.recipe['halved']}-{number}" for number in (1, 2)}
    assert data.recipe["halved"] != "train"


@pytest.mark.parametrize("name", FILES)
def test_robust04_is_in_table_1_alone_whose_systems_are_for_folds(name):
    spec = read_experiment(BEST / f"{name}.yaml")
    robust = [data for data in spec.data if data.startswith("robust04")]
    assert robust == (["robust04-title", "robust04-description"] if name == "table1" else [])
    for data in robust:
        own = spec.on(data)
        assert own.training["folds"] == 5
        assert "maxp" not in "".join(own.systems.values())


@pytest.mark.parametrize("data", ["far-english", "far-french"])
def test_segments_of_far_documents_need_most_of_the_known_passage(data):
    spec = read_experiment(BEST / "figure2.yaml")
    rules = {
        one: analysis.rule
        for one in (data, "english-long-1")
        for analysis in spec.on(one).analyses
        if analysis.kind == "segments"
    }
    assert rules == {data: "most", "english-long-1": "whole"}


@pytest.mark.parametrize("small", [False, True])
def test_every_aggregate_is_measured_by_position_where_relevant_text_is_known(small):
    spec = read_experiment(BEST / "documents.yaml", small=small)
    kinds = {data: [own.kind for own in spec.on(data).analyses] for data in ("dila", "french-long-1")}
    assert kinds == {"dila": ["quality"], "french-long-1": ["quality", "positions", "behind-first"]}
    (positions,) = (own for own in spec.analyses if own.kind == "positions")
    assert positions.systems is None
    assert spec.systems.keys() >= {"mean", "k-max", "Birch", "equation 21", "PARADE", "BeST"}


@pytest.mark.parametrize(
    ("name", "data"),
    [("table1", "english-long-1"), ("documents", "french-long-1"), ("figure2", "far-english")],
)
def test_best_is_compared_with_first_p_where_the_answer_is_not_in_the_first_segment(name, data):
    spec = read_experiment(BEST / f"{name}.yaml").on(data)
    (own,) = (one for one in spec.analyses if one.kind == "behind-first")
    assert own.system == "BeST"
    assert "firstp(rerank('BERT (First P)')" in spec.systems[own.baseline]


@pytest.mark.parametrize("name", ["documents", "figure2"])
def test_it_is_said_that_parade_reads_fewer_passages(name):
    spec = read_experiment(BEST / f"{name}.yaml")
    assert spec.models["PARADE"].settings["model"]["head"]["passages"] == 8
    assert "PARADE reads 8 passages of a document, not 16" in spec.about


@pytest.mark.parametrize("name", ["table1", "figure1", "figure2", "documents"])
def test_models_of_french_documents_split_french_sentences(name):
    """The first of them has learned from English passages; DILA's have learned from French articles."""
    spec = read_experiment(BEST / f"{name}.yaml")
    languages = {data: spec.on(data).training["model"]["language"] for data in spec.data}
    french = {data for data in spec.data if spec.data[data].analyzer == "french"}
    assert {data for data, language in languages.items() if language == "fr"} == french
    assert french
    assert spec.models["monoBERT"].settings["model"]["language"] == "en"
