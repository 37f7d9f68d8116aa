"""The stage ``read``: it ends a pipeline, as an object and as text, and explains its answers."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import telerank as tr
from small_readers import small_reader
from small_rerankers import small_reranker
from telerank.answers.combine import MU
from telerank.answers.scorer import SpanReader
from telerank.answers.stage import ReadAnswers
from telerank.errors import CollectionError, ExpressionError, ModelError
from telerank.models.readers import save_reader
from telerank.models.rerankers.reranker import save_reranker
from telerank.pipelines.functions import answer_pipeline, pipeline, save_pipeline
from telerank.sparse.writer import build_index
from telerank.types import Doc, Query, Ranking

DOCS = [
    Doc("a", "d1 d2 q1 d3. x1 q2 x2", "d9"),
    Doc("b", "q1 d4 d5 d6"),
    Doc("c", "x9 x8 q3"),
    Doc("d", "q1 " + "d7 d8 " * 60),
]
BY_DOCNO = {doc.docno: doc for doc in DOCS}
QUERIES = [Query("1", "q1"), Query("2", "q2 q3"), Query("3", "x39")]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("answers")
    build_index(DOCS, folder / "idx", analyzer="standard", workers=1)
    save_reader(small_reader(folder), folder / "reader")
    save_reranker(small_reranker(folder), folder / "mono")
    return folder


@pytest.fixture(scope="module")
def index(place):
    return tr.open(place / "idx")


@pytest.fixture(scope="module")
def name(place):
    """The reader's."""
    return str(place / "reader")


@pytest.fixture(scope="module")
def stage(name, index):
    return tr.read(name, index)


def test_a_pipeline_ends_in_answers(index, stage):
    answers = list((index.bm25() % 3 >> stage % 2).run(QUERIES))
    assert [each.query for each in answers] == QUERIES
    assert [len(each) for each in answers] == [2, 2, 0]
    for each in answers:
        for answer in each:
            assert answer.qid == each.query.qid
            assert answer.text == BY_DOCNO[answer.docno].text[answer.start : answer.end]
            assert "d9" not in answer.text  # a title is not read
    assert answers[2].no_answer == math.inf  # nothing was retrieved


def test_answers_of_the_reader_alone_are_those_of_the_reader_on_the_texts(index, name):
    ranking = (index.bm25() % 2).search("q1")
    read = (index.bm25() % 2 >> tr.read(name, index, mu=1.0)).answer("q1")
    texts = [BY_DOCNO[docno] for docno in ranking.docnos]
    direct = tr.reader(name).answer("q1", texts)
    assert [(a.text, a.docno, a.start) for a in read] == [(a.text, a.docno, a.start) for a in direct]
    assert np.allclose([a.score for a in read], [a.score for a in direct], atol=1e-5)


def test_k_cuts_answers_and_the_smaller_one_counts(index, stage):
    whole = (index.bm25() >> stage).answer("q1")
    assert (index.bm25() >> stage % 4 % 2).answer("q1") == whole.cut(2)
    assert ((index.bm25() >> stage % 2) % 4).answer("q1") == whole.cut(2)
    assert (stage % 3).k == 3
    with pytest.raises(ValueError, match="a cut must be a whole number"):
        stage % 0


def test_a_reranker_may_stand_between(place, index, stage):
    reranked = index.bm25() % 3 >> tr.rerank(str(place / "mono"), index) % 1 >> stage
    (docno,) = {answer.docno for answer in reranked.answer("q1")}
    assert docno == (index.bm25() % 3 >> tr.rerank(str(place / "mono"), index) % 1).search("q1").docnos[0]


def test_what_ranks_may_be_put_together_in_any_order(index, stage):
    left = (index.bm25() >> tr.minmax(index.bm25())) >> stage
    right = index.bm25() >> (tr.minmax(index.bm25()) >> stage)
    assert left == right


@pytest.mark.parametrize(
    "follow",
    [
        lambda read, bm25: bm25 >> read >> bm25,
        lambda read, bm25: bm25 >> read % 3 >> read,
        lambda read, bm25: bm25 + read,
        lambda read, bm25: read + bm25,
        lambda read, _: 2 * read,
        lambda read, _: read * 2,
    ],
)
def test_nothing_follows_and_nothing_is_added(index, stage, follow):
    with pytest.raises(ModelError, match="read ends a pipeline: its answers are no ranking") as error:
        follow(stage, index.bm25())
    assert "\n" not in str(error.value)
    with pytest.raises(TypeError):
        "bm25" >> stage


def test_the_stage_is_lazy_and_reads_rankings_once(stage):
    read = []

    def rankings():
        for n in range(10_000):
            read.append(n)
            yield Ranking.ranked(Query(str(n), "q1"), ["a", "b"], [2.0, 1.0])

    answers = next(stage(rankings()))
    assert answers.query.qid == "0"
    assert len(read) <= 200


def test_mu_weighs_the_ranking(index, name):
    by_rank = (index.bm25() >> tr.read(name, index, mu=0.0)).answer("q1")
    ranking = index.bm25().search("q1")
    assert by_rank.answers[0].docno == ranking.docnos[0]
    by_default, same, by_span = (
        (index.bm25() >> tr.read(name, index, mu=mu)).answer("q1") for mu in (None, MU, 1.0)
    )
    assert by_default == same
    assert by_default != by_span
    assert all(0 <= answer.score <= 1 for answer in by_default)


def test_one_text_and_texts_without_scores_are_read_as_by_the_reader_alone(index, name):
    for first in (index.bm25() % 1, 0 * index.bm25() % 2):
        default, alone = ((first >> tr.read(name, index, mu=mu)).answer("q1") for mu in (None, 1.0))
        assert default == alone
        assert len(default) > 0


@pytest.mark.parametrize(
    "text",
    [
        "bm25 >> read('READER')",
        "bm25(k1=0.8) % 3 >> rerank('MONO') % 2 >> read('READER') % 3",
        "bm25 % 2 >> read('READER', mu=0.25, threshold=1.5, max_answer=3) % 1",
        "bm25 >> read('READER', threshold=none, temperature=2.5)",
        "bm25 + 0.5 * bm25 >> read('READER')",
    ],
)
def test_the_text_of_a_pipeline_reads_back(place, index, text, name):
    named = text.replace("READER", name).replace("MONO", str(place / "mono"))
    read = answer_pipeline(named, index)
    again = answer_pipeline(repr(read), index)
    assert again == read
    assert repr(again) == repr(read)
    assert pickle.loads(pickle.dumps(read)) == read
    assert read.answer("q1") == again.answer("q1")


def test_a_stage_over_texts_in_memory_cannot_be_read_back(stage, name):
    own = ReadAnswers(SpanReader(stage.reader.model), BY_DOCNO)
    assert repr(own).startswith("<read(")
    assert "documents" in own.sources[f"read({own.reader.name})"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bm25", r"bm25: expected a pipeline that ends in read\(READER\)"),
        ("bm25 >> read(x, depth=3)", "depth"),
        ("bm25 >> read(x) >> bm25", "it can only come last"),
        ("bm25 >> read(x) >> read(x)", "it can only come last"),
        ("bm25 >> read(x, mu=3)", "mu must be between 0 and 1, got 3"),
        ("minmax(read(x)) >> read(x)", "read ends a pipeline"),
    ],
)
def test_texts_that_are_no_pipelines_of_answers_are_named(index, text, message):
    with pytest.raises(ModelError, match=message) as error:
        answer_pipeline(text, index)
    assert "\n" not in str(error.value) or isinstance(error.value, ExpressionError)


def test_where_rankings_are_expected_read_is_refused(index, name):
    with pytest.raises(ExpressionError, match="read ends a pipeline, and its answers are no ranking"):
        pipeline("bm25 >> read(x)", index)
    with pytest.raises(ExpressionError, match="read ends a pipeline"):
        save_pipeline(index, "best", "bm25 >> read(x) % 3")
    with pytest.raises(CollectionError, match="is the name of a function"):
        save_pipeline(index, "read", "bm25")


def test_an_answer_is_explained_down_to_the_first_stage(index, name):
    read = index.bm25() >> tr.read(name, index, mu=0.5)
    best = read.answer("q1").answers[0]
    explained = read.explain("q1", best)
    assert explained.value == pytest.approx(best.score, abs=1e-5)
    assert "score of the span" in str(explained)
    assert "confidence" in str(explained)
    assert explained.parts[-1] == index.bm25().explain("q1", best.docno)
    default = index.bm25() >> tr.read(name, index)
    of_default = default.explain("q1", default.answer("q1").answers[0])
    assert of_default.parts[0].what.startswith(f"{MU:g} times ")
    assert f"{1 - MU:g} times " in str(of_default)
    alone = (index.bm25() >> tr.read(name, index, mu=1.0)).explain("q1", best)
    assert alone.parts[0].what.startswith("score of the span")
    with pytest.raises(KeyError, match="no such answer"):
        read.explain("q2", best)


def test_sources_and_remarks_name_reader_and_index(index, place, stage, name):
    read = index.bm25() >> stage
    assert set(read.sources) >= {f"read({place / 'reader'})", *index.bm25().sources}
    assert read.remarks == []
    cutting = index.bm25() >> tr.read(name, index)
    cutting.answer("q1 " * 40)
    (remark,) = cutting.remarks
    assert (
        remark
        == f"read({place / 'reader'}): 1 question longer than 8 tokens: cut there, 32 tokens were not read"
    )


def test_a_document_that_is_gone_is_named(stage, place):
    ranking = Ranking.ranked(Query("7", "q1"), ["a", "gone"], [2.0, 1.0])
    with pytest.raises(CollectionError, match="query 7: document 'gone' is not among the documents"):
        list(stage([ranking]))


def test_a_document_that_changed_after_ranking_is_read_as_it_is_now(index, name):
    """Offsets are those of the text that was read, whatever was ranked."""
    now = {doc.docno: f"x5 {doc.text}" for doc in DOCS}
    answers = (index.bm25() >> tr.read(name, now)).answer("q1")
    assert len(answers) > 0
    assert all(a.text == now[a.docno][a.start : a.end] for a in answers)


def test_documents_that_changed_in_the_index_are_read_from_it(tmp_path, name):
    from telerank.sparse.writer import IndexWriter

    build_index(DOCS, tmp_path / "idx", analyzer="standard", workers=1)
    before = tr.open(tmp_path / "idx")
    old = before.bm25() >> tr.read(name, before)
    with IndexWriter(tmp_path / "idx") as writer:
        writer.delete(["b"])
        writer.add([Doc("b", "q1 x5 x6 x7")])
    opened = tr.open(tmp_path / "idx")
    for answers, docs in (
        (old.answer("q1"), before),
        ((opened.bm25() >> tr.read(name, opened)).answer("q1"), opened),
    ):
        assert any(a.docno == "b" for a in answers)
        assert all(a.text == docs[a.docno].text[a.start : a.end] for a in answers)


def test_the_sentence_of_an_answer_and_a_document_that_changed(index):
    from telerank.types import Answer
    from telerank.verbs.answer import in_sentence

    text = DOCS[0].text
    within = in_sentence(index, Answer("1", "a", "q1", text.index("q1")))
    assert (within.before, within.text, within.after, within.title) == ("d1 d2 ", "q1", " d3.", "d9")
    across = in_sentence(index, Answer("1", "a", "d3. x1", text.index("d3. x1")))
    assert f"{across.before}{across.text}{across.after}" == text
    with pytest.raises(CollectionError, match="document 'a' has changed: it has no 'zz' at 3"):
        in_sentence(index, Answer("1", "a", "zz", 3))
