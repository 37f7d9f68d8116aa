"""Pipelines as text: what is read is what the operators make, and what is printed reads back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from letters import Letters
from telerank.errors import CollectionError, ExpressionError
from telerank.expressions import parse_expression, quote
from telerank.fusion import interleave, minmax, prob, rrf, softmax
from telerank.pipelines.functions import pipeline, remove_pipeline, save_pipeline
from telerank.pipelines.run_files import RunFile
from telerank.retrieval.index import Index
from telerank.sparse.writer import build_index
from telerank.stage import Chain, Cut, Sum, Weighted
from telerank.trec import write_run
from telerank.types import Doc, Query, Ranking

TEXTS = ("the cat sat", "a dog ran", "cat and dog", "the end of a run", "dogs and cats")


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pipelines") / "idx"
    build_index([Doc(f"d{n}", text) for n, text in enumerate(TEXTS)], folder, analyzer="english", workers=1)
    return folder


@pytest.fixture
def index(folder):
    return Index(folder)


RETRIEVERS = st.sampled_from(
    ["bm25", "bm25(k1=0.9, b=0.4)", "lm_dirichlet(50)", "dfi(saturated)", "inl2(c=7)"]
)
CUTS = st.integers(1, 9)
WEIGHTS = st.floats(-2, 2, allow_nan=False, width=32)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A random expression with the parentheses that it needs, and some that it does not."""
    text = draw(RETRIEVERS)
    for _ in range(draw(st.integers(0, 4))):
        match draw(st.sampled_from(["%", "*", "+", ">>", "f", "()"])):
            case "%":
                text = f"({text}) % {draw(CUTS)}"
            case "*":
                text = f"{draw(WEIGHTS)!r} * ({text})"
            case "+":
                text = f"{text} + ({draw(RETRIEVERS)} % {draw(CUTS)})"
            case ">>":
                text = f"{text} >> {draw(RETRIEVERS)}"
            case "f":
                text = draw(
                    st.sampled_from(
                        [
                            "minmax({})",
                            "rrf({}, bm25, k=10)",
                            "prob({})",
                            "softmax({})",
                            "interleave({}, dfr)",
                        ]
                    )
                ).format(text)
            case _:
                text = f"({text})"
    return text


@settings(max_examples=60)
@given(texts())
def test_what_a_pipeline_prints_reads_back_as_an_equal_pipeline(folder, text):
    index = Index(folder)
    stage = pipeline(text, index)
    again = pipeline(repr(stage), index)
    assert again == stage
    assert repr(again) == repr(stage)
    assert again.search("cat dog") == stage.search("cat dog")


def test_a_text_means_what_the_operators_mean(index):
    bm25, dfr = index.bm25(k1=0.9, b=0.4), index.dfr()
    text = "0.4 * minmax(bm25(k1=0.9, b=0.4) % 100) + 0.6 * minmax(dfr % 100) % 50 >> bm25 % 10"
    expected = 0.4 * minmax(bm25 % 100) + 0.6 * minmax(dfr % 100) % 50 >> index.bm25() % 10
    assert pipeline(text, index) == expected
    assert pipeline("bm25 % 100 >> bm25 % 10", index) == (index.bm25() % 100) >> (index.bm25() % 10)
    assert pipeline("bm25 * 2", index) == Weighted(index.bm25(), 2.0)
    assert pipeline("rrf(bm25, dfr % 5)", index) == rrf(index.bm25(), dfr % 5)
    assert pipeline("interleave(bm25, dfr, depth=none)", index) == interleave(index.bm25(), dfr, depth=None)
    assert pipeline("prob(bm25)", index) == prob(index.bm25())
    assert pipeline("softmax(bm25)", index) == softmax(index.bm25())
    assert repr(pipeline("(bm25 + dfr) % 3", index)).endswith(") % 3")
    assert pipeline(" lmjm( lambda = .2 ) ", index) == index.lm_jelinek_mercer(0.2)


def test_a_stage_of_ones_own_prints_in_angle_brackets_and_is_refused(index):
    stage = 0.5 * Letters(docs=("a",)) >> index.bm25()
    assert repr(stage) == "0.5 * <Letters(docs=('a',), depth=100)> >> bm25(k1=1.2, b=0.75)"
    with pytest.raises(
        ExpressionError, match="a stage of your own, or over texts in memory, cannot be read back"
    ):
        pipeline(repr(stage), index)


def test_a_run_file_is_a_stage(index, tmp_path):
    write_run(tmp_path / "a.run", [Ranking.ranked(Query("1", ""), ["d1", "d2"], [1.0, 2.0])])
    stage = pipeline(f"run({quote(str(tmp_path / 'a.run'))}) % 1", index)
    assert [list(ranking) for ranking in stage.run([Query("1", "x"), Query("2", "y")])] == [[("d2", 2.0)], []]
    assert pipeline(repr(stage), index) == stage
    assert RunFile(str(tmp_path / "a.run")).explain(Query("1", "x"), "d1").value == 1.0
    with pytest.raises(KeyError):
        RunFile(str(tmp_path / "a.run")).explain(Query("1", "x"), "d3")


def test_a_run_that_has_changed_is_read_again_whatever_the_clock_says(index, tmp_path):
    (tmp_path / "a.run").touch()
    stage = pipeline(f"run({quote(str(tmp_path / 'a.run'))})", index)
    for docno in ("d1", "d2", "d3"):
        write_run(tmp_path / "a.run", [Ranking.ranked(Query("1", ""), [docno], [1.0])])
        os.utime(tmp_path / "a.run", ns=(0, 0))
        (ranking,) = stage.run([Query("1", "x")])
        assert ranking.docnos == (docno,)


def test_a_saved_pipeline_is_a_word(folder, index):
    save_pipeline(index, "first", "bm25(k1=0.9, b=0.4) % 100")
    save_pipeline(index, "best", "first + dfr % 3")
    assert Index(folder).pipelines == {
        "first": "bm25(k1=0.9, b=0.4) % 100",
        "best": f"{index.bm25(0.9, 0.4) % 100!r} + {index.dfr() % 3!r}",
    }
    assert pipeline("best % 2", index) == Cut(Sum((index.bm25(0.9, 0.4) % 100, index.dfr() % 3)), 2)
    with pytest.raises(CollectionError, match="'bm25' is the name of a function"):
        save_pipeline(index, "bm25", "dfr")
    with pytest.raises(ExpressionError, match=r"unknown name 'frist'.*did you mean 'first'"):
        save_pipeline(index, "worse", "frist % 2")
    remove_pipeline(index, "best")
    with pytest.raises(CollectionError, match="no pipeline 'best'"):
        remove_pipeline(index, "best")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("bm26", "unknown name 'bm26'; did you mean 'bm25'?"),
        ("bm26(k1=1)", "unknown function 'bm26'; did you mean 'bm25'?"),
        ("bm25 % 0", "expected a whole number of at least 1, got 0 (after 'bm25 % ')"),
        ("bm25 % 1.5", "expected a whole number of at least 1, got 1.5"),
        ("bm25 % bm25", "expected a number, got 'bm25'"),
        ("bm25 * bm25", "expected a number, got 'bm25'"),
        ("0.5 + bm25", "expected a stage, got the number 0.5"),
        ("minmax(bm25", "expected ',' or ')', got the end (after 'minmax(bm25')"),
        ("minmax()", "minmax lacks the argument 'stage'"),
        ("minmax(bm25, bm25)", "minmax takes 1 argument"),
        ("rrf()", "rrf takes one or more stages"),
        ("rrf(bm25, q=2)", "rrf has no parameter 'q'; known: k"),
        ("bm25 >> ", "expected a name, a number or '(', got the end"),
        ("bm25 - dfr", "expected an operator (>> + * %) or the end, got '-'"),
        ("bm25 / 2", "expected an operator (>> + * %) or the end, got '/'"),
        ("bm25(k1=1", "expected ',' or ')', got the end"),
        ("'bm25", "a quotation mark that is not closed"),
        ("BM25", "unknown name 'BM25'; did you mean 'bm25'?"),
        ("'bm25' % 3", "no system 'bm25': the function bm25 stands without quotes"),
        ("1e400 * bm25", "expected a finite number, got 1e400 (at the beginning)"),
        ("dfr + bm25(k1=-1)", "k1 must be from 0 to 1000, got -1 (after 'dfr + ')"),
        ("\u00e9t\u00e9 % 2", "unknown name '\u00e9t\u00e9'"),
        ("bm25\n% 0", "expected a whole number"),
    ],
)
def test_a_wrong_text_is_refused_in_a_line_that_shows_where(text, says, index):
    with pytest.raises(ExpressionError) as caught:
        pipeline(text, index)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text(min_size=1, max_size=40))
def test_any_text_is_parsed_or_refused_in_a_line_and_any_name_reads_back_from_its_quotation(text):
    assert parse_expression(quote(text)).text == text
    message = ""
    try:
        parse_expression(text)
    except ExpressionError as error:
        message = str(error)
    assert "\n" not in message


def test_without_an_index_there_is_nothing_to_search(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.run").touch()
    with pytest.raises(ExpressionError, match="bm25 needs an index"):
        pipeline("bm25")
    assert pipeline("run(a.run) % 3") == Chain((RunFile("a.run"),)).stages[0] % 3
