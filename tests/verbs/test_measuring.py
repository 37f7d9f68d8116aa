from __future__ import annotations

import json
from pathlib import Path

import ir_measures
import pytest
from ir_measures import AP, RR, nDCG

import telerank as tr
from telerank import experiment
from telerank.corpus.formats import open_collection
from telerank.errors import CollectionError
from telerank.evaluation.measures import parse_measures
from telerank.experiments.comparison import JudgedQueries
from telerank.fusion import sum_reciprocal_ranks
from telerank.trec import read_run, write_qrels, write_run
from telerank.types import Query, Ranking
from telerank.verbs.candidates import consistency, depth
from telerank.verbs.evaluate import compare, evaluate
from telerank.verbs.fuse import combine, fuse, tune_fusion
from telerank.verbs.judge import judge, name_runs

QRELS = {str(i): {"right": 1} for i in range(10)}


def run(rank: int, qids=QRELS) -> list[Ranking]:
    """Every query has its relevant document at one rank."""
    docnos = ["a", "b", "c"]
    docnos.insert(rank - 1, "right")
    return [Ranking(Query(qid, ""), tuple(docnos), [4.0, 3.0, 2.0, 1.0]) for qid in qids]


RUNS = {"first": run(1), "third": run(3)}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_qrels("qrels.txt", QRELS)
    for name, rankings in RUNS.items():
        write_run(f"{name}.run", rankings)
    return tmp_path


def test_files_and_rankings_in_memory_are_measured_alike(folder):
    of_files = evaluate(judge(["first.run", "third.run"], "qrels.txt"), "RR AP")
    in_memory = evaluate(judge({**RUNS, "third": folder / "third.run"}, QRELS), "RR AP")
    assert str(of_files) == str(in_memory)
    by_number = {int(qid): grades for qid, grades in QRELS.items()}  # as data frames have ids
    assert str(evaluate(judge({**RUNS, "third": folder / "third.run"}, by_number), "RR AP")) == str(in_memory)
    assert in_memory.evaluations["third"].mean["RR"] == pytest.approx(1 / 3)
    assert of_files.record()["qrels"] == "qrels.txt"


def test_a_result_is_of_runs_cut_at_any_depth_and_prints_and_saves_itself(folder):
    cut = evaluate(judge(RUNS, QRELS, depth=2), "R@10").evaluations
    assert [evaluation.mean["R@10"] for evaluation in cut.values()] == [1, 0]
    curves = evaluate(judge(RUNS, QRELS), "R", depths=[1, 3])
    assert curves.curves == {"first": {"R": [1.0, 1.0]}, "third": {"R": [0.0, 1.0]}}
    assert str(curves).splitlines()[0] == "Means over 10 queries"
    curves.save("curves.json")
    assert json.loads((folder / "curves.json").read_text())["depths"] == [1, 3]
    assert [panel.get_ylabel() for panel in curves.plot().axes] == ["R"]


def test_baselines_are_given_by_name_or_file(folder):
    runs = judge(["first.run", "third.run"], "qrels.txt")
    assert compare(runs).baselines == compare(runs, ["first.run"]).baselines == ("first",)
    assert compare(runs, ["third"], "RR").difference("first", "third", "RR").wins == 10
    with pytest.raises(CollectionError, match="there is no run 'second'; known: first, third"):
        compare(runs, ["second"])


def test_pairs_of_runs_are_combined_and_weights_are_tuned_on_any_grid():
    lacking = {**RUNS, "third": run(3, [*list(QRELS)[1:], "unjudged"])}
    matrix = combine(judge(lacking, QRELS), "RR", level=0.01)
    assert matrix.cell("third", "first", "RR").mean == pytest.approx((9 / 2 + 1) / 10)
    assert matrix.level == 0.01
    assert matrix.remarks == [
        "third: has no list for 1 of 10 queries of the qrels",
        "third: 1 query is not in the qrels: it does not count",
    ]
    tuning = tune_fusion(judge(RUNS, QRELS), "RR", grid="square", step="1")
    assert (tuning.held_out, len(tuning.result.settings)) == (1.0, 3)
    with pytest.raises(CollectionError, match="step: 1 must be a multiple of the step"):
        tune_fusion(judge(RUNS, QRELS), "RR", step="0.3")


def test_a_fused_run_is_written_with_its_settings(folder):
    fused = fuse({**RUNS, "some": run(2, ["0"])}, "rrf", rrf_k=1, depth=3, k=2)
    for _ in range(2):
        fused.save("fused.run")
        assert fused.queries == 10
        assert fused.remarks == ["some: has no list for 9 of 10 queries: fused from the others"]
    first = next(iter(read_run("fused.run")))
    lists = [rankings[0].cut(3) for rankings in (*RUNS.values(), run(2))]
    assert first == sum_reciprocal_ranks(lists, 1).cut(2)
    settings = json.loads((folder / "fused.run.json").read_text())
    assert (settings["method"], settings["k"], settings["runs"]) == ("rrf", 1, ["first", "third", "some"])


def test_fusions_that_cannot_be_are_refused():
    with pytest.raises(CollectionError, match="give two runs or more"):
        fuse({"first": run(1)})
    with pytest.raises(CollectionError, match="3 weights for 2 runs"):
        fuse(RUNS, "linear", weights=(1, 2, 3))
    with pytest.raises(ValueError, match="only the fusion linear takes weights, not rrf"):
        fuse(RUNS, "rrf", weights=(1, 2))
    with pytest.raises(ValueError, match="there is no fusion 'sum'; known: interleave, linear, rrf"):
        fuse(RUNS, "sum")


def test_consistency_and_reranking_by_depth(folder):
    of_depths = consistency("first.run", RUNS, [1, 4], reference_depth=2)
    assert of_depths.runs["third"].values == (1.0, 0.5)
    curves = depth(judge(RUNS, QRELS), "first.run", "RR", [1, 4])
    assert curves.curves == {"first": (1.0, 1.0), "third": (0.0, 1.0)}
    by_stage = depth(judge(RUNS, QRELS), lambda stream: stream, "RR", [4])
    assert by_stage.curves["third"] == pytest.approx([1 / 3])


def test_runs_are_named_by_their_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = {"bm25": "a/bm25.run", "dfi": "b/dfi.run.gz", "lm.v2": "c/lm.v2.txt", "x": "x"}
    for file in (*files.values(), "b/bm25.run"):
        Path(file).parent.mkdir(exist_ok=True)
        Path(file).touch()
    assert name_runs(list(files.values())) == files
    alike = ["a/bm25.run", "b/bm25.run"]
    assert name_runs(alike) == dict(zip(alike, alike, strict=True))
    with pytest.raises(CollectionError, match="a run is given twice"):
        name_runs(["a", "a"])


@pytest.mark.parametrize(
    "measures", [nDCG @ 10, [nDCG @ 10], (nDCG @ 10, "AP", AP(rel=2)), nDCG(dcg="exp-log2") @ 5]
)
def test_measures_are_named_as_ir_measures_prints_them(measures):
    listed = measures if isinstance(measures, list | tuple) else [measures]
    assert list(map(ir_measures.parse_measure, parse_measures(measures))) == [
        ir_measures.parse_measure(str(measure)) for measure in listed
    ]


def test_every_verb_takes_measures():
    judged = judge(RUNS, QRELS)
    assert evaluate(judged, nDCG @ 10).evaluations["first"].measures == ("nDCG@10",)
    assert list(evaluate(judged, [nDCG, AP], depths=[1, 2]).expanded) == ["nDCG", "AP"]
    assert compare(judged, measures=[nDCG @ 10, AP]).measures == ("nDCG@10", "AP")
    assert "RR@10" in str(combine(judged, RR @ 10))
    assert tune_fusion(judged, AP, folds=2).result.measure == "AP"
    queries = JudgedQueries(tuple(Query(qid, "") for qid in QRELS), QRELS)
    assert "nDCG@10" in str(experiment(RUNS, queries, measures=[nDCG @ 10, RR]))


@pytest.mark.data
def test_an_opened_collection_judges_runs(data):
    scifact = open_collection(data / "scifact")
    qid, grades = next(iter(scifact.judged("test").items()))
    rankings = {"run": [Ranking.ranked(Query(qid, ""), tuple(grades), [1.0] * len(grades))]}
    judged = judge(rankings, scifact, split="test")
    assert (judged.source, judged.remarks) == ("scifact", ())
    assert evaluate(judged, "R@10").evaluations["run"].of("R@10")[qid] == 1


@pytest.mark.parametrize(
    ("grades", "docnos", "rr", "judgments"),
    [
        ({"guide.pdf": 1}, "law.pdf#1 law.pdf#eau-0123abcd guide.pdf#2 guide.pdf#1", 1 / 2, 1),
        ({"note.txt": 1}, "law.pdf#1 law.pdf#2 note.txt", 1 / 2, 0),  # a short file is not measured otherwise
        ({"guide.pdf": 1, "law.pdf": 0}, "law.pdf#1 law.pdf#2 guide.pdf#1", 1 / 2, 2),
        ({"guide.pdf#1": 1}, "law.pdf#1 law.pdf#2 guide.pdf#1", 1 / 3, 0),  # passages are judged
        ({"guide.pdf#1": 1, "law.pdf": 0}, "law.pdf#1 law.pdf#2 guide.pdf#2 guide.pdf#1", 1 / 3, 1),
        ({"d#x": 1, "d": 0}, "d#y d#z d#x", 1 / 3, 0),  # no names of passages
    ],
)
def test_a_judged_file_counts_once_at_its_best_passage(grades, docnos, rr, judgments):
    names = docnos.split()
    rankings = [Ranking(Query("1", ""), tuple(names), [*range(len(names), 0, -1)])]
    evaluations = evaluate(judge({"bm25": rankings}, {"1": grades}), "RR NumRet")
    assert evaluations.evaluations["bm25"].mean["RR"] == pytest.approx(rr)
    assert evaluations.evaluations["bm25"].relevant.of_files == judgments
    line = {
        0: [],
        1: ["bm25: 1 judgment is of a file, each counted once"],
        2: ["bm25: 2 judgments are of files, each counted once"],
    }
    assert [remark.partition(", at")[0] for remark in evaluations.remarks] == line[judgments]


def test_files_are_judged_alike_by_every_verb(tmp_path):
    texts = {f"f{n}.pdf#{part}": f"mot{n} " * part for n in range(6) for part in (1, 2, 3)}
    index = tr.index(texts, tmp_path / "idx", workers=1)
    queries = {f"q{n}": f"mot{n}" for n in range(6)}
    qrels = {f"q{n}": {f"f{n}.pdf": 1} for n in range(5)} | {"q5": {"f55.pdf": 1}}
    lacking = f"1 of 6 documents judged in the qrels is not in {index.folder}: f55.pdf (did you mean f5.pdf?)"
    counted = (
        "5 of 6 documents judged in the qrels are files, each counted once, at its best passage: f0.pdf "
    )
    lines = [lacking, f"{counted}for passages such as f0.pdf#1"]
    bm25 = index.bm25() % 10
    result = tr.experiment(
        {"bm25": bm25, "files": bm25 >> tr.group("file")}, queries, qrels, measures="RR P@3"
    )
    for name in ("bm25", "files"):
        assert result.evaluations[name].mean["RR"] == pytest.approx(5 / 6)
        assert result.evaluations[name].mean["P@3"] == pytest.approx(5 / 18)
    assert result.remarks[:2] == lines
    assert "bm25: 5 judgments are of files, each counted once" in str(result)
    run = tr.search(index, [Query(*pair) for pair in queries.items()])
    run.save(tmp_path / "bm25.run")
    for judged in (judge({"bm25": run}, qrels), judge([tmp_path / "bm25.run"], qrels)):
        assert judged.remarks == (lines[0],)
        assert evaluate(judged, "RR").evaluations["bm25"].mean["RR"] == pytest.approx(5 / 6)
    (tmp_path / "set").mkdir()
    (tmp_path / "set/topics.txt").write_text("".join(f"{qid}\t{text}\n" for qid, text in queries.items()))
    (tmp_path / "set/qrels.txt").write_text("".join(f"q{n} 0 f{n}.pdf 1\n" for n in range(6)))
    tuned = tr.tune(index, tmp_path / "set", settings=["bm25", "dfi"], folds=2)
    assert tuned.remarks[0].startswith("6 of 6 documents judged in set")
    assert all(value == 1 for value in tuned.evaluation.of("nDCG@10").values())


def test_relevant_documents_that_no_run_has_are_told_with_the_nearest_docno():
    rankings = [Ranking(Query("1", ""), ("other.md", "guide.md"), [2.0, 1.0])]
    assert evaluate(judge({"bm25": rankings}, {"1": {"sub/Guide.pdf": 1}}), "RR").remarks == [
        "bm25: has none of the 1 relevant documents (the first is sub/Guide.pdf; the run has guide.md)"
    ]


def test_a_number_after_a_hash_that_is_judged_itself_is_no_passage():
    judgments = {"1": {"doc#1": 1, "doc#2": 1}}
    rankings = [Ranking(Query("1", ""), ("doc#3", "doc#1"), [2.0, 1.0])]
    assert evaluate(judge({"bm25": rankings}, judgments), "RR").remarks == []
