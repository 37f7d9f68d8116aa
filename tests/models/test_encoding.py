"""Texts become vectors, whatever the encoder."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_models import ARCHITECTURES  # noqa: E402
from telerank.errors import ModelError  # noqa: E402
from telerank.models.encoders.bi_encoder import BiEncoder, BiEncoderSettings, Side, first, mean  # noqa: E402
from telerank.models.encoders.folders import load_bi_encoder  # noqa: E402
from telerank.models.encoders.tokens import Tokenizers  # noqa: E402

TEXTS = ["q1 q2", "d3", "x1 x2 x3 x4 x5 x6 x7"]


@pytest.fixture(scope="module", params=ARCHITECTURES)
def any_model(request, encoders):
    return load_bi_encoder(encoders(request.param))


@pytest.fixture(scope="module")
def bert(encoders):
    return load_bi_encoder(encoders())


def encoded(model, tokenizers, texts, side="documents"):
    with torch.no_grad():
        return getattr(model, f"encode_{side}")(getattr(tokenizers, side)(texts))


def test_the_mean_is_over_the_tokens_that_stand_and_the_first_is_that_of_a_text_padded_left():
    tokens = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [9.0, 9.0]]])
    assert mean(tokens, torch.tensor([[1, 1, 0]])).tolist() == [[2.0, 3.0]]
    assert mean(tokens, torch.tensor([[0, 0, 0]])).tolist() == [[0.0, 0.0]]
    assert first(tokens, torch.tensor([[1, 1, 1]])).tolist() == [[1.0, 2.0]]
    assert first(tokens, torch.tensor([[0, 1, 1]])).tolist() == [[3.0, 4.0]]


def test_a_text_has_the_same_vector_alone_and_among_longer_ones(any_model):
    together = encoded(*any_model, TEXTS)
    assert together.shape == (3, 32)
    for row, text in enumerate(TEXTS):
        torch.testing.assert_close(encoded(*any_model, [text])[0], together[row])


def test_a_vector_is_the_mean_of_what_the_encoder_says_and_documents_have_token_type_1_if_it_knows_types(
    any_model,
):
    model, tokenizers = any_model
    queries, documents = (encoded(model, tokenizers, TEXTS[1:2], side) for side in ("queries", "documents"))
    given = tokenizers.queries.tokenizer(TEXTS[1:2], return_tensors="pt")

    def means():
        with torch.no_grad():
            return model.query_encoder(**given).last_hidden_state.mean(1)

    torch.testing.assert_close(queries, means())
    knows = model.query_encoder.config.model_type in ("bert", "electra")
    assert torch.equal(queries, documents) is not knows
    if knows:
        given["token_type_ids"] = torch.ones_like(given["input_ids"])
        torch.testing.assert_close(documents, means())


def test_the_defaults_are_those_of_repbert_and_what_is_longer_is_cut(bert):
    model, tokenizers = bert
    settings = model.settings
    assert (settings.pooling, settings.normalise) == ("mean", False)
    assert settings.query == Side(20, segment=0)
    assert settings.document == Side(64, segment=1)  # 256, as far as the tokenizer allows
    assert BiEncoderSettings().document.max_length == 256
    assert len(tokenizers.queries.ids(["q1 " * 60])[0]) == 20
    assert len(tokenizers.documents.ids(["q1 " * 90])[0]) == 64
    assert tokenizers.queries([])["input_ids"].shape == (0, 0)


def test_relevance_is_the_inner_product(bert):
    model, tokenizers = bert
    with torch.no_grad():
        products = model(tokenizers.queries(TEXTS), tokenizers.documents(TEXTS[:2]))
    expected = encoded(*bert, TEXTS, "queries") @ encoded(*bert, TEXTS[:2]).T
    torch.testing.assert_close(products, expected)


def test_normalised_vectors_have_length_1(bert):
    model = BiEncoder(bert[0].query_encoder, settings=BiEncoderSettings(normalise=True)).eval()
    torch.testing.assert_close(encoded(model, bert[1], TEXTS).norm(dim=1), torch.ones(3))


def test_a_prompt_stands_before_every_text(bert):
    model, tokenizers = bert
    settings = replace(model.settings, query=Side(20, prompt="x9 "))
    prompted = Tokenizers.of(tokenizers.queries.tokenizer, settings)
    assert prompted.queries.ids(["q1"]) == tokenizers.queries.ids(["x9 q1"])


def test_two_towers_encode_each_side(bert, encoders):
    queries, tokenizers = bert
    documents, _ = load_bi_encoder(encoders(seed=1))
    both = BiEncoder(queries.query_encoder, documents.query_encoder, settings=queries.settings).eval()
    assert not both.shared
    assert torch.equal(
        encoded(both, tokenizers, TEXTS, "queries"), encoded(queries, tokenizers, TEXTS, "queries")
    )
    assert torch.equal(encoded(both, tokenizers, TEXTS), encoded(documents, tokenizers, TEXTS))


def test_settings_that_cannot_be_are_refused(bert):
    encoder = bert[0].query_encoder
    with pytest.raises(ModelError, match="no pooling is called 'max'"):
        BiEncoderSettings("max")
    with pytest.raises(ModelError, match="at least one token, got max_length 0"):
        Side(0)
    with pytest.raises(ModelError, match="segment 2 is not among the 2 token types"):
        BiEncoder(encoder, settings=BiEncoderSettings(query=Side(20, segment=2)))
    wide = type(encoder)(type(encoder.config)(hidden_size=64, num_hidden_layers=1, num_attention_heads=2))
    with pytest.raises(ModelError, match="differ in width: 32 and 64"):
        BiEncoder(encoder, wide, settings=BiEncoderSettings())
