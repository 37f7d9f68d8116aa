"""telerank evaluate, as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import ok, refusal
from small_set import write_beir
from telerank.cli.options import parse_depths
from telerank.errors import MeasureError
from telerank.trec import load_qrels, read_qrels, write_qrels, write_run
from telerank.types import Query, Ranking

QRELS = {"1": {"a": 1, "b": 0}, "2": {"a": 1, "c": 1}, "3": {"z": 1}}
BOTH = "evaluate qrels.txt bm25.run dfi.run.gz"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """qrels.txt, two runs, a collection ``set`` and qrels and runs that are not in order, in the working folder."""
    monkeypatch.chdir(tmp_path)
    write_qrels("qrels.txt", QRELS)
    short = [Ranking(Query("1", ""), ("b", "a"), [2.0, 1.0]), Ranking(Query("2", ""), ("a",), [1.0])]
    write_run("bm25.run", short)
    write_run("dfi.run.gz", [Ranking(Query(qid, ""), ("a", "z"), [2.0, 1.0]) for qid in ("1", "2", "3", "9")])
    judged = {"test": [("1", "a", 1)], "train": [("7", "a", 1)]}
    write_beir(tmp_path / "set", [{"_id": "a", "text": "bear"}], {"1": "bear", "7": "cub"}, judged)
    for name, text in {
        "empty.txt": "\n",
        "broken.txt": "1 0 a 1\n1 0 b\n",
        "elsewhere.txt": "x 0 a 1\n",
        "tidy.txt": "1 0 a 1\n2 0 c 2\n",
        # what trec_eval reads, though it does not follow the formats
        "qrels": "# judged\n1 0 a 1\n1 0 b 0 # unsure\n2 0 c 2\n3 0 d 1\n",
        "untidy.run": "1 Q0 a 1 2.5 t more junk\n2 Q0 c 1 21.4567891234 t\n1 Q0 b 2 2.0 t\n2 Q0 e 2 21.4567891230 t\n",
    }.items():
        Path(name).write_text(text)


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


def test_a_run_is_a_row_and_a_measure_a_column():
    assert rows(ok(f"{BOTH} -m 'RR@10 P@1 R@1'").stdout) == [
        ["Means", "over", "3", "queries"],
        ["system", "RR@10", "P@1", "R@1"],
        ["─" * 30],
        ["bm25", "0.5000", "0.3333", "0.1667"],
        ["dfi", "0.8333", "0.6667", "0.5000"],
    ]


def test_a_caption_is_not_broken_by_a_narrow_table():
    shown = ok("evaluate qrels.txt bm25.run -m AP").stdout
    assert shown.splitlines()[0] == "Means over 3 queries"


def test_what_does_not_count_is_said_on_standard_error():
    said = ok(BOTH).stderr
    assert "bm25: 1 of 3 queries of the qrels has no document: it counts 0" in said
    assert "dfi: 1 query is not in the qrels: it does not count" in said
    write_qrels("none.txt", {**QRELS, "4": {"a": 0}})
    said = ok("evaluate none.txt bm25.run").stderr
    assert "1 of 4 queries of the qrels has no relevant document: it counts 0" in said


def test_json_is_for_machines():
    record = json.loads(ok("evaluate qrels.txt bm25.run -m 'RR MAP' --per-query --json").stdout)
    assert record == {
        "qrels": "qrels.txt",
        "queries": 3,
        "runs": [
            {
                "run": "bm25",
                "mean": {"RR": 0.5, "AP": pytest.approx(1 / 3)},
                "missing": ["3"],
                "unanswerable": [],
                "unjudged": [],
                "per_query": {
                    "1": {"RR": 0.5, "AP": 0.5},
                    "2": {"RR": 1.0, "AP": 0.5},
                    "3": {"RR": 0.0, "AP": 0.0},
                },
            }
        ],
    }


def test_every_query_can_be_shown():
    shown = rows(ok(f"{BOTH} -m RR --per-query").stdout)
    assert ["1", "bm25", "0.5000"] in shown
    assert ["3", "dfi", "0.5000"] in shown


def test_measures_by_depth_are_shown_and_drawn():
    shown = ok(f"{BOTH} -m R --depths 1,2,…,4 --plot depth.svg").stdout
    assert ["bm25", "R", "0.167", "0.500", "0.500", "0.500"] in rows(shown)
    assert Path("depth.svg").read_text().startswith("<?xml")
    record = json.loads(ok("evaluate qrels.txt bm25.run --depths 1,2 --json").stdout)
    assert record["depths"] == [1, 2]
    assert record["runs"][0]["by_depth"] == {
        "R": [pytest.approx(1 / 6), 0.5],
        "AP": [pytest.approx(1 / 6), pytest.approx(1 / 3)],
    }


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("t.md", "**Means"),
        ("t.tex", "\\begin{table}"),
        ("t.html", "<!doctype"),
        ("t.txt", "Means"),
        ("t.csv", "system,RR@10"),
        ("t.json", "{"),
    ],
)
def test_a_file_is_written_as_its_name_says(name, start):
    assert ok(f"evaluate qrels.txt bm25.run -o {name}").stdout == ""
    assert Path(name).read_text().startswith(start)


def test_the_form_can_be_forced():
    shown = ok("evaluate qrels.txt bm25.run -m RR --as markdown").stdout
    assert shown.endswith("| bm25 | 0.5000 |\n")


def test_a_run_or_qrels_may_come_from_standard_input():
    run, qrels = (Path(name).read_bytes() for name in ("bm25.run", "qrels.txt"))
    assert ["-", "0.5000"] in rows(ok("evaluate qrels.txt - -m RR", stdin=run).stdout)
    assert ["bm25", "0.5000"] in rows(ok("evaluate - bm25.run -m RR", stdin=qrels).stdout)


def test_a_collection_gives_the_qrels_of_a_split_by_default_the_one_that_judges_the_run():
    named = ok("evaluate set bm25.run --split test -m RR")
    by_default = ok("evaluate set bm25.run -m RR")
    assert ["bm25", "0.5000"] in rows(named.stdout)
    assert by_default.stdout == named.stdout
    assert "split test: the only one of set that judges these runs" in by_default.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("none.txt bm25.run", "none.txt"),
        ("qrels.txt none.run", "none.run: no such file"),
        (
            "qrels.txt qrels.txt",
            "qrels.txt:1: expected 6 columns: qid Q0 docno rank score tag, got '1 0 a 1'",
        ),
        ("bm25.run bm25.run", "bm25.run:1: expected qrels in a known format, got"),
        ("empty.txt bm25.run", "empty.txt: there is no judgment"),
        ("broken.txt bm25.run", "broken.txt:2: expected 4 columns"),
        (
            "elsewhere.txt bm25.run",
            "bm25.run: none of its queries is judged in elsewhere.txt (the first is '1')",
        ),
        ("qrels.txt bm25.run --split test", "qrels.txt is a qrels file: it has no split 'test'"),
        ("set bm25.run --split dev", "set has no split 'dev'; it has: test, train"),
        ("qrels.txt bm25.run -m nope", "there is no measure 'nope'"),
        ("qrels.txt bm25.run -m ''", "no measure is given"),
        ("qrels.txt bm25.run -m '' --depths 1,2", "no measure is given"),
        ("qrels.txt bm25.run --plot p.png", "--plot draws measures by depth: give --depths"),
        ("qrels.txt bm25.run --depths 3,1", "expected rising depths such as 1,5,10 or 1,3,…,15, got '3,1'"),
        ("qrels.txt bm25.run --depths 1 -m R@5", "measures by depth take no cutoff"),
        ("qrels.txt bm25.run --depths 1 --plot p.gif", "p.gif: expected the name of a plot"),
        ("qrels.txt bm25.run bm25.run", "a run is given twice"),
        ("- -", "standard input (-) can be read only once"),
        ("qrels untidy.run --strict", "qrels:1: expected 4 columns: qid iteration docno grade"),
        (
            "tidy.txt untidy.run --strict",
            "untidy.run:1: expected 6 columns: qid Q0 docno rank score tag, got",
        ),
    ],
)
def test_bad_input_is_refused(words, message):
    assert message in refusal(f"evaluate {words}")


@pytest.mark.data
def test_a_run_of_what_is_relevant_is_perfect_on_a_real_collection(data):
    qrels = load_qrels(read_qrels(data / "scifact" / "qrels" / "test.tsv"))
    rankings = [
        Ranking.ranked(Query(qid, ""), tuple(grades), list(grades.values())) for qid, grades in qrels.items()
    ]
    write_run("best.run", rankings)
    command = f"evaluate {data / 'scifact'} best.run -m 'nDCG@10 RR@10 R@100' --json"
    record = json.loads(ok(f"{command} --split test").stdout)
    assert record["queries"] == 300
    assert record["runs"][0]["mean"] == {"nDCG@10": 1.0, "RR@10": 1.0, "R@100": 1.0}
    assert json.loads(ok(command).stdout) == record


@pytest.mark.parametrize(
    ("text", "depths"),
    [
        ("5", [5]),
        ("1,3,…,15", [1, 3, 5, 7, 9, 11, 13, 15]),
        ("1, 3, ... ,7,100", [1, 3, 5, 7, 100]),
        ("1,2,…,3", [1, 2, 3]),
        ("1,2,4,…,8,10,20,…,40", [1, 2, 4, 6, 8, 10, 20, 30, 40]),
    ],
)
def test_depths_go_on_in_the_same_steps(text, depths):
    assert parse_depths(text) == depths


WRONG = ["", "0", "1,1", "2,1", "1,…,5", "…,5", "1,3,…", "1,3,…,8", "1,3,…,3", "a", "1,-3", "1.5"]
ENDLESS = ["1,3,…,99999999999", "99999999999", "1,2,…,5000", "1," + "9" * 5000]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, "expected rising depths") for text in WRONG),
        *((text, "expected at most 1,000 depths of at most 9 digits, got") for text in ENDLESS),
    ],
)
def test_what_are_no_rising_depths_and_depths_without_bound_are_refused(text, message):
    with pytest.raises(MeasureError, match=message):
        parse_depths(text)


@pytest.mark.filterwarnings("default::telerank.errors.FormatWarning")
def test_what_trec_eval_reads_is_measured_with_warnings_that_name_the_line():
    printed = ok("evaluate qrels untidy.run -m recip_rank --json")
    assert json.loads(printed.stdout)["runs"][0]["mean"] == {"recip_rank": pytest.approx(2 / 3)}
    assert printed.stderr.splitlines() == [
        "qrels:1: a comment (trec_eval 10.0; earlier versions refuse it) (and 1 more)",
        "untidy.run:3: the lines of a query are not together: the run is sorted, as by trec_eval",
        "untidy.run:1: more than 6 columns: the others are ignored, as by trec_eval",
        "untidy: 1 of 3 queries of the qrels has no document: it counts 0",
    ]


GRADE = "expected a grade that is a whole number from -32,768 to 32,767, got"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1 1 a 2\n1 1 1 b 1\n", "preferences (qid group subgroup docno rank) are not read"),
        (
            "1 x a 1\n1 y a 0\n",
            "other:2: expected one grade for document a of query 1, 1 as before (judgment groups",
        ),
        ("1 map 0.25 0.1\n", "z-scores (qid measure mean deviation) are not read"),
        ("1 0 a 4294967297\n", f"{GRADE} '4294967297'"),
        (f"1 0 a {'9' * 5000}\n", f"{GRADE} '9999"),
    ],
)
def test_trec_evals_other_formats_and_grades_beyond_the_limits_are_refused_by_name(text, message):
    Path("other").write_text(text)
    assert message in refusal("evaluate other bm25.run")


def test_official_measures_are_rows_in_trec_evals_order():
    shown = rows(ok(f"{BOTH} -m official").stdout)
    assert shown[1] == ["measure", "bm25", "dfi"]
    assert shown[3:7] == [
        ["num_q", "3", "3"],
        ["num_ret", "3", "6"],
        ["num_rel", "4", "4"],
        ["num_rel_ret", "2", "3"],
    ]
    assert [row[0] for row in shown[7:12]] == ["map", "gm_map", "Rprec", "bpref", "recip_rank"]
    assert len(shown) == 3 + 9 + 11 + 9
    assert len(rows(ok("evaluate qrels.txt bm25.run -m all_trec").stdout)) == 3 + 93


def test_counts_are_sums_without_decimals():
    shown = rows(ok("evaluate qrels.txt bm25.run -m 'NumQ NumRet NumRel NumRet(rel=1)'").stdout)
    assert shown[-1] == ["bm25", "3", "3", "4", "2"]


def test_the_relevance_level_is_trec_evals():
    Path("graded").write_text("1 0 a 1\n1 0 b 2\n2 0 a 2\n")
    shown = ok("evaluate graded bm25.run -l 2 -m 'map P_10 RR@10 ndcg' --json").stdout
    assert json.loads(shown)["runs"][0]["mean"] == {
        "map(rel=2)": 1.0,
        "P_10(rel=2)": pytest.approx(0.1),
        "RR(rel=2)@10": 1.0,
        "ndcg": 1.0,
    }


def test_the_version_of_interpolated_precision_is_named():
    said = ok("evaluate qrels.txt bm25.run -m IPrec@0.1").stderr
    assert "as trec_eval 9 rounds recall levels" in said
    ten = ok("evaluate qrels.txt bm25.run -m 'IPrec(trec_eval=10)@0.1'")
    assert ten.stderr.count("\n") == 1
    assert "IPrec(trec_eval=10)@0.1" in ten.stdout
