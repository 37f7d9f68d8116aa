"""The analyses of systems: their values are those of the rankings, their tables have the published values."""

from __future__ import annotations

import itertools
import statistics
from dataclasses import replace

import numpy as np
import pytest
from small_bench import DOCS, PipelineReader, cells, write_systems

from small_vectors import Letters
from telerank.dense.encode import Encoding, encode_documents
from telerank.dense.retriever import DenseRetriever
from telerank.errors import CollectionError
from telerank.evaluation.measures import measure
from telerank.evaluation.statistics import holm
from telerank.experiments.analyses.bench import analyse, analyse_all
from telerank.experiments.analyses.first_stages import (
    CombinationAnalysis,
    ConsistencyAnalysis,
    RecallAnalysis,
    RerankingAnalysis,
    make_reranker,
)
from telerank.experiments.analyses.quality import QualityAnalysis
from telerank.experiments.analysis import Unavailable
from telerank.fusion.lists import interleave_rankings
from telerank.pipelines.run_files import RunFile
from telerank.trec import read_run
from telerank.types import Ranking

DEPTHS = [1, 2, 5]
SEEDS = ["bm25", "dfi", "lm_jelinek_mercer(lambda=0.9)"]


def quality(**settings) -> QualityAnalysis:
    return QualityAnalysis(
        **{"kind": "quality", "measures": ["R@1", "AP@5"], "latency_queries": 0, **settings}
    )


def test_quality_has_the_means_of_each_run(bench):
    (table,) = analyse(bench, quality(title="Words")).tables
    assert (table.caption, table.columns) == ("Words", ("system", "R@1", "AP@5"))
    for name, system in bench.systems.items():
        mean = measure(system.stage.run(bench.judged.queries), bench.judged.qrels, "R@1 AP@5").mean
        assert cells(table)[name] == [f"{mean['R@1']:.3f}", f"{mean['AP@5']:.3f}"]


def test_published_values_are_beside_the_measured_ones(bench):
    printed = {"BM25": {"AP@5": 0.5, "ms/query": 3400}, "unknown": {"AP@5": None, "hidden": 0.25}}
    result = analyse(bench, quality(latency_queries=3, published={"words": printed}))
    (table,) = result.tables
    assert table.columns == ("system", "R@1", "AP@5", "paper", "ms/query", "paper", "hidden, paper")
    rows = cells(table)
    assert (rows["BM25"][2], rows["BM25"][4:]) == ("0.500", ["3,400", "–"])
    assert rows["unknown"] == ["–", "–", "–", "–", "–", "0.250"]
    assert float(rows["DFR"][3]) > 0
    assert result.notes[-1].startswith("ms/query: wall time, one query at a time, mean of 3 queries")


def test_differences_from_the_baseline_are_marked_and_said(bench, tmp_path):
    texts = {"BM25": "bm25", "blind": "0 * bm25"}
    two = replace(bench, systems=write_systems(bench, tmp_path, texts))
    result = analyse(two, quality(baseline="BM25"))
    (table,) = result.tables
    assert [[cell.marks for cell in row[1:]] for row in table.rows] == [["", ""], ["†", "†"]]
    assert "† differs from BM25: p < 0.05 in a paired t-test over 30 queries" in table.notes[0]
    assert "significantly below BM25" in result.notes[0]


def test_quality_can_be_of_the_queries_that_a_system_answers(bench, tmp_path):
    few = replace(bench.judged, queries=bench.judged.queries[:7])
    systems = write_systems(replace(bench, data=replace(bench.data, judged=few)), tmp_path, {"few": "dfr"})
    some = replace(bench, systems={**bench.systems, **systems})
    result = analyse(some, quality(systems=["BM25"], queries_of="few"))
    assert result.record["queries"] == 7
    assert list(result.record["means"]) == ["BM25", "few"]
    assert "Measured on the 7 queries that few answers." in result.notes
    qrels = {query.qid: bench.judged.qrels[query.qid] for query in bench.judged.queries[:7]}
    expected = measure(bench.rankings("BM25"), qrels, "R@1 AP@5").mean
    assert result.record["means"]["BM25"] == expected
    missing = analyse(bench, quality(queries_of="few", baseline="BM25"))
    assert missing.record["queries"] == len(bench.judged.qrels)
    assert not any("few" in note for note in missing.notes)


def test_recall_rises_with_the_depth(bench):
    printed = {"BM25": {"5": 0.9}, "unknown": {"5": 0.8}}
    result = analyse(bench, RecallAnalysis(kind="recall", depths=DEPTHS, published={"other": printed}))
    table, others = result.tables
    assert table.columns == ("depth", "BM25", "paper", "DFR", "short")
    assert cells(table)["5"][:2] == [f"{result.record['recall']['BM25'][2]:.3f}", "0.900"]
    assert cells(others) == {"5": ["0.900", "0.800"]}
    assert all(list(values) == sorted(values) for values in result.record["recall"].values())
    assert list(result.plots) == ["recall"]


def test_reranking_takes_the_first_reranker_that_is_available(bench):
    class Runner(PipelineReader):
        def read_stage(self, name, text, position=0):
            if text == "given":
                raise Unavailable("not given: a run")
            return super().read_stage(name, text, position)

    settings = {"kind": "reranking", "measures": "RR@10", "depths": DEPTHS, "systems": ["BM25"]}
    spec = RerankingAnalysis(**settings, rerankers={"BERT": "given", "DFR": "dfr"})
    result = analyse(replace(bench, runner=Runner(bench.data)), spec)
    assert result.record["reranker"] == "DFR"
    assert result.notes[0] == "Re-ranked by DFR; the paper's values are of BERT."
    dfr = bench.data.index("standard").retriever("dfr")
    reranked = []
    for ranking in bench.rankings("BM25"):
        scores, docnos = dict(dfr.search(ranking.query)), ranking.docnos[:5]
        reranked.append(Ranking.ranked(ranking.query, docnos, [scores[docno] for docno in docnos]))
    expected = measure(reranked, bench.judged.qrels, "RR@10").mean["RR@10"]
    assert result.record["RR@10"]["BM25"][2] == pytest.approx(expected)
    with pytest.raises(Unavailable, match="no re-ranker is available: BERT: not given: a run"):
        analyse(
            replace(bench, runner=Runner(bench.data)),
            RerankingAnalysis(**settings, rerankers={"BERT": "given"}),
        )


def test_candidates_are_scored_by_a_run_or_by_their_vectors(bench, tmp_path):
    ranking = next(bench.rankings("BM25"))
    run = RunFile(str(bench.systems["short"].runs[0]))
    (by_run,) = make_reranker(run)([ranking])
    assert by_run == ranking.cut(2)
    vectors = encode_documents(iter(DOCS), tmp_path / "vectors", Letters(), encoding=Encoding())
    dense = DenseRetriever(vectors, Letters())
    candidates = Ranking(ranking.query, ("d30", "d07", "d01"), np.array([3, 2, 1]))
    (by_vectors,) = make_reranker(dense)([candidates])
    expected = dict(dense.search(ranking.query))
    assert dict(by_vectors) == pytest.approx({docno: expected[docno] for docno in candidates.docnos})


def test_consistency_is_with_the_first_reference_that_is_available(bench):
    spec = ConsistencyAnalysis(kind="consistency", depths=DEPTHS, references=["official", "short"])
    result = analyse(bench, spec)
    assert result.record["reference"] == "short"
    assert result.record["consistency"]["BM25"][:2] == (1, 1)
    assert result.notes[0] == "The reference, short (words), has at most 2 candidates per query."
    with pytest.raises(Unavailable, match="no reference is available: official"):
        analyse(bench, spec.model_copy(update={"references": ("official",)}))


def test_combinations_are_of_all_ordered_pairs(bench):
    printed = {"BM25": {"BM25": 0.4, "DFR": 0.5}, "DFR": {"BM25": None, "DFR": 0.45}}
    spec = CombinationAnalysis(kind="combination", measures="RR@10", published={"words": printed})
    result = analyse(bench, spec)
    measured, paper = result.tables
    assert measured.columns == ("", "+ BM25", "+ DFR", "+ short")
    assert len(result.record["combinations"]) == 6
    assert cells(paper)["BM25"] == ["0.400", "0.500 (+25%)"]
    assert cells(paper)["DFR"] == ["–", "0.450"]  # a value that cannot be read is not guessed
    assert [table.caption for table in result.tables] == ["RR@10", "RR@10, paper"]
    other = spec.model_copy(update={"title": "Small", "published_measures": "R@1000"})
    assert [table.caption for table in analyse(bench, other).tables] == ["Small", "R@1000, paper"]


def test_a_combination_keeps_what_its_analysis_says(bench, tmp_path):
    systems = write_systems(bench, tmp_path, {"blind": "0 * bm25", "BM25": "bm25"})
    short = replace(bench, depth=1, systems=systems)
    spec = CombinationAnalysis(kind="combination", measures="R@6")
    cut, whole = (analyse(short, spec.model_copy(update={"keep": keep})).record for keep in (None, 2))
    runs = [list(short.rankings(name)) for name in ("blind", "BM25")]
    for record, keep in ((cut, 1), (whole, 2)):
        fused = [interleave_rankings(pair, 1000).cut(keep) for pair in zip(*runs, strict=True)]
        (cell,) = (cell for cell in record["combinations"] if cell["first"] == "blind")
        assert cell["mean"] == pytest.approx(measure(fused, bench.judged.qrels, "R@6").mean["R@6"])
    assert whole["combinations"] != cut["combinations"]


def test_all_values_are_means_over_seeds_with_their_deviation(bench, tmp_path):
    systems = write_systems(bench, tmp_path, {"BM25": "bm25", "trained": SEEDS}, stages=False)
    trained = replace(bench, systems=systems)
    by_seed = [
        measure(read_run(run), bench.judged.qrels, "R@2").mean["R@2"] for run in systems["trained"].runs
    ]
    mean = pytest.approx(statistics.fmean(by_seed))
    spread = f"{statistics.fmean(by_seed):.3f} ± {statistics.stdev(by_seed):.3f}"
    result = analyse(trained, quality(measures=["R@2"], baseline="BM25"))
    assert cells(result.tables[0])["trained"] == [spread]
    assert [means["R@2"] for means in result.record["by_seed"]["trained"]] == by_seed
    (difference,) = result.record["differences"]
    assert difference["mean"] == mean
    assert any("± is the standard deviation" in note for note in result.tables[0].notes)
    recall = analyse(trained, RecallAnalysis(kind="recall", depths=DEPTHS))
    assert [curve[1] for curve in recall.record["by_seed"]["trained"]] == pytest.approx(by_seed)
    assert recall.record["recall"]["trained"][1] == mean
    assert cells(recall.tables[0])["2"] == [cells(recall.tables[0])["2"][0], spread]
    spec = ConsistencyAnalysis(kind="consistency", depths=DEPTHS, references=["BM25"])
    consistency = analyse(trained, spec).record
    assert len(consistency["by_seed"]["trained"]) == 3
    assert consistency["by_seed"]["trained"][0] == (1, 1, 1)
    combined = analyse(trained, CombinationAnalysis(kind="combination", measures="R@2"))
    alone = [values["trained"]["trained"] for values in combined.record["by_seed"]]
    assert alone == pytest.approx(by_seed)
    assert cells(combined.tables[0])["trained"][1] == spread


def test_an_analysis_without_its_systems_says_so_beside_the_others(bench):
    specs = [
        quality(),
        CombinationAnalysis(kind="combination", measures="AP", title="Pairs", systems=["BM25"]),
    ]
    good, lacking = analyse_all(bench, specs)
    assert good.tables
    assert lacking.tables == ()
    assert lacking.notes == ("Not analysed: Pairs: a combination needs two systems; available: BM25.",)
    with pytest.raises(CollectionError, match="no analysis is available here: quality: none of its systems"):
        analyse_all(replace(bench, systems={}), [quality()])


def test_tests_of_every_two_systems_have_numbers_and_holm_beside(bench, tmp_path):
    worse = write_systems(bench, tmp_path, {"first": "bm25 % 1", "JM": "lm_jelinek_mercer(lambda=0.99)"})
    bench = replace(bench, systems={**bench.systems, **worse})
    names = [*bench.systems]
    result = analyse(bench, quality(tests={"level": 0.9}))
    table, tests = result.tables
    pairs = [tuple(cell.text for cell in row[:3]) for row in tests.rows]
    assert len(pairs) == 2 * len(list(itertools.combinations(names, 2)))
    record = {(one["system"], one["other"], one["measure"]): one for one in result.record["tests"]}
    assert list(record) == pairs
    corrected = holm([one["p"] for one in record.values()])
    assert [one["p_holm"] for one in record.values()] == pytest.approx(corrected)
    numbers = {name: str(number) for number, name in enumerate(names, 1)}
    for row in table.rows:
        for measure_name, cell in zip(table.columns[1:], row[1:], strict=True):
            expected = {
                numbers[({*key[:2]} - {row[0].text}).pop()]
                for key, one in record.items()
                if row[0].text in key[:2] and key[2] == measure_name and one["p"] < 0.9
            }
            assert {*cell.marks} == expected
    assert any(cell.marks for row in table.rows for cell in row)
    assert "not corrected for" in table.notes[0]
    strict = analyse(bench, quality(tests={"level": 0.9, "corrected": True}))
    differing = [one for one in strict.record["tests"] if one["p_holm"] < 0.9]
    marks = sum(len(cell.marks) for row in strict.tables[0].rows for cell in row)
    assert marks == 2 * len(differing)
