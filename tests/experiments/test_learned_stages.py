"""Systems over weights of terms and vectors of tokens: what they need is made once, of given and of trained models."""

from __future__ import annotations

import pytest
import yaml

pytest.importorskip("torch")

import telerank as tr
from papers import small_msmarco
from small_late import small_late
from small_models import small_masked
from small_seq2seq import small_t5
from telerank.errors import FormatError
from telerank.experiments.analyses.sizes import list_files
from telerank.experiments.functions import ExperimentModels
from telerank.experiments.schema import read_experiment
from telerank.trec import read_run
from telerank.verbs.experiment import run_experiment

FILE = {
    "title": "First stages",
    "source": "A paper, 2021",
    "data": {"msmarco": {"about": "a small set", "split": "dev.small"}},
    "models": {
        "SPLADE": ["no-such-folder/of/anybody", "masked"],
        "late": "late",
    },
    "systems": {
        "BM25": "bm25 % 20",
        "SPLADE": "impact(SPLADE) % 20",
        "late": "BM25 >> maxsim(late)",
        "weighed": "weighed(SPLADE, 'impact % 5')",
        "sum": "0.5*minmax(BM25) + 0.5*minmax(SPLADE)",
    },
    "analyses": [{"kind": "quality", "measures": ["RR@10"], "latency_queries": 2, "sizes": True}],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("learned")
    small_masked(root / "masked")
    small_late(root / "late")
    small_msmarco(root / "msmarco", queries=8, passages=40)
    return root


def run(folder, name, **changes):
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({**FILE, **changes}, sort_keys=False), encoding="utf-8")
    (outcome,) = run_experiment(path, data=[str(folder)], models=[str(folder)], output=folder / name)
    return outcome


def test_systems_are_those_of_an_index_with_the_models_weights_and_vectors(folder):
    outcome = run(folder, "given")
    collection, data = outcome.data.collection, folder / "given" / "msmarco"
    index = tr.index(collection, folder / "own", weights_model=str(folder / "masked"))
    index.encode_tokens(str(folder / "late"))
    queries = [query for query in collection.split_queries() if query.qid in collection.judged()]
    stages = {"SPLADE": index.impact() % 20, "late": index.bm25() % 20 >> index.maxsim()}
    for name, stage in stages.items():
        found = [(each.docnos, each.scores.tolist()) for each in read_run(outcome.systems[name].runs[0])]
        expected = list(stage.run(queries))
        assert [docnos for docnos, _ in found] == [each.docnos for each in expected]
        assert [scores for _, scores in found] == [
            pytest.approx(each.scores.tolist(), rel=1e-5) for each in expected
        ]
    short = [each.docnos for each in read_run(outcome.systems["weighed"].runs[0])]
    assert short == [each.docnos[:5] for each in read_run(outcome.systems["SPLADE"].runs[0])]
    assert outcome.systems["SPLADE"].about.startswith("impact(SPLADE) % 20: SPLADE is masked")
    made = {path.name: path.stat().st_mtime_ns for path in data.glob("weights-*")}
    assert len(made) == 1
    again = run(folder, "given")
    assert {path.name: path.stat().st_mtime_ns for path in data.glob("weights-*")} == made
    assert again.systems["SPLADE"].about == outcome.systems["SPLADE"].about


def test_what_was_cut_is_told_of_an_index_that_is_kept_too(folder, tmp_path):
    index = tr.index({"short": "a press", "long": "press " * 300}, tmp_path / "index-standard")
    for _ in range(2):
        models = ExperimentModels(index)
        models.index_weights(index, str(folder / "masked"))
        (note,) = models.notes
        assert note.startswith("1 document longer than ")


def test_documents_are_expanded_by_a_given_model_and_by_one_that_is_trained(folder):
    pipeline = "bm25f(title=1, text=1, expansion=1, lengths=combined) % 20"
    systems = {
        "BM25": "bm25 % 20",
        "given": f"expanded(writer, '{pipeline}', queries=2)",
        "trained": f"expanded(learned, '{pipeline}', queries=1) % 5",
    }
    learned = {
        "train": "expander",
        "data": {"split": "dev.small", "seed": 0},
        "model": {"start": str(folder / "writer"), "max_length": 32, "max_query": 8, "dropout": 0.0},
        "optimisation": {"steps": 2, "batch": 4},
    }
    small_t5(folder / "writer")
    outcome = run(folder, "expanded", systems=systems, models={"writer": "writer", "learned": learned})
    assert not outcome.lacking
    collection, queries = outcome.data.collection, folder / "queries.jsonl"
    tr.expand(collection, queries, model=str(folder / "writer"), queries=2)
    index = tr.index(collection, folder / "queried", expansion=queries)
    asked = [query for query in collection.split_queries() if query.qid in collection.judged()]
    expected = [each.docnos for each in tr.pipeline(pipeline, index).run(asked)]
    assert [each.docnos for each in read_run(outcome.systems["given"].runs[0])] == expected
    assert all(len(each.docnos) <= 5 for each in read_run(outcome.systems["trained"].runs[0]))
    made = {
        path.name: path.stat().st_mtime_ns for path in (folder / "expanded" / "msmarco").glob("expanded-*")
    }
    assert len(made) == 6  # of each an index, the queries, and how they were made
    repeated = run(folder, "expanded", systems=systems, models={"writer": "writer", "learned": learned})
    assert repeated.systems["trained"].about == outcome.systems["trained"].about
    again = (folder / "expanded" / "msmarco").glob("expanded-*")
    assert {path.name: path.stat().st_mtime_ns for path in again} == made


def test_systems_of_models_that_nobody_has_are_missing_with_their_reason(folder):
    models = {"static": "no-such-folder/of/anybody", "ranker": ["no-such-folder/of/anybody"]}
    systems = {
        "BM25": "bm25",
        "static": "dense(static)",
        "both": "BM25 + static",
        "ranker": "BM25 >> rerank(ranker)",
    }
    outcome = run(folder, "nobody", models=models, systems=systems)
    says = "no-such-folder/of/anybody: no such folder"
    assert outcome.lacking == {
        "static": says,
        "both": "it needs static",
        "ranker": says,
    }
    assert outcome.systems.keys() == {"BM25"}


def test_sizes_are_those_of_the_files_that_a_system_searches(folder):
    outcome = run(folder, "sizes")
    (result,) = outcome.results
    sizes = {
        name: sum(file.stat().st_size for file in {*list_files(system.stage)})
        for name, system in outcome.systems.items()
    }
    assert result.record["bytes"] == sizes
    files = {
        name: {file.name for file in list_files(system.stage)} for name, system in outcome.systems.items()
    }
    assert {"postings.npy", "terms.bin"} <= files["BM25"]
    assert all(name.startswith("weights.") for name in files["SPLADE"])
    assert files["sum"] == files["BM25"] | files["SPLADE"]
    assert files["late"] > files["BM25"]
    assert not any(name.startswith(("docs", "docnos")) for name in files["sum"])
    (folder / "whole.jsonl").write_text('{"id": "d", "vector": {"a": 2}}\n')
    index = tr.index({"d": "a"}, folder / "whole", weights=folder / "whole.jsonl")
    read = {*list_files(index.bm25(over="weights"))}
    assert read == {*list_files(index.impact())} != set()


def test_an_unknown_kind_of_training_is_refused_with_the_nearest(folder):
    path = folder / "wrong.yaml"
    path.write_text(yaml.safe_dump({**FILE, "models": {"SPLADE": {"train": "splad"}}}), encoding="utf-8")
    with pytest.raises(FormatError, match=r"no kind of training is called 'splad'.*splade"):
        read_experiment(path)
