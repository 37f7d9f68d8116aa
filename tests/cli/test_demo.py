"""``telerank demo``: needs nothing, shows the tables, writes the report, says what comes next."""

from __future__ import annotations

import shlex
from importlib.util import find_spec

import pytest
import yaml

import telerank
from commands import ok
from telerank.experiments import packaged
from telerank.experiments.schema import merge

pytestmark = pytest.mark.train

NEURAL = bool(find_spec("torch") and find_spec("transformers"))


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """The output of the demo with few queries and a model of few weights, and its folder."""
    folder = tmp_path_factory.mktemp("demo")
    record = yaml.safe_load((packaged.FOLDER / "demo.yaml").read_text(encoding="utf-8"))
    small = {"dev": 20, "queries": 60}
    if NEURAL:
        from small_models import small_encoder

        encoder = str(small_encoder(folder / "small-bert"))
        head = {"model": {"start": encoder, "max_query": 16, "max_length": 48}, "optimisation": {"epochs": 2}}
        training = {**head, "data": {"queries": 20}, "test": {"queries": 20}}
        small["models"] = {"encoder": encoder, "BERT-DMN-lite": training}
    (folder / "packaged").mkdir()
    text = yaml.safe_dump(merge(record, small), sort_keys=False)
    (folder / "packaged" / "demo.yaml").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packaged, "FOLDER", folder / "packaged")
        patch.setenv("HF_HUB_OFFLINE", "1")
        return ok("demo --output", folder / "out").stdout, folder / "out"


def test_it_shows_its_tables_what_was_measured_and_what_is_not_installed(shown):
    text = " ".join(shown[0].split())
    assert "First stages and a re-ranker on PIAF" in text
    assert "With and without preprocessing, at defaults and tuned" in text
    assert "(1,518 documents, 60 judged queries, 20 queries that choose" in text
    if NEURAL:
        assert "reciprocal ranks" in text
        assert "BERT-DMN-lite" in text
        assert "pip install" not in text
    else:
        assert "pip install 'telerank[neural]'" in text


def test_the_report_its_values_and_the_resolved_experiment_are_written(shown):
    names = {path.name for path in (shown[1] / "demo-piaf").iterdir()}
    assert {"report.html", "tables.md", "results.json", "experiment.yaml"} <= names
    assert any(name.endswith(".svg") for name in names)


def test_the_index_that_it_names_is_there(shown):
    commands = [line.strip() for line in shown[0].splitlines() if line.startswith("  telerank search")]
    index = telerank.open(shlex.split(commands[0])[2])
    assert "Gutenberg" in index.docs[index.bm25().search("Qui a invent\u00e9 l'imprimerie ?").docnos[0]].text
