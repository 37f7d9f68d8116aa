"""``telerank demo``: needs nothing, shows the tables, writes the report, says what comes next."""

from __future__ import annotations

import shlex
from importlib.util import find_spec

import pytest
import yaml

import telerank
from commands import ok
from telerank.corpus.derived.articles import ArticleParts, article_name
from telerank.experiments import packaged
from telerank.experiments.schema import merge

TRAINING = packaged.find_training("e5/reader")
pytestmark = pytest.mark.train

NEURAL = bool(find_spec("torch") and find_spec("transformers"))


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """The output of the demo with few queries and a model of few weights, and its folder."""
    folder = tmp_path_factory.mktemp("demo")
    record = yaml.safe_load((packaged.FOLDER / "demo.yaml").read_text(encoding="utf-8"))
    small = {"dev": 20, "queries": 40}
    if NEURAL:
        from small_models import small_encoder
        from small_readers import small_reader
        from small_rerankers import small_reranker
        from telerank.models.readers import save_reader
        from telerank.models.rerankers.reranker import save_reranker

        save_reranker(small_reranker(folder / "starts"), folder / "re-ranker")
        save_reader(small_reader(folder / "starts", max_length=64, stride=16), folder / "reader")
        small_encoder(folder / "encoder")
        small["models"] = {name: str(folder / name) for name in ("encoder", "re-ranker", "reader")}
    (folder / "packaged").mkdir()
    text = yaml.safe_dump(merge(record, small), sort_keys=False)
    (folder / "packaged" / "demo.yaml").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packaged, "FOLDER", folder / "packaged")
        patch.setenv("HF_HUB_OFFLINE", "1")
        return ok("demo --output", folder / "out").stdout, folder / "out"


def test_it_says_what_follows_shows_its_tables_and_what_is_not_installed(shown):
    text = " ".join(shown[0].split())
    assert text.startswith("Questions about paragraphs of the French Wikipedia (PIAF) that no model here has")
    assert "With and without preprocessing, at defaults and tuned" in text
    assert "(326 documents, 40 judged queries, 20 queries that choose" in text
    if NEURAL:
        header = next(line for line in shown[0].splitlines() if "F1(fr)" in line)
        assert header.split() == ["system", "R@1", "R@5", "AP@15", "F1(fr)"]
        rows = shown[0].split(header)[1].splitlines()[2:6]
        assert [line.split()[0] for line in rows] == ["BM25", "dense", "hybrid", "re-ranked"]
        assert "The first 5 questions, with re-ranked" in text
        assert "about" in text.split("It takes ")[1][:10]
    else:
        assert "pip install 'telerank[neural,e5]'" in text


def test_no_document_is_of_an_article_that_the_models_have_learned_from(shown):
    parts = ArticleParts(**yaml.safe_load(TRAINING.read_text(encoding="utf-8"))["articles"])
    data = telerank.piaf()
    held_out = [doc for doc in data.docs() if parts.part_of(article_name(doc, data.name)) == "test"]
    index = telerank.open(shown[1] / "piaf-held-out" / "index-french")
    assert {index.docs[docno].text for docno in index.docs} == {doc.text for doc in held_out}


def test_the_report_its_values_and_the_resolved_experiment_are_written(shown):
    names = {path.name for path in (shown[1] / "demo-piaf-held-out").iterdir()}
    assert {"report.html", "tables.md", "results.json", "experiment.yaml"} <= names
    assert any(name.endswith(".svg") for name in names)


def test_the_index_that_it_names_is_there(shown):
    commands = [line.strip() for line in shown[0].splitlines() if line.startswith("  telerank search")]
    index = telerank.open(shlex.split(commands[0])[2])
    found = index.bm25().search("Combien pèse un rhinocéros ?")
    assert index.docs[found.docnos[0]].title == "Rhinocéros blanc"
