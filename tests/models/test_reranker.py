"""Re-rankers on disk: saved, loaded, opened elsewhere."""

from __future__ import annotations

import json

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from small_models import ARCHITECTURES, save_vectors
from telerank.errors import ModelError
from telerank.models.pairs.pair import batch_of
from telerank.models.precision import train_plainly
from telerank.models.rerankers.kinds import Shape
from telerank.models.rerankers.reranker import SETTINGS, fresh_reranker, load_reranker, save_reranker
from telerank.models.rerankers.transformer_ranker import HEAD, positions

PAIRS = [("q1 q2", "d1 d2 d3 d4"), ("q3", "d5"), ("q4 q5 q6", " ".join(f"d{n}" for n in range(12)))]
SMALL = {"max_query": 8, "max_length": 32}


def pairs_of(reranker, pairs=PAIRS):
    texts = reranker.texts
    queries = texts.queries([query for query, _ in pairs])
    passages = texts.passages([passage for _, passage in pairs])
    return list(map(texts.pair, queries, passages))


def logits(reranker, pairs=PAIRS):
    with torch.no_grad():
        return reranker.model(batch_of(pairs_of(reranker, pairs), reranker.texts.pad_id))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_attention_on_plain_products_scores_the_same_with_the_same_gradient(encoders, architecture):
    reranker = fresh_reranker(encoders(architecture), Shape("monobert", **SMALL))
    reranker.model.eval()

    def gradients():
        reranker.model.zero_grad()
        scores = reranker.model(batch_of(pairs_of(reranker), reranker.texts.pad_id))
        scores.sum().backward()
        parameters = reranker.model.parameters()
        return scores.detach(), [weight.grad for weight in parameters if weight.grad is not None]

    fused, of_fused = gradients()
    train_plainly(reranker.model)
    assert reranker.model.classifier.config._attn_implementation == "eager"
    plain, of_plain = gradients()
    assert torch.allclose(fused, plain, atol=1e-6)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(of_fused, of_plain, strict=True))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("kind", ["monobert", "bert", "bert-dmn"])
def test_what_is_saved_scores_the_same_when_loaded_and_is_not_rounded_with_the_encoder(
    encoders, tmp_path, architecture, kind
):
    reranker = fresh_reranker(encoders(architecture), Shape(kind, **SMALL))
    save_reranker(reranker, tmp_path / "saved")
    loaded = load_reranker(tmp_path / "saved")
    assert loaded.shape == reranker.shape
    assert not loaded.model.training
    torch.testing.assert_close(logits(loaded), logits(reranker), rtol=0, atol=1e-6)
    assert loaded.fingerprint == reranker.fingerprint
    pairs = [(f"q{n} q{n + 1}", f"d{n} d{2 * n}") for n in range(1, 60)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = logits(loaded, pairs)
    assert scores.dtype == torch.float32
    rounded = (scores == scores.bfloat16().float()).float().mean()
    assert rounded < 0.1  # all of them, where the last layer computed in bfloat16


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("kind", ["monobert", "bert"])
def test_a_fresh_start_has_the_shape_and_vocabulary_of_an_encoder_and_weights_of_the_seed(
    encoders, architecture, kind
):
    folder, shape = encoders(architecture), Shape(kind, **SMALL)
    began = fresh_reranker(folder, shape)
    drawn, again, other = (fresh_reranker(folder, shape, seed=seed, fresh=True) for seed in (1, 1, 2))
    assert drawn.fingerprint == again.fingerprint
    assert len({began.fingerprint, drawn.fingerprint, other.fingerprint}) == 3
    assert pairs_of(drawn)[0].ids.tolist() == pairs_of(began)[0].ids.tolist()
    weights = dict(began.model.named_parameters())
    for name, weight in drawn.model.named_parameters():
        assert weight.shape == weights[name].shape
        if "layer.0" in name and name.endswith("query.weight"):
            deviation = drawn.parts.transformer.config.initializer_range
            assert float(weight.detach().std()) == pytest.approx(deviation, rel=0.3)
            assert not torch.equal(weight, weights[name])


@pytest.mark.parametrize("kind", ["dmn", "qa-lstm", "k-nrm", "conv-knrm", "co-pacrr", "drmm", "tkl"])
def test_models_over_word_vectors_are_saved_with_their_words(tmp_path, kind):
    words = [f"{letter}{number}" for letter in "qd" for number in range(20)]
    save_vectors(tmp_path / "vectors", words, torch.randn(len(words) + 2, 8))
    keep = ("q1", "q2", "d1", "d4", "d5")
    reranker = fresh_reranker(tmp_path / "vectors", Shape(kind, **SMALL), keep=set(keep))
    assert reranker.texts.vocabulary == keep
    folder = tmp_path / "saved"
    save_reranker(reranker, folder)
    loaded = load_reranker(folder)
    assert torch.equal(logits(loaded), logits(reranker))
    assert loaded.fingerprint == reranker.fingerprint
    # a pair without any word has the same score alone
    alone, among = logits(loaded, [("", "")]), logits(loaded, [("", ""), ("q1", "d1")])
    torch.testing.assert_close(alone, among[:1])
    (folder / "vocab.txt").write_text((folder / "vocab.txt").read_text() + "one\nmore\n")
    with pytest.raises(ModelError, match=r"vocab\.txt: expected 5 words, got 7"):
        load_reranker(folder)
    (folder / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ModelError, match=f"no weights of a {kind}, or damaged ones"):
        load_reranker(folder)


@pytest.mark.parametrize(
    ("kind", "head"),
    [
        ("bert", {"hidden": [-1]}),
        ("bert", {"dropout": 5}),
        ("bert-dmn", {"hidden": -1}),
        ("bert-dmn", {"gate": "none"}),
        ("bert-dmn", {"episodes": 1.5}),
        ("qa-lstm", {"hidden": -3}),
        ("qa-lstm", {"dropout": 2}),
        ("qa-lstm", {"pooling": "sum"}),
        ("monobert", {"hidden": [8]}),
    ],
)
def test_settings_that_a_head_cannot_have_are_refused(encoders, tmp_path, kind, head):
    save_vectors(tmp_path, ["q1", "d1"], torch.randn(4, 8))
    start = tmp_path if kind == "qa-lstm" else encoders()
    message = r"settings of a|must be a whole number|no attention gate|no pooling"
    with pytest.raises(ModelError, match=message):
        fresh_reranker(start, Shape(kind, **SMALL, head=head))


@pytest.mark.parametrize("architecture", ["bert", "camembert", "distilbert", "mpnet"])
def test_monobert_opens_as_a_cross_encoder_with_the_same_scores(encoders, tmp_path, architecture):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    reranker = fresh_reranker(encoders(architecture), Shape("monobert", **SMALL))
    save_reranker(reranker, tmp_path / "saved")
    theirs = sentence_transformers.CrossEncoder(str(tmp_path / "saved"), device="cpu")
    scores = theirs.predict(PAIRS, convert_to_tensor=True)
    torch.testing.assert_close(scores, logits(reranker), rtol=0, atol=1e-5)


@pytest.mark.parametrize("labels", [1, 2])
def test_a_cross_encoder_of_others_opens_as_monobert(encoders, tmp_path, labels):
    """Pairs of these small tokenizers are shorter than the query's usual 64 tokens and a passage."""
    theirs = AutoModelForSequenceClassification.from_pretrained(encoders(), num_labels=labels).eval()
    theirs.save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(encoders())
    tokenizer.save_pretrained(tmp_path)
    inputs = tokenizer(*map(list, zip(*PAIRS, strict=True)), padding=True, return_tensors="pt")
    with torch.no_grad():
        outputs = theirs(**inputs).logits
    expected = outputs[:, 0] if labels == 1 else outputs[:, 1] - outputs[:, 0]
    (tmp_path / SETTINGS).write_text(json.dumps(Shape("monobert", **SMALL).record()), encoding="utf-8")
    torch.testing.assert_close(logits(load_reranker(tmp_path)), expected, rtol=0, atol=1e-5)


def test_the_seed_and_the_encoder_decide_a_head_and_features_do_not_depend_on_it(encoders):
    frozen = Shape("bert", frozen=True, **SMALL)
    first, same, other = (fresh_reranker(encoders(), frozen, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(logits(first), logits(same))
    assert not torch.equal(logits(first), logits(other))
    wider = fresh_reranker(encoders(), Shape("bert", frozen=True, head={"hidden": [8]}, **SMALL), seed=2)
    assert first.encoder_fingerprint == wider.encoder_fingerprint
    assert first.fingerprint != wider.fingerprint
    shorter = fresh_reranker(encoders(), Shape("bert", frozen=True, max_query=8, max_length=31))
    assert first.encoder_fingerprint != shorter.encoder_fingerprint


def test_a_frozen_encoder_is_not_trained_has_no_dropout_and_keeps_its_kernels(encoders):
    model = fresh_reranker(encoders(), Shape("bert", frozen=True, **SMALL), dropout=0.5).model
    model.train()
    assert model.head.training
    assert not any(module.training for module in model.encoder.modules())
    assert not any(weight.requires_grad for weight in model.encoder.parameters())
    assert all(weight.requires_grad for weight in model.head.parameters())
    train_plainly(model)
    assert model.encoder.config._attn_implementation == "sdpa"


@pytest.mark.parametrize(("architecture", "longest"), [("bert", 66), ("roberta", 64), ("mpnet", 64)])
def test_positions_are_counted_without_those_of_padding(encoders, architecture, longest):
    reranker = fresh_reranker(encoders(architecture), Shape("bert", max_query=8, max_length=longest))
    assert positions(reranker.model) == longest
    with pytest.raises(ModelError, match=f"the model has {longest} positions"):
        fresh_reranker(encoders(architecture), Shape("bert", max_query=8, max_length=longest + 1))


@pytest.mark.parametrize(
    ("kind", "head", "query", "says"),
    [
        ("conv-knrm", {"longest": 0}, 8, "filters and longest must be at least 1, got 128 and 0"),
        ("conv-knrm", {"filters": 2.5}, 8, "filters of a conv-knrm must be a whole number, got 2.5"),
        ("co-pacrr", {"filters": 0}, 8, "rows, strongest and filters must be at least 1, got 16, 3 and 0"),
        ("co-pacrr", {}, 64, "a co-pacrr of 16 rows reads no queries of 64 words"),
        ("co-pacrr", {}, None, "a co-pacrr of 16 rows reads no queries of any number of words"),
        ("tkl", {"chunk": 2.5}, 8, "inner, chunk and overlap must be whole numbers"),
    ],
)
def test_settings_that_no_text_could_be_scored_with_are_refused(tmp_path, kind, head, query, says):
    save_vectors(tmp_path, ["press", "oil"], torch.rand(4, 12))
    with pytest.raises(ModelError, match=says):
        fresh_reranker(tmp_path, Shape(kind, max_query=query, max_length=128, head=head))


def test_bad_input_is_told_in_one_line(encoders, tmp_path):
    with pytest.raises(ModelError, match="no re-ranker is called 'duo'; known: monobert"):
        Shape("duo")
    with pytest.raises(ModelError, match="no settings of a head of bert"):
        fresh_reranker(encoders(), Shape("bert", head={"episodes": 4}, **SMALL))
    with pytest.raises(ModelError, match=r"expected a re-ranker, got BertModel and no reranker\.json"):
        load_reranker(encoders())
    save_reranker(fresh_reranker(encoders(), Shape("bert", **SMALL)), tmp_path)
    (tmp_path / HEAD).write_bytes(b"nothing")
    with pytest.raises(ModelError, match=r"head\.safetensors"):
        load_reranker(tmp_path)
    for text in ("{", '{"model_type": "nope"}'):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ModelError, match=r"config\.json cannot be read"):
            load_reranker(tmp_path)
