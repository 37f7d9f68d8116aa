"""Experiments that train re-rankers, on a collection in which the word q7 asks for the word d7."""

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
from telerank.experiments.data import Sources
from telerank.experiments.schema import Experiment, merge
from telerank.experiments.trained import find_encoder, model_of
from telerank.trec import read_run
from telerank.verbs.experiment import run_experiment

QUERIES = 12
FILE = {
    "title": "A table of re-rankers",
    "source": "A paper",
    "data": {"small": {"about": "a small set", "split": "test", "analyzer": "none"}},
    "models": {
        "frozen": {"train": "reranker", "model": {"kind": "bert", "frozen": True}},
        "whole": {"train": "reranker", "seeds": [5], "model": {"kind": "monobert"}},
    },
    "systems": {
        "BM25": "bm25",
        "frozen": "BM25 % 4 >> rerank(frozen)",
        "whole": "BM25 % 4 >> rerank(whole)",
        "sum": "tuned(minmax(BM25), prob(frozen), by=AP, folds=5, grid=square)",
    },
    "seeds": [1, 2],
    "training": {
        "data": {"split": "train", "negatives": {"run": "BM25", "depth": 4}},
        "model": {"start": ["no-such-folder/of/anybody", "tiny"], "max_query": 8, "max_length": 24},
        "optimisation": {"steps": 4, "warm_up": 1, "batch": 4, "learning_rate": 0.003},
        "dev": {"split": "dev", "run": "BM25", "depth": 4, "every": 2},
    },
    "analyses": [{"kind": "quality", "measures": ["RR", "AP"], "latency_queries": 2}],
    "published": {"small": {"whole": {"AP": 0.5}}},
}
WHOLE = {"systems": {"frozen": None, "sum": None}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
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


def run(folder: Path, output: Path, changes=None, name="table", **options):
    output.mkdir(exist_ok=True)
    file = output / f"{name}.yaml"
    file.write_text(yaml.safe_dump(merge(FILE, changes or {}), sort_keys=False), encoding="utf-8")
    sources = {"data": [str(folder / "data")], "models": [str(folder / "starts")]}
    (outcome,) = run_experiment(file, output=output, **sources | options)
    return outcome


@pytest.fixture(scope="module")
def first(folder, tmp_path_factory):
    return run(folder, tmp_path_factory.mktemp("first"))


def result(outcome):
    return json.loads((outcome.folder / "results.json").read_text(encoding="utf-8"))["results"][0]


def test_each_seed_is_a_training_and_the_table_has_their_mean_and_deviation(first):
    record = result(first)
    values = [means["AP"] for means in record["by_seed"]["frozen"]]
    assert len(values) == 2
    assert record["means"]["frozen"]["AP"] == pytest.approx(sum(values) / 2)
    assert record["standard_deviation"]["frozen"]["AP"] == pytest.approx(abs(values[0] - values[1]) / 2**0.5)
    assert "whole" not in record["by_seed"]
    text = (first.folder / "tables.md").read_text(encoding="utf-8")
    assert "±" in text
    assert "(no-such-folder/of/anybody is not here)" in text


def test_candidates_are_reordered_and_no_other_documents_come(first):
    before = {r.query.qid: set(r.cut(4).docnos) for r in read_run(first.systems["BM25"].runs[0])}
    for name in ("frozen", "whole"):
        for path in first.systems[name].runs:
            after = {r.query.qid: set(r.docnos) for r in read_run(path)}
            assert after == {qid: docnos for qid, docnos in before.items() if docnos}


def test_weights_are_chosen_on_the_other_folds_for_each_seed(first):
    assert "of the other 4 of 5 folds" in first.systems["sum"].about
    assert len(first.systems["sum"].runs) == len(first.systems["frozen"].runs) == 2
    assert len(result(first)["by_seed"]["sum"]) == 2


def test_a_chain_with_a_trained_model_is_timed(first):
    times = result(first)["latency_ms"]
    assert times["whole"]["mean"] > times["BM25"]["mean"]
    assert "sum" not in times


BI_ENCODER = {
    "models": {
        "frozen": None,
        "whole": None,
        "two": {
            "train": "bi-encoder",
            "data": {"negatives": {"run": "BM25", "depth": 4}},
            "model": {"start": ["no-such-folder/of/anybody", "tiny"]},
            "optimisation": {"steps": 2, "warm_up": 1, "batch": 4},
        },
    },
    "systems": {
        "frozen": None,
        "whole": None,
        "sum": None,
        "two": "dense(two) % 9",
        "both": "minmax(BM25) + minmax(two)",
    },
    "published": None,
}


def test_a_bi_encoder_is_trained_when_a_system_needs_its_vectors(folder, tmp_path):
    outcome = run(folder, tmp_path, BI_ENCODER)
    assert outcome.systems["two"].about.startswith("dense(two) % 9: bi-encoder from tiny")
    assert len(outcome.systems["two"].runs) == len(outcome.systems["both"].runs) == 2
    models = sorted(tmp_path.glob("small/trained/two-*/model"))
    assert len(models) == 2
    again = run(folder, tmp_path, BI_ENCODER)
    assert sorted(tmp_path.glob("small/trained/two-*/model")) == models
    assert result(again)["means"] == result(outcome)["means"]
    given = run(folder, tmp_path / "given", BI_ENCODER, models=[f"two={models[0]}"])
    assert result(given)["means"]["two"] == result(outcome)["by_seed"]["two"][0]
    assert not (tmp_path / "given/small/trained").exists()


def test_documents_that_the_encoder_cuts_are_in_the_notes(folder, tmp_path):
    outcome = run(folder, tmp_path, merge(BI_ENCODER, {"models": {"two": {"model": {"document_length": 4}}}}))
    (note,) = (note for note in outcome.notes if "longer than 4 tokens: cut there" in note)
    assert note.startswith("two: dense(two) % 9: bi-encoder from tiny")
    assert "40 documents longer" in note


def test_a_wrong_setting_of_a_bi_encoder_names_the_model(folder, tmp_path):
    changes = merge(BI_ENCODER, {"models": {"two": {"max_length": 3}}})
    with pytest.raises(CollectionError, match="the training of two: expected known keys, not 'max_length'"):
        run(folder, tmp_path, changes)


def test_what_is_trained_is_not_trained_again(folder, first):
    output = first.folder.parent
    models = sorted(output.glob("small/trained/*/model/model.safetensors"))
    before = [model.stat().st_mtime_ns for model in models]
    run(folder, output)
    assert [model.stat().st_mtime_ns for model in models] == before
    assert len(models) == 3


def test_a_killed_training_whose_best_model_is_there_goes_on(folder, tmp_path):
    run(folder, tmp_path, WHOLE)
    (trained,) = tmp_path.glob("small/trained/*")
    assert not (trained / "checkpoints").exists()
    (trained / "checkpoints").mkdir()  # as if killed before the first checkpoint
    (trained / "log.jsonl").unlink()
    run(folder, tmp_path, WHOLE)
    assert (trained / "log.jsonl").exists()
    assert not (trained / "checkpoints").exists()


def test_a_training_is_known_by_its_content_wherever_the_data_lies(folder, first, tmp_path):
    for name in ("data", "starts"):
        shutil.copytree(folder / name, tmp_path / name)
    shutil.copytree(first.folder.parent / "small", tmp_path / "out" / "small")
    other = run(tmp_path, tmp_path / "out", name="other", seeds=[2, 5])
    runs = [path for name in ("frozen", "whole") for path in other.systems[name].runs]
    expected = [["frozen", "2"], ["frozen", "5"], ["whole", "2"], ["whole", "5"]]
    trainings = [model_of(path).parent for path in runs]
    assert [training.name.split("-")[:2] for training in trainings] == expected
    assert trainings[0].name == model_of(first.systems["frozen"].runs[1]).parent.name
    assert str(folder) in (trainings[0] / "config.yaml").read_text()  # not written again
    assert str(tmp_path) in (trainings[1] / "config.yaml").read_text()


def test_another_start_or_other_data_is_another_training(folder, tmp_path):
    mine = tmp_path / "mine"
    for name in ("starts", "data"):
        shutil.copytree(folder / name, mine / name)
    trained = tmp_path / "out" / "small" / "trained"
    run(mine, tmp_path / "out", WHOLE)
    run(mine, tmp_path / "out", WHOLE)
    assert len(list(trained.iterdir())) == 1
    shutil.rmtree(mine / "starts" / "tiny")
    small_encoder(mine / "starts" / "tiny", seed=1)
    run(mine, tmp_path / "out", WHOLE)
    assert len(list(trained.iterdir())) == 2
    with (mine / "data" / "small" / "corpus.jsonl").open("a") as corpus:
        corpus.write('\n{"_id": "new", "title": "", "text": "x1"}')
    run(mine, tmp_path / "out", WHOLE)
    assert len(list(trained.iterdir())) == 3


def test_other_known_passages_are_another_training(folder, tmp_path):
    answers = tmp_path / "answers.jsonl"
    lines = [{"query-id": f"train{i}", "corpus-id": f"d{i}", "text": f"d{i}", "start": 0} for i in range(12)]
    answers.write_text("\n".join(map(json.dumps, lines)))
    segments = {"select": "gold", "window": "whole", "answers": str(answers)}
    changes = {**WHOLE, "models": {"whole": {"data": {"segments": segments}}}}
    trained = tmp_path / "small" / "trained"
    run(folder, tmp_path, changes)
    run(folder, tmp_path, changes)
    assert len(list(trained.iterdir())) == 1
    answers.write_text("\n".join(map(json.dumps, lines[:6])))
    run(folder, tmp_path, changes)
    assert len(list(trained.iterdir())) == 2


def test_other_answers_of_the_collection_are_another_training_on_known_passages(folder, tmp_path):
    shutil.copytree(folder / "data", tmp_path / "data")
    shutil.copytree(folder / "starts", tmp_path / "starts")
    answers = tmp_path / "data" / "small" / "answers" / "train.jsonl"
    answers.parent.mkdir()
    lines = [{"query-id": f"train{i}", "corpus-id": f"d{i}", "text": f"d{i}", "start": 0} for i in range(12)]
    trained = tmp_path / "out" / "small" / "trained"
    for select, count in (("gold", 2), ("first", 3)):
        models = {"whole": {"data": {"segments": {"select": select, "window": "whole"}}}}
        for some in (lines, lines[:6]):
            answers.write_text("\n".join(map(json.dumps, some)))
            run(tmp_path, tmp_path / "out", {**WHOLE, "models": models})
        assert len(list(trained.iterdir())) == count


def test_a_model_of_known_passages_is_missing_where_there_are_none(folder, tmp_path):
    models = {"whole": {"data": {"segments": {"select": "gold", "window": "whole"}}}}
    outcome = run(folder, tmp_path, {**WHOLE, "models": models})
    assert "small has no known passages of split 'train'" in outcome.lacking["whole"]
    assert "data.segments.answers" in outcome.lacking["whole"]
    assert result(outcome)["means"].keys() == {"BM25"}


def test_only_some_queries_measure_if_the_file_says_so(folder, tmp_path):
    few = run(folder, tmp_path, {**WHOLE, "queries": 5})
    assert few.data.counts["judged queries"] == 5
    assert sum(1 for _ in read_run(few.systems["BM25"].runs[0])) == 5
    (test,) = tmp_path.glob("small/trained/*/tests/*/test.json")
    tested = json.loads(test.read_text())
    assert tested["queries"] == sum(1 for _ in read_run(few.systems["whole"].runs[0]))
    assert tested["measures"]["AP"] == pytest.approx(result(few)["means"]["whole"]["AP"])


@pytest.mark.parametrize("option", ["models", "systems"])
def test_a_trained_re_ranker_can_be_given_instead(folder, first, tmp_path, option):
    model = next(first.folder.parent.glob("small/trained/whole-*/model"))
    given = {"models": [f"whole={model}"]} if option == "models" else {"systems": {"whole": str(model)}}
    outcome = run(folder, tmp_path, WHOLE, **given)
    assert not (tmp_path / "small" / "trained").exists()
    docnos = {r.query.qid: r.docnos for r in read_run(outcome.systems["whole"].runs[0]) if r.docnos}
    assert docnos == {r.query.qid: r.docnos for r in read_run(first.systems["whole"].runs[0])}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"models": {"whole": {"loss": {"objective": "hope"}}}},
            r"the training of whole: expected loss\.objective",
        ),
        (
            {"models": {"whole": {"data": {"split": "test"}}}, "systems": {"whole": "rerank(whole)"}},
            "whole learns from queries that measure: it is trained by a system",
        ),
        (
            {
                "models": {"two": {"train": "bi-encoder", "model": {"start": "tiny"}}},
                "systems": {"two": "BM25 >> rerank(two)"},
            },
            r"two is a bi-encoder: it does not re-rank; dense\(two\) retrieves",
        ),
    ],
)
def test_a_mistake_names_the_model_or_the_system(folder, tmp_path, changes, says):
    with pytest.raises(CollectionError, match=says):
        run(folder, tmp_path, merge(WHOLE, changes))


def test_a_training_is_shared_by_candidates_and_by_experiments(folder, first, tmp_path):
    shutil.copytree(first.folder.parent / "small", tmp_path / "small")
    systems = {
        "frozen": None,
        "sum": None,
        "whole": "BM25 % 3 >> rerank(whole)",
        "more": "BM25 % 6 >> rerank(whole)",
    }
    before = {path.name for path in tmp_path.glob("small/trained/*")}
    outcome = run(folder, tmp_path, {"systems": systems}, name="other")
    assert {path.name for path in tmp_path.glob("small/trained/*")} == before
    (training,) = tmp_path.glob("small/trained/whole-*")
    assert len(list(training.glob("tests/*/test.run.gz"))) == 3
    assert all(path.is_relative_to(training) for path in outcome.systems["more"].runs)
    for name, count in (("whole", 3), ("more", 6)):
        assert max(len(ranking) for ranking in read_run(outcome.systems[name].runs[0])) == count


RERANKING = {"kind": "reranking", "measure": "RR@10", "depths": [2, 4], "rerankers": {"R": "rerank(frozen)"}}


def test_an_analysis_trains_its_re_ranker_and_re_ranks_with_each_seed(folder, tmp_path):
    systems = {"frozen": None, "whole": None, "sum": None}
    outcome = run(folder, tmp_path, {"systems": systems, "analyses": [RERANKING]})
    assert len(list(tmp_path.glob("small/trained/frozen-*/model"))) == 2
    record = result(outcome)
    assert len(record["by_seed"]["BM25"]) == 2
    values = [curve[1] for curve in record["by_seed"]["BM25"]]
    assert record["RR@10"]["BM25"][1] == pytest.approx(sum(values) / 2)
    assert "±" in (outcome.folder / "tables.md").read_text(encoding="utf-8")
    expected = run(folder, tmp_path, {"systems": {"whole": None, "sum": None}}, name="again")
    (first_seed, second_seed) = result(expected)["by_seed"]["frozen"]
    assert values == pytest.approx([first_seed["RR"], second_seed["RR"]], abs=1e-3)


def test_a_re_ranker_learns_from_the_negatives_of_a_trained_bi_encoder(folder, tmp_path):
    changes = merge(BI_ENCODER, {"models": {"whole": FILE["models"]["whole"]}, "systems": {"both": None}})
    changes["models"]["whole"]["data"] = {"negatives": {"run": "two", "depth": 3}}
    changes["models"]["whole"]["dev"] = {"run": "BM25"}
    changes["systems"] |= {"re-ranked": "two % 4 >> rerank(whole)"}
    outcome = run(folder, tmp_path, changes)
    (training,) = tmp_path.glob("small/trained/whole-5-*")
    negatives = yaml.safe_load((training / "config.yaml").read_text())["data"]["negatives"]["run"]
    answered = list(read_run(negatives))
    assert len(answered) == QUERIES
    assert {len(ranking) for ranking in answered} == {3}  # a bi-encoder ranks any document
    assert len(outcome.systems["re-ranked"].runs) == 1
    again = run(folder, tmp_path, changes)
    assert again.systems["re-ranked"].runs == outcome.systems["re-ranked"].runs


def test_a_start_that_is_nowhere_leaves_the_system_out(folder, tmp_path):
    changes = {**WHOLE, "training": {"model": {"start": "no-such-folder/of/anybody"}}}
    outcome = run(folder, tmp_path, changes)
    assert "nothing to start from is here: no-such-folder/of/anybody" in outcome.lacking["whole"]


def test_a_model_starts_from_one_that_is_trained_before_it(folder, tmp_path):
    models = {
        "whole": {"seeds": [5, 6]},
        "longer": {"train": "reranker", "seeds": [1, 2], "model": {"start": "whole"}},
    }
    systems = {"frozen": None, "sum": None, "whole": None, "longer": "BM25 % 4 >> rerank(longer)"}
    outcome = run(folder, tmp_path, {"models": models, "systems": systems})
    trained = tmp_path / "small" / "trained"
    starts = {
        seed: yaml.safe_load(next(trained.glob(f"longer-{seed}-*/config.yaml")).read_text())["model"]["start"]
        for seed in (1, 2)
    }
    assert [Path(starts[seed]).parent.name.rsplit("-", 1)[0] for seed in (1, 2)] == ["whole-5", "whole-6"]
    said = "monobert from whole (monobert from tiny (no-such-folder/of/anybody is not here), trained with 2 seeds)"
    assert said in " ".join(outcome.notes)


@pytest.mark.parametrize(
    ("start", "says"),
    [
        ("longer", "the model 'longer' starts from 'longer', which is no model above it"),
        (["tiny", "whole"], "the model 'longer' starts from 'whole', which is one of several"),
    ],
)
def test_a_start_that_is_trained_stands_above_and_alone(start, says):
    models = {"longer": {"train": "reranker", "model": {"start": start}}}
    with pytest.raises(ValueError, match=says):
        Experiment.model_validate(merge(FILE, {"models": models}))


def test_settings_are_merged_key_by_key():
    base = {"a": {"b": 1, "c": {"d": 2}}, "e": 3}
    assert merge(base, {"a": {"c": {"d": 4}}, "e": None}) == {"a": {"b": 1, "c": {"d": 4}}}
    assert base == {"a": {"b": 1, "c": {"d": 2}}, "e": 3}


def test_what_a_model_does_not_read_of_its_texts_is_said(folder, tmp_path):
    """Three special tokens, two of a question and three of a document are one too many; no question is cut."""
    model = {"max_length": 7, "max_query": "none"}
    changes = merge(WHOLE, {"models": {"whole": {"model": model}}})
    about = run(folder, tmp_path, changes).systems["whole"].about
    assert "24 pairs learned from whose document was cut" in about
    assert "dev pairs whose document was cut" in about
    assert about.endswith("test pairs whose document was cut")
    assert "query was cut" not in about


def test_the_hub_is_asked_before_the_next_name_and_after_what_the_user_names(monkeypatch, folder):
    monkeypatch.setattr("telerank.models.loading.locate", lambda name: folder / name)
    starts = folder / "starts"
    assert find_encoder(["on-the-hub", "tiny"], Sources({}, (starts,))) == "on-the-hub"
    assert find_encoder(["tiny", "on-the-hub"], Sources({}, (starts,))) == str(starts / "tiny")
    assert find_encoder(["on-the-hub", "tiny"], Sources({"tiny": "given"})) == "given"
