"""Vectors of tokens are those of sentence-transformers and PyLate's rules; folders are not trusted."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_late import DIMENSION, small_colbert, small_late, small_pylate
from telerank.errors import ModelError
from telerank.late_interaction.encoder import LateEncoder

TEXTS = ["q1 d2 x1 x3", "x1 x2", "d5 d6 d7 unknown", " ".join(f"d{n}" for n in range(30)), ""]


def documents(encoder: LateEncoder) -> list[np.ndarray]:
    vectors = {number: own for number, own, _ in encoder.encode_documents(TEXTS)}
    return [vectors[number] for number in range(len(TEXTS))]


def check_parity(folder, encoder: LateEncoder) -> None:
    """The same vectors as ``MultiVectorEncoder`` gives for the folder."""
    library = pytest.importorskip("sentence_transformers")
    if not hasattr(library, "MultiVectorEncoder"):
        pytest.skip("sentence-transformers has no multi-vector encoders yet")
    other = library.MultiVectorEncoder(str(folder), device="cpu")
    for text, mine in zip(TEXTS, documents(encoder), strict=True):
        theirs = other.encode_document([text], convert_to_numpy=True)[0]
        assert mine.shape == theirs.shape
        assert np.abs(mine - theirs).max(initial=0) < 2e-6
        query, words = encoder.encode_query(text)
        wanted = other.encode_query([text], convert_to_numpy=True)[0]
        assert query.shape == wanted.shape
        assert len(words) == len(query)
        assert np.abs(query - wanted).max() < 2e-6


MAKERS = {
    "own": small_late,
    "own, attending": lambda folder: small_late(folder, attend=True, skipped=("x1",)),
    "own, not expanded": lambda folder: small_late(folder, expand_to=0, query="q9 ", document=""),
    "pylate": small_pylate,
    "pylate, attending": lambda folder: small_pylate(folder, attend_to_expansion_tokens=True),
    "pylate, not expanded": lambda folder: small_pylate(folder, do_query_expansion=False),
    "pylate, as GTE-ModernColBERT": lambda folder: small_pylate(folder, "modernbert"),
    "colbert": small_colbert,
}


@pytest.mark.parametrize("name", MAKERS)
def test_vectors_are_those_of_sentence_transformers(tmp_path, name):
    folder = tmp_path / "model"
    MAKERS[name](folder)
    check_parity(folder, LateEncoder(str(folder)))


def test_queries_are_filled_up_with_masks_and_documents_skip_words(tmp_path):
    encoder = LateEncoder(str(small_pylate(tmp_path / "model")))
    vectors, words = encoder.encode_query("q1 q2")
    # the tokenizer writes its added tokens in lower case
    assert [word.lower() for word in words] == ["[cls]", "[q] ", "q1", "q2", "[sep]", *["[mask]"] * 7]
    assert vectors.shape == (12, DIMENSION)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    kept = [word.lower() for word in encoder.document_words("x1 d3 x2 d4")]
    assert kept == ["[cls]", "[d] ", "d3", "d4", "[sep]"]
    assert len(encoder.document_words(TEXTS[3])) == 20


def test_the_projection_is_linear_and_normalised(tmp_path):
    """The closed formula: W h, divided by its length."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    from small_late import projection

    folder = small_pylate(tmp_path / "model")
    vectors, _ = LateEncoder(str(folder)).encode_query("q1 q2")
    tokenizer, encoder = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    ids = [tokenizer.cls_token_id, tokenizer.convert_tokens_to_ids("[Q] ")]
    ids += [
        *tokenizer.convert_tokens_to_ids(["q1", "q2"]),
        tokenizer.sep_token_id,
        *[tokenizer.mask_token_id] * 7,
    ]
    mask = torch.tensor([[1] * 5 + [0] * 7])
    with torch.no_grad():
        hidden = encoder(input_ids=torch.tensor([ids]), attention_mask=mask).last_hidden_state[0]
    expected = hidden.double() @ projection().double().T
    expected /= expected.norm(dim=1, keepdim=True)
    assert np.abs(vectors - expected.numpy()).max() < 1e-6


def test_the_fingerprint_is_that_of_weights_and_settings(tmp_path):
    prints = [
        LateEncoder(str(folder)).fingerprint
        for folder in (
            small_late(tmp_path / "one"),
            small_late(tmp_path / "same"),
            small_late(tmp_path / "seed", seed=1),
            small_late(tmp_path / "length", document_length=21),
            small_pylate(tmp_path / "pylate"),
        )
    ]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 4


def edit(file, **changes) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def damage(folder, what: str) -> None:  # noqa: C901 — a case each
    import torch
    from safetensors.torch import save_file

    weights, dense = folder / "1_Dense" / "model.safetensors", folder / "1_Dense" / "config.json"
    model = folder / "config_sentence_transformers.json"
    match what:
        case "nan":
            save_file({"linear.weight": torch.full((DIMENSION, 32), float("nan"))}, weights)
        case "vector":
            save_file({"linear.weight": torch.zeros(32)}, weights)
        case "other width":
            save_file({"linear.weight": torch.zeros(DIMENSION, 31)}, weights)
        case "no weights":
            weights.unlink()
        case "bias":
            edit(dense, bias=True)
        case "activation":
            edit(dense, activation_function="os.system")
        case "long":
            edit(model, document_length=10**9)
        case "positions":
            edit(model, document_length=100)
        case "length":
            edit(model, query_length=-1)
        case "modules":
            modules = json.loads((folder / "modules.json").read_text())
            modules.insert(1, {"path": "x", "type": "sentence_transformers.models.MultiVectorMask"})
            (folder / "modules.json").write_text(json.dumps(modules))
        case "token":
            tokenizer = json.loads((folder / "tokenizer.json").read_text())
            for token in tokenizer["added_tokens"]:
                token["id"] += 1000 if token["content"] == "[Q] " else 0
            (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


WRONG = {
    "nan": "expected a projection",
    "vector": "expected a projection",
    "other width": "31 dimensions follows 32",
    "no weights": "the projection cannot be read",
    "bias": "without bias",
    "activation": "without bias, residual and activation",
    "long": "expected lengths up to",
    "positions": "the encoder reads 66 tokens, and texts have up to 100",
    "length": "query_length",
    "modules": "expected Transformer, Dense",
}


@pytest.mark.parametrize("what", WRONG)
def test_a_folder_is_not_trusted(tmp_path, what):
    folder = small_pylate(tmp_path / "model")
    damage(folder, what)
    with pytest.raises(ModelError, match=WRONG[what]) as raised:
        LateEncoder(str(folder)).encode_query("q1")
    assert str(folder) in str(raised.value)
    assert "\n" not in str(raised.value)
