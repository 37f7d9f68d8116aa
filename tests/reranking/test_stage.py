"""The stage of a re-ranker, and its explanations."""

from __future__ import annotations

import numpy as np
import pytest

from small_rerankers import pairs, small_reranker, with_a_shared_token
from telerank.corpus.docstore import Docstore, DocstoreWriter
from telerank.errors import CollectionError, ModelError
from telerank.models.rerankers.reranker import save_reranker
from telerank.reranking.explain import explain_score
from telerank.reranking.scorer import Scorer
from telerank.reranking.stage import CrossReranker
from telerank.testing import (
    Trial,
    check_stage,
    explains_its_scores,
    is_a_value,
    pickles,
    refuses_to_explain_unknown_documents,
)
from telerank.types import Doc, Query, Ranking

TEXTS = [passage for _, passage in pairs(12)]
MAPPING = {f"d{number}": ("d1 " if number == 3 else "") + text for number, text in enumerate(TEXTS)}
QUERIES = [Query("1", "q1 q2"), Query("2", ""), Query("3", "q3 d4 d5")]
CANDIDATES = [
    Ranking.ranked(query, [f"d{n}" for n in range(n, n + 5)], np.arange(5)) for n, query in enumerate(QUERIES)
]


@pytest.fixture(scope="module")
def docs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    with DocstoreWriter(folder) as writer:
        for number, text in enumerate(TEXTS):
            writer.add(Doc(f"d{number}", text, title="d1" if number == 3 else ""))
    return Docstore(folder)


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    folder = tmp_path_factory.mktemp("named")
    save_reranker(small_reranker(folder), folder / "mono")
    return str(folder / "mono")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    return small_reranker(tmp_path_factory.mktemp("loaded"), "bert-dmn")


def test_rerankers_obey_the_laws_of_stages(named, loaded, docs):
    """By name and loaded; of texts in a mapping, whose answers are a docstore's, those about values and names."""
    check_stage(CrossReranker(named, docs), CANDIDATES, tolerance=1e-5)
    check_stage(CrossReranker(Scorer(loaded, tokens=100), docs) % 3, CANDIDATES, tolerance=1e-5)
    of_texts = Trial(CrossReranker(named, MAPPING), tuple(CANDIDATES), 1e-5)
    for law in (pickles, is_a_value, explains_its_scores, refuses_to_explain_unknown_documents):
        law(of_texts)


def test_a_mapping_of_texts_is_as_good_as_a_docstore(named, docs):
    of_texts, of_docs = CrossReranker(named, MAPPING), CrossReranker(named, docs)
    assert list(of_texts(CANDIDATES)) == list(of_docs(CANDIDATES))
    assert of_texts.explain(QUERIES[0], "d3").value == of_docs.explain(QUERIES[0], "d3").value
    assert {of_texts: 1}[CrossReranker(named, dict(MAPPING))] == 1
    assert of_texts != CrossReranker(named, {"d1": "q1"})
    with pytest.raises(CollectionError, match="document 'd4' is not among the documents"):
        list(CrossReranker(named, {"d1": "q1"})(CANDIDATES))


def test_documents_are_scored_with_their_titles(named, docs):
    found = dict(next(CrossReranker(named, docs)(CANDIDATES[:1])))
    (alone,) = Scorer(named).score([("q1 q2", f"d1 {TEXTS[3]}")])
    assert found["d3"] == pytest.approx(alone, abs=1e-5)


def test_a_missing_document_is_named_with_how_many_are_missing(named, docs):
    ranking = Ranking.ranked(QUERIES[0], ["d1", "x1", "x2"], [3, 2, 1])
    expected = r"query 1: document 'x1' is not among the documents \(2 of its 3 candidates are not\)"
    with pytest.raises(CollectionError, match=expected):
        list(CrossReranker(named, docs)([ranking]))


def test_stages_of_other_weights_differ(loaded, named, docs, tmp_path):
    assert CrossReranker(loaded, docs) != CrossReranker(small_reranker(tmp_path), docs)
    assert CrossReranker(named, docs) == CrossReranker(named, docs)
    assert CrossReranker(named, docs) % 3 == CrossReranker(named, docs, 3)


def test_a_sentence_adds_the_score_less_the_score_without_it(loaded, docs):
    stage = CrossReranker(loaded, docs)
    long = max(docs, key=lambda doc: len(doc.full_text))
    said = stage.explain(QUERIES[0], long.docno)
    assert said.value == pytest.approx(float(Scorer(loaded).score([("q1 q2", long.full_text)])[0]), abs=1e-5)
    sentences = said.parts[-1].parts
    assert len(sentences) > 2
    assert said.parts[-1].value == pytest.approx(sum(one.value for one in sentences))
    assert all(one.what.startswith(f"sentence {n}, “") for n, one in enumerate(sentences, 1))


def test_sentences_beyond_the_length_of_the_model_are_not_read(tmp_path):
    scorer = Scorer(small_reranker(tmp_path, max_length=14))
    said = explain_score(scorer, "q1 q2", "d1 d2. d3 d4. d5 d6. d7 d8. q1 q2. d1 q2.").parts[-1].parts
    assert [one.what.partition(":")[0] for one in said[:3]] == [
        "sentence 1, “d1 d2.”",
        "sentence 2, “d3 d4.”",
        "sentence 3, “d5 d6.”",
    ]
    assert [(one.value, one.what) for one in said[3:]] == [
        (0.0, "sentences 4 to 6: not read, beyond 14 tokens")
    ]
    one_more = explain_score(scorer, "q1 q2", "d1 d2. d3 d4. d5 d6. q1.").parts[-1].parts
    assert one_more[-1].what == "sentence 4: not read, beyond 14 tokens"


def test_an_explanation_has_the_name_of_the_model_and_not_its_path(loaded, docs, tmp_path):
    save_reranker(loaded, tmp_path / "model")
    scorer = Scorer(str(tmp_path / "model"))
    assert CrossReranker(scorer, docs, name="mine").explain(QUERIES[0], "d1").what == "logit by mine"
    assert str(tmp_path) in CrossReranker(scorer, docs).explain(QUERIES[0], "d1").what


def test_the_gates_of_each_episode_are_shown_over_the_sentences(loaded, docs):
    long = max(docs, key=lambda doc: len(doc.full_text))
    episodes = CrossReranker(loaded, docs).explain(QUERIES[0], long.docno).parts[:-1]
    assert [one.what for one in episodes] == [f"gates of episode {n}" for n in range(1, 5)]
    assert all(one.value == pytest.approx(1, abs=1e-5) for one in episodes)
    assert "“" in episodes[0].parts[0].what


def test_a_sentence_that_is_cut_off_or_without_a_token_has_no_gate(tmp_path):
    scorer = Scorer(small_reranker(tmp_path, "bert-dmn", max_length=14))
    first = explain_score(scorer, "q1 q2", "d1 d2.\n\x07\nd3 d4.\nd5 d6.\nd7 d8.").parts[0]
    assert [one.what for one in first.parts] == [
        "sentence 1, “d1 d2.”",
        "sentence 3, “d3 d4.”",
        "sentence 4, “d5 d6.”",
    ]
    assert explain_score(scorer, "q1", "").parts[0].parts == ()


def test_gates_are_not_shown_as_those_of_sentences_that_they_may_not_be_of(loaded):
    first = explain_score(Scorer(with_a_shared_token(loaded)), "q1 q2", "d1 d2. d3 d4. d5.").parts[0]
    why = "(3 sentences, but 2 by their tokens: a token spans several)"
    assert [one.what for one in first.parts] == [f"number {n} by the tokens {why}" for n in (1, 2)]


@pytest.mark.parametrize("kind", ["dmn", "qa-lstm", "k-nrm"])
def test_models_over_word_vectors_show_what_they_have(kind, tmp_path):
    from small_models import WORDS
    from telerank.models.rerankers.reranker import Shape, fresh_reranker

    np.save(
        tmp_path / "vectors.npy", np.random.default_rng(0).standard_normal((len(WORDS), 8)).astype(np.float32)
    )
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    scorer = Scorer(fresh_reranker(tmp_path, Shape(kind), seed=1))
    said = explain_score(scorer, "q1 q2 d3", "d1 d2 d3. x1 unheard q2. d7 d8.")
    assert said.value == pytest.approx(
        float(scorer.score([("q1 q2 d3", "d1 d2 d3. x1 unheard q2. d7 d8.")])[0])
    )
    first = said.parts[0]
    if kind == "k-nrm":
        assert np.tanh(first.value) == pytest.approx(said.value, abs=1e-5)
        assert first.value == pytest.approx(sum(one.value for one in first.parts), abs=1e-6)
        assert len(first.parts) == 12
    else:
        assert first.value == pytest.approx(1, abs=1e-4)
    if kind == "qa-lstm":
        assert [one.what for one in first.parts][:3] == ["d1", "d2", "d3"]
        assert "(a word without a vector)" in [one.what for one in first.parts]
    if kind == "dmn":
        assert len(first.parts) == 3
    with pytest.raises(ModelError, match=f"a {kind} has no transformer: its back end is torch"):
        Scorer(scorer.model, "onnx").score([("q1", "d1")])
