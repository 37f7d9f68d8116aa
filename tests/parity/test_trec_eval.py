"""trec_eval's own names, aggregates and levels against pytrec_eval (9), and what is 10.0's against formulas."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest

from telerank.evaluation.measures import aggregate_name, measure, parse_measures
from telerank.types import Query, Ranking

from .test_measures import drawn, rankings, trec_eval


def floored(name: str, value: float) -> float:
    """pytrec_eval gives logarithms for geometric means."""
    return math.exp(value) if name.startswith("gm_") else value


def complete(
    name: str, values: dict[str, float], grades: dict[str, dict[str, int]], level: int = 1
) -> list[float]:
    """The values of all queries of the qrels, as with ``trec_eval -c``."""
    missing = {
        "num_q": lambda _: 1.0,
        "num_rel": lambda own: float(sum(grade >= level for grade in own.values())),
        "gm_map": lambda _: 1e-5,
        "gm_bpref": lambda _: 1e-5,
    }.get(name, lambda _: 0.0)
    return [floored(name, values[qid]) if qid in values else missing(own) for qid, own in grades.items()]


def test_the_nicknames_are_trec_evals_without_texts():
    for nickname in ("all_trec", "official", "set"):
        theirs = trec_eval({"1": {"a": 1}}, {"1": {"a": 1.0}}, {nickname})["1"]
        expected = [name for name in theirs if name not in ("runid", "relstring")]
        names = list(parse_measures(nickname))
        assert sorted(names) == sorted(expected)
        assert names == expected or nickname == "set"  # which has no order


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("level", [1, 2])
def test_all_of_trec_evals_measures_are_its_own_in_each_query_and_in_all(seed, level):
    qrels, run = drawn(seed)
    names = parse_measures("all_trec", level)
    found = measure(rankings(run), qrels, names)
    theirs = trec_eval(qrels, run, {"all_trec"}, level)
    for name in names:
        plain = name.replace(f"(rel={level})", "")
        values = complete(plain, {qid: own[plain] for qid, own in theirs.items()}, qrels, level)
        assert list(found.of(name).values()) == pytest.approx(values, rel=1e-15), name
        kind = aggregate_name(name)
        expected = (
            math.fsum(values)
            if kind == "sum"
            else math.exp(math.fsum(map(math.log, values)) / len(values))
            if kind == "geometric mean"
            else math.fsum(values) / len(values)
        )
        assert found.mean[name] == pytest.approx(expected, rel=1e-12), name
    assert found.missing


def test_the_level_is_that_of_measures_that_have_one():
    names = parse_measures("map P_10 ndcg num_ret num_rel AP nDCG@10 R@5 NumRet AP(rel=3) RR@10 IPrec@0.1", 2)
    assert names == (
        *("map(rel=2)", "P_10(rel=2)", "ndcg", "num_ret", "num_rel(rel=2)", "AP(rel=2)", "nDCG@10"),
        *("R(rel=2)@5", "NumRet", "AP(rel=3)", "RR(rel=2)@10", "IPrec(rel=2)@0.1"),
    )
    assert parse_measures(names) == names


def test_counts_are_summed_and_a_missing_query_has_its_own():
    qrels = {"1": {"a": 1, "b": 2}, "2": {"c": 1, "d": 1, "e": 3}}
    found = measure(
        [Ranking(Query("1", ""), ("x", "a"), [2.0, 1.0])], qrels, "NumQ NumRet NumRel NumRet(rel=1)"
    )
    assert found.mean == {"NumQ": 2.0, "NumRet": 2.0, "NumRel": 5.0, "NumRet(rel=1)": 1.0}
    assert found.of("NumRel") == {"1": 2.0, "2": 3.0}
    assert measure([], qrels, "NumRel(rel=2) num_rel(rel=3) num_q").mean == {
        "NumRel(rel=2)": 2.0,
        "num_rel(rel=3)": 1.0,
        "num_q": 2.0,
    }


def half_away_from_zero(level: str, relevant: int) -> int:
    exact = Fraction(float(level) * relevant)  # the product is a double, as in C
    return math.floor(exact) + (exact - math.floor(exact) >= Fraction(1, 2))


def interpolated(docnos: tuple[str, ...], grades: dict[str, int], count: int) -> float:
    found, best = 0, 0.0
    for rank, docno in enumerate(docnos, 1):
        found += grades.get(docno, 0) >= 1
        if found >= max(count, 1) and grades.get(docno, 0) >= 1:
            best = max(best, found / rank)
    return best


LEVELS = [f"{i / 10:.2f}" for i in range(11)]


@pytest.mark.parametrize("seed", range(5))
def test_interpolated_precision_is_trec_eval_9s_and_10s(seed):
    qrels, run = drawn(seed)
    lists = {ranking.query.qid: ranking.docnos for ranking in rankings(run)}
    nine = measure(rankings(run), qrels, "iprec_at_recall 11pt_avg IPrec@0.1 IPrec@1.0")
    ten = measure(
        rankings(run), qrels, "iprec_at_recall(trec_eval=10) 11pt_avg(trec_eval=10) IPrec(trec_eval=10)@0.1"
    )
    theirs = trec_eval(qrels, run, {"iprec_at_recall", "11pt_avg"})
    differences = 0
    for qid, grades in qrels.items():
        relevant, docnos = sum(grade >= 1 for grade in grades.values()), lists.get(qid, ())
        for level in LEVELS:
            name = f"iprec_at_recall_{level}"
            assert nine.of(name)[qid] == theirs.get(qid, {}).get(name, 0.0)
            exact = interpolated(docnos, grades, half_away_from_zero(level, relevant))
            assert ten.of(f"{name}(trec_eval=10)")[qid] == exact
            differences += exact != nine.of(name)[qid]
        assert nine.of("11pt_avg")[qid] == pytest.approx(theirs.get(qid, {}).get("11pt_avg", 0.0), rel=1e-15)
        mean = sum(ten.of(f"iprec_at_recall_{level}(trec_eval=10)")[qid] for level in LEVELS) / 11
        assert ten.of("11pt_avg(trec_eval=10)")[qid] == pytest.approx(mean, rel=1e-14)
    assert differences
    assert nine.of("IPrec@0.1") == nine.of("iprec_at_recall_0.10")
    assert ten.of("IPrec(trec_eval=10)@0.1") == ten.of("iprec_at_recall_0.10(trec_eval=10)")


def test_names_are_printed_as_they_are_given():
    text = "map recip_rank P_10 ndcg_cut_10 gm_map Rprec bpref 11pt_avg P.5,10 iprec_at_recall.0.1,0.2"
    assert parse_measures(text) == (
        *("map", "recip_rank", "P_10", "ndcg_cut_10", "gm_map", "Rprec", "bpref", "11pt_avg", "P_5"),
        *("iprec_at_recall_0.10", "iprec_at_recall_0.20"),
    )
    assert parse_measures("map,11pt_avg, AP") == ("map", "11pt_avg", "AP")
    assert parse_measures("success") == ("success_1", "success_5", "success_10")
    assert parse_measures("official(trec_eval=10)")[9] == "iprec_at_recall_0.00(trec_eval=10)"


NUMBERS = ("num_ret", "num_rel", "num_rel_ret", "set_P", "set_recall")


@pytest.mark.parametrize("level", [1, 2])
def test_parameters_are_those_of_trec_evals_formulas(level):
    qrels, run = drawn(level)
    names = parse_measures("utility.2,-1.5,-.25,0 set_F.2 11pt_avg..25,.5,.75 ndcg.1=3,2=9,0=1", level)
    values = measure(rankings(run), qrels, names)
    levels = {f"iprec_at_recall_{recall}" for recall in ("0.25", "0.50", "0.75")}
    theirs = trec_eval(qrels, run, {*NUMBERS, *levels}, level)
    gains = {0: 1, 1: 3, 2: 9}  # and 3 of 3; no judgment gains 0, as a grade below 0
    regraded = {
        qid: {docno: gains.get(grade, grade) for docno, grade in grades.items()}
        for qid, grades in qrels.items()
    }
    ndcg = trec_eval(regraded, run, {"ndcg"})
    for qid in qrels.keys() & run.keys():
        numbers = theirs[qid]
        both = numbers["num_rel_ret"]
        utility = 2 * both - 1.5 * (numbers["num_ret"] - both) - 0.25 * (numbers["num_rel"] - both)
        product, weighted = numbers["set_P"] * numbers["set_recall"], 2 * numbers["set_P"]
        expected = (
            utility,
            3 * product / (weighted + numbers["set_recall"]) if both else 0.0,
            sum(numbers[name] for name in levels) / 3,
            ndcg[qid]["ndcg"],
        )
        assert [values.of(name)[qid] for name in names] == pytest.approx(expected, rel=1e-14)


def test_default_parameters_are_trec_evals():
    qrels, run = drawn(5, 40)
    tenths = ",".join(f"{i / 10}" for i in range(11))
    ours = f"utility.1,-1,0,0 set_F.1 11pt_avg.{tenths} ndcg.1=1,2=2"
    theirs = "utility set_F 11pt_avg ndcg"
    values, defaults = (measure(rankings(run), qrels, names).mean.values() for names in (ours, theirs))
    assert list(values) == pytest.approx(list(defaults), rel=1e-14)


def test_an_ideal_ranking_has_the_higher_of_two_gains_first():
    """trec_eval sorts gains by their difference without its decimals, so that these come in any order."""
    ranking = Ranking(Query("1", ""), ("b", "a"), [2.0, 1.0])
    values = measure([ranking], {"1": {"a": 1, "b": 2, "c": 0}}, "ndcg.1=.5,2=.25").mean
    assert values["ndcg_1=.5,2=.25"] == pytest.approx(
        (0.25 + 0.5 / math.log2(3)) / (0.5 + 0.25 / math.log2(3))
    )


def test_names_with_parameters_are_printed_as_by_trec_eval_and_read_back():
    names = parse_measures("map,utility.2,-1,0,0 11pt_avg..25,.5,.75,ndcg.1=3,2=9,4=4.5, AP")
    assert names == ("map", "utility_2,-1,0,0", "11pt_avg_.25,.5,.75", "ndcg_1=3,2=9,4=4.5", "AP")
    assert parse_measures(names) == names
    names = parse_measures("utility.2,-1,0,0 11pt_avg.0,1(trec_eval=10)", 2)
    assert names == ("utility_2,-1,0,0(rel=2)", "11pt_avg_0,1(rel=2,trec_eval=10)")
    assert parse_measures(names) == names


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("runid", "'runid' is a text of trec_eval, not a number"),
        ("relstring.10", "'relstring.10' is a text of trec_eval"),
        ("prefs", "'prefs' needs trec_eval's preference judgments, which are not read"),
        ("prefs_avgjg_ret", "'prefs_avgjg_ret' needs trec_eval's preference judgments"),
        ("map_avgjg", "'map_avgjg' needs trec_eval's groups of judgments, which are not read"),
        ("unj_10", "'unj_10' is not computed: Judged@10 is the share of documents with a judgment"),
        ("num_nonjudged_ret", "'num_nonjudged_ret' is not computed"),
        ("rbp", "'rbp' of trec_eval is not computed"),
        ("utility.2,-1,0", "utility does not take '2,-1,0': expected four coefficients, the last 0"),
        ("utility.2,-1,0,1", "utility does not take '2,-1,0,1': expected four coefficients, the last 0"),
        (f"utility.{'9' * 400},1,0,0", "expected four coefficients"),
        ("11pt_avg.1.5", "11pt_avg does not take '1.5': expected levels of recall from 0 to 1"),
        ("11pt_avg.-.5", "expected levels of recall from 0 to 1"),
        ("11pt_avg.1=1", "expected levels of recall from 0 to 1"),
        ("set_F.1,2", "set_F does not take '1,2': expected the weight of recall"),
        ("set_F.-1", "expected the weight of recall"),
        ("ndcg.3", "ndcg does not take '3': expected gains of grades, as in ndcg.1=3,2=9"),
        ("ndcg.1=3,1=4", "expected gains of grades"),
        ("ndcg.40000=1", "expected gains of grades"),
        ("Rndcg.1=3", "'Rndcg.1=3': Rndcg takes no cutoff or parameter"),
        ("P.1=3", "'P.1=3': P takes cutoffs of at most 0 decimals"),
        ("P.-5", "P does not take -5: expected 1 to 2,147,483,647"),
        ("map_5", "'map_5': map takes no cutoff"),
        ("P_1.5", "'P_1.5': P takes cutoffs of at most 0 decimals"),
        ("P_0", "P does not take 0: expected 1 to 2,147,483,647"),
        ("P_99999999999999999999999", "P does not take 1e+23"),
        ("iprec_at_recall_1.10", "iprec_at_recall does not take 1.1: expected 0 to 1"),
        ("iprec_at_recall_0.125", "takes cutoffs of at most 2 decimals"),
        ("IPrec@1.5", "IPrec does not take 1.5: expected 0 to 1"),
        ("IPrec(trec_eval=8)@0.5", "IPrec is not computed in the way of a trec_eval 8"),
        ("map(trec_eval=10)", "'map(trec_eval=10)': map does not depend on trec_eval"),
        ("ndcg(rel=2)", "'ndcg(rel=2)': ndcg does not depend on rel"),
        ("map(rel=0)", "map does not take rel=0: expected 1 to 32,767"),
        ("map(rel=9999999999)", "expected whole numbers in brackets"),
        ("ndgc", "there is no measure 'ndgc'"),
    ],
)
def test_other_names_are_refused(text, said):
    from telerank.errors import MeasureError

    with pytest.raises(MeasureError, match=re.escape(said)):
        parse_measures(text)


def test_a_level_above_all_grades_finds_nothing_relevant():
    """trec_eval itself reads beyond its counts of grades here, and may crash."""
    qrels = {str(i): {f"d{j}": j % 2 for j in range(10)} for i in range(50)}
    docnos = tuple(f"d{j}" for j in range(10))
    run = [Ranking(Query(qid, ""), docnos, np.arange(10, 0, -1)) for qid in qrels]
    names = "Bpref(rel=32767) bpref(rel=32767) map(rel=32767) num_rel(rel=32767)"
    assert set(measure(run, qrels, names).mean.values()) == {0.0}
    least = measure(run, qrels, "gm_bpref(rel=32767)").mean["gm_bpref(rel=32767)"]
    assert least == pytest.approx(1e-5)


def test_grades_beyond_the_limits_are_refused_and_those_at_them_measured():
    run = [Ranking(Query("1", ""), ("a", "b"), [2.0, 1.0])]
    assert measure(run, {"1": {"a": -32768, "b": 32767}}, "nDCG@1 AP P@1").mean == {
        "nDCG@1": 0.0,
        "AP": 0.5,
        "P@1": 0.0,
    }
    for grade in (32768, 2**32 + 1, -32769):
        with pytest.raises(ValueError, match="query 1: a grade is not from -32,768 to 32,767"):
            measure(run, {"1": {"a": grade}}, "AP")
