"""telerank evaluate, as it is typed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from telerank.cli.main import app, main
from telerank.cli.options import parse_depths
from telerank.errors import MeasureError
from telerank.trec import load_qrels, read_qrels, write_qrels, write_run
from telerank.types import Query, Ranking

QRELS = {"1": {"a": 1, "b": 0}, "2": {"a": 1, "c": 1}, "3": {"z": 1}}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """qrels.txt and two runs, in the working folder."""
    monkeypatch.chdir(tmp_path)
    write_qrels("qrels.txt", QRELS)
    write_run(
        "bm25.run", [Ranking(Query("1", ""), ("b", "a"), [2.0, 1.0]), Ranking(Query("2", ""), ("a",), [1.0])]
    )
    write_run("dfi.run.gz", [Ranking(Query(qid, ""), ("a", "z"), [2.0, 1.0]) for qid in ("1", "2", "3", "9")])
    return tmp_path


def run(*arguments: str, stdin: str | None = None):
    result = CliRunner().invoke(app, ["evaluate", *arguments], input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def refusal(monkeypatch, capsys, *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", ["telerank", "evaluate", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    line, *notes = said.err.splitlines()
    assert len(notes) <= 4
    assert all(note.startswith("  ") for note in notes)
    return line


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


def test_a_run_is_a_row_and_a_measure_a_column(folder):
    result = run("qrels.txt", "bm25.run", "dfi.run.gz", "-m", "RR@10 P@1 R@1")
    assert rows(result.stdout) == [
        ["Means", "over", "3", "queries"],
        ["system", "RR@10", "P@1", "R@1"],
        ["─" * 30],
        ["bm25", "0.5000", "0.3333", "0.1667"],
        ["dfi", "0.8333", "0.6667", "0.5000"],
    ]


def test_what_does_not_count_is_said_on_standard_error(folder):
    said = run("qrels.txt", "bm25.run", "dfi.run.gz").stderr
    assert "bm25: 1 of 3 queries of the qrels have no document: they count 0" in said
    assert "dfi: 1 queries are not in the qrels: they do not count" in said


def test_queries_without_a_relevant_document_are_told(folder):
    write_qrels("none.txt", {**QRELS, "4": {"a": 0}})
    said = run("none.txt", "bm25.run").stderr
    assert "1 of 4 queries of the qrels have no relevant document: they count 0" in said


def test_json_is_for_machines(folder):
    found = json.loads(run("qrels.txt", "bm25.run", "-m", "RR MAP", "--per-query", "--json").stdout)
    assert found == {
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


def test_every_query_can_be_shown(folder):
    found = rows(run("qrels.txt", "bm25.run", "dfi.run.gz", "-m", "RR", "--per-query").stdout)
    assert ["1", "bm25", "0.5000"] in found
    assert ["3", "dfi", "0.5000"] in found


def test_a_caption_is_not_broken_by_a_narrow_table(folder):
    result = run("qrels.txt", "bm25.run", "-m", "AP")
    assert result.stdout.splitlines()[0] == "Means over 3 queries"


@pytest.mark.parametrize("more", [[], ["--depths", "1,2"]])
def test_no_measure_is_not_the_usual_measures(folder, monkeypatch, capsys, more):
    assert refusal(monkeypatch, capsys, "qrels.txt", "bm25.run", "-m", "", *more).endswith(
        "no measure is given"
    )


def test_measures_by_depth_are_shown_and_drawn(folder):
    result = run(
        "qrels.txt", "bm25.run", "dfi.run.gz", "-m", "R", "--depths", "1,2,…,4", "--plot", "depth.svg"
    )
    assert ["bm25", "R", "0.167", "0.500", "0.500", "0.500"] in rows(result.stdout)
    assert (folder / "depth.svg").read_text().startswith("<?xml")
    found = json.loads(run("qrels.txt", "bm25.run", "--depths", "1,2", "--json").stdout)
    assert found["depths"] == [1, 2]
    assert found["runs"][0]["by_depth"] == {
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
def test_a_file_is_written_as_its_name_says(folder, name, start):
    assert run("qrels.txt", "bm25.run", "-o", name).stdout == ""
    assert (folder / name).read_text().startswith(start)


def test_the_form_can_be_forced(folder):
    assert run("qrels.txt", "bm25.run", "-m", "RR", "--as", "markdown").stdout.endswith("| bm25 | 0.5000 |\n")


def test_a_run_may_come_from_standard_input(folder):
    text = (folder / "bm25.run").read_text()
    assert ["-", "0.5000"] in rows(run("qrels.txt", "-", "-m", "RR", stdin=text).stdout)


def test_qrels_may_come_from_standard_input(folder):
    text = (folder / "qrels.txt").read_text()
    assert ["bm25", "0.5000"] in rows(run("-", "bm25.run", "-m", "RR", stdin=text).stdout)


@pytest.fixture
def collection(folder):
    (folder / "set" / "qrels").mkdir(parents=True)
    (folder / "set" / "corpus.jsonl").write_text('{"_id": "a", "text": "bear"}\n')
    (folder / "set" / "queries.jsonl").write_text(
        '{"_id": "1", "text": "bear"}\n{"_id": "7", "text": "cub"}\n'
    )
    (folder / "set" / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\ta\t1\n")
    (folder / "set" / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\n7\ta\t1\n")
    return folder / "set"


def test_a_collection_gives_the_qrels_of_a_split(collection):
    result = run("set", "bm25.run", "--split", "test", "-m", "RR")
    assert ["bm25", "0.5000"] in rows(result.stdout)


def test_without_a_split_it_is_the_one_that_judges_the_run(collection):
    result = run("set", "bm25.run", "-m", "RR")
    assert "split test: the only one of set that judges these runs" in result.stderr
    assert ["bm25", "0.5000"] in rows(result.stdout)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.txt", "bm25.run"], "none.txt"),
        (["qrels.txt", "none.run"], "none.run: No such file or directory"),
        (
            ["qrels.txt", "qrels.txt"],
            "qrels.txt:1: expected 6 columns: qid Q0 docno rank score tag, got '1 0 a 1'",
        ),
        (["bm25.run", "bm25.run"], "bm25.run:1: expected qrels in a known format, got"),
        (["empty.txt", "bm25.run"], "empty.txt holds no qrels"),
        (["broken.txt", "bm25.run"], "broken.txt:2: expected 4 columns"),
        (
            ["elsewhere.txt", "bm25.run"],
            "bm25.run: none of its queries is judged in elsewhere.txt (the first is '1')",
        ),
        (["qrels.txt", "bm25.run", "--split", "test"], "qrels.txt is a qrels file: it has no split 'test'"),
        (["qrels.txt", "bm25.run", "-m", "nope"], "there is no measure 'nope'"),
        (["qrels.txt", "bm25.run", "--plot", "p.png"], "--plot draws measures by depth: give --depths"),
        (
            ["qrels.txt", "bm25.run", "--depths", "3,1"],
            "expected rising depths such as 1,5,10 or 1,3,…,15, got '3,1'",
        ),
        (
            ["qrels.txt", "bm25.run", "--depths", "1", "-m", "R@5"],
            "measures by depth take no cutoff",
        ),
        (["qrels.txt", "bm25.run", "--depths", "1", "--plot", "p.gif"], "p.gif: expected the name of a plot"),
        (["qrels.txt", "bm25.run", "bm25.run"], "a run is given twice"),
        (["-", "-"], "standard input (-) can be read only once"),
    ],
)
def test_bad_input_is_one_line_and_status_2(folder, monkeypatch, capsys, arguments, said):
    (folder / "empty.txt").write_text("\n")
    (folder / "broken.txt").write_text("1 0 a 1\n1 0 b\n")
    (folder / "elsewhere.txt").write_text("x 0 a 1\n")
    assert said in refusal(monkeypatch, capsys, *arguments)


def test_an_unknown_split_is_told_with_those_there_are(collection, monkeypatch, capsys):
    said = refusal(monkeypatch, capsys, "set", "bm25.run", "--split", "dev")
    assert "set has no split 'dev'; it has: test, train" in said


@pytest.mark.data
def test_a_run_of_what_is_relevant_is_perfect_on_a_real_collection(data, tmp_path):
    qrels = load_qrels(read_qrels(data / "scifact" / "qrels" / "test.tsv"))
    rankings = [
        Ranking.ranked(Query(qid, ""), tuple(found), list(found.values())) for qid, found in qrels.items()
    ]
    write_run(tmp_path / "best.run", rankings)
    arguments = [str(data / "scifact"), str(tmp_path / "best.run"), "-m", "nDCG@10 RR@10 R@100", "--json"]
    found = json.loads(run(*arguments, "--split", "test").stdout)
    assert found["queries"] == 300
    assert found["runs"][0]["mean"] == {"nDCG@10": 1.0, "RR@10": 1.0, "R@100": 1.0}
    assert json.loads(run(*arguments).stdout) == found


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


@pytest.mark.parametrize(
    "text", ["", "0", "1,1", "2,1", "1,…,5", "…,5", "1,3,…", "1,3,…,8", "1,3,…,3", "a", "1,-3", "1.5"]
)
def test_what_are_no_rising_depths_is_refused(text):
    with pytest.raises(MeasureError, match="expected rising depths"):
        parse_depths(text)


def test_help_has_an_example_and_loads_nothing_heavy():
    heavy = ["ir_measures", "pytrec_eval", "scipy", "statsmodels", "matplotlib", "numba", "pyarrow"]
    program = (
        "import sys; from telerank.cli.main import app\n"
        "try: app(['evaluate', '--help'])\n"
        f"finally: print([one for one in {heavy} if one in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "telerank evaluate scifact bm25.run" in " ".join(done.stdout.split())
    assert done.stderr.strip() == "[]"


@pytest.fixture
def untidy(tmp_path, monkeypatch):
    """A run and qrels that trec_eval reads, though they do not follow their formats."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "qrels").write_text("# judged\n1 0 a 1\n1 0 b 0 # unsure\n2 0 c 2\n3 0 d 1\n")
    (tmp_path / "run").write_text(
        "1 Q0 a 1 2.5 t more junk\n2 Q0 c 1 21.4567891234 t\n1 Q0 b 2 2.0 t\n2 Q0 e 2 21.4567891230 t\n"
    )
    return tmp_path


@pytest.mark.filterwarnings("default::telerank.errors.FormatWarning")
def test_what_trec_eval_reads_is_measured_with_warnings_that_name_the_line(untidy, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["telerank", "evaluate", "qrels", "run", "-m", "recip_rank", "--json"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert not stopped.value.code
    said = capsys.readouterr()
    assert json.loads(said.out)["runs"][0]["mean"] == {"recip_rank": pytest.approx(2 / 3)}
    assert said.err.splitlines() == [
        "qrels:1: a comment (trec_eval 10.0; earlier versions refuse it) (and 1 more)",
        "run:3: the lines of a query are not together: the run is sorted, as by trec_eval",
        "run:1: more than 6 columns: the others are ignored, as by trec_eval",
        "run: 1 of 3 queries of the qrels have no document: they count 0",
    ]


@pytest.mark.parametrize(
    ("qrels", "said"),
    [
        ("qrels", "qrels:1: expected 4 columns: qid iteration docno grade"),
        ("tidy", "run:1: expected 6 columns: qid Q0 docno rank score tag, got"),
    ],
)
def test_strict_refuses_it(untidy, monkeypatch, capsys, qrels, said):
    (untidy / "tidy").write_text("1 0 a 1\n2 0 c 2\n")
    assert said in refusal(monkeypatch, capsys, qrels, "run", "--strict")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 1 1 a 2\n1 1 1 b 1\n", "preferences (qid group subgroup docno rank) are not read"),
        (
            "1 x a 1\n1 y a 0\n",
            "other:2: expected one grade for document a of query 1, 1 as before (judgment groups",
        ),
        ("1 map 0.25 0.1\n", "z-scores (qid measure mean deviation) are not read"),
        (
            "1 0 a 4294967297\n",
            "expected a grade that is a whole number from -32,768 to 32,767, got '4294967297'",
        ),
        (
            f"1 0 a {'9' * 5000}\n",
            "expected a grade that is a whole number from -32,768 to 32,767, got '9999",
        ),
    ],
)
def test_trec_evals_other_formats_and_grades_beyond_the_limits_are_refused_by_name(
    folder, monkeypatch, capsys, text, said
):
    (folder / "other").write_text(text)
    assert said in refusal(monkeypatch, capsys, "other", "bm25.run")


def test_official_measures_are_rows_in_trec_evals_order(folder):
    found = rows(run("qrels.txt", "bm25.run", "dfi.run.gz", "-m", "official").stdout)
    assert found[1] == ["measure", "bm25", "dfi"]
    assert found[3:7] == [
        ["num_q", "3", "3"],
        ["num_ret", "3", "6"],
        ["num_rel", "4", "4"],
        ["num_rel_ret", "2", "3"],
    ]
    assert [row[0] for row in found[7:12]] == ["map", "gm_map", "Rprec", "bpref", "recip_rank"]
    assert len(found) == 3 + 9 + 11 + 9
    assert len(rows(run("qrels.txt", "bm25.run", "-m", "all_trec").stdout)) == 3 + 93


def test_counts_are_sums_without_decimals(folder):
    found = rows(run("qrels.txt", "bm25.run", "-m", "NumQ NumRet NumRel NumRet(rel=1)").stdout)
    assert found[-1] == ["bm25", "3", "3", "4", "2"]


def test_the_relevance_level_is_trec_evals(folder):
    (folder / "graded").write_text("1 0 a 1\n1 0 b 2\n2 0 a 2\n")
    found = run("graded", "bm25.run", "-l", "2", "-m", "map P_10 RR@10 ndcg", "--json").stdout
    assert json.loads(found)["runs"][0]["mean"] == {
        "map(rel=2)": 1.0,
        "P_10(rel=2)": pytest.approx(0.1),
        "RR(rel=2)@10": 1.0,
        "ndcg": 1.0,
    }


def test_the_version_of_interpolated_precision_is_named(folder):
    arguments = ("qrels.txt", "bm25.run", "-m")
    assert "as trec_eval 9 rounds recall levels" in run(*arguments, "IPrec@0.1").stderr
    ten = run(*arguments, "IPrec(trec_eval=10)@0.1")
    assert ten.stderr.count("\n") == 1
    assert "IPrec(trec_eval=10)@0.1" in ten.stdout


@pytest.mark.parametrize("text", ["1,3,…,99999999999", "99999999999", "1,2,…,5000", "1," + "9" * 5000])
def test_depths_without_bound_are_refused(text):
    with pytest.raises(MeasureError, match="expected at most 1,000 depths of at most 9 digits, got"):
        parse_depths(text)
