"""BERT-DMN's tables and figure on files made in the formats of ANTIQUE and MS MARCO, with tiny encoders."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest
import yaml

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_models import WORDS, save_vectors, small_encoder  # noqa: E402
from telerank.errors import CollectionError  # noqa: E402
from telerank.experiments.packaged import FOLDER  # noqa: E402
from telerank.experiments.schema import merge, read_experiment  # noqa: E402
from telerank.verbs.experiment import run_experiment  # noqa: E402

PASSAGES, QUERIES = 60, 8
TINY = {
    "training": {
        "data": {"queries": 4},
        "model": {"start": "tiny", "max_query": 8, "max_length": 40},
        "optimisation": {"epochs": 2, "warm_up": 0.1, "batch": 2},
        "dev": {"every": 4, "patience": 8, "queries": 3},
        "precision": "float32",
    },
    "models": {
        **{name: {"optimisation": {"epochs": 1}} for name in ("BERT-DMN-lite", "BERT-lite")},
        **{
            name: {"model": {"start": "vectors"}, "optimisation": {"epochs": 1, "warm_up": 0}}
            for name in ("QA-LSTM", "K-NRM", "DMN")
        },
    },
    "seeds": [0],
    "queries": None,
}


def write(folder: Path, files: dict[str, list[str]]) -> None:
    folder.mkdir(parents=True)
    for name, lines in files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Folders ``data`` and ``models``; a query is relevant to passages of two sentences with its words."""
    place, draw = tmp_path_factory.mktemp("place"), random.Random(5)
    small_encoder(place / "models" / "tiny")
    save_vectors(place / "models" / "vectors", WORDS, torch.randn(len(WORDS) + 2, 8))
    texts = [". ".join(" ".join(draw.choices(WORDS, k=4)) for _ in range(2)) for _ in range(PASSAGES)]
    parts = {"train": 0, "dev.small": QUERIES, "test2019": 2 * QUERIES, "test": 2 * QUERIES}
    queries = {
        part: {str(n): " ".join(texts[n].split()[:3]) for n in range(first, first + QUERIES)}
        for part, first in parts.items()
    }
    judged = {n: {n: 4, n + 1: 3, n + 2: 2, n + 3: 1} for n in range(3 * QUERIES)}
    tab = {part: [f"{qid}\t{text}" for qid, text in own.items()] for part, own in queries.items()}
    tops = {
        part: [f"{qid}\t{docno}\t{own[qid]}\t{texts[docno]}" for qid in own for docno in judged[int(qid)]]
        for part, own in queries.items()
    }
    grades = {
        part: [(qid, docno, grade) for qid in own for docno, grade in judged[int(qid)].items()]
        for part, own in queries.items()
    }
    docs = [f"{n}\t{text}" for n, text in enumerate(texts)]
    write(
        place / "data" / "antique",
        {
            "antique-collection.txt": docs,
            **{f"antique-{part}-queries.txt": tab[part] for part in ("train", "test")},
            **{
                f"antique-{part}.qrel": [f"{qid} U0 {docno} {grade}" for qid, docno, grade in grades[part]]
                for part in ("train", "test")
            },
        },
    )
    write(
        place / "data" / "msmarco",
        {
            "collection.tsv": docs,
            "queries.train.tsv": tab["train"],
            "qrels.train.tsv": [
                f"{qid}\t0\t{docno}\t1" for qid, docno, grade in grades["train"] if grade == 4
            ],
            "top1000.train.tsv": tops["train"],
            "queries.dev.small.tsv": tab["dev.small"],
            "qrels.dev.small.tsv": [f"{q}\t0\t{d}\t1" for q, d, grade in grades["dev.small"] if grade == 4],
            "top1000.dev.tsv": tops["dev.small"],
            "msmarco-test2019-queries.tsv": tab["test2019"],
            # the last query is not judged
            "2019qrels-pass.txt": [f"{q} Q0 {d} {g - 1}" for q, d, g in grades["test2019"][:-4]],
            "msmarco-passagetest2019-top1000.tsv": tops["test2019"],
        },
    )
    return place


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """The output of table 2, whose models figure 3 looks at."""
    return tmp_path_factory.mktemp("trained")


def run(place: Path, output: Path, name: str, data: str, changes: dict | None = None):
    record = read_experiment(FOLDER / "bert-dmn" / f"{name}.yaml", small=True).on(data).record()
    output.mkdir(exist_ok=True)
    file = output / f"{name}.yaml"
    file.write_text(yaml.safe_dump(merge(record, changes or {}), sort_keys=False), encoding="utf-8")
    sources = {"data": [str(place / "data")], "models": [str(place / "models")]}
    (outcome,) = run_experiment(file, output=output, on=[data], **sources)
    return outcome


def results(outcome, position: int = 0):
    return json.loads((outcome.folder / "results.json").read_text(encoding="utf-8"))["results"][position]


def test_table_1_counts_what_each_set_has(place, tmp_path):
    antique = results(run(place, tmp_path, "table1", "antique"))["values"]
    assert (antique["train queries"], antique["test queries"]) == (QUERIES, QUERIES)
    assert antique["passages"] == 22  # those that are judged: 0 to 10 and 16 to 26
    assert antique["words of a query"] == 3
    assert antique["words of a passage"] == 8
    assert antique["passages of a test query"] == 4
    assert antique["relevant passages of a test query"] == 2  # grades 3 and 4
    track = results(run(place, tmp_path, "table1", "msmarco"))["values"]
    assert (track["test queries"], track["passages"]) == (QUERIES, PASSAGES)
    assert track["passages of a test query"] == 4
    assert track["relevant passages of a test query"] == 2  # grades 2 and 3


def test_table_1_counts_a_query_of_two_splits_once(place, tmp_path):
    shutil.copytree(place / "data" / "msmarco", tmp_path / "data" / "msmarco")
    shutil.copytree(place / "models", tmp_path / "models")
    small = tmp_path / "data" / "msmarco" / "queries.dev.small.tsv"
    small.write_text(small.read_text(encoding="utf-8").replace("\n", " and more\n"), encoding="utf-8")
    shutil.copyfile(small, small.with_name("queries.dev.tsv"))
    track = results(run(tmp_path, tmp_path / "output", "table1", "msmarco"))["values"]
    assert track["words of a query"] == pytest.approx((3 + 5 + 3) / 3)


def test_table_1_has_the_papers_column(place, tmp_path):
    text = (run(place, tmp_path, "table1", "antique").folder / "tables.md").read_text(encoding="utf-8")
    assert "| passages | 22 | 33,642 |" in text
    assert "| relevant passages of a test query | 2.00 | 9.60 |" in text


@pytest.mark.parametrize("data", ["antique", "msmarco"])
def test_table_2_has_every_model_on_every_set(place, trained, data):
    outcome = run(place, trained, "table2", data, TINY)
    assert not outcome.lacking
    means = results(outcome)["means"]
    assert len(means) == 8
    names = {"antique": {"RR", "AP"}, "msmarco": {"RR(rel=2)", "AP(rel=2)", "RR", "AP"}}[data]
    assert all(own.keys() == names for own in means.values())
    text = (outcome.folder / "tables.md").read_text(encoding="utf-8")
    assert {"antique": "0.866", "msmarco": "0.889"}[data] in text
    config = yaml.safe_load(next(trained.glob(f"{data}/trained/BERT-0-*/config.yaml")).read_text())
    assert config["data"]["negatives"]["judged"] is (data == "antique")


def test_table_3_times_updates_of_both_models_in_both_kinds_of_epochs(place, tmp_path):
    changes = merge({key: TINY[key] for key in ("training",)}, {"training": {"dev": None}})
    changes["training"]["optimisation"] = {"warm_up": 0}
    changes["analyses"] = [
        {"kind": "throughput", "models": ["BERT", "BERT-DMN-lite"], "batch": 4, "queries": 5, "rounds": 2}
    ]
    outcome = run(place, tmp_path, "table3", "antique", changes)
    paces = results(outcome)["batches_per_second"]
    assert list(paces) == ["BERT", "BERT-DMN-lite, first epoch", "BERT-DMN-lite, later epochs"]
    assert all(len(own) == 2 and min(own) > 0 for own in paces.values())
    text = (outcome.folder / "tables.md").read_text(encoding="utf-8")
    assert all(value in text for value in ("1.71", "2.26", "5.32", "3.11"))  # 5.32 is 3.11 times 1.71
    assert not list(tmp_path.glob("antique/features/*"))  # every round stores its own, and throws them away


def test_figure_3_measures_the_start_and_the_models_of_table_2_on_the_same_pairs(place, trained):
    others = dict.fromkeys(("QA-LSTM", "K-NRM", "DMN", "BERT-DMN-lite", "BERT-lite"))
    run(place, trained, "table2", "msmarco", merge(TINY, {"systems": others}))
    before = sorted(path.name for path in trained.glob("msmarco/trained/*"))
    changes = {key: TINY[key] for key in ("training", "seeds", "queries")}
    outcome = run(place, trained, "figure3", "msmarco", changes)
    assert sorted(path.name for path in trained.glob("msmarco/trained/*")) == before
    record = results(outcome, 1)
    assert list(record["checkpoints"]) == ["BERT-lite", "BERT", "BERT-DMN"]
    assert {own["pairs"] for own in record["checkpoints"].values()} == {3}  # a tenth of 8 queries with 4
    assert (outcome.folder / "diffusion.png").exists()
    said = [note for note in outcome.notes if "the paper's order" in note]
    assert [note.partition(":")[0] for note in said] == ["CLS-query", "CLS-passage", "inner-passage"]


def test_what_is_not_here_says_what_it_needs(place, tmp_path):
    changes = merge(TINY, {"training": {"model": {"start": "no-such/encoder"}}})
    words = {"systems": dict.fromkeys(("QA-LSTM", "K-NRM", "DMN"))}
    outcome = run(place, tmp_path, "table2", "antique", merge(changes, words))
    assert set(outcome.lacking) == {"BERT-DMN-lite", "BERT-lite", "BERT", "BERT-DMN"}
    assert "nothing to start from is here: no-such/encoder" in outcome.lacking["BERT"]
    changes = {key: changes[key] for key in ("training", "seeds", "queries")}
    outcome = run(place, tmp_path, "figure3", "msmarco", changes)
    assert any("no system has trained BERT" in note or "nothing to start" in note for note in outcome.notes)
    with pytest.raises(
        CollectionError, match="names the model 'DMN'; the experiment trains: BERT, BERT-DMN-lite"
    ):
        run(
            place, tmp_path, "table3", "antique",
            {"analyses": [{"kind": "throughput", "models": ["DMN"]}]},
        )  # fmt: skip
