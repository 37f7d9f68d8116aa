"""What Python users expect of objects: items, membership, data frames, functions and files as arguments."""

from __future__ import annotations

import inspect
import pickle

import pandas as pd
import pytest

import telerank as tr
from telerank.cli.runs import fuse as commands
from telerank.errors import CollectionError
from telerank.retrieval.folder_update import FolderChanges

TEXTS = {"a": "black bear attacks", "b": "a bear", "c": "the attack of a lion"}
QUERIES = {"1": "bear", "2": "lion attack"}
QRELS = {"1": {"a": 1}, "2": {"c": 2, "a": 1}}


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shapes") / "idx"
    return tr.index(TEXTS, folder, analyzer="english", progress=False)


def test_an_index_has_its_documents_by_docno(index):
    assert index["b"] == index.docs["b"] == tr.Doc("b", "a bear")
    assert [docno in index for docno in ("a", "z")] == [docno in index.docs for docno in ("a", "z")]
    assert list(index) == list(index.docs) == list(TEXTS)
    assert len(index) == len(index.docs) == 3


def test_a_ranking_has_its_documents_by_place(index):
    ranking = index.bm25().search("lion attack")
    assert [ranking[place] for place in range(len(ranking))] == list(ranking)
    assert ranking[-1] == list(ranking)[-1]
    with pytest.raises(IndexError):
        ranking[2]


def test_runs_and_measures_are_data_frames(index):
    run = tr.search(index, QUERIES)
    frame = run.to_pandas()
    assert list(frame.columns) == ["qid", "docno", "rank", "score"]
    rows = [(r.query.qid, d, n, s) for r in run for n, (d, s) in enumerate(r, 1)]
    assert [tuple(row) for row in frame.itertuples(index=False)] == rows
    assert str(tr.evaluate(frame, "RR", qrels=QRELS)) == str(tr.evaluate(run, "RR", qrels=QRELS))
    nothing = tr.search(index, {"9": "zebra"}).to_pandas()
    assert (len(nothing), list(nothing.columns)) == (0, list(frame.columns))
    runs = {"bm25": run, "dfi": tr.search(index, QUERIES, "dfi")}
    measured = tr.evaluate(runs, "RR P@1", qrels=QRELS)
    expected = pd.DataFrame(
        [
            (name, qid, *measured.evaluations[name].by_query()[qid].values())
            for name in runs
            for qid in QUERIES
        ],
        columns=["system", "qid", "RR", "P@1"],
    )
    assert expected["RR"].tolist() == [0.5, 1.0] * 2  # the shorter b is before a
    pd.testing.assert_frame_equal(measured.to_pandas(), expected)
    pd.testing.assert_frame_equal(tr.compare(runs, qrels=QRELS, measures="RR P@1").to_pandas(), expected)
    pd.testing.assert_frame_equal(
        tr.experiment(runs, QUERIES, QRELS, measures="RR P@1").to_pandas(), expected
    )


def test_a_function_is_an_analyzer(tmp_path):
    def split_on_dashes(text):
        return text.lower().split("-")

    made = tr.index({"1": "AB-12", "2": "AB-13"}, tmp_path / "idx", analyzer=split_on_dashes, progress=False)
    assert made.bm25().search("x-12").docnos == ("1",)
    assert made == tr.index({"1": "AB-12", "2": "AB-13"}, tmp_path / "idx", analyzer=split_on_dashes)


@pytest.mark.parametrize(
    "table", ["query_id,doc_id,relevance\n1,a,1\n2,c,2\n2,a,1\n", "qid;docno;label\n1;a;1\n2;c;2\n2;a;1\n"]
)
def test_judgments_in_a_table_need_no_questions(index, tmp_path, table):
    file = tmp_path / "qrels.csv"
    file.write_text(table, encoding="utf-8")
    run = tr.search(index, QUERIES, "bm25")
    read, given = (tr.evaluate(run, "RR nDCG@3 AP", qrels=qrels) for qrels in (file, QRELS))
    assert read.evaluations["run"].by_query() == given.evaluations["run"].by_query()
    result = tr.experiment({"bm25": index.bm25()}, QUERIES, tr.collection(file).judged(), measures="AP")
    assert result.evaluations["bm25"].mean == {"AP": given.evaluations["run"].mean["AP"]}
    with pytest.raises(CollectionError, match="has judgments alone, without the question of 1"):
        tr.search(index, file)


def test_fusion_takes_settings_by_name(index):
    runs = {"bm25": tr.search(index, QUERIES), "dfi": tr.search(index, QUERIES, "dfi")}
    linear = tr.fuse(runs, "linear", weights=[0.25, 0.75], k=1)
    stage = 0.25 * tr.minmax(index.bm25()) + 0.75 * tr.minmax(index.dfi())
    assert list(linear) == [stage.search(tr.Query(*query)).cut(1) for query in QUERIES.items()]
    by_rank = next(iter(tr.fuse(runs, rrf_k=0)))
    assert by_rank.scores[0] == 2.0
    tuned = tr.tune_fusion(runs, "AP", qrels=QRELS, grid="square", step="1", folds=2, seed=3)
    assert len(tuned.result.settings) == 3
    assert tr.combine(runs, "AP", qrels=QRELS, method="rrf").measures == ("AP",)
    judged = tr.judge(runs, QRELS)
    assert str(tr.tune_fusion(judged, "AP", folds=2)) == str(tr.tune_fusion(runs, "AP", qrels=QRELS, folds=2))


@pytest.mark.parametrize("verb", ["fuse", "tune_fusion", "combine", "tune"])
def test_settings_have_the_same_names_in_python_and_on_the_command_line(verb):
    long = (option for each in getattr(commands, verb).params for option in each.opts if option[:2] == "--")
    command = {option[2:].replace("-", "_") for option in long}
    command = {"where" if name == "filter" else name for name in command}  # `filter` is a function of Python
    function = set(inspect.signature(getattr(tr, verb)).parameters)
    # how data is read and results are written; --keep is -k; tune repeats --model and --setting
    other = {"output", "as", "json", "plot", "format", "encoding", "strict", "split"}
    other |= {"keep", "model", "setting"}
    assert command - other - {"depth"} <= function
    assert (
        function - {"runs", "index", "data", "qrels", "progress", "k", "models", "settings", "split"}
        <= command
    )


def test_an_unknown_attribute_is_an_attribute_error_that_says_what_is_near(index):
    stage = index.bm25()
    for of in (tr, index, stage, stage.search("bear"), tr.Query("1", "x"), tr.search(index, QUERIES)):
        assert not hasattr(of, "no_such_name")
        with pytest.raises(AttributeError) as error:
            _ = of.no_such_name
        assert isinstance(error.value, tr.TelerankError)
        assert isinstance(error.value, ValueError)
        assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)
        with pytest.raises(AttributeError, match="_private"):
            _ = of._private


def test_what_an_update_did_is_one_line():
    changes = FolderChanges(added=("a",), renamed=("b",), unchanged=("c", "d"), written=1)
    assert str(changes) == "1 added, 0 changed, 0 moved, 0 gone, 3 unchanged; 1 document written"
