"""Experiments that make long documents of collections, and the files of BeST on made sets of their formats."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_bench import run_record

from papers import read_paper
from telerank.errors import CollectionError
from telerank.experiments.data import Sources, is_here, open_data
from telerank.experiments.schema import Experiment


def towns(path: Path, count: int = 12) -> Path:
    """A set in SQuAD's format: each article has three paragraphs with a question each."""
    path.mkdir(parents=True)
    articles = [
        {"title": f"Town {n}", "paragraphs": [paragraph(n, what) for what in ("river", "church", "mill")]}
        for n in range(count)
    ]
    (path / "all.json").write_text(json.dumps({"data": articles}), encoding="utf-8")
    return path


def paragraph(n: int, what: str) -> dict:
    before = f"the {what} of town number{n} is called "
    answer = {"text": f"{what}{n}", "answer_start": len(before)}
    question = {"id": f"{n}-{what}", "question": f"{what} of number{n}", "answers": [answer]}
    return {"context": f"{before}{what}{n} today", "qas": [question]}


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
    spec = experiment(made_of=["a"], made_as=made_as, recipe={"depths": 3})
    with pytest.raises(CollectionError, match=f"recipe of {made_as}: .*depths"):
        open_data("long", spec, Sources({"a": str(towns(tmp_path / "a"))}), tmp_path)


def run(tmp_path: Path, data: str, *sources: str):
    """Table 1 of BeST without its models on made sets."""
    record = read_paper("best/table1").on(data).record()
    models = set(record.pop("models"))
    record["systems"] = {
        key: text for key, text in record["systems"].items() if not any(model in text for model in models)
    }
    record["systems"]["DFR"] = "dfr % 100"
    named = {"system", "baseline"}  # of an analysis of two systems with models
    record["analyses"] = [own for own in record["analyses"] if not named & own.keys()]
    record["training"] = {}
    (outcome,) = run_record(record, tmp_path, data=sources)
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
    tables = run(tmp_path, name, f"{name}={robust(tmp_path / 'disks')}")
    assert "Superscripts are the systems that differ, p \\< 0.01 in a paired t-test over 10 queries" in tables
    printed = {"title": "0.471", "description": "0.519"}[field]
    assert printed in tables
    assert "Not analysed: By the position of the known relevant text" in tables


def test_table_1_makes_its_long_documents_and_measures_by_position(tmp_path):
    for name in ("covid-qa", "squad2-dev-half", "xquad-en"):
        towns(tmp_path / "sets" / name)  # articles of the same titles: only those of the first are kept
    tables = run(tmp_path, "english-long-1", str(tmp_path / "sets"))
    assert "12 documents" in tables
    assert "0 to 127 (" in tables
    assert "By the position of the known relevant text" in tables
