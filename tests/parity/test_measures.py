"""Measures against trec_eval itself (pytrec_eval) on runs full of ties, and against a formula of a few lines."""

from __future__ import annotations

import math

import numpy as np
import pytest
import pytrec_eval

from telerank.evaluation.measures import measure
from telerank.types import Query, Ranking

# name here -> name of trec_eval
TREC_EVAL = {
    "AP": "map",
    "AP@10": "map_cut_10",
    "nDCG": "ndcg",
    "nDCG@10": "ndcg_cut_10",
    "nDCG@3": "ndcg_cut_3",
    "P@1": "P_1",
    "P@5": "P_5",
    "R@5": "recall_5",
    "R@1000": "recall_1000",
    "RR": "recip_rank",
    "Success@1": "success_1",
    "Success@5": "success_5",
    "Rprec": "Rprec",
    "Bpref": "bpref",
}
POOL = [f"d{i}" for i in range(40)] + ["é1", "日本", "D1", "d\u00a01", "~"]


def judgments(random: np.random.Generator, queries: int) -> dict[str, dict[str, int]]:
    """Graded, sparse, with queries that have no relevant document and grades below 0."""
    return {
        f"q{i}": {
            str(docno): int(random.integers(-1, 4) if i % 7 else 0)
            for docno in random.choice(POOL, random.integers(1, 12), replace=False)
        }
        for i in range(queries)
    }


def tied_run(random: np.random.Generator, queries: int) -> dict[str, dict[str, float]]:
    """Few distinct scores, which float32 tells apart, missing queries and queries without judgments."""
    run = {}
    for i in range(queries + 3):
        if random.random() < 0.1:
            continue
        docnos = random.choice(POOL, random.integers(1, len(POOL)), replace=False)
        scores = random.integers(0, 4, len(docnos)) / 3 + random.choice([0.0, 1e-5], len(docnos))
        run[f"q{i}"] = {str(docno): float(score) for docno, score in zip(docnos, scores, strict=True)}
    return run


def drawn(seed: int, queries: int = 60) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    random = np.random.default_rng(seed)
    return judgments(random, queries), tied_run(random, queries)


def rankings(run: dict[str, dict[str, float]]) -> list[Ranking]:
    return [Ranking.ranked(Query(qid, ""), tuple(found), list(found.values())) for qid, found in run.items()]


def trec_eval(qrels, run, names, level: int = 1) -> dict[str, dict[str, float]]:
    """What trec_eval gives: nothing for a query without results, which -c counts 0."""
    return pytrec_eval.RelevanceEvaluator(qrels, set(names), relevance_level=level).evaluate(run)


@pytest.mark.parametrize("seed", range(20))
def test_values_are_trec_evals_on_runs_full_of_ties(seed):
    qrels, run = drawn(seed)
    values = measure(rankings(run), qrels, list(TREC_EVAL))
    expected = trec_eval(qrels, run, TREC_EVAL.values())
    for name, theirs in TREC_EVAL.items():
        assert values.of(name) == {qid: expected.get(qid, {}).get(theirs, 0.0) for qid in qrels}, name
        total = math.fsum(values[theirs] for values in expected.values())
        assert values.mean[name] == pytest.approx(total / len(qrels), rel=1e-12)


@pytest.mark.parametrize("rel", [1, 2, 3])
def test_values_from_a_grade_on_are_trec_evals(rel):
    qrels, run = drawn(rel)
    names = {"AP(rel=%)": "map", "P(rel=%)@5": "P_5", "R(rel=%)@5": "recall_5", "RR(rel=%)": "recip_rank"}
    names = {name.replace("%", str(rel)): theirs for name, theirs in names.items()}
    names["nDCG@10"] = "ndcg_cut_10"
    values = measure(rankings(run), qrels, list(names))
    expected = trec_eval(qrels, run, names.values(), rel)
    for name, theirs in names.items():
        of_trec_eval = {qid: expected.get(qid, {}).get(theirs, 0.0) for qid in qrels}
        assert values.of(name.replace("(rel=1)", "")) == of_trec_eval


def reciprocal_rank(docnos: tuple[str, ...], grades: dict[str, int], cutoff: int) -> float:
    for rank, docno in enumerate(docnos[:cutoff], 1):
        if grades.get(docno, 0) >= 1:
            return 1 / rank
    return 0.0


@pytest.mark.parametrize("seed", range(5))
def test_ties_count_alike_in_measures_of_other_programs(seed):
    """RR@k is not trec_eval's: left to itself, that program would break ties the other way."""
    qrels, run = drawn(100 + seed)
    lists = {ranking.query.qid: ranking.docnos for ranking in rankings(run)}
    values = measure(rankings(run), qrels, "RR@1 RR@10")
    for name, cutoff in (("RR@1", 1), ("RR@10", 10)):
        assert values.of(name) == {
            qid: reciprocal_rank(lists.get(qid, ()), grades, cutoff) for qid, grades in qrels.items()
        }


def test_runs_of_more_queries_than_are_handed_over_at_once_are_measured_alike():
    random = np.random.default_rng(0)
    qrels = {f"q{i}": {"d1": 1, "d2": 0} for i in range(1300)}
    run = {qid: {docno: float(random.integers(3)) for docno in ("d1", "d2", "d3")} for qid in qrels}
    expected = trec_eval(qrels, run, {"map"})
    assert measure(rankings(run), qrels, "AP").of("AP") == {qid: expected[qid]["map"] for qid in qrels}
