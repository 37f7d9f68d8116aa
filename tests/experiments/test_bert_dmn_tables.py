"""BERT-DMN's tables and figure on files made in the formats of ANTIQUE and MS MARCO, with tiny encoders."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
import yaml
from small_bench import run_record, saved_results

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from papers import read_paper  # noqa: E402
from small_models import WORDS, save_vectors, small_encoder  # noqa: E402
from telerank.errors import CollectionError  # noqa: E402
from telerank.experiments.schema import merge  # noqa: E402

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Folders ``data`` and ``models``; a query is relevant to passages of two sentences with its words."""
    folder, draw = tmp_path_factory.mktemp("bert-dmn"), random.Random(5)
    small_encoder(folder / "models" / "tiny")
    save_vectors(folder / "models" / "vectors", WORDS, torch.randn(len(WORDS) + 2, 8))
    texts = [". ".join(" ".join(draw.choices(WORDS, k=4)) for _ in range(2)) for _ in range(PASSAGES)]
    docs = [f"{n}\t{text}" for n, text in enumerate(texts)]
    antique, marco = {"antique-collection.txt": docs}, {"collection.tsv": docs}
    for part, first in {"train": 0, "dev.small": QUERIES, "test2019": 2 * QUERIES}.items():
        queries = {qid: " ".join(texts[qid].split()[:3]) for qid in range(first, first + QUERIES)}
        grades = [(qid, qid + n, 4 - n) for qid in queries for n in range(4)]
        names = {
            "queries": f"queries.{part}.tsv",
            "qrels": f"qrels.{part}.tsv",
            "top": f"top1000.{part.removesuffix('.small')}.tsv",
        }
        if part == "test2019":
            names = {
                "queries": "msmarco-test2019-queries.tsv",
                "qrels": "2019qrels-pass.txt",
                "top": "msmarco-passagetest2019-top1000.tsv",
            }
        marco[names["queries"]] = [f"{qid}\t{text}" for qid, text in queries.items()]
        marco[names["top"]] = [f"{qid}\t{docno}\t{queries[qid]}\t{texts[docno]}" for qid, docno, _ in grades]
        if part == "test2019":  # the last query is not judged
            marco[names["qrels"]] = [f"{qid} Q0 {docno} {grade - 1}" for qid, docno, grade in grades[:-4]]
        else:
            marco[names["qrels"]] = [f"{qid}\t0\t{qid}\t1" for qid in queries]
        if part != "dev.small":
            name = part.removesuffix("2019")
            antique[f"antique-{name}-queries.txt"] = marco[names["queries"]]
            antique[f"antique-{name}.qrel"] = [f"{qid} U0 {docno} {grade}" for qid, docno, grade in grades]
    for name, files in (("antique", antique), ("msmarco", marco)):
        (folder / "data" / name).mkdir(parents=True)
        for file, lines in files.items():
            (folder / "data" / name / file).write_text(
                "".join(f"{line}\n" for line in lines), encoding="utf-8"
            )
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """The output of table 2, whose models figure 3 looks at."""
    return tmp_path_factory.mktemp("trained")


def run(folder: Path, output: Path, name: str, data: str, changes: dict | None = None):
    record = read_paper(f"bert-dmn/{name}", small=True).on(data).record()
    sources = {"data": [str(folder / "data")], "models": [str(folder / "models")]}
    (outcome,) = run_record(merge(record, changes or {}), output, name, on=[data], **sources)
    return outcome


def test_table_1_counts_what_each_set_has_beside_the_papers_numbers(folder, tmp_path):
    outcome = run(folder, tmp_path, "table1", "antique")
    text = (outcome.folder / "tables.md").read_text(encoding="utf-8")
    assert "| passages | 22 | 33,642 |" in text
    assert "| relevant passages of a test query | 2.00 | 9.60 |" in text
    antique = saved_results(outcome)[0]["values"]
    assert (antique["train queries"], antique["test queries"]) == (QUERIES, QUERIES)
    assert antique["passages"] == 22  # those that are judged: 0 to 10 and 16 to 26
    assert antique["words of a query"] == 3
    assert antique["words of a passage"] == 8
    assert antique["passages of a test query"] == 4
    assert antique["relevant passages of a test query"] == 2  # grades 3 and 4
    track = saved_results(run(folder, tmp_path, "table1", "msmarco"))[0]["values"]
    assert (track["test queries"], track["passages"]) == (QUERIES, PASSAGES)
    assert track["passages of a test query"] == 4
    assert track["relevant passages of a test query"] == 2  # grades 2 and 3


def test_table_1_counts_a_query_of_two_splits_once(folder, tmp_path):
    shutil.copytree(folder / "data" / "msmarco", tmp_path / "data" / "msmarco")
    shutil.copytree(folder / "models", tmp_path / "models")
    small = tmp_path / "data" / "msmarco" / "queries.dev.small.tsv"
    small.write_text(small.read_text(encoding="utf-8").replace("\n", " and more\n"), encoding="utf-8")
    shutil.copyfile(small, small.with_name("queries.dev.tsv"))
    track = saved_results(run(tmp_path, tmp_path / "output", "table1", "msmarco"))[0]["values"]
    assert track["words of a query"] == pytest.approx((3 + 5 + 3) / 3)


def test_the_memory_of_the_authors_stands_beside_that_of_the_text(folder, tmp_path):
    tiny = {name: value for name, value in TINY.items() if name != "models"}
    outcome = run(folder, tmp_path, "authors", "antique", tiny)
    assert not outcome.lacking
    assert {"BERT-DMN", "BERT-DMN, authors"} <= set(saved_results(outcome)[0]["means"])
    (config,) = tmp_path.glob("antique/trained/BERT-DMN_authors-*-0-*/config.yaml")
    record = yaml.safe_load(config.read_text(encoding="utf-8"))
    assert (record["model"]["head"]["gate"], record["optimisation"]["schedule"]) == ("authors", "constant")


@pytest.mark.parametrize("data", ["antique", "msmarco"])
def test_table_2_has_every_model_on_every_set(folder, trained, data):
    outcome = run(folder, trained, "table2", data, TINY)
    assert not outcome.lacking
    means = saved_results(outcome)[0]["means"]
    assert len(means) == 8
    names = {"antique": {"RR", "AP"}, "msmarco": {"RR(rel=2)", "AP(rel=2)", "RR", "AP"}}[data]
    assert all(own.keys() == names for own in means.values())
    text = (outcome.folder / "tables.md").read_text(encoding="utf-8")
    assert {"antique": "0.866", "msmarco": "0.889"}[data] in text
    config = yaml.safe_load(next(trained.glob(f"{data}/trained/BERT-0-*/config.yaml")).read_text())
    assert config["data"]["negatives"]["judged"] is (data == "antique")


def test_table_3_times_updates_of_both_models_in_both_kinds_of_epochs(folder, tmp_path):
    changes = merge({key: TINY[key] for key in ("training",)}, {"training": {"dev": None}})
    changes["training"]["optimisation"] = {"warm_up": 0}
    changes["analyses"] = [
        {"kind": "throughput", "models": ["BERT", "BERT-DMN-lite"], "batch": 4, "queries": 5, "rounds": 2}
    ]
    outcome = run(folder, tmp_path, "table3", "antique", changes)
    paces = saved_results(outcome)[0]["batches_per_second"]
    assert list(paces) == ["BERT", "BERT-DMN-lite, first epoch", "BERT-DMN-lite, later epochs"]
    assert all(len(own) == 2 and min(own) > 0 for own in paces.values())
    text = (outcome.folder / "tables.md").read_text(encoding="utf-8")
    assert all(value in text for value in ("1.71", "2.26", "5.32", "3.11"))  # 5.32 is 3.11 times 1.71
    assert not list(tmp_path.glob("antique/features/*"))  # every round stores its own, and throws them away


def test_figure_3_measures_the_start_and_the_models_of_table_2_on_the_same_pairs(folder, trained):
    others = dict.fromkeys(("QA-LSTM", "K-NRM", "DMN", "BERT-DMN-lite", "BERT-lite"))
    run(folder, trained, "table2", "msmarco", merge(TINY, {"systems": others}))
    before = sorted(path.name for path in trained.glob("msmarco/trained/*"))
    changes = {key: TINY[key] for key in ("training", "seeds", "queries")}
    outcome = run(folder, trained, "figure3", "msmarco", changes)
    assert sorted(path.name for path in trained.glob("msmarco/trained/*")) == before
    record = saved_results(outcome)[1]
    assert list(record["checkpoints"]) == ["BERT-lite", "BERT", "BERT-DMN"]
    assert {own["pairs"] for own in record["checkpoints"].values()} == {3}  # a tenth of 8 queries with 4
    assert (outcome.folder / "diffusion.png").exists()
    said = [note for note in outcome.notes if "the paper's order" in note]
    assert [note.partition(":")[0] for note in said] == ["CLS-query", "CLS-passage", "inner-passage"]


def test_what_is_not_here_says_what_it_needs(folder, tmp_path):
    changes = {key: TINY[key] for key in ("training", "seeds", "queries")}
    changes = merge(changes, {"training": {"model": {"start": "no-such/encoder"}}})
    outcome = run(folder, tmp_path, "figure3", "msmarco", changes)
    assert any("no system has trained BERT" in note or "nothing to start" in note for note in outcome.notes)
    throughput = {"analyses": [{"kind": "throughput", "models": ["DMN"]}]}
    says = "names the model 'DMN'; the experiment trains: BERT, BERT-DMN-lite"
    with pytest.raises(CollectionError, match=says):
        run(folder, tmp_path, "table3", "antique", throughput)
