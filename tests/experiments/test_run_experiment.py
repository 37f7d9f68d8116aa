"""Experiments of files: data, systems, what the user gives, results, and files that are refused."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise

import pytest
import yaml
from click.testing import CliRunner
from small_bench import saved_results

import telerank as tr
from papers import small_msmarco
from small_set import write_beir
from telerank.cli.main import app
from telerank.errors import CollectionError, FormatError, ModelError, TelerankError
from telerank.evaluation.measures import measure
from telerank.experiments.report import machine
from telerank.experiments.schema import read_experiment
from telerank.fusion import interleave_rankings
from telerank.sparse.retriever import SparseRetriever
from telerank.stage import change_stages, walk_stages
from telerank.trec import read_run, write_run
from telerank.types import Query, Ranking
from telerank.verbs.experiment import run_experiment

RECALL = {"kind": "recall", "depths": [1, 10, 100]}
FILE = {
    "title": "A table",
    "source": "A paper, 2020",
    "data": {"msmarco": {"about": "a small set", "split": "dev.small", "paper": True}},
    "systems": {
        "BM25": "bm25(k1=0.9, b=0.4) % 100",
        "LM": "lm_dirichlet",
        "doc2query": "given('its run on this data')",
        "in turns": "interleave(BM25, LM)",
        "tuned": "tuned(minmax(BM25), minmax(LM), by=RR@10, folds=3)",
        "best": "best(lmjm, by=RR@10, folds=3)",
        "needs": "doc2query % 10 >> bm25",
    },
    "analyses": [
        {"kind": "quality", "measures": ["RR@10", "R@100"], "latency_queries": 2},
        RECALL,
        {"kind": "consistency", "depths": [1, 10], "references": ["LM"]},
        {"kind": "combination", "measures": "RR@10", "systems": ["BM25", "LM"]},
        {"kind": "reranking", "measures": "RR@10", "depths": [5], "rerankers": {"DFR": "dfr"}},
    ],
    "published": {"msmarco": {"BM25": {"RR@10": 0.184}, "other": {"RR@10": None}}},
    "small": {"queries": 10, "minutes": 3, "systems": {"needs": None, "best": None}},
}


PLAIN = {"systems": {"BM25": "bm25"}, "analyses": [RECALL], "published": {}, "small": None}


def write(tmp_path, **changes):
    path = tmp_path / "table.yaml"
    path.write_text(yaml.safe_dump({**FILE, **changes}, sort_keys=False), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def outcome(marco, tmp_path_factory):
    folder = tmp_path_factory.mktemp("outcome")
    (outcome,) = run_experiment(write(folder), data=[str(marco)], output=folder / "out")
    return outcome


def test_a_system_is_the_run_of_its_pipeline(outcome, marco):
    index, collection = tr.open(outcome.folder.parent / "msmarco" / "index-english"), outcome.data.collection
    queries = [query for query in collection.split_queries() if query.qid in collection.judged()]
    runs = {name: list(read_run(system.runs[0])) for name, system in outcome.systems.items()}
    expected = {
        "BM25": list((index.bm25(0.9, 0.4) % 100).run(queries)),
        "LM": list((index.lm_dirichlet() % 1000).run(queries)),
    }
    for name, rankings in expected.items():
        assert [r.docnos for r in runs[name]] == [r.docnos for r in rankings]
    pairs = zip(expected["BM25"], expected["LM"], strict=True)
    assert [r.docnos for r in runs["in turns"]] == [interleave_rankings(pair, 1000).docnos for pair in pairs]
    means = outcome.results[0].record["means"]
    assert means["BM25"] == measure(expected["BM25"], collection.judged(), "RR@10 R@100").mean


def test_what_is_not_given_is_missing_with_its_reason(outcome):
    assert outcome.lacking == {"doc2query": "not given: its run on this data", "needs": "it needs doc2query"}
    assert any("Not measured: doc2query (not given: its run on this data)" in note for note in outcome.notes)


def test_tuned_and_best_say_what_was_chosen_and_measure_held_out_queries(outcome):
    assert "weights by RR@10 of the other 2 of 3 folds" in outcome.systems["tuned"].about
    assert "the best of 13 settings by RR@10" in outcome.systems["best"].about
    assert outcome.systems["tuned"].stage is None
    assert outcome.systems["in turns"].stage is not None


def test_a_stage_that_other_queries_chose_is_made_of_the_stages_of_the_folds(outcome):
    stage = outcome.systems["best"].stage
    chosen = [part for part in walk_stages(stage) if isinstance(part, SparseRetriever)]
    assert len(chosen) == 1 + 3  # the best of all, that of each fold
    assert all(part.sources for part in chosen)
    batched = change_stages(stage, lambda part: part.in_batches(7))
    assert {part.batch for part in walk_stages(batched) if isinstance(part, SparseRetriever)} == {7}


def test_results_have_what_they_depend_on_and_what_was_measured(outcome):
    record = json.loads((outcome.folder / "results.json").read_text(encoding="utf-8"))
    assert record["machine"] == machine()
    assert record["counts"] == {"documents": 120, "judged queries": 24}
    (recall,) = (result for result in record["results"] if result["kind"] == "recall")
    assert all(a <= b for a, b in pairwise(recall["recall"]["BM25"]))
    assert "0.184" in (outcome.folder / "tables.md").read_text(encoding="utf-8")
    assert read_experiment(outcome.folder / "experiment.yaml").systems == FILE["systems"]


def test_an_experiment_run_again_differs_in_its_times_alone(marco, tmp_path):
    quality = {"kind": "quality", "measures": ["RR"], "latency_queries": 0, "baseline": "BM25"}
    systems = {"BM25": "bm25", "LM": "lm_dirichlet"}
    path = write(tmp_path, systems=systems, analyses=[quality, RECALL])
    files = []
    for name in ("first", "second", "second"):  # the third resumes
        (outcome,) = run_experiment(path, data=[str(marco)], output=tmp_path / name)
        folder = outcome.folder
        files.append(
            {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
        )
    for other in files[1:]:
        different = [str(name) for name in files[0].keys() | other if files[0].get(name) != other.get(name)]
        assert set(different) <= {"times.json"}


def test_the_small_copy_is_the_body_under_the_overlay(marco, tmp_path, monkeypatch):
    """On data of a folder that the environment names."""
    monkeypatch.setenv("TELERANK_DATA", str(marco))
    path = write(tmp_path)
    assert read_experiment(path).queries is None
    spec = read_experiment(path, small=True)
    assert spec.queries == 10
    assert list(spec.systems) == ["BM25", "LM", "doc2query", "in turns", "tuned"]
    (outcome,) = run_experiment(path, output=tmp_path / "out", small=True, skip=["LM"])
    assert outcome.lacking["LM"] == "left out"
    assert outcome.lacking["in turns"] == "it needs LM"
    assert outcome.data.counts["judged queries"] == 10
    assert outcome.size == "small copy"
    assert "small copy" in (outcome.folder / "tables.md").read_text(encoding="utf-8")
    assert sum(1 for _ in read_run(outcome.systems["BM25"].runs[0])) == 10
    with pytest.raises(FormatError, match="a section small"):
        read_experiment(write(tmp_path, small=None), small=True)


def test_the_submission_has_the_queries_without_judgments_in_the_leaderboards_format(marco, tmp_path):
    folder = tmp_path / "marco"
    shutil.copytree(marco / "msmarco", folder)
    lines = (folder / "top1000.dev.tsv").read_text().splitlines()
    asked = (folder / "queries.dev.small.tsv").read_text().splitlines()[:4]
    (folder / "queries.eval.small.tsv").write_text("".join(f"9{line}\n" for line in asked))
    few = [f"9{line}\n" for line in lines if line.split("\t")[0] in ("0", "1", "2", "3")]
    (folder / "top1000.eval.tsv").write_text("".join(few))
    systems = {"candidates": "pool(top1000)", "cut": "candidates % 5"}

    def run(submission):
        data = {"msmarco": {"submission": submission, "split": "dev.small"}}
        file = write(tmp_path, **{**PLAIN, "data": data, "systems": systems})
        return run_experiment(file, data=[f"msmarco={folder}"], output=tmp_path / "out")[0]

    outcome = run("eval.small")
    written = (outcome.folder / "cut.eval.small.tsv").read_text().splitlines()
    expected = [line.split("\t")[:2] for line in few]
    assert [line.split("\t")[0] for line in written] == [f"9{qid}" for qid in range(4) for _ in range(5)]
    assert [line.split("\t")[2] for line in written[:5]] == ["1", "2", "3", "4", "5"]
    assert [line.split("\t")[:2] for line in written[:5]] == expected[:5]
    assert "its submission is cut.eval.small.tsv" in outcome.systems["cut"].about
    about = run("eval.large").systems["cut"].about
    assert "no submission: msmarco has no queries of eval.large" in about


def test_a_run_of_the_user_stands_for_a_system(outcome, marco, tmp_path):
    write_run(tmp_path / "mine.run", list(read_run(outcome.systems["LM"].runs[0]))[:-1])
    file = write(tmp_path, **{**PLAIN, "systems": {"doc2query": "given('a run')", "needs": "doc2query % 10"}})
    systems = {"doc2query": str(tmp_path / "mine.run")}
    (given,) = run_experiment(file, data=[str(marco)], systems=systems, output=tmp_path / "out")
    assert given.systems["doc2query"].about == "the run mine.run, which answers 23 of 24 queries"
    assert given.lacking == {}


def test_an_index_is_reused_only_for_the_same_documents(marco, tmp_path):
    def run(folder):
        run_experiment(write(tmp_path, **PLAIN), data=[f"msmarco={folder}"], output=tmp_path / "out")

    run(marco / "msmarco")
    manifest = tmp_path / "out" / "msmarco" / "index-english" / "manifest.json"
    before = manifest.read_bytes()
    run(marco / "msmarco")
    assert manifest.read_bytes() == before
    run(small_msmarco(tmp_path / "other", passages=100))
    assert len(tr.open(manifest.parent)) == 100


def test_fields_are_indexed_and_a_filter_holds_for_all_systems(tmp_path):
    folder = tmp_path / "sheets"
    (folder / "qrels").mkdir(parents=True)
    rows = [("d1", "alpha", "beta", "a"), ("d2", "beta", "alpha", "b"), ("d3", "alpha", "alpha beta", "b")]
    docs = [{"_id": n, "title": title, "text": text, "kind": kind} for n, title, text, kind in rows]
    for name, records in (
        ("corpus", docs),
        ("queries", [{"_id": f"q{n}", "text": "beta"} for n in range(4)]),
    ):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    grades = "".join(f"q{n}\td2\t1\n" for n in range(4))
    (folder / "qrels/test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{grades}", encoding="utf-8")
    systems = {
        "weighted": "bm25f(title=9, text=1)",
        "title": "bm25(field=title)",
        "best": "best(bm25f, by=RR, folds=2)",
        "in b": "where(bm25, 'kind == \"b\"')",
    }

    def run(**changes):
        data = {"sheets": {"split": "test", "analyzer": "standard", "paper": True, **changes}}
        file = write(tmp_path, data=data, **{**PLAIN, "systems": systems})
        (done,) = run_experiment(file, data=[f"sheets={folder}"], output=tmp_path / "out")
        runs = {name: list(read_run(system.runs[0])) for name, system in done.systems.items()}
        return {name: rankings[0].docnos if rankings else () for name, rankings in runs.items()}

    found = run(fields=["title", "text"])
    assert (found["weighted"][0], found["title"], sorted(found["in b"])) == ("d2", ("d2",), ["d2", "d3"])
    assert found["best"][0] == "d2"
    within = run(fields=["title", "text"], filter='kind == "a"')
    assert (within["weighted"], within["title"], within["in b"]) == (("d1",), (), ())
    with pytest.raises(ModelError, match="has no fields"):
        run()


def test_documents_are_cut_into_passages_and_count_once(tmp_path):
    docs = [("d1", "beta x x x x beta x beta"), ("d2", "x x x beta gamma x x x"), ("d3", "gamma")]
    write_beir(
        tmp_path / "sheets",
        [{"_id": n, "title": "", "text": text} for n, text in docs],
        {f"q{n}": "beta gamma" for n in range(4)},
        {"test": [(f"q{n}", "d2", 1) for n in range(4)]},
    )
    data = {"sheets": {"split": "test", "analyzer": "none", "paper": True, "passages": 4}}
    analyses = [{"kind": "quality", "measures": ["RR", "R@2"], "latency_queries": 0}]
    file = write(tmp_path, data=data, **PLAIN | {"systems": {"BM25": "bm25(b=0)"}, "analyses": analyses})
    (done,) = run_experiment(file, data=[str(tmp_path)], output=tmp_path / "out")
    (ranking, *_) = read_run(done.systems["BM25"].runs[0])
    assert ranking.docnos[:2] == ("d2#2", "d3#1")  # both words, then the rarer one
    assert {docno.partition("#")[0] for docno in ranking.docnos} == {"d1", "d2", "d3"}
    means = saved_results(done)[0]["means"]["BM25"]
    assert means == {"RR": 1.0, "R@2": 1.0}


def test_a_run_is_given_of_a_row_that_the_paper_alone_has(outcome, marco, tmp_path):
    """IDST stands in BeST's table by its printed value; a run of it makes the row a measured one."""
    printed = {"msmarco": {"IDST": {"RR@10": 0.704}}}
    path = write(
        tmp_path,
        **PLAIN | {"published": printed, "analyses": [{"kind": "quality", "measures": ["RR@10"]}]},
    )
    run = str(outcome.systems["LM"].runs[0])
    (given,) = run_experiment(path, data=[str(marco)], systems={"IDST": run}, output=tmp_path / "out")
    expected = measure(read_run(run), given.data.judged.qrels, "RR@10").mean["RR@10"]
    rows = [line.split("|") for line in (given.folder / "tables.md").read_text().splitlines()]
    [row] = [
        [cell.strip() for cell in row[1:-1]] for row in rows if len(row) > 2 and row[1].strip() == "IDST"
    ]
    assert row[1].startswith(f"{expected:.3f}")
    assert "0.704" in row
    (alone,) = run_experiment(path, data=[str(marco)], output=tmp_path / "out")
    assert "IDST" not in alone.systems
    with pytest.raises(CollectionError, match=r"no system 'IDTS'; it has: BM25; .*prints: IDST"):
        run_experiment(path, data=[str(marco)], systems={"IDTS": run}, output=tmp_path / "out")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"data": []}, r"no data here for this experiment \(msmarco\)"),
        ({"on": ["trec"]}, "the experiment has no data 'trec'; it has: msmarco"),
        ({"systems": {"BERT": "x.run"}}, "the experiment has no system 'BERT'; it has: BM25"),
        ({"systems": {"LM": "x.run"}}, r"systems=…: LM=x\.run: no such file or folder"),
        ({"data": ["nowhere"]}, "data=…: nowhere: expected NAME=PATH, or a folder"),
        ({"models": ["nowhere"]}, "models=…: nowhere: expected NAME=PATH, or a folder"),
        ({"seeds": [1]}, "no model of this experiment is trained"),
    ],
)
def test_what_is_not_there_is_refused_in_a_line(options, says, marco, tmp_path):
    with pytest.raises(CollectionError, match=says):
        run_experiment(write(tmp_path), output=tmp_path / "out", **{"data": [str(marco)], **options})


def test_a_run_of_other_queries_is_refused(marco, tmp_path):
    write_run(tmp_path / "strange.run", [Ranking(Query("strange", ""), ("1",), [1.0])])
    systems = {"BM25": str(tmp_path / "strange.run")}
    with pytest.raises(CollectionError, match=r"no query of it is in msmarco, split dev\.small"):
        run_experiment(write(tmp_path, **PLAIN), data=[str(marco)], systems=systems, output=tmp_path / "out")


def test_of_several_data_a_run_is_of_those_whose_queries_it_has(marco, outcome, tmp_path):
    docs = [{"_id": "1", "text": "a press"}, {"_id": "2", "text": "oil"}]
    other = write_beir(tmp_path / "other", docs, {"x1": "press"}, {"test": [("x1", "1", 1)]})
    data = {**FILE["data"], "other": {"split": "test"}}
    path = write(tmp_path, **PLAIN | {"data": data, "published": {"msmarco": {"IDST": {"RR@10": 0.7}}}})
    systems = {"IDST": str(outcome.systems["LM"].runs[0])}
    settings = {"data": [str(marco), f"other={other}"], "systems": systems, "output": tmp_path / "out"}
    first, second = run_experiment(path, **settings, on=["msmarco", "other"])
    assert "IDST" in first.systems
    assert second.lacking["IDST"].endswith("no query of it is in other, split test")
    with pytest.raises(CollectionError, match="no query of it is in other, split test"):
        run_experiment(path, **settings, on=["other"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("bm25 >> nothing", "unknown name 'nothing'"),
        ("rerank(nowhere/of/anybody)", "expected|nowhere|package|no such"),
        ("tuned(BM25)", "tuned lacks the argument 'by'"),
        ("best(bm25 + bm25, by=AP)", "expected a name or a call"),
    ],
)
def test_a_wrong_pipeline_is_refused_in_a_line(tmp_path, marco, text, says):
    file = write(tmp_path, **{**PLAIN, "systems": {"BM25": "bm25", "bad": f"BM25 % 5 >> {text}"}})
    with pytest.raises(TelerankError, match=says):
        run_experiment(file, data=[str(marco)], output=tmp_path / "out")


@pytest.fixture(scope="module")
def models(starts, tmp_path_factory):
    from small_rerankers import small_reranker
    from telerank.models.rerankers.reranker import save_reranker

    folder = tmp_path_factory.mktemp("models")
    save_reranker(small_reranker(folder / "small"), folder / "reranker")
    (folder / "empty").mkdir()
    return {"encoder": starts / "tiny", "reranker": folder / "reranker", "empty": folder / "empty"}


def run_given(marco, tmp_path, system, folder):
    systems = {
        "BM25": "bm25",
        "RepBERT": "given('a bi-encoder')",
        "monoBERT": "BM25 % 5 >> rerank(monoBERT)",
    }
    quality = {"kind": "quality", "measures": ["R@1000"], "latency_queries": 1}
    changes = {"systems": systems, "models": {"monoBERT": "no/such-model"}, "analyses": [quality]}
    others = [name for name in ("RepBERT", "monoBERT") if name != system]
    (outcome,) = run_experiment(
        write(tmp_path, **{**PLAIN, **changes}),
        data=[str(marco)],
        systems={system: str(folder)},
        skip=others,
        output=tmp_path / "out",
    )
    return outcome


def test_a_given_bi_encoder_is_encoded_once_and_searched(marco, tmp_path, models):
    outcome = run_given(marco, tmp_path, "RepBERT", models["encoder"])
    assert outcome.results[0].record["means"]["RepBERT"]["R@1000"] == 1.0  # all 120 passages
    (vectors,) = (tmp_path / "out" / "msmarco").glob("index-english/vectors/*/manifest.json")
    before = vectors.stat().st_mtime_ns
    run_given(marco, tmp_path, "RepBERT", models["encoder"])
    assert vectors.stat().st_mtime_ns == before


def test_a_given_re_ranker_re_ranks(marco, tmp_path, models):
    outcome = run_given(marco, tmp_path, "monoBERT", models["reranker"])
    before = {r.query.qid: set(r.cut(5).docnos) for r in read_run(outcome.systems["BM25"].runs[0])}
    after = {r.query.qid: set(r.docnos) for r in read_run(outcome.systems["monoBERT"].runs[0])}
    assert after == before


@pytest.mark.parametrize(
    "case",
    [
        ("RepBERT", "reranker", "holds a re-ranker, but the system is a first stage"),
        ("monoBERT", "encoder", "holds a bi-encoder, but the system is a re-ranker"),
        ("RepBERT", "empty", "holds no model that is known"),
    ],
)
def test_a_folder_of_another_kind_is_refused(marco, tmp_path, models, case):
    system, folder, says = case
    with pytest.raises((CollectionError, ModelError), match=says):
        run_given(marco, tmp_path, system, models[folder])


def command(*arguments):
    result = CliRunner().invoke(app, ["experiment", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def test_the_command_lists_shows_and_runs(marco, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = str(write(tmp_path, **{**PLAIN, "small": FILE["small"] | {"systems": {}}}))
    assert "repbert/table1" in command("ls").stdout.replace("\n", "")
    assert yaml.safe_load(command(file, "--small", "--show").stdout)["queries"] == 10
    both = command("bert-dmn/table2", "--show", "--on", "antique", "--on", "msmarco")
    on_antique, on_marco = yaml.safe_load_all(both.stdout)
    assert (list(on_antique["data"]), list(on_marco["data"])) == (["antique"], ["msmarco"])
    assert on_antique["systems"]["candidates"] == "judged" != on_marco["systems"]["candidates"]
    ran = command(file, "--small", "--data", str(marco))
    assert "A table (small copy)" in ran.stdout
    assert ran.stderr.index("table.yaml: about 3 minutes on two cores") < ran.stderr.index("tables, plots")
    assert (tmp_path / "telerank-experiments" / "table-small-msmarco" / "report.html").is_file()
