"""Experiments with readers: trained once, measured on held-out articles and end to end."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from small_bench import saved_results

pytest.importorskip("torch")
pytest.importorskip("transformers")

from reader_place import LENGTHS, reader_place, squad_file

from small_set import write_beir
from telerank.errors import CollectionError
from telerank.experiments.data import Sources
from telerank.experiments.run import RunOptions, run_experiment
from telerank.experiments.schema import Experiment

SHARES = {"test": 0.25, "dev": 0.25, "seed": 10}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = reader_place(tmp_path_factory.mktemp("place"))
    for name in ("one", "two"):
        (folder / name).mkdir()
        squad_file(folder / name / f"{name}.json", seed=name == "two", unanswerable=name == "two")
    return folder


def record(place, **changes):
    training = {
        "train": "reader",
        "data": {"sets": [{"collection": name, "part": "train"} for name in ("one", "two", "absent")]},
        "dev": {
            "sets": [{"collection": "two", "part": "dev"}],
            "every": 4,
            "patience": 4,
            "measures": "F1(fr)",
        },
        "model": {"start": [str(place / "encoder")], "language": "fr", **LENGTHS},
        "articles": SHARES,
        "optimisation": {"steps": 4, "batch": 6, "learning_rate": 0.003, "warm_up": 0},
    }
    base = {
        "title": "Answers",
        "data": {
            "both": {
                "split": "test",
                "analyzer": "casefold|words",
                "made_of": ["one", "two"],
                "made_as": "article-parts",
                "recipe": SHARES,
            }
        },
        "models": {"reader": training},
        "systems": {"BM25": "bm25 % 4", "LM": "lm_dirichlet % 4"},
        "analyses": [
            {
                "kind": "answers",
                "articles": SHARES,
                "readers": ["reader"],
                "sets": {
                    "ONE": {"collection": "one", "part": "test"},
                    "TWO": {"collection": "two", "part": "test"},
                    "unrelated": {
                        "collection": "one",
                        "part": "test",
                        "unrelated": 1.0,
                        "unrelated_from": "two",
                    },
                    "gone": {"collection": "absent", "part": "test"},
                },
            },
            {
                "kind": "end-to-end",
                "reader": "reader",
                "documents": 3,
                "depths": [1, 3],
                "folds": 2,
                "examples": 2,
            },
            {
                "kind": "quality",
                "measures": ["R@1"],
                "baseline": "BM25",
                "reader": "reader",
                "answers": ["EM", "F1"],
                "documents": 3,
                "examples": 2,
                "latency_queries": 0,
            },
        ],
        "depth": 4,
        "seeds": [0, 1],
    }
    return {**base, **changes}


def run(place, folder, spec, *others):
    sources = Sources.of([str(place), *map(str, others)])
    return run_experiment(Experiment.model_validate(spec), "answers", RunOptions(folder, sources))[0]


@pytest.fixture(scope="module")
def outcome(place, tmp_path_factory):
    return run(place, tmp_path_factory.mktemp("out"), record(place))


def captions(result):
    return [table.caption for table in result.tables]


def test_answers_are_measured_on_each_set_that_is_here(outcome):
    answers, *_ = outcome.results
    assert captions(answers)[0] == "Answers in given texts, held-out articles"
    rows = [[cell.text for cell in row] for row in answers.tables[0].rows]
    assert [row[:3] for row in rows] == [
        ["ONE", "reader", "12"],
        ["TWO", "reader", "16"],
        ["unrelated", "reader", "24"],
    ]
    assert all("±" in cell for row in rows for cell in row[3:])  # two seeds
    assert "TWO: With and without an answer" in captions(answers)
    parts = answers.tables[captions(answers).index("TWO: With and without an answer")]
    assert [row[1].text for row in parts.rows] == ["all", "HasAns", "NoAns"]
    assert all("±" in cell.text for row in parts.rows for cell in row[3:])
    assert "ONE: by question word" in captions(answers)
    assert "ONE: With and without an answer" not in captions(answers)
    assert captions(answers)[-1] == "Confidences"
    assert set(answers.plots) == {
        "confidences-reader-ONE",
        "confidences-reader-TWO",
        "confidences-reader-unrelated",
    }
    assert any("absent" in note and "not here" in note for note in answers.notes)
    assert len(answers.record["reader"]["ONE"]["seeds"]) == 2


def test_answers_end_to_end_have_both_denominators(outcome):
    _, system, _ = outcome.results
    assert captions(system) == [
        "Answers end to end",
        "Recall of answers",
        "The reader's weight",
        "Where answers come from",
        "The first 2 questions, with the first system",
    ]
    record = system.record["BM25"]
    assert set(record) == {"retrieved", "all questions", "where retrieved", "recall of answers", "mu"}
    assert record["recall of answers"]["answer@1"] <= record["recall of answers"]["answer@3"]
    assert record["all questions"]["EM"] <= record["where retrieved"]["EM"] or record["retrieved"] == 1
    # of two articles in each set, which are held out
    assert system.record["sources"]["LM"]["questions"] == len(outcome.data.judged.queries) == 24
    assert "The reader is reader, of the first seed; it reads 3 documents." in system.notes


def test_a_reader_that_is_given_is_named(place, outcome, tmp_path):
    (own,) = (outcome.folder.parent / "readers").glob("reader-0-*/model")
    spec = alone(place, 1)
    (result,) = run(place, tmp_path, {**spec, "models": {"reader": str(own)}}).results
    assert f"The reader is {own}; it reads 3 documents." in result.notes


def test_what_a_system_finds_and_what_a_reader_answers_from_it_stand_in_one_table(outcome):
    _, system, both = outcome.results
    table, examples = both.tables
    assert [row[0].text for row in table.rows] == ["BM25", "LM"]
    assert list(both.record["means"]["BM25"]) == ["R@1", "EM", "F1"]
    assert examples.caption == "The first 2 questions, with LM"
    assert "Answers: reader reads the first 3 documents; none counts 0." in both.notes
    for name, values in both.record["means"].items():  # that it may decline costs, and gains nothing
        assert values["F1"] <= system.record[name]["all questions"]["F1"] + 1e-9
    assert {row["measure"] for row in both.record["differences"]} == {"R@1", "EM", "F1"}


def test_readers_are_kept_and_trained_once(place, outcome):
    folder = outcome.folder.parent
    models = sorted((folder / "readers").glob("reader-*/model/model.safetensors"))
    before = [model.stat().st_mtime_ns for model in models]
    run(place, folder, alone(place, 0) | {"depth": 3})
    assert sorted((folder / "readers").glob("*/model/model.safetensors")) == models
    assert [model.stat().st_mtime_ns for model in models] == before
    assert len(models) == 2
    assert not [*(folder / "readers").glob("*/checkpoints")]
    assert saved_results(outcome)


def sizes_record(place, learned, **changes):
    spec = record(place, seeds=[0])
    spec["models"]["reader"]["data"] = {"sets": [{"collection": name, "part": "train"} for name in learned]}
    spec["models"]["reader"]["dev"] = None
    small = {"kind": "answer-sizes", "articles": SHARES, "reader": "reader", "questions": [900, 4]}
    spec["analyses"] = [{**small, "sets": {"ONE": {"collection": "one", "part": "test"}}, **changes}]
    return spec


def test_a_reader_is_measured_by_the_number_of_questions_that_it_learns_from(place, tmp_path):
    (result,) = run(place, tmp_path, sizes_record(place, ["one"])).results
    (table,) = result.tables
    rows = [[cell.text for cell in row] for row in table.rows]
    assert [row[:2] for row in rows] == [["ONE", "4 questions"], ["ONE", "24 questions"]]
    assert set(result.plots) == {"answer-sizes"}
    assert [panel.get_ylabel() for panel in result.plots["answer-sizes"].axes] == ["F1(fr)", "EM(fr)"]
    assert list(result.record["questions"]) == [4, 24]
    assert any("24 questions to learn from: 900 left out" in note for note in result.notes)
    settings = [path.read_text() for path in (tmp_path / "readers").glob("reader-0-*/*.yaml")]
    assert sorted("questions: 4" in text for text in settings) == [False, True]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (lambda place: sizes_record(place, ["one", "two"]), "reader learns from 2 sets: expected one"),
        (
            lambda place: sizes_record(place, ["one"], reader="other"),
            "'other' is no reader of the experiment",
        ),
        (
            lambda place: sizes_record(place, ["one"], measures=["AP"]),
            "expected measures of answers: 'AP' is not",
        ),
        (lambda place: alone(place, 0, articles={"seed": 4}), "keeps other articles apart"),
        (lambda place: alone(place, 0, readers=["other"]), "'other' is no reader of the experiment"),
        (
            lambda place: alone(place, 1, folds=4) | {"queries": 3},
            "3 questions with an answer, fewer than 4 folds",
        ),
        (lambda place: alone(place, 2, answers=["AP"]), "expected measures of answers: 'AP' is not"),
    ],
)
def test_what_cannot_be_measured_is_refused(place, tmp_path, spec, says):
    with pytest.raises((CollectionError, ValidationError), match=says):
        run(place, tmp_path, spec(place))


def alone(place, position: int, **changes):
    """The experiment with one seed and one of its analyses, under changes of it."""
    spec = record(place, seeds=[0])
    return {**spec, "analyses": [{**spec["analyses"][position], **changes}]}


def test_a_collection_without_answers_says_where_answers_come_from(place, tmp_path):
    """As DILA: relevant documents are known, answers are not."""
    docs = [{"_id": f"d{n}", "title": f"Sheet {n}", "text": f"d{n} x1 x2 d{n + 1}"} for n in range(12)]
    queries = {f"s{n}": f"q{n} d{n}" for n in range(6)}
    qrels = {"test": [(f"s{n}", f"d{n}", 1) for n in range(6)]}
    write_beir(tmp_path / "data" / "sheets", docs, queries, qrels)
    spec = record(place, seeds=[0], data={"sheets": {"split": "test", "analyzer": "casefold|words"}})
    spec["analyses"] = spec["analyses"][1:2]
    (result,) = run(place, tmp_path / "out", spec, tmp_path / "data").results
    assert captions(result) == ["Where answers come from", "The first 2 questions, with the first system"]
    assert set(result.record) == {"sources"}
    assert (
        result.tables[1].rows[0][2].text.startswith("Sheet")
        or result.tables[1].rows[0][1].text == "no answer"
    )


def test_a_re_ranker_starts_from_the_weights_of_a_reader_that_is_trained_before_it(place, tmp_path):
    from safetensors.torch import load_file

    spec = record(place, seeds=[0])
    spec["models"]["ranker"] = {
        "train": "reranker",
        "data": {"split": "train", "negatives": {"run": "bm25 % 4", "depth": 4}},
        "model": {"kind": "bert", "start": "reader", "language": "fr", "max_query": 8, "max_length": 32},
        "loss": {"objective": "pointwise"},
        "optimisation": {"steps": 1, "batch": 2, "learning_rate": 1e-9, "warm_up": 0, "weight_decay": 0.0},
        "dev": None,
    }
    spec["systems"] = {"BM25": "bm25 % 4", "ranked": "BM25 >> rerank(ranker)"}
    outcome = run(place, tmp_path, spec)
    assert "ranked" in outcome.systems
    assert outcome.systems["ranked"].about.startswith("bert from reader (reader from encoder")
    (reader,) = tmp_path.rglob("reader-0-*/model/model.safetensors")
    (ranker,) = tmp_path.rglob("ranker-0-*/model/model.safetensors")
    learned, started = load_file(reader), load_file(ranker)
    names = [name for name in learned if name.partition(".")[2] in started]
    assert len(names) >= 10
    for name in names:
        assert (learned[name] - started[name.partition(".")[2]]).abs().max() < 1e-6
