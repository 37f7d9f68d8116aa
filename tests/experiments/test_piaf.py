"""The Piaf report's experiments on made sets of the same format: counts, losses, a grid, maps, two bi-encoders."""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
import yaml
from small_bench import cells, run_record

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("sklearn")

from papers import read_paper
from small_models import small_encoder
from telerank.errors import CollectionError
from telerank.experiments.schema import merge
from telerank.training.log import read_log

SETS = ("squad-fr", "fquad", "piaf")
WORDS = ("Que", "Qui a", "Combien de", "De quoi", "Le", "Quel", "Où", "Quelle")
PARAGRAPHS, QUESTIONS = 20, 3
NAME = "squadfr-fquad-piaf"


def squad(name: str, number: int) -> dict:
    """A set in SQuAD's format: the word d7 answers the questions with q7; paragraphs share other words."""
    paragraphs = []
    for i in range(PARAGRAPHS):
        row = number * PARAGRAPHS + i
        questions = [
            {
                "id": f"{name}{row}-{j}",
                "question": f"{WORDS[(row + j) % len(WORDS)]} q{row % 40} x{row % 5} x{j} {name} ?",
                "answers": [{"text": f"réponse {row}", "answer_start": 0}],
            }
            for j in range(QUESTIONS)
        ]
        text = f"réponse {row} d{row % 40} " + " ".join(f"x{(row + k) % 7}" for k in range(6))
        paragraphs.append({"context": text, "qas": questions})
    return {"version": "1.1", "data": [{"title": name, "paragraphs": paragraphs}]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("piaf")
    for number, name in enumerate(SETS):
        (folder / "data" / name).mkdir(parents=True)
        file = folder / "data" / name / "train.json"
        file.write_text(json.dumps(squad(name, number), ensure_ascii=False), encoding="utf-8")
    sheets = folder / "data" / "dila"
    (sheets / "qrels").mkdir(parents=True)
    docs = [{"_id": f"F{n}", "title": "", "text": f"d{n} " + " x1 x2 x3" * 20} for n in range(30)]
    asked = [{"_id": f"qF{n}", "text": f"Quel q{n} x1 ?"} for n in range(12)]
    for name, records in (("corpus", docs), ("queries", asked)):
        (sheets / f"{name}.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    judged = "".join(f"qF{n}\tF{n}\t1\n" for n in range(12))
    (sheets / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    small_encoder(folder / "starts" / "camembert-base")
    return folder


def run(folder: Path, name: str, *changes, **options):
    """A packaged experiment on the made sets, in its small copy, under some changes."""
    record = reduce(merge, changes, merge(read_paper(f"piaf/{name}", small=True).record(), {"queries": None}))
    sources = {"data": [str(folder / "data")], "models": [str(folder / "starts")]}
    (outcome,) = run_record(record, folder / "out", name, **sources | options)
    assert outcome.data.name in (NAME, "dila")
    return outcome


def test_the_counts_stand_beside_those_of_the_report(folder):
    (result,) = run(folder, "ranking-set").results
    counts, splits = result.tables
    total = len(SETS) * PARAGRAPHS * QUESTIONS
    assert cells(counts)["unique questions"] == [f"{total}", "125,440"]
    assert cells(counts)["unique documents"] == [str(len(SETS) * PARAGRAPHS), "28,144"]
    assert cells(counts)["tokens of the longest question"][1] == "65"
    assert splits.columns == ("", "unique questions", "paper", "question-document pairs", "paper")
    rows = cells(splits)
    assert sum(int(row[0]) for row in rows.values()) == total
    assert [row[1] for row in rows.values()] == ["100,352", "12,544", "12,544"]
    pairs = [int(row[2].replace(",", "")) for row in cells(splits).values()]
    assert sum(pairs) == int(cells(counts)["question-document pairs"][0].replace(",", ""))
    assert "Lengths are in tokens of camembert-base." in result.notes
    assert "No question is in two splits." in result.notes


def test_questions_have_the_types_of_their_first_words_and_documents_no_titles_of_their_articles(folder):
    (result,) = run(folder, "table3").results
    (table,) = result.tables
    assert table.columns == ("", "questions", "%", "paper")
    rows = cells(table)
    assert sum(int(row[0]) for row in rows.values()) == len(SETS) * PARAGRAPHS * QUESTIONS
    assert (rows["Que"][2], rows["quoi"][2], rows["others"][2]) == ("49.7", "4.0", "7.5")
    assert int(rows["Que"][0]) > int(rows["quoi"][0]) > 0  # "Que", "Quel", "Quelle" are one type
    assert rows["Pourquoi"][0] == "0"
    assert list(result.plots) == ["question-words"]
    ranking_set = folder / "out" / NAME / "ranking-set"
    documents = (ranking_set / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["title"] for line in documents} == {""}
    manifest = ranking_set / "ranking-set.json"
    record = json.loads(manifest.read_text(encoding="utf-8"))
    assert record["recipe"]["titles"] is False
    changed = record | {"recipe": record["recipe"] | {"titles": True}}
    manifest.write_text(json.dumps(changed), encoding="utf-8")
    run(folder, "table3")  # a set that was made otherwise is made anew
    assert json.loads(manifest.read_text(encoding="utf-8")) == record


def test_the_lengths_of_inputs_are_in_the_bins_of_the_report_and_its_figures_are_drawn(folder):
    figures = [
        analysis
        for name in ("figure7", "figure8", "figure9")
        for analysis in read_paper(f"piaf/{name}", small=True).record()["analyses"]
    ]
    lengths = read_paper("piaf/table4", small=True).record()["analyses"]
    outcome = run(folder, "table4", {"analyses": [*lengths, *figures]})
    rows = cells(outcome.results[0].tables[0])
    assert list(rows) == ["[0,112[", "[112,212[", "[212,312[", "[312,412[", "[412,512]", "+512"]
    assert rows["[0,112["][2:] == ["1.000", "0.150"]
    assert rows["+512"][0:2] == ["0", "2,262"]
    plots = [[*result.plots] for result in outcome.results[1:]]
    assert plots == [["question-lengths"], ["document-lengths"], ["class-balance"]]
    assert all((outcome.folder / f"{plot}.svg").is_file() for (plot,) in plots)


def test_without_an_encoder_the_terms_of_the_analyzer_are_counted(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    changes = {"analyses": [{"kind": "ranking-set", "parts": ["counts"], "tokenizer": ["no/such/encoder"]}]}
    (result,) = run(folder, "ranking-set", changes, models=[]).results
    assert "Lengths are in terms of the analyzer french." in result.notes


TRAINING = {
    "training": {
        "data": {"queries": 60},
        "model": {"max_length": 64},
        "dev": {"queries": 8},
        "precision": "float32",
    },
    "models": {
        "MonoBERT classifier": {
            "model": {"head": {"hidden": [8]}},
            "optimisation": {"epochs": 3, "batch": 8},
        },
        "MonoBERT ranker, fine-tuned": {"optimisation": {"epochs": 1}, "seeds": [0]},
    },
    "seeds": [0],
}


def test_the_losses_of_a_training_are_drawn_and_are_those_of_its_log(folder):
    outcome = run(folder, "figure11", TRAINING)
    (result,) = outcome.results
    (log,) = (folder / "out" / NAME / "trained").glob("MonoBERT_classifier-*-0-*/log.jsonl")
    dev = [record.dev_loss for record in read_log(log) if record.dev_loss is not None]
    assert result.record["MonoBERT classifier"]["dev"] == dev
    assert [row[1].text for row in result.tables[0].rows] == ["first", "least dev loss", "last"]
    assert result.tables[0].rows[1][4].text == f"{min(dev):.4f}"
    (figure,) = result.plots.values()
    (panel,) = figure.axes
    lines = {line.get_label(): line.get_ydata().tolist() for line in panel.lines}
    assert lines["dev"] == dev
    assert len(lines["training"]) == len(dev) == 3


def test_losses_of_what_is_not_trained_are_unavailable(folder):
    changes = {"analyses": [{"kind": "losses", "systems": ["BM25"]}]}
    with pytest.raises(CollectionError, match="none of its systems trains a re-ranker here"):
        run(folder, "figure11", TRAINING, changes)


GRID = {
    "kind": "grid",
    "system": "MonoBERT classifier",
    "settings": {"optimisation.learning_rate": [0.01, 0.0005], "model.head.hidden": [[8], [8, 8]]},
    "measures": ["Success@1", "AP"],
}


def test_a_grid_chooses_by_the_dev_loss_and_shares_the_training_that_is_there(folder):
    outcome = run(folder, "grid", TRAINING, {"analyses": [GRID]})
    (result,) = outcome.results
    combinations = result.record["combinations"]
    losses = [each["dev_loss"] for each in combinations]
    assert losses == sorted(losses)
    assert {json.dumps(each["settings"]["model.head.hidden"]) for each in combinations} == {"[8]", "[8, 8]"}
    trained = list((folder / "out" / NAME / "trained").glob("MonoBERT_classifier-*-0-*"))
    assert len(trained) == 4  # that of the model itself is one of them
    best, values = result.tables
    assert best.columns == ("learning_rate", "hidden", "dev loss", "updates")
    assert best.rows[0][2].text == f"{min(losses):.4f}"
    assert [row[2].text for row in values.rows] == ["2"] * 4
    own = [each["dev_loss"] for each in combinations if each["settings"]["model.head.hidden"] == [8]]
    assert values.rows[2][3].text == f"{np.mean(own):.4f}"
    assert result.notes[0].startswith("Chosen of 4: ")
    assert set(result.record["test"]) == {"Success@1", "AP"}


def test_embeddings_are_mapped_in_three_dimensions_before_and_after(folder):
    kept = {"kind": "embeddings", "before": "MonoBERT ranker, fine-tuned", "pairs": 14, "perplexity": 5}
    (before,) = run(folder, "figure14", TRAINING, {"analyses": [kept]}).results
    both = {**kept, "after": "MonoBERT ranker, fine-tuned"}
    (after,) = run(folder, "figure15", TRAINING, {"analyses": [both]}).results
    assert [row[0].text for row in before.tables[0].rows] == ["before", "before"]
    assert list(after.record["checkpoints"]) == ["before", "after"]
    maps = after.record["checkpoints"]["after"]["maps"]
    assert [each["dimensions"] for each in maps] == [3]
    assert after.record["pairs"] == before.record["pairs"]
    relevant = [pair["relevant"] for pair in after.record["pairs"]]
    assert relevant.count(True) == relevant.count(False) == 14
    panel = after.plots["embeddings"].axes[0]
    colours = {each.get_label(): tuple(each.get_facecolor()[0][:3].round(2)) for each in panel.collections}
    assert colours["relevant"] == (0.94, 0.89, 0.26)  # yellow


def test_sentence_bert_and_dpr_are_trained_and_fused_with_bm25(folder):
    training = {"model": {"query_length": 8, "document_length": 24}, "precision": "float32"}
    quick = {"optimisation": {"steps": 2, "batch": 4, "warm_up": 0}}
    changes = {
        "models": {"E5": None, "Sentence-BERT": merge(training, quick), "DPR": merge(training, quick)},
        "systems": {"E5, not trained": None, "BM25 + E5": None},
        "seeds": [0],
    }
    outcome = run(folder, "bi-encoders", changes)
    assert outcome.lacking == {}
    means = outcome.results[0].record["means"]
    assert list(means) == ["BM25", "Sentence-BERT", "DPR", "BM25 + Sentence-BERT", "BM25 + DPR"]


def test_a_re_ranker_starts_from_the_encoder_and_from_one_that_has_read_the_sheets(folder):
    ranker = {
        "data": {"queries": 20},
        "model": {"max_length": 64, "head": {"hidden": [8]}},
        "optimisation": {"steps": 2, "batch": 2},
    }
    models = {
        "sheets": {
            "data": {"sets": [{"collection": "dila", "documents": 20}]},
            "model": {"max_length": 32},
            "optimisation": {"steps": 4, "batch": 4},
            "dev": {"documents": 4, "every": 2, "patience": 4},
        },
        "without": ranker,
        "with": ranker,
    }
    by_question = {
        "piaf-fquad": {"made_as": "ranking-set", "recipe": None}
    }  # made sets have one article each
    systems = {f"{name} MLM": f"BM25 >> rerank({name})" for name in ("without", "with")}  # texts are short
    outcome = run(folder, "mlm", {"models": models, "sets": by_question, "systems": systems})
    (result,) = outcome.results
    assert set(result.record["means"]) == {"BM25", "without MLM", "with MLM"}
    (log,) = folder.glob("out/**/sheets-0-*/log.jsonl")
    assert [record.step for record in read_log(log) if record.dev is not None] == [0, 2, 4]
    starts = {
        name: yaml.safe_load(path.read_text())["model"]["start"]
        for name in ("with", "without")
        for path in folder.glob(f"out/**/trained/{name}-0-*/config.yaml")
    }
    assert "sheets-0-" in starts["with"]
    assert starts["without"].endswith("camembert-base")
