"""Experiments that train re-rankers, on a collection in which the word q7 asks for the word d7."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from small_bench import run_record, saved_results

pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_models import small_encoder
from small_set import write_beir
from telerank.errors import CollectionError
from telerank.experiments.data import Sources
from telerank.experiments.schema import merge
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
    docs = [{"_id": f"d{i}", "title": "", "text": f"d{i} x{i % 5} x{i % 7}"} for i in range(40)]
    splits = ("train", "dev", "test")
    queries = {f"{split}{i}": f"q{i} x{i % 5}" for split in splits for i in range(QUERIES)}
    qrels = {split: [(f"{split}{i}", f"d{i}", 1) for i in range(QUERIES)] for split in splits}
    write_beir(folder / "data" / "small", docs, queries, qrels)
    return folder


def run(folder: Path, output: Path, changes=None, name="table", **options):
    sources = {"data": [str(folder / "data")], "models": [str(folder / "starts")]}
    (outcome,) = run_record(merge(FILE, changes or {}), output, name, **sources | options)
    return outcome


@pytest.fixture(scope="module")
def first(folder, tmp_path_factory):
    return run(folder, tmp_path_factory.mktemp("first"))


def result(outcome):
    return saved_results(outcome)[0]


def write_answers(path: Path, count: int) -> None:
    lines = (
        {"query-id": f"train{i}", "corpus-id": f"d{i}", "text": f"d{i}", "start": 0} for i in range(count)
    )
    path.write_text("\n".join(map(json.dumps, lines)))


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


def test_a_chain_with_a_trained_model_is_timed_and_weights_are_chosen_on_other_folds_for_each_seed(first):
    times = result(first)["latency_ms"]
    assert times.keys() == {"BM25", "frozen", "whole"}
    assert all(time["mean"] > 0 for time in times.values())
    assert "of the other 4 of 5 folds" in first.systems["sum"].about
    assert len(first.systems["sum"].runs) == len(first.systems["frozen"].runs) == 2
    assert len(result(first)["by_seed"]["sum"]) == 2


BI_ENCODER = {
    "models": {
        "frozen": None,
        "whole": None,
        "two": {
            "train": "bi-encoder",
            "data": {"negatives": {"run": "BM25", "depth": 4}},
            "model": {"start": ["no-such-folder/of/anybody", "tiny"], "document_length": 4},
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
    (note,) = (note for note in outcome.notes if "longer than 4 tokens: cut there" in note)
    assert note.startswith("two: dense(two) % 9: bi-encoder from tiny")
    assert "40 documents longer" in note
    models = sorted(tmp_path.glob("small/trained/two-*/model"))
    assert len(models) == 2
    again = run(folder, tmp_path, BI_ENCODER)
    assert sorted(tmp_path.glob("small/trained/two-*/model")) == models
    assert result(again)["means"] == result(outcome)["means"]
    given = run(folder, tmp_path / "given", BI_ENCODER, models=[f"two={models[0]}"])
    assert result(given)["means"]["two"] == result(outcome)["by_seed"]["two"][0]
    assert not (tmp_path / "given/small/trained").exists()


def test_a_sparse_encoder_is_trained_and_weighs_the_documents(folder, tmp_path):
    splade = {"train": "splade", "model": {"max_length": 16}, "seeds": [3]}
    two = merge(BI_ENCODER["models"]["two"], splade)
    del two["model"]["document_length"]
    changes = {"models": {**BI_ENCODER["models"], "two": None, "sparse": two}}
    systems = {**BI_ENCODER["systems"], "two": "impact(sparse) % 9"}
    outcome = run(folder, tmp_path, {**BI_ENCODER, **changes, "systems": systems})
    assert outcome.systems["two"].about.startswith("impact(sparse) % 9: splade from tiny")
    assert len(outcome.systems["two"].runs) == 1
    assert len([*tmp_path.glob("small/weights-sparse-*/manifest.json")]) == 1


def test_what_is_trained_is_not_trained_again(folder, first):
    output = first.folder.parent
    models = sorted(output.glob("small/trained/*/model/model.safetensors"))
    before = [model.stat().st_mtime_ns for model in models]
    run(folder, output)
    assert [model.stat().st_mtime_ns for model in models] == before
    assert len(models) == 3


def test_what_some_queries_measure_and_what_is_not_read_is_said_and_a_killed_training_goes_on(
    folder, tmp_path
):
    """It learns from texts that it does not read whole, and some of the queries measure; both is said.

    Three special tokens, two of a question and three of a document are one too many; no question is cut.
    """
    changes = merge(
        WHOLE, {"models": {"whole": {"model": {"max_length": 7, "max_query": "none"}}}, "queries": 5}
    )
    outcome = run(folder, tmp_path, changes)
    about = outcome.systems["whole"].about
    assert "24 pairs learned from whose document was cut" in about
    assert "dev pairs whose document was cut" in about
    assert about.endswith("test pairs whose document was cut")
    assert "query was cut" not in about
    assert outcome.data.counts["judged queries"] == 5
    assert sum(1 for _ in read_run(outcome.systems["BM25"].runs[0])) == 5
    (test,) = tmp_path.glob("small/trained/*/tests/*/test.json")
    saved = json.loads(test.read_text())
    assert saved["queries"] == sum(1 for _ in read_run(outcome.systems["whole"].runs[0]))
    assert saved["measures"]["AP"] == pytest.approx(result(outcome)["means"]["whole"]["AP"])
    (trained,) = tmp_path.glob("small/trained/*")
    assert not (trained / "checkpoints").exists()
    (trained / "checkpoints").mkdir()  # as if killed before the first checkpoint
    (trained / "log.jsonl").unlink()
    run(folder, tmp_path, changes)
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


def test_every_training_takes_another_precision_and_an_experiment_without_one_refuses_it(folder, tmp_path):
    (tmp_path / "table.yaml").write_text(
        yaml.safe_dump(merge(FILE, WHOLE | {"training": {"precision": "bfloat16"}}))
    )
    options = {"data": [str(folder / "data")], "models": [str(folder / "starts")], "output": tmp_path / "out"}
    run_experiment(tmp_path / "table.yaml", precision="float32", **options)
    (config,) = (tmp_path / "out").glob("small/trained/*/config.yaml")
    assert yaml.safe_load(config.read_text())["precision"] == "float32"
    with pytest.raises(
        CollectionError, match="no model of this experiment is trained: leave out the precision"
    ):
        run_experiment("piaf/table1", small=True, precision="float32", **options)


def test_another_start_or_other_data_is_another_training(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    collection, answers = tmp_path / "data" / "small", tmp_path / "answers.jsonl"

    def count_trainings(**segments) -> int:
        models = {"whole": {"data": {"segments": {"window": "whole", **segments}}}} if segments else {}
        run(tmp_path, tmp_path / "out", {**WHOLE, "models": models})
        return len(list((tmp_path / "out" / "small" / "trained").iterdir()))

    assert count_trainings() == 1
    shutil.rmtree(tmp_path / "starts" / "tiny")
    small_encoder(tmp_path / "starts" / "tiny", seed=1)
    assert count_trainings() == 2
    with (collection / "qrels" / "train.tsv").open("a") as qrels:  # no list of candidates changes
        qrels.write("train0\td20\t1\n")
    assert count_trainings() == 3
    for answered, count in ((12, 4), (12, 4), (6, 5)):
        write_answers(answers, answered)
        assert count_trainings(select="gold", answers=str(answers)) == count
    (collection / "answers").mkdir()
    for select, answered, count in (("gold", 12, 6), ("gold", 6, 7), ("first", 12, 8), ("first", 6, 8)):
        write_answers(collection / "answers" / "train.jsonl", answered)
        assert count_trainings(select=select) == count


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        (
            {"models": {"whole": {"data": {"segments": {"select": "gold", "window": "whole"}}}}},
            ("small has no known passages of split 'train'", "data.segments.answers"),
        ),
        (
            {"training": {"model": {"start": "no-such-folder/of/anybody"}}},
            ("nothing to start from is here: no-such-folder/of/anybody",),
        ),
    ],
)
def test_a_model_that_cannot_be_trained_here_is_missing_with_its_reason(folder, tmp_path, changes, reasons):
    outcome = run(folder, tmp_path, merge(WHOLE, changes))
    assert all(reason in outcome.lacking["whole"] for reason in reasons)
    assert result(outcome)["means"].keys() == {"BM25"}


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
        (
            {
                "models": {"two": {"train": "bi-encoder", "model": {"start": "tiny"}, "max_length": 3}},
                "systems": {"two": "dense(two)"},
            },
            "the training of two: expected known keys, not 'max_length'",
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


RERANKING = {"kind": "reranking", "measures": "RR@10", "depths": [2, 4], "rerankers": {"R": "rerank(frozen)"}}


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


def test_the_hub_is_asked_before_the_next_name_and_after_what_the_user_names(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("TELERANK_MODELS", str(tmp_path))  # what is there is found as on the hub
    shutil.copytree(folder / "starts" / "tiny", tmp_path / "on-the-hub")
    starts = folder / "starts"
    assert find_encoder(["on-the-hub", "tiny"], Sources({}, (starts,))) == "on-the-hub"
    assert find_encoder(["tiny", "on-the-hub"], Sources({}, (starts,))) == str(starts / "tiny")
    assert find_encoder(["on-the-hub", "tiny"], Sources({"tiny": "given"})) == "given"
