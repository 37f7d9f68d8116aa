"""Experiments of files: data, systems, what the user gives, results, and files that are refused."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from itertools import pairwise

import pytest
import yaml
from typer.testing import CliRunner

import telerank as tr
from papers import small_msmarco
from telerank.cli.main import app
from telerank.errors import CollectionError, ExpressionError, FormatError, ModelError, TelerankError
from telerank.evaluation.measures import measure
from telerank.experiments.report import machine
from telerank.experiments.schema import read_experiment
from telerank.fusion import interleave_rankings
from telerank.sparse.retriever import SparseRetriever
from telerank.stage import change_stages, walk_stages
from telerank.trec import read_run, write_run
from telerank.types import Query, Ranking
from telerank.verbs.experiment import expected_time, run_experiment

NEURAL = bool(find_spec("torch") and find_spec("transformers"))
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
        {"kind": "recall", "depths": [1, 10, 100]},
        {"kind": "consistency", "depths": [1, 10], "references": ["LM"]},
        {"kind": "combination", "measure": "RR@10", "systems": ["BM25", "LM"]},
        {"kind": "reranking", "measure": "RR@10", "depths": [5], "rerankers": {"DFR": "dfr"}},
    ],
    "published": {"msmarco": {"BM25": {"RR@10": 0.184}, "other": {"RR@10": None}}},
    "small": {"queries": 10, "minutes": 3, "systems": {"needs": None, "best": None}},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    small_msmarco(folder / "msmarco")
    return folder


def write(tmp_path, **changes):
    path = tmp_path / "table.yaml"
    path.write_text(yaml.safe_dump({**FILE, **changes}, sort_keys=False), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def outcome(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("outcome")
    (outcome,) = run_experiment(write(folder), data=[str(data)], output=folder / "out")
    return outcome


def collection(data):
    return tr.collection(data / "msmarco")


def test_a_system_is_the_run_of_its_pipeline(outcome, data):
    index = tr.open(outcome.folder.parent / "msmarco" / "index-english")
    queries = [q for q in collection(data).split_queries() if q.qid in collection(data).judged()]
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
    assert means["BM25"] == measure(expected["BM25"], collection(data).judged(), "RR@10 R@100").mean


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


def test_results_are_written_with_everything_that_they_depend_on(outcome):
    names = {path.name for path in outcome.folder.iterdir()}
    assert {"tables.md", "report.html", "results.json", "experiment.yaml", "runs"} <= names
    record = json.loads((outcome.folder / "results.json").read_text(encoding="utf-8"))
    assert record["machine"] == machine()
    assert {"telerank", "python", "numpy"} <= record["versions"].keys()
    assert record["counts"] == {"documents": 120, "judged queries": 24}
    (recall,) = (result for result in record["results"] if result["kind"] == "recall")
    assert all(a <= b for a, b in pairwise(recall["recall"]["BM25"]))
    assert "0.184" in (outcome.folder / "tables.md").read_text(encoding="utf-8")
    assert read_experiment(outcome.folder / "experiment.yaml").systems == FILE["systems"]


def test_an_experiment_run_again_differs_in_its_times_alone(data, tmp_path):
    quality = {"kind": "quality", "measures": ["RR"], "latency_queries": 0, "baseline": "BM25"}
    path = write(tmp_path, systems={"BM25": "bm25", "LM": "lm_dirichlet"}, analyses=[quality])
    files = []
    for name in ("first", "second", "second"):  # the third resumes
        (outcome,) = run_experiment(path, data=[str(data)], output=tmp_path / name)
        folder = outcome.folder
        files.append(
            {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
        )
    for other in files[1:]:
        different = [str(name) for name in files[0].keys() | other if files[0].get(name) != other.get(name)]
        assert set(different) <= {"times.json"}


def test_the_small_copy_is_the_body_under_the_overlay(data, tmp_path):
    path = write(tmp_path)
    assert read_experiment(path).queries is None
    spec = read_experiment(path, small=True)
    assert spec.queries == 10
    assert list(spec.systems) == ["BM25", "LM", "doc2query", "in turns", "tuned"]
    (outcome,) = run_experiment(path, small=True, data=[str(data)], output=tmp_path / "out")
    assert outcome.data.counts["judged queries"] == 10
    assert outcome.size == "small copy"
    assert "small copy" in (outcome.folder / "tables.md").read_text(encoding="utf-8")
    assert sum(1 for _ in read_run(outcome.systems["BM25"].runs[0])) == 10
    with pytest.raises(FormatError, match="a section small"):
        read_experiment(write(tmp_path, small=None), small=True)


def test_a_file_is_merged_over_its_base_and_their_overlays_over_both(tmp_path):
    base = {
        "title": "A base",
        "data": {"msmarco": {}},
        "systems": {"BM25": "bm25"},
        "small": {"depth": 7, "queries": 3},
    }
    (tmp_path / "_base.yaml").write_text(yaml.safe_dump(base))
    own = {
        "base": "_base.yaml",
        "title": "Mine",
        "systems": {"LM": "lm_dirichlet"},
        "small": {"queries": None},
    }
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(own | {"analyses": [{"kind": "recall", "depths": [1]}]}))
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


def test_the_submission_has_the_queries_without_judgments_in_the_leaderboards_format(data, tmp_path):
    folder = tmp_path / "marco"
    shutil.copytree(data / "msmarco", folder)
    lines = (folder / "top1000.dev.tsv").read_text().splitlines()
    asked = (folder / "queries.dev.small.tsv").read_text().splitlines()[:4]
    (folder / "queries.eval.small.tsv").write_text("".join(f"9{line}\n" for line in asked))
    few = [f"9{line}\n" for line in lines if line.split("\t")[0] in ("0", "1", "2", "3")]
    (folder / "top1000.eval.tsv").write_text("".join(few))
    changes = {
        "data": {"msmarco": {"submission": "eval.small", "split": "dev.small"}},
        "systems": {"candidates": "pool(top1000)", "cut": "candidates % 5", "LM": "lm_dirichlet"},
        "analyses": [{"kind": "recall", "depths": [1]}],
        "small": None,
    }
    (outcome,) = run_experiment(
        write(tmp_path, **changes), data=[f"msmarco={folder}"], output=tmp_path / "out"
    )
    written = (outcome.folder / "cut.eval.small.tsv").read_text().splitlines()
    expected = [line.split("\t")[:2] for line in few]
    assert [line.split("\t")[0] for line in written] == [f"9{qid}" for qid in range(4) for _ in range(5)]
    assert [line.split("\t")[2] for line in written[:5]] == ["1", "2", "3", "4", "5"]
    assert [line.split("\t")[:2] for line in written[:5]] == expected[:5]
    assert "its submission is cut.eval.small.tsv" in outcome.systems["cut"].about
    changes["data"]["msmarco"]["submission"] = "eval.large"
    (without,) = run_experiment(
        write(tmp_path, **changes), data=[f"msmarco={folder}"], output=tmp_path / "out"
    )
    assert "no submission: msmarco has no queries of eval.large" in without.systems["cut"].about


def test_a_run_of_the_user_stands_for_a_system(outcome, data, tmp_path):
    write_run(tmp_path / "mine.run", list(read_run(outcome.systems["LM"].runs[0]))[:-1])
    systems = {"doc2query": str(tmp_path / "mine.run")}
    (given,) = run_experiment(write(tmp_path), data=[str(data)], systems=systems, output=tmp_path / "out")
    assert given.systems["doc2query"].about == "the run mine.run, which answers 23 of 24 queries"
    assert given.lacking == {}


def test_an_index_is_reused_only_for_the_same_documents(data, tmp_path):
    def run(folder):
        analyses = [{"kind": "recall", "depths": [1]}]
        systems = {"BM25": "bm25"}
        file = write(tmp_path, systems=systems, analyses=analyses, published={}, small=None)
        run_experiment(file, data=[f"msmarco={folder}"], output=tmp_path / "out")

    run(data / "msmarco")
    manifest = tmp_path / "out" / "msmarco" / "index-english" / "manifest.json"
    before = manifest.read_bytes()
    run(data / "msmarco")
    assert manifest.read_bytes() == before
    run(small_msmarco(tmp_path / "other", passages=100))
    assert len(tr.open(manifest.parent)) == 100


def test_the_environment_names_a_folder_of_data(data, tmp_path, monkeypatch):
    monkeypatch.setenv("TELERANK_DATA", str(data))
    (outcome,) = run_experiment(write(tmp_path), output=tmp_path / "out", small=True, skip=["LM"])
    assert outcome.lacking["LM"] == "left out"
    assert outcome.lacking["in turns"] == "it needs LM"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"data": []}, r"no data here for this experiment \(msmarco\)"),
        ({"on": ["trec"]}, "the experiment has no data 'trec'; it has: msmarco"),
        ({"systems": {"BERT": "x.run"}}, "the experiment has no system 'BERT'; it has: BM25"),
        ({"systems": {"LM": "x.run"}}, r"--system LM=x\.run: no such file or folder"),
        ({"data": ["nowhere"]}, "--data nowhere: expected NAME=PATH, or a folder"),
        ({"models": ["nowhere"]}, "--model nowhere: expected NAME=PATH, or a folder"),
        ({"seeds": [1]}, "no model of this experiment is trained"),
    ],
)
def test_what_is_not_there_is_refused_in_a_line(options, says, data, tmp_path, monkeypatch):
    monkeypatch.delenv("TELERANK_DATA", raising=False)
    with pytest.raises(CollectionError, match=says):
        run_experiment(write(tmp_path), output=tmp_path / "out", **{"data": [str(data)], **options})


def test_a_run_of_other_queries_is_refused(data, tmp_path):
    write_run(tmp_path / "strange.run", [Ranking(Query("strange", ""), ("1",), [1.0])])
    systems = {"doc2query": str(tmp_path / "strange.run")}
    with pytest.raises(CollectionError, match=r"no query of it is in msmarco, split dev\.small"):
        run_experiment(write(tmp_path), data=[str(data)], systems=systems, output=tmp_path / "out")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sytems": {}}, "known keys, not 'sytems'; did you mean 'systems'"),
        (
            {"systems": {"a": "bm25 %"}},
            r"system 'a': 'bm25 %': expected a name, a number or '\(', got the end",
        ),
        ({"analyses": [{"kind": "beauty"}]}, "analyses.0: Input tag 'beauty'"),
        (
            {"analyses": [{"kind": "consistency", "depths": [1], "references": ["nothing"]}]},
            "names 'nothing', which is no system",
        ),
        ({"analyses": [{"kind": "recall", "depths": [0]}]}, "greater than or equal to 1"),
        ({"analyses": [{"kind": "combination", "measure": "RR AP"}]}, "expected one measure, got 'RR AP'"),
        ({"data": {}}, "data: Dictionary should have at least 1 item"),
        ({"data": {"a": {"colour": "red"}}}, r"known keys, not 'data\.a\.colour'"),
        ({"published": {"trec": {}}}, "published values of 'trec', which is none of the data"),
        ({"models": {"m": {"train": "poet"}}}, "train"),
    ],
)
def test_a_wrong_file_is_refused_in_a_line(tmp_path, changes, says):
    with pytest.raises(FormatError, match=says) as refused:
        read_experiment(write(tmp_path, **changes))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("bm25 >> nothing", "unknown name 'nothing'"),
        ("rerank(nowhere/of/anybody)", "expected|nowhere|package|no such"),
        ("tuned(BM25)", "tuned lacks the argument 'by'"),
        ("best(bm25 + bm25, by=AP)", "expected a name or a call"),
    ],
)
def test_a_wrong_pipeline_is_refused_in_a_line(tmp_path, data, text, says):
    systems = {"BM25": "bm25", "bad": f"BM25 % 5 >> {text}"}
    analyses = [{"kind": "quality", "measures": ["AP"], "systems": ["bad"]}]
    file = write(tmp_path, systems=systems, analyses=analyses, published={}, small=None)
    with pytest.raises(TelerankError, match=says):
        run_experiment(file, data=[str(data)], output=tmp_path / "out")


@pytest.mark.skipif(not NEURAL, reason="needs the extra neural")
class TestFolders:
    """What a folder holds is recognised, or refused: never is a re-ranker measured as a bi-encoder."""

    @pytest.fixture
    def models(self, tmp_path_factory):
        from small_models import small_encoder
        from small_rerankers import small_reranker
        from telerank.models.rerankers.reranker import save_reranker

        folder = tmp_path_factory.mktemp("models")
        small_encoder(folder / "encoder")
        save_reranker(small_reranker(folder / "small"), folder / "reranker")
        (folder / "empty").mkdir()
        return folder

    def run(self, data, tmp_path, system, folder):
        systems = {
            "BM25": "bm25",
            "RepBERT": "given('a bi-encoder')",
            "monoBERT": "BM25 % 5 >> rerank(monoBERT)",
        }
        changes = {
            "systems": systems,
            "models": {"monoBERT": "no/such-model"},
            "analyses": [{"kind": "quality", "measures": ["R@1000"], "latency_queries": 1}],
            "published": {},
            "small": None,
        }
        others = [name for name in ("RepBERT", "monoBERT") if name != system]
        (outcome,) = run_experiment(
            write(tmp_path, **changes),
            data=[str(data)],
            systems={system: str(folder)},
            skip=others,
            output=tmp_path / "out",
        )
        return outcome

    def test_a_bi_encoder_is_encoded_once_and_searched(self, data, tmp_path, models):
        outcome = self.run(data, tmp_path, "RepBERT", models / "encoder")
        assert outcome.results[0].record["means"]["RepBERT"]["R@1000"] == 1.0  # all 120 passages
        (vectors,) = (tmp_path / "out" / "msmarco").glob("index-english/vectors/*/manifest.json")
        before = vectors.stat().st_mtime_ns
        self.run(data, tmp_path, "RepBERT", models / "encoder")
        assert vectors.stat().st_mtime_ns == before

    def test_a_re_ranker_re_ranks(self, data, tmp_path, models):
        outcome = self.run(data, tmp_path, "monoBERT", models / "reranker")
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
    def test_a_folder_of_another_kind_is_refused(self, data, tmp_path, models, case):
        system, folder, says = case
        with pytest.raises((CollectionError, ModelError), match=says):
            self.run(data, tmp_path, system, models / folder)


def test_the_command_lists_shows_and_runs(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path)
    listing = CliRunner().invoke(app, ["experiment", "ls"], catch_exceptions=False)
    assert "repbert/table1" in listing.stdout.replace("\n", "")
    shown = CliRunner().invoke(app, ["experiment", str(file), "--small", "--show"], catch_exceptions=False)
    assert yaml.safe_load(shown.stdout)["queries"] == 10
    both = CliRunner().invoke(
        app,
        ["experiment", "bert-dmn/table2", "--show", "--on", "antique", "--on", "msmarco"],
        catch_exceptions=False,
    )
    on_antique, on_marco = yaml.safe_load_all(both.stdout)
    assert (list(on_antique["data"]), list(on_marco["data"])) == (["antique"], ["msmarco"])
    assert on_antique["systems"]["candidates"] == "judged" != on_marco["systems"]["candidates"]
    ran = CliRunner().invoke(
        app, ["experiment", str(file), "--small", "--data", str(data)], catch_exceptions=False
    )
    assert ran.exit_code == 0, ran.output
    assert "A table (small copy)" in ran.stdout
    assert ran.stderr.index("table.yaml: about 3 minutes on two cores") < ran.stderr.index("tables, plots")
    assert (tmp_path / "telerank-experiments" / "table-small-msmarco" / "report.html").is_file()


def test_the_expected_time_is_that_of_the_file(tmp_path):
    assert expected_time(write(tmp_path)) == ""
    assert expected_time(write(tmp_path), small=True) == "about 3 minutes on two cores"
    assert expected_time(write(tmp_path, minutes=0.2)) == "at most a minute on two cores"
    with_models = write(tmp_path, minutes=45, models={"MiniLM": "minilm"})
    kept = "trainings, vectors and indexes that are kept are not made again"
    assert expected_time(with_models) == f"about 45 minutes on two cores; {kept}"


def test_a_pipeline_of_a_wrong_type_is_an_expression_error():
    assert issubclass(ExpressionError, ModelError)
