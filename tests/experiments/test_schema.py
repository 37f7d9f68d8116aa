"""The file of an experiment: what it is merged of, and files that are refused."""

from __future__ import annotations

import pytest
import yaml

from papers import read_paper, training
from telerank.errors import FormatError
from telerank.experiments.analysis import select_published
from telerank.experiments.functions import ExperimentFunctions
from telerank.experiments.schema import EXPERIMENT_FUNCTIONS, Experiment, merge, read_experiment
from telerank.pipelines.functions import FUNCTIONS
from telerank.verbs.experiment import expected_time

FILE = {
    "title": "A table",
    "data": {"words": {}},
    "systems": {"BM25": "bm25"},
    "analyses": [{"kind": "recall", "depths": [1]}],
}
TUNING = {"kind": "tuning", "objective": "AP", "measures": ["AP"]}
TWO_MODELS = {
    "m": {"train": "reranker"},
    "n": {"train": "reranker", "model": {"start": ["tiny", "m"]}},
}


def write(tmp_path, **changes):
    path = tmp_path / "table.yaml"
    path.write_text(yaml.safe_dump({**FILE, **changes}, sort_keys=False), encoding="utf-8")
    return path


def test_a_file_is_merged_over_its_base_and_their_overlays_over_both(tmp_path):
    base = {**FILE, "title": "A base", "small": {"depth": 7, "queries": 3}}
    (tmp_path / "_base.yaml").write_text(yaml.safe_dump(base))
    over = {"base": "_base.yaml", "title": "Mine", "systems": {"LM": "lm_dirichlet"}}
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**over, "small": {"queries": None}}))
    body, copy = read_experiment(path), read_experiment(path, small=True)
    assert (body.title, list(body.systems), body.depth) == ("Mine", ["BM25", "LM"], 1000)
    assert (copy.depth, copy.queries) == (7, None)
    (tmp_path / "_base.yaml").unlink()
    with pytest.raises(FormatError, match=r"a file beside it as base, got '_base\.yaml'"):
        read_experiment(path)


def test_a_file_that_is_based_on_itself_is_refused_with_the_chain(tmp_path):
    for name, base in (("loop", "loop"), ("a", "b"), ("b", "a")):
        (tmp_path / f"{name}.yaml").write_text(f"base: {base}.yaml\n")
    for name, chain in (("loop", ("loop", "loop")), ("a", ("a", "b", "a"))):
        named = " → ".join(str(tmp_path / f"{file}.yaml") for file in chain)
        with pytest.raises(FormatError, match="not based on itself") as refused:
            read_experiment(tmp_path / f"{name}.yaml")
        assert named in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sytems": {}}, "known keys, not 'sytems'; did you mean 'systems'"),
        (
            {"systems": {"a": "bm25 %"}},
            r"system 'a': 'bm25 %': expected a name, a number or '\(', got the end",
        ),
        ({"systems": {"B": "C % 5", "C": "bm25"}}, "system 'B' names 'C', which is defined below it"),
        ({"systems": {"B": "minmax(B)"}}, "system 'B' names itself: a system is made of those above"),
        ({"systems": {"B": "linear(bm25, dfr)"}}, r"system 'B': .linear.*: unknown function 'linear'"),
        ({"data": {}}, "data: Dictionary should have at least 1 item"),
        ({"data": {"a": {"colour": "red"}}}, r"known keys, not 'data\.a\.colour'"),
        ({"data": {"a": {"differs": {"sistems": {}}}}}, "data 'a': differs: known keys, not 'sistems'; did"),
        ({"published": {"trec": {}}}, "published values of 'trec', which is none of the data"),
        ({"models": {"m": {"train": "poet"}}}, "train"),
        (
            {"models": {"m": {"train": "reranker", "model": {"start": "m"}}}},
            "the model 'm' starts from 'm', which is no model above it",
        ),
        ({"models": TWO_MODELS}, "the model 'n' starts from 'm', which is one of several"),
        ({"analyses": [{"kind": "beauty"}]}, "analyses.0: kind: expected one of quality, .*, got 'beauty'"),
        ({"analyses": [{"kind": "quality"}]}, "measures: Field required"),
        ({"analyses": [{"kind": "quality", "measures": ["Beauty"]}]}, "there is no measure 'Beauty'"),
        (
            {"analyses": [{"kind": "quality", "measures": ["AP"], "baseline": "nothing"}]},
            "names 'nothing', which is no system",
        ),
        (
            {"analyses": [{"kind": "quality", "measures": ["AP"], "tests": {}, "baseline": "BM25"}]},
            "have no baseline",
        ),
        ({"analyses": [{"kind": "recall", "depths": [0]}]}, "greater than or equal to 1"),
        ({"analyses": [{"kind": "recall", "depths": [1], "colour": 1}]}, "known keys, not .*colour"),
        ({"analyses": [{"kind": "combination", "measures": "RR AP"}]}, "expected one measure, got 'RR AP'"),
        (
            {"analyses": [{"kind": "consistency", "depths": [1], "references": ["nothing"]}]},
            "names 'nothing'",
        ),
        ({"analyses": [{"kind": "positions", "measures": "AP", "edges": [5, 2]}]}, "edges must rise"),
        ({"analyses": [{**TUNING, "families": ["bm52"]}]}, "bm52"),
        ({"analyses": [{**TUNING, "systems": ["BM25"]}]}, "leave out `systems`"),
        ({"analyses": [{**TUNING, "depth_measures": ["R@5"]}]}, "measures by depth take no cutoff"),
    ],
)
def test_a_wrong_file_is_refused_in_a_line(tmp_path, changes, says):
    with pytest.raises(FormatError, match=says) as refused:
        read_experiment(write(tmp_path, **changes))
    assert "\n" not in str(refused.value)


def test_a_system_may_have_the_name_of_a_function_that_is_meant_below_it():
    systems = {"A": "bm25 % 10", "bm25": "bm25 % 5"}
    assert Experiment.model_validate({**FILE, "systems": systems}).systems == systems


def test_on_merges_what_differs_and_keeps_the_printed_values():
    experiment = read_paper("bert-dmn/table2")
    assert experiment.on("antique").systems["candidates"] == "judged"
    assert experiment.on("antique").published["antique"]["BERT"] == {"AP": 0.697, "RR": 0.849}
    assert experiment.on("insuranceqa-v2").systems == experiment.systems
    deep_learning = experiment.on("msmarco")
    assert list(deep_learning.data) == ["msmarco"]
    assert training(deep_learning, "BERT").optimisation.warm_up == 10_000
    assert training(deep_learning, "K-NRM").optimisation.warm_up == 0
    guided = read_paper("monobert/table1").on("msmarco-slice")
    assert guided.systems["candidates"] == "pool(top20)"
    assert guided.published["msmarco-slice"]["BERT base"] == {"RR@10": 0.347}


def test_published_values_of_other_data_are_a_rough_guide():
    published = {"msmarco": {"BM25": {"AP": 0.2}}, "antique": {"BM25": {"AP": 0.3}}}
    assert select_published(published, "antique") == published["antique"]
    assert select_published(published, "words") == published["msmarco"]
    assert select_published({}, "words") == {}


def test_the_functions_of_experiments_are_those_that_are_read():
    functions = ExperimentFunctions(None, None, "test").all()
    assert set(EXPERIMENT_FUNCTIONS) == functions.keys() - FUNCTIONS.keys()


def test_settings_are_merged_key_by_key():
    base = {"a": {"b": 1, "c": {"d": 2}}, "e": 3}
    assert merge(base, {"a": {"c": {"d": 4}}, "e": None}) == {"a": {"b": 1, "c": {"d": 4}}}
    assert base == {"a": {"b": 1, "c": {"d": 2}}, "e": 3}


def test_the_expected_time_is_that_of_the_file(tmp_path):
    path = write(tmp_path, small={"minutes": 3})
    assert expected_time(path) == ""
    assert expected_time(path, small=True) == "about 3 minutes on two cores"
    path = write(tmp_path, small={"minutes": {"scifact": 31.4, "cranfield": 1}})
    said = "about 31 minutes for scifact, at most a minute for cranfield on two cores"
    assert expected_time(path, small=True) == said
    assert expected_time(write(tmp_path, minutes=0.2)) == "at most a minute on two cores"
    with_models = write(tmp_path, minutes=45, models={"MiniLM": "minilm"})
    kept = "trainings, vectors and indexes that are kept are not made again"
    assert expected_time(with_models) == f"about 45 minutes on two cores; {kept}"
