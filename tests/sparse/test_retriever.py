"""The sparse first stage as a stage: the laws, laziness, threads, explanations; and spellings of a query."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from itertools import count, islice
from random import Random

import pytest
from small import MODELS, build, docs, retriever

import telerank as tr
from telerank.retrieval.index import Index
from telerank.sparse.index import SparseIndex
from telerank.sparse.inverted.terms import Terms, write_terms
from telerank.sparse.query_words import count_matches, find_spellings, respell
from telerank.sparse.retriever import SparseRetriever
from telerank.sparse.similarities.families import BM25, DFI, DFR, LMDirichlet, LMJelinekMercer
from telerank.sparse.writer import IndexWriter
from telerank.testing import check_stage
from telerank.text.steps import fold_accents
from telerank.types import Doc, Query, Ranking

FAMILIES = (BM25(), LMDirichlet(), LMJelinekMercer(), DFR(), DFI())
QUERIES = [Query(str(n), text) for n, text in enumerate(["a b", "", "nowhere", "h h g a", "a b"])]


def texts(seed: int, size: int) -> list[str]:
    random = Random(seed)
    weights = [2.0**-i for i in range(8)]
    return [" ".join(random.choices("abcdefgh", weights, k=random.randint(0, 20))) for _ in range(size)]


@pytest.fixture(scope="session")
def index(tmp_path_factory) -> SparseIndex:
    return build(tmp_path_factory.mktemp("retriever") / "index", texts(1, 500))


@pytest.fixture(scope="session")
def in_parts(tmp_path_factory) -> SparseIndex:
    """Two segments, some documents deleted."""
    folder = tmp_path_factory.mktemp("retriever") / "parts"
    build(folder, texts(1, 300))
    with IndexWriter(folder, workers=1) as writer:
        writer.add(docs(texts(2, 200), 300))
        writer.delete(f"d{number}" for number in range(0, 500, 7))
    return SparseIndex(folder)


@pytest.mark.parametrize("model", FAMILIES, ids=lambda model: type(model).__name__)
def test_retrievers_obey_the_laws_of_stages_and_matches_are_counted_without_ranking(model, index, in_parts):
    check_stage(retriever(index, model), QUERIES)
    check_stage(retriever(in_parts, model) % 20, QUERIES)
    check_stage(SparseRetriever(in_parts, model, depth=30, threads=2), QUERIES)
    for each in (index, in_parts):
        for query in ("a b", "h", "", "nowhere", "a a nowhere", "a b c d e f g h"):
            assert count_matches(each, query) == len(retriever(each, model).search(Query("query", query)))
        assert count_matches(each, "a b", most=10) is None


def test_each_model_has_a_constructor_and_a_text_form(index):
    index = Index(index.folder)
    assert index.bm25(0.9, 0.4) == index.retriever("bm25(k1=0.9, b=0.4)") == index.retriever(BM25(0.9, 0.4))
    assert index.lm_dirichlet(10) == index.retriever("lmd(mu=10)")
    assert index.lm_jelinek_mercer(0.2) == index.retriever(LMJelinekMercer(0.2))
    assert index.dfr() == index.retriever("inl2")
    assert index.dfr(DFR("g")) == index.retriever(DFR("g"))
    assert index.dfi("saturated") == index.retriever("dfi(independence=saturated)")


def test_a_cut_is_pushed_into_the_retriever(index):
    cut = SparseRetriever(index, BM25(), depth=7)
    assert retriever(index) % 7 == cut == retriever(index) % 7 % 9
    assert hash(retriever(index) % 7) == hash(SparseRetriever(SparseIndex(index.folder), BM25(), depth=7))
    assert cut != retriever(index)
    assert pickle.loads(pickle.dumps(cut)) == cut
    for settings in ({"depth": 0}, {"depth": -1}, {"threads": 0}, {"depth": 2.5}):
        with pytest.raises(ValueError, match="whole number of at least 1"):
            SparseRetriever(index, BM25(), **settings)


def test_only_the_last_few_models_stay_in_memory(index):
    fresh = SparseIndex(index.folder)
    for model in MODELS[:9]:
        retriever(fresh, model).search("a")
    assert fresh.impacts.cache_info().currsize == 4


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_it_reads_on_only_as_far_as_its_threads_are_fed(index, threads):
    read = []

    def endless() -> Iterator[Ranking]:
        for number in count():
            read.append(number)
            yield Ranking(Query(str(number), "a b"))

    answers = SparseRetriever(index, BM25(), 3, threads)(endless())
    assert read == []
    assert [ranking.query.qid for ranking in islice(answers, 40)] == [str(n) for n in range(40)]
    assert len(read) == 40 if threads == 1 else len(read) <= 40 + 16 * (threads + 2)


def test_threads_answer_what_one_answers_in_the_same_order(in_parts):
    for size in (0, 1, 15, 16, 17, 200):
        random = Random(size)
        queries = [Query(str(n), " ".join(random.choices("abcdefghz", k=n % 6))) for n in range(size)]
        for model in FAMILIES:
            alone = list(SparseRetriever(in_parts, model, 10).run(queries))
            # a fresh index: threads make the contributions that they need beside each other
            fresh = SparseIndex(in_parts.folder)
            assert list(SparseRetriever(fresh, model, 10, threads=2).run(queries)) == alone


def test_what_a_stream_raises_is_raised_after_what_came_before_it(index):
    def failing() -> Iterator[Ranking]:
        for number in range(50):
            yield Ranking(Query(str(number), "a"))
        raise LookupError("the topics end in the middle")

    for threads in (1, 2):
        with pytest.raises(LookupError):
            list(SparseRetriever(index, BM25(), 3, threads)(failing()))


def test_an_explanation_names_every_term_of_the_query_and_what_float32_rounds_away(tmp_path, in_parts):
    index = build(tmp_path / "index", ["a a b", "b c", "a"])
    said = retriever(index).explain(Query("q", "a a c nowhere"), "d0")
    assert said.what == "bm25(k1=1.2, b=0.75) of a document of 3 terms"
    assert [part.what for part in said.parts] == [
        "'a': tf 2, df 2, cf 3, 2 times in the query",
        "'c': not in the document (df 1)",
        "'nowhere': not in the document (df 0)",
    ]
    assert said.value == said.parts[0].value == dict(retriever(index).search("a a c"))["d0"]
    assert retriever(in_parts).explain(Query("q", "nowhere"), "d1").value == 0
    for docno in ("d0", "d1000", "", "\ud800"):  # d0 is deleted
        with pytest.raises(KeyError):
            retriever(in_parts).explain(Query("q", "a"), docno)
    index = build(tmp_path / "large", ["a b c " * 40, *["a b"] * 3, *["x"] * 40])
    stage = retriever(index, "dfr(basic_model=in, after_effect=none, normalization=none)")
    said = stage.explain(Query("q", "a b c c c"), "d0")
    assert said.parts[-1].what == "rounding to float32"
    assert 0 < abs(said.parts[-1].value) < 2**-14
    assert sum(part.value for part in said.parts) == said.value == stage.search("a b c c c").scores[0]


DOCS = [
    Doc("1", "L’école primaire, la sécurité et l’activité des employées. École !"),
    Doc("2", "La côte de la pêche, le péché ; l’œuvre naïve."),
    Doc("3", "Un cafe, une crème brulee, dans la généralité. La côte et les côtes."),
]


@pytest.fixture(scope="module")
def french(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spellings") / "idx"
    tr.index(DOCS[:2], folder, workers=1, analyzer="french")
    tr.open(folder).add(DOCS[2:])
    return tr.open(folder).sparse


@pytest.mark.parametrize(
    ("query", "respelled"),
    [
        ("ecole", "école"),
        ("  L'ecole, ou la securite ?", "  L'école, ou la sécurité ?"),
        ("ACTIVITES", "activités"),
        ("l’oeuvre naive", "l’oeuvre naïve"),
        ("generalite", "généralité"),
        ("employees", "employées"),
        ("café crème brûlée", "café crème brulee"),
        ("ecole zebre", "école zebre"),
        ("école", "école"),
        ("zebre", "zebre"),
        ("le la de", "le la de"),
        ("", ""),
    ],
)
def test_a_word_that_no_document_holds_is_spelled_as_in_the_index(french, query, respelled):
    assert respell(french, query) == respelled
    if query != respelled:
        assert tr.open(french.folder).bm25().search(respelled).docnos


def test_several_spellings_stand_side_by_side_the_most_frequent_first(tmp_path):
    docs = [Doc("1", "côté"), Doc("2", "cote", ""), Doc("3", "côté cotê"), Doc("4", "cotê"), Doc("5", "côté")]
    tr.index(docs, tmp_path / "idx", workers=1, analyzer="standard")
    index = tr.open(tmp_path / "idx").sparse
    assert find_spellings(index, "cóte") == ["côté", "cotê", "cote"]
    assert respell(index, "cóte") == "côté cotê cote"
    assert respell(index, "cote") == "cote"


def test_terms_that_differ_in_accents_are_all_found(tmp_path):
    words = [
        "a",
        "ab",
        "cote",
        "coté",
        "cotz",
        "côte",
        "côté",
        "e\u0323\u0302te",
        "zoé",
        "ß",
        "école",
        "日本",
    ]
    write_terms(tmp_path, sorted(words, key=str.encode))
    terms = Terms(tmp_path)
    for bare in {*map(fold_accents, words), "", "zz"}:
        expected = sorted(word for word in words if fold_accents(word) == bare and word != bare)
        assert sorted(terms.find_accented(bare)) == expected
    write_terms(tmp_path, [])
    assert Terms(tmp_path).find_accented("cote") == []


def weigh_by_rank(index, queries):
    """Each term counts more than the one before; ``h`` is a term of every query, the last."""
    return [{term: rank for rank, term in enumerate((*query.split(), "h"), 1)} for query in queries]


def test_a_stage_may_weigh_the_terms_of_queries_by_itself(index):
    stage = SparseRetriever(index, BM25(), weigh=weigh_by_rank)
    repeated = SparseRetriever(index, BM25())
    assert list(stage.search("a b")) == list(repeated.search("a b b h h h"))
    assert stage != repeated
    assert stage.text.startswith("<bm25(")  # it cannot be read back
    ranking = stage.search("a b")
    assert stage.explain("a b", ranking.docnos[0]).value == ranking.scores[0]
    check_stage(stage, [Ranking(query) for query in QUERIES])
