"""An encoder is made better on a collection, or kept as it is."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from small_training import small_place

import telerank as tr
from commands import ok, typed
from small_set import write_beir
from small_static import small_sentence_model
from telerank.errors import ModelError
from telerank.models.encoders.folders import load_bi_encoder, save_bi_encoder
from telerank.models.rerankers.kinds import Shape
from telerank.models.rerankers.reranker import fresh_reranker, save_reranker
from telerank.training.bi_encoder.fine_tune import find_negatives, fit_scale
from telerank.trec import read_run
from telerank.types import Query

pytestmark = pytest.mark.train
FAST = {"batch": 4, "learning_rate": 3e-3, "epochs": 4.0, "query_length": 8, "document_length": 12}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return small_place(tmp_path_factory.mktemp("place"))


def test_an_encoder_gets_better_by_its_own_dev_and_the_settings_are_kept(place, tmp_path):
    tuned = tr.fine_tune(place / "collection", str(place / "encoder"), tmp_path / "out", **FAST)
    assert tuned.best > tuned.before
    assert tuned.step > 0
    assert tuned.queries == 24
    log = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
    assert log[0]["step"] == 0
    assert log[0]["dev"] == tuned.before
    assert tuned.best == max(line["dev"] for line in log if "dev" in line)
    again = tr.train("bi-encoder", tmp_path / "out" / "config.yaml", tmp_path / "again")
    weights = [load_file(folder / "model.safetensors") for folder in (tuned.model, again.model)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_an_encoder_that_no_update_makes_better_is_kept(place, tmp_path):
    worse = {**FAST, "learning_rate": 1e-9, "epochs": 1.0}
    tuned = tr.fine_tune(place / "collection", str(place / "encoder"), tmp_path / "out", **worse)
    assert (tuned.step, tuned.best) == (0, tuned.before)
    assert "has the weights of" in tuned.remarks[0]
    model, _ = load_bi_encoder(place / "encoder")
    kept, _ = load_bi_encoder(tuned.model)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), kept.parameters(), strict=True))


def test_a_static_encoder_is_refused(place, tmp_path):
    static = small_sentence_model(tmp_path / "static")
    settings = {"data": {"collection": str(place / "collection")}, "model": {"start": str(static)}}
    refusals = (
        lambda: tr.fine_tune(place / "collection", str(static), tmp_path / "out"),
        lambda: tr.train("bi-encoder", settings, tmp_path / "trained"),
    )
    for train in refusals:
        with pytest.raises(ModelError, match="is a static encoder, which is searched as it is"):
            train()


def test_a_model_that_makes_no_vectors_is_refused(place, tmp_path):
    reranker = tmp_path / "reranker"
    save_reranker(fresh_reranker(place / "encoder", Shape("monobert", max_query=8, max_length=24)), reranker)
    for refused in (
        lambda: tr.fine_tune(place / "collection", str(reranker), tmp_path / "out"),
        lambda: tr.encode(place / "collection", tmp_path / "vectors", model=str(reranker)),
    ):
        with pytest.raises(ModelError, match="re-ranks or classifies, and makes no vectors"):
            refused()


def test_negatives_are_below_the_relevant_document_and_none_is_relevant():
    """Cosines of one query with four documents: .9, .8 (relevant), .7 (relevant), .1."""
    docs = torch.tensor([[0.9], [0.8], [0.7], [0.1]])
    relevant = {"q": ["b", "c"]}
    vectors = torch.ones(1, 1), docs
    [found] = find_negatives([Query("q", "?")], relevant, ["a", "b", "c", "d"], vectors)
    assert dict(found) == {"d": pytest.approx(0.1)}


def test_negatives_of_a_query_whose_documents_are_not_found_are_the_first():
    vectors = torch.ones(1, 1), torch.linspace(0, 1, 1500)[:, None]
    [found] = find_negatives([Query("q", "?")], {"q": ["0"]}, [str(n) for n in range(1500)], vectors)
    assert found.docnos[:2] == ("1499", "1498")


def test_the_scale_is_larger_the_closer_the_products_are():
    """Of two queries each product with its own document is larger by a gap, but for one of four queries."""

    def scale(gap):
        products = np.full((4, 4), 0.5) + gap * np.eye(4)
        products[3] = products[3, ::-1]  # one error, or the largest scale would always be the best
        queries = [Query(str(n), "?") for n in range(4)]
        relevant = {str(n): [str(n)] for n in range(4)}
        return fit_scale(
            queries,
            relevant,
            [str(n) for n in range(4)],
            (torch.tensor(products), torch.eye(4, dtype=torch.float64)),
        )

    assert scale(0.5) < scale(0.05) <= 50


def test_the_start_keeps_its_similarity_prompts_and_lengths(place, tmp_path):
    from telerank.models.encoders.bi_encoder import BiEncoder, BiEncoderSettings, Side, Tokenizers
    from telerank.training.bi_encoder.config import FineTuning
    from telerank.training.bi_encoder.fine_tune import plan_fine_tuning

    model, tokenizers = load_bi_encoder(place / "encoder")
    for normalise, similarity in ((True, "cosine"), (False, "inner_product")):
        settings = BiEncoderSettings(
            "cls", normalise=normalise, query=Side(9, prompt="q: "), document=Side(300, prompt="p: ")
        )
        own = BiEncoder(model.query_encoder, settings=settings)
        save_bi_encoder(own, Tokenizers.of(tokenizers.queries.tokenizer, settings), tmp_path / similarity)
        planned = plan_fine_tuning(
            str(place / "collection"), str(tmp_path / similarity), tmp_path, FineTuning()
        ).model
        assert (planned.pooling, planned.similarity) == ("cls", similarity)
        assert (planned.query_prompt, planned.document_prompt, planned.document_segment) == ("q: ", "p: ", 0)
        assert (planned.query_length, planned.document_length) == (9, 256)


def test_without_a_dev_split_some_queries_are_kept_back(place, tmp_path):
    docs = [{"_id": f"d{n}", "title": "", "text": f"d{n % 40}"} for n in range(120)]
    queries = {f"{n}": f"q{n % 40}" for n in range(120)}
    write_beir(tmp_path / "one", docs, queries, {"train": [(f"{n}", f"d{n}", 1) for n in range(120)]})
    few = {**FAST, "epochs": 0.2}
    tuned = tr.fine_tune(tmp_path / "one", str(place / "encoder"), tmp_path / "out", **few)
    listed = {ranking.query.qid for ranking in read_run(tmp_path / "out" / "negatives.run.gz")}
    assert (tuned.queries, len(listed)) == (50, 70)
    write_beir(tmp_path / "few", docs, queries, {"train": [(f"{n}", f"d{n}", 1) for n in range(60)]})
    with pytest.raises(tr.TelerankError, match=r"has 60 judged queries .* at least 100, or a split for dev"):
        tr.fine_tune(tmp_path / "few", str(place / "encoder"), tmp_path / "other")


def test_from_the_command_line_where_a_finished_training_is_not_begun_again(place, tmp_path):
    call = (
        "train fine-tune",
        place / "collection",
        "--start",
        place / "encoder",
        "--batch",
        4,
        "--epochs",
        0.5,
    )
    call = (*call, "--output", tmp_path / "out")
    assert "nDCG@10" in ok(*call).stdout
    assert "holds a training" in typed(*call).stderr
    assert json.loads(ok(*call, "--resume", "--json").stdout)["measure"] == "nDCG@10"
