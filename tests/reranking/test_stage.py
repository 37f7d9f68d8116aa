"""The stage of a re-ranker, and its explanations."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from small_models import WORDS, save_vectors
from small_rerankers import pairs, small_reranker, with_a_shared_token
from telerank.corpus.docstore import Docstore, DocstoreWriter
from telerank.errors import CollectionError, ModelError
from telerank.models.rerankers.kinds import Shape
from telerank.models.rerankers.reranker import fresh_reranker, save_reranker
from telerank.reranking.scorer import Scorer
from telerank.reranking.stage import CrossReranker, explain_score
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


def test_rerankers_obey_the_laws_of_stages(named, loaded, docs, tmp_path):
    """By name and loaded; those about values and names of texts in a mapping and of a model with gates, too."""
    check_stage(CrossReranker(named, docs), CANDIDATES, tolerance=1e-5)
    in_batches = Scorer(small_reranker(tmp_path, "bert"), tokens=1000)
    check_stage(CrossReranker(in_batches, docs) % 3, CANDIDATES, tolerance=1e-5)
    for stage in (CrossReranker(named, MAPPING), CrossReranker(Scorer(loaded, tokens=100), docs) % 3):
        for law in (pickles, is_a_value, explains_its_scores, refuses_to_explain_unknown_documents):
            law(Trial(stage, tuple(CANDIDATES), 1e-5))


def test_a_mapping_of_texts_is_as_good_as_a_docstore_and_documents_have_their_titles(named, docs):
    of_texts, of_docs = CrossReranker(named, MAPPING), CrossReranker(named, docs)
    assert list(of_texts(CANDIDATES)) == list(of_docs(CANDIDATES))
    assert of_texts.explain(QUERIES[0], "d3").value == of_docs.explain(QUERIES[0], "d3").value
    (alone,) = Scorer(named).score([("q1 q2", f"d1 {TEXTS[3]}")])
    assert dict(next(of_docs(CANDIDATES[:1])))["d3"] == pytest.approx(alone, abs=1e-5)
    assert {of_texts: 1}[CrossReranker(named, dict(MAPPING))] == 1
    assert of_texts != CrossReranker(named, {"d1": "q1"})


def test_a_missing_document_is_named_with_how_many_are_missing(named, docs):
    with pytest.raises(CollectionError, match=r"document 'd4' is not among the documents$"):
        list(CrossReranker(named, {f"d{n}": "q1" for n in range(4)})(CANDIDATES))
    ranking = Ranking.ranked(QUERIES[0], ["d1", "x1", "x2"], [3, 2, 1])
    expected = r"query 1: document 'x1' is not among the documents \(2 of its 3 candidates are not\)"
    with pytest.raises(CollectionError, match=expected):
        list(CrossReranker(named, docs)([ranking]))


def test_stages_of_other_weights_differ(loaded, named, docs, tmp_path):
    assert CrossReranker(loaded, docs) != CrossReranker(small_reranker(tmp_path), docs)
    assert CrossReranker(named, docs) == CrossReranker(named, docs)
    assert CrossReranker(named, docs) % 3 == CrossReranker(named, docs, 3)


def test_a_sentence_adds_the_score_less_the_score_without_it_and_each_episode_shows_its_gates(loaded, docs):
    long = max(docs, key=lambda doc: len(doc.full_text))
    explanation = CrossReranker(loaded, docs).explain(QUERIES[0], long.docno)
    expected = float(Scorer(loaded).score([("q1 q2", long.full_text)])[0])
    assert explanation.value == pytest.approx(expected, abs=1e-5)
    *episodes, of_sentences = explanation.parts
    sentences = of_sentences.parts
    assert len(sentences) > 2
    assert of_sentences.value == pytest.approx(sum(each.value for each in sentences))
    assert all(each.what.startswith(f"sentence {n}, “") for n, each in enumerate(sentences, 1))
    assert [each.what for each in episodes] == [f"gates of episode {n}" for n in range(1, 5)]
    assert all(each.value == pytest.approx(1, abs=1e-5) for each in episodes)
    assert "“" in episodes[0].parts[0].what


def test_sentences_beyond_the_length_of_the_model_are_not_read(tmp_path):
    scorer = Scorer(small_reranker(tmp_path, max_length=14))
    said = explain_score(scorer, "q1 q2", "d1 d2. d3 d4. d5 d6. d7 d8. q1 q2. d1 q2.").parts[-1].parts
    assert [one.what.partition(":")[0] for one in said[:3]] == [
        "sentence 1, “d1 d2.”",
        "sentence 2, “d3 d4.”",
        "sentence 3, “d5 d6.”",
    ]
    whole = scorer.score([("q1 q2", "d1 d2. d3 d4. d5 d6. d7 d8. q1 q2. d1 q2.")])[0]
    without = scorer.score([("q1 q2", "d3 d4. d5 d6. d7 d8. q1 q2. d1 q2.")])[0]
    assert said[0].value == pytest.approx(whole - without, abs=1e-6)
    assert [(each.value, each.what) for each in said[3:]] == [
        (0.0, "sentences 4 to 6: not read, beyond 14 tokens")
    ]
    said = explain_score(scorer, "q1 q2", "d1 d2. d3 d4. d5 d6. q1.").parts[-1].parts
    assert said[-1].what == "sentence 4: not read, beyond 14 tokens"


def test_an_explanation_has_the_name_of_the_model_and_not_its_path(loaded, docs, tmp_path):
    save_reranker(loaded, tmp_path / "model")
    scorer = Scorer(str(tmp_path / "model"))
    assert CrossReranker(scorer, docs, name="mine").explain(QUERIES[0], "d1").what == "logit by mine"
    assert str(tmp_path) in CrossReranker(scorer, docs).explain(QUERIES[0], "d1").what


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


@pytest.mark.parametrize("kind", ["dmn", "qa-lstm", "k-nrm", "conv-knrm", "co-pacrr", "drmm", "tkl"])
def test_models_over_word_vectors_show_what_they_have(kind, tmp_path):
    pair = ("q1 q2 d3", "d1 d2 d3. x1 unheard q2. d7 d8.")
    save_vectors(tmp_path, WORDS, torch.randn(len(WORDS) + 2, 8, generator=torch.Generator().manual_seed(0)))
    scorer = Scorer(fresh_reranker(tmp_path, Shape(kind, max_query=16), seed=1))
    explanation = explain_score(scorer, *pair)
    assert explanation.value == pytest.approx(float(scorer.score([pair])[0]), abs=1e-7)
    shown = explanation.parts[0]
    if kind in ("k-nrm", "conv-knrm"):
        assert np.tanh(shown.value) == pytest.approx(explanation.value, abs=1e-5)
        assert shown.value == pytest.approx(sum(each.value for each in shown.parts), abs=1e-6)
        assert len(shown.parts) == {"k-nrm": 12, "conv-knrm": 10}[kind]
    elif kind == "co-pacrr":
        assert [each.what for each in shown.parts] == ["q1", "q2", "d3"]
        assert all(each.value for each in shown.parts)
    elif kind == "drmm":
        assert shown.value == pytest.approx(explanation.value, abs=1e-6)
        assert [each.what for each in shown.parts] == ["q1", "q2", "d3"]
    elif kind == "tkl":
        assert shown.value == pytest.approx(explanation.value, abs=1e-5)
        whats = [str(each.what) for each in shown.parts]
        assert all(what.endswith(" to 11, the best window and its neighbours") for what in whats), whats
    else:
        assert shown.value == pytest.approx(1, abs=1e-4)
    if kind == "qa-lstm":
        assert [each.what for each in shown.parts][:3] == ["d1", "d2", "d3"]
        assert "(a word without a vector)" in [each.what for each in shown.parts]
    if kind == "dmn":
        assert len(shown.parts) == 3
    with pytest.raises(ModelError, match=f"a {kind} has no transformer: its back end is torch"):
        Scorer(scorer.model, backend="onnx").score([("q1", "d1")])
