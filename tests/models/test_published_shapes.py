"""Folders of the shapes in which SPLADE-v3 and GTE-ModernColBERT are published: fewer layers and pieces, random weights."""

from __future__ import annotations

import json
import string
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
library = pytest.importorskip("sentence_transformers")
from safetensors.torch import save_file  # noqa: E402
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors  # noqa: E402
from transformers import (  # noqa: E402
    BertConfig,
    BertForMaskedLM,
    BertTokenizer,
    ModernBertConfig,
    ModernBertModel,
    PreTrainedTokenizerFast,
)

import telerank as tr  # noqa: E402
from telerank.late_interaction.encoder import LateEncoder  # noqa: E402
from telerank.models.encoders.sparse import load_sparse_encoder  # noqa: E402
from telerank.models.loading import quiet  # noqa: E402

PIECES = 1200
DOCS = {
    "press": "Gutenberg printed a Bible, on a press!",
    "oil": "olives are pressed for oil",
    "long": "a press " * 400,
    "empty": "...",
}
QUERY = "who printed a bible"
WORDS = sorted(
    {word.strip(",.!") for text in (*DOCS.values(), QUERY) for word in text.lower().split()} - {"", "a"}
)


def write_json(file: Path, record: object) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(record))


def write_modules(folder: Path, kinds: dict[str, str]) -> None:
    listed = [
        {"idx": n, "name": str(n), "path": path, "type": kind} for n, (path, kind) in enumerate(kinds.items())
    ]
    write_json(folder / "modules.json", listed)


@pytest.fixture(scope="module")
def splade(tmp_path_factory) -> Path:
    """A BERT of the widths of bert-base-uncased, with the first of its pieces."""
    folder = tmp_path_factory.mktemp("splade") / "splade-v3"
    special = {0: "[PAD]", 100: "[UNK]", 101: "[CLS]", 102: "[SEP]", 103: "[MASK]"}
    words = dict(enumerate([*string.punctuation, *string.ascii_lowercase, *WORDS], 1000))
    pieces = {{**special, **words}.get(n, f"[unused{n}]"): n for n in range(PIECES)}
    config = BertConfig(vocab_size=PIECES, num_hidden_layers=1, initializer_range=0.05)
    assert (config.hidden_size, config.max_position_embeddings) == (768, 512)
    torch.manual_seed(0)
    with quiet():
        model = BertForMaskedLM(config)
        model.cls.predictions.bias.data.fill_(-4.0)  # few pieces are above 0, as in what was trained
        model.save_pretrained(folder)
    BertTokenizer(vocab=pieces, model_max_length=512).save_pretrained(folder)
    prefix = "sentence_transformers.sparse_encoder.models"
    write_modules(folder, {"": f"{prefix}.MLMTransformer", "1_SpladePooling": f"{prefix}.SpladePooling"})
    pooling = {"pooling_strategy": "max", "activation_function": "relu", "word_embedding_dimension": None}
    write_json(folder / "1_SpladePooling" / "config.json", pooling)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 512, "do_lower_case": False})
    prompts = {"prompts": {"query": "", "document": ""}, "default_prompt_name": None}
    about = {"model_type": "SparseEncoder", "similarity_fn_name": "dot"}
    write_json(folder / "config_sentence_transformers.json", {**about, **prompts})
    return folder


def test_a_folder_as_of_splade_v3_gives_the_vectors_of_sentence_transformers_and_ranks(splade, tmp_path):
    model = load_sparse_encoder(splade, "cpu")
    assert (model.longest, model.width) == (512, PIECES)
    with quiet():
        theirs = library.SparseEncoder(str(splade), device="cpu")
    texts = [DOCS["press"], DOCS["long"]]
    expected = theirs.encode_document(texts, convert_to_sparse_tensor=False, show_progress_bar=False).numpy()
    own = np.zeros_like(expected)
    vectors = model.encode(texts, queries=False)
    for row, vector in zip(own, vectors, strict=True):
        row[vector.numbers] = vector.weights
    np.testing.assert_allclose(own, expected, atol=2e-5)
    assert [vector.is_cut for vector in vectors] == [False, True]
    with pytest.warns(tr.errors.LongTexts, match="1 document longer than 512 tokens"):
        index = tr.index(DOCS, tmp_path / "idx", weights_model=str(splade), workers=1, progress=False)
    [query] = map(model.weigh_pieces, model.encode([QUERY], queries=True))
    best, score = next(iter(index.impact().search(QUERY)))
    assert score > 0
    [document] = map(model.weigh_pieces, model.encode([DOCS[best]], queries=False))
    assert score == pytest.approx(sum(query[piece] * document.get(piece, 0) for piece in query), rel=1e-3)


@pytest.fixture(scope="module")
def colbert(tmp_path_factory) -> Path:
    """A ModernBERT of the widths of its base, with the markers of PyLate as tokens behind its own."""
    folder = tmp_path_factory.mktemp("colbert") / "GTE-ModernColBERT-v1"
    special = dict(enumerate(("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"), PIECES - 88))
    words = dict(enumerate([*string.punctuation, "a", *WORDS]))
    vocabulary = {special.get(n) or words.get(n, f"[unused{n}]"): n for n in range(PIECES)}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = {"cls": ("[CLS]", PIECES - 87), "sep": ("[SEP]", PIECES - 86)}
    backend.post_processor = processors.BertProcessing(ends["sep"], ends["cls"])
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "cls", "sep", "pad", "mask")}
    inputs = ["input_ids", "attention_mask"]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, model_max_length=299, model_input_names=inputs, **names
    )
    tokenizer.add_tokens(["[Q] ", "[D] "])
    shape = {"num_hidden_layers": 2, "global_attn_every_n_layers": 2, "initializer_range": 0.05}
    config = ModernBertConfig(
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        cls_token_id=tokenizer.cls_token_id,
        sep_token_id=tokenizer.sep_token_id,
        bos_token_id=tokenizer.cls_token_id,
        eos_token_id=tokenizer.sep_token_id,
        **shape,
    )
    assert (config.vocab_size, config.hidden_size, config.local_attention) == (PIECES + 2, 768, 128)
    torch.manual_seed(0)
    with quiet():
        ModernBertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    kinds = {"": "sentence_transformers.models.Transformer", "1_Dense": "pylate.models.Dense.Dense"}
    write_modules(folder, kinds)
    identity = "torch.nn.modules.linear.Identity"
    dense = {"in_features": 768, "out_features": 128, "bias": False, "activation_function": identity}
    write_json(folder / "1_Dense" / "config.json", dense)
    save_file({"linear.weight": torch.randn(128, 768) / 28}, folder / "1_Dense" / "model.safetensors")
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 299, "do_lower_case": False})
    said = {"prompts": {}, "default_prompt_name": None, "similarity_fn_name": "MaxSim"}
    said |= {"query_prefix": "[Q] ", "document_prefix": "[D] ", "query_length": 32, "document_length": 300}
    said |= {"attend_to_expansion_tokens": False, "skiplist_words": [*string.punctuation]}
    write_json(folder / "config_sentence_transformers.json", said)
    return folder


def test_a_folder_as_of_gte_moderncolbert_is_encoded_as_pylate_does_and_ranks(colbert, tmp_path):
    encoder = LateEncoder(str(colbert))
    vectors, words = encoder.encode_query(QUERY)
    assert vectors.shape == (32, 128)
    assert [*map(str.lower, words)] == ["[cls]", "[q] ", *QUERY.split(), "[sep]", *["[mask]"] * 25]
    shown = [*map(str.lower, encoder.document_words(DOCS["press"]))]
    assert shown == ["[cls]", "[d] ", "gutenberg", "printed", "a", "bible", "on", "a", "press", "[sep]"]
    assert len(encoder.document_words(DOCS["long"])) == 300
    index = tr.index(DOCS, tmp_path / "idx", workers=1, progress=False)
    assert index.encode_tokens(str(colbert), progress=False).manifest.cut == 1
    stage = index.bm25() >> index.maxsim()
    ranking = stage.search(QUERY)
    assert set(ranking.docnos) == {"press", "long"}
    [(_, tokens, _)] = encoder.encode_documents([DOCS["press"]])
    assert dict(ranking)["press"] == pytest.approx((vectors @ tokens.T).max(axis=1).sum(), rel=0.01)
    if hasattr(library, "MultiVectorEncoder"):
        theirs = library.MultiVectorEncoder(str(colbert), device="cpu")
        assert np.abs(theirs.encode_query([QUERY], convert_to_numpy=True)[0] - vectors).max() < 2e-6
