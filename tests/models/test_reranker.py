"""Re-rankers on disk: saved, loaded, opened elsewhere."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_models import ARCHITECTURES, save_vectors, small_encoder  # noqa: E402
from telerank.errors import ModelError  # noqa: E402
from telerank.models.fingerprints import encoder_fingerprint, reranker_fingerprint  # noqa: E402
from telerank.models.pairs.pair import batch_of  # noqa: E402
from telerank.models.precision import train_plainly  # noqa: E402
from telerank.models.rerankers.encoder_ranker import HEAD  # noqa: E402
from telerank.models.rerankers.reranker import (  # noqa: E402
    SETTINGS,
    Shape,
    fresh_reranker,
    load_reranker,
    save_reranker,
)
from telerank.models.rerankers.transformer_ranker import positions  # noqa: E402

PAIRS = [("q1 q2", "d1 d2 d3 d4"), ("q3", "d5"), ("q4 q5 q6", " ".join(f"d{n}" for n in range(12)))]
SMALL = {"max_query": 8, "max_length": 32}


def pairs_of(reranker, pairs=PAIRS):
    texts = reranker.texts
    queries = texts.queries([query for query, _ in pairs])
    passages = texts.passages([passage for _, passage in pairs])
    return [texts.pair(*one) for one in zip(queries, passages, strict=True)]


def logits(reranker, pairs=PAIRS):
    with torch.no_grad():
        return reranker.model(batch_of(pairs_of(reranker, pairs), reranker.texts.pad_id))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_attention_on_plain_products_scores_the_same_with_the_same_gradient(tmp_path, architecture):
    made = fresh_reranker(small_encoder(tmp_path / "start", architecture), Shape("monobert", **SMALL))
    made.model.eval()

    def gradients():
        made.model.zero_grad()
        scored = made.model(batch_of(pairs_of(made), made.texts.pad_id))
        scored.sum().backward()
        return scored.detach(), [one.grad for one in made.model.parameters() if one.grad is not None]

    fused, of_fused = gradients()
    train_plainly(made.model)
    assert made.model.classifier.config._attn_implementation == "eager"
    plain, of_plain = gradients()
    assert torch.allclose(fused, plain, atol=1e-6)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(of_fused, of_plain, strict=True))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("kind", ["monobert", "bert", "bert-dmn"])
def test_scores_are_not_rounded_with_the_encoder(tmp_path, architecture, kind):
    made = fresh_reranker(small_encoder(tmp_path / "start", architecture), Shape(kind, **SMALL))
    made.model.eval()
    pairs = [(f"q{n} q{n + 1}", f"d{n} d{2 * n}") for n in range(1, 60)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = logits(made, pairs)
    assert found.dtype == torch.float32
    rounded = (found == found.bfloat16().float()).float().mean()
    assert rounded < 0.1  # all of them, where the last layer computed in bfloat16


def test_a_frozen_encoder_keeps_its_kernels(tmp_path):
    made = fresh_reranker(small_encoder(tmp_path / "start"), Shape("bert", frozen=True, **SMALL))
    before = made.model.encoder.config._attn_implementation
    train_plainly(made.model)
    assert made.model.encoder.config._attn_implementation == before == "sdpa"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("kind", ["monobert", "bert", "bert-dmn"])
def test_what_is_saved_scores_the_same_when_loaded(tmp_path, architecture, kind):
    made = fresh_reranker(small_encoder(tmp_path / "start", architecture), Shape(kind, **SMALL))
    save_reranker(made, tmp_path / "saved")
    loaded = load_reranker(tmp_path / "saved")
    assert loaded.shape == made.shape
    assert not loaded.model.training
    torch.testing.assert_close(logits(loaded), logits(made), rtol=0, atol=1e-6)
    assert reranker_fingerprint(loaded) == reranker_fingerprint(made)


@pytest.mark.parametrize("kind", ["dmn", "qa-lstm", "k-nrm"])
def test_models_over_word_vectors_are_saved_with_their_words(tmp_path, kind):
    words = [f"{letter}{number}" for letter in "qd" for number in range(20)]
    save_vectors(tmp_path / "vectors", words, torch.randn(len(words) + 2, 8))
    made = fresh_reranker(tmp_path / "vectors", Shape(kind, **SMALL), keep={"q1", "q2", "d1", "d4", "d5"})
    assert made.texts.vocabulary == ("q1", "q2", "d1", "d4", "d5")
    save_reranker(made, tmp_path / "saved")
    loaded = load_reranker(tmp_path / "saved")
    assert torch.equal(logits(loaded), logits(made))
    assert reranker_fingerprint(loaded) == reranker_fingerprint(made)
    words = (tmp_path / "saved" / "vocab.txt").read_text()
    (tmp_path / "saved" / "vocab.txt").write_text(f"{words}one\nmore\n")
    with pytest.raises(ModelError, match=r"vocab\.txt: expected 5 words, got 7"):
        load_reranker(tmp_path / "saved")
    (tmp_path / "saved" / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ModelError, match=f"no weights of a {kind}, or damaged ones"):
        load_reranker(tmp_path / "saved")


@pytest.mark.parametrize("kind", ["dmn", "qa-lstm", "k-nrm"])
def test_a_batch_without_any_word_has_the_scores_of_its_pairs_among_others(tmp_path, kind):
    save_vectors(tmp_path / "vectors", ["q1", "d1"], torch.randn(4, 8))
    made = fresh_reranker(tmp_path / "vectors", Shape(kind, **SMALL))
    made.model.eval()
    alone, among = logits(made, [("", "")]), logits(made, [("", ""), ("q1", "d1")])
    torch.testing.assert_close(alone, among[:1])


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
def test_settings_that_a_head_cannot_have_are_refused(tmp_path, kind, head):
    save_vectors(tmp_path / "vectors", ["q1", "d1"], torch.randn(4, 8))
    start = tmp_path / "vectors" if kind == "qa-lstm" else small_encoder(tmp_path / "start")
    with pytest.raises(
        ModelError, match=r"settings of a|whole number of episodes|no attention gate|no pooling"
    ):
        fresh_reranker(start, Shape(kind, **SMALL, head=head))


def test_a_damaged_configuration_is_named(tmp_path):
    folder = small_encoder(tmp_path / "start")
    for text in ("{", '{"model_type": "nope"}'):
        (folder / "config.json").write_text(text)
        with pytest.raises(ModelError, match=r"config\.json cannot be read"):
            load_reranker(folder)


@pytest.mark.parametrize("architecture", ["bert", "camembert", "distilbert", "mpnet"])
def test_monobert_opens_as_a_cross_encoder_with_the_same_scores(tmp_path, architecture):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    made = fresh_reranker(small_encoder(tmp_path / "start", architecture), Shape("monobert", **SMALL))
    save_reranker(made, tmp_path / "saved")
    elsewhere = sentence_transformers.CrossEncoder(str(tmp_path / "saved"), device="cpu")
    found = elsewhere.predict(PAIRS, convert_to_tensor=True)
    torch.testing.assert_close(found, logits(made), rtol=0, atol=1e-5)


def test_a_cross_encoder_of_others_opens_as_monobert(tmp_path):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    start = small_encoder(tmp_path / "start")
    for labels in (1, 2):
        folder = tmp_path / f"labels{labels}"
        theirs = AutoModelForSequenceClassification.from_pretrained(start, num_labels=labels).eval()
        theirs.save_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(start)
        tokenizer.save_pretrained(folder)
        inputs = tokenizer(*map(list, zip(*PAIRS, strict=True)), padding=True, return_tensors="pt")
        with torch.no_grad():
            found = theirs(**inputs).logits
        wanted = found[:, 0] if labels == 1 else found[:, 1] - found[:, 0]
        opened = load_reranker_of(folder)
        torch.testing.assert_close(logits(opened), wanted, rtol=0, atol=1e-5)


def load_reranker_of(folder):
    """Pairs of these small tokenizers are shorter than the query's usual 64 tokens and a passage."""
    settings = Shape("monobert", **SMALL).record()
    (folder / SETTINGS).write_text(json.dumps(settings), encoding="utf-8")
    return load_reranker(folder)


def test_the_seed_decides_the_head(tmp_path):
    start = small_encoder(tmp_path / "start")
    one, same, other = (fresh_reranker(start, Shape("bert", **SMALL), seed=seed) for seed in (1, 1, 2))
    assert torch.equal(logits(one), logits(same))
    assert not torch.equal(logits(one), logits(other))


def test_a_frozen_encoder_is_not_trained_and_has_no_dropout(tmp_path):
    made = fresh_reranker(small_encoder(tmp_path / "start"), Shape("bert", frozen=True, **SMALL), dropout=0.5)
    made.model.train()
    assert made.model.head.training
    assert not any(module.training for module in made.model.encoder.modules())
    assert not any(weight.requires_grad for weight in made.model.encoder.parameters())
    assert all(weight.requires_grad for weight in made.model.head.parameters())


def test_features_do_not_depend_on_the_head(tmp_path):
    start = small_encoder(tmp_path / "start")
    one = fresh_reranker(start, Shape("bert", frozen=True, **SMALL), seed=1)
    other = fresh_reranker(start, Shape("bert", frozen=True, head={"hidden": [8]}, **SMALL), seed=2)
    assert encoder_fingerprint(one) == encoder_fingerprint(other)
    assert reranker_fingerprint(one) != reranker_fingerprint(other)
    shorter = fresh_reranker(start, Shape("bert", frozen=True, max_query=8, max_length=31))
    assert encoder_fingerprint(one) != encoder_fingerprint(shorter)


@pytest.mark.parametrize(("architecture", "longest"), [("bert", 66), ("roberta", 64), ("mpnet", 64)])
def test_positions_are_counted_without_those_of_padding(tmp_path, architecture, longest):
    start = small_encoder(tmp_path / "start", architecture)
    made = fresh_reranker(start, Shape("bert", max_query=8, max_length=longest))
    assert positions(made.model) == longest
    with pytest.raises(ModelError, match=f"the model has {longest} positions"):
        fresh_reranker(start, Shape("bert", max_query=8, max_length=longest + 1))


def test_bad_input_is_told_in_one_line(tmp_path):
    start = small_encoder(tmp_path / "start")
    with pytest.raises(ModelError, match="no re-ranker is called 'duo'; there are: monobert"):
        Shape("duo")
    with pytest.raises(ModelError, match="no settings of a head of bert"):
        fresh_reranker(start, Shape("bert", head={"episodes": 4}, **SMALL))
    with pytest.raises(ModelError, match=r"expected a re-ranker, got BertModel and no reranker\.json"):
        load_reranker(start)
    save_reranker(fresh_reranker(start, Shape("bert", **SMALL)), tmp_path / "saved")
    (tmp_path / "saved" / HEAD).write_bytes(b"nothing")
    with pytest.raises(ModelError, match=r"head\.safetensors"):
        load_reranker(tmp_path / "saved")
