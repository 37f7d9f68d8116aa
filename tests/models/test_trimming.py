"""An encoder without the pieces that texts lack: texts that have them keep their vectors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoModelForMaskedLM, PreTrainedTokenizerFast

from small_models import ARCHITECTURES, WORDS, small_encoder, small_masked, small_tokenizer
from telerank.dense.encoder import open_encoder
from telerank.errors import ModelError
from telerank.models.encoders.bi_encoder import BiEncoder, Side, Tokenizers
from telerank.models.encoders.folders import load_bi_encoder, save_bi_encoder
from telerank.models.loading import quiet, read_tokenizer
from telerank.models.trimming import count_pieces, trim_model
from telerank.verbs.train import trim

TEXTS = ["x1 x2 x3", "q7 d9 x1", "d39"]
PIECES = {"x1", "x2", "x3", "q7", "d9", "d39"}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_texts_keep_their_vectors(tmp_path, architecture):
    whole = small_encoder(tmp_path / "whole", architecture)
    trimmed = trim_model(str(whole), tmp_path / "trimmed", TEXTS)
    special = set(read_tokenizer(whole).all_special_tokens)
    assert set(read_tokenizer(trimmed.model).get_vocab()) == PIECES | special
    assert (trimmed.kept, trimmed.before, trimmed.covered) == (
        len(PIECES | special),
        len(read_tokenizer(whole)),
        1,
    )
    before, after = open_encoder(str(whole)), open_encoder(str(trimmed.model))
    assert np.array_equal(before.encode_queries(TEXTS).vectors, after.encode_queries(TEXTS).vectors)
    unknown = after.encode_queries(["x20 x2"]).vectors
    assert np.array_equal(unknown, before.encode_queries(["zebra x2"]).vectors)
    with pytest.raises(ModelError, match="trimmed is not empty: overwrite it"):
        trim_model(str(whole), tmp_path / "trimmed", TEXTS)


def test_the_pieces_of_prompts_are_kept(tmp_path):
    model, tokenizers = load_bi_encoder(small_encoder(tmp_path / "encoder"))
    settings = replace(model.settings, query=Side(20, prompt="x30 "), document=Side(20, prompt="x31 "))
    prompted = BiEncoder(model.query_encoder, settings=settings).eval()
    tokenizers = Tokenizers.of(tokenizers.queries.tokenizer, settings)
    save_bi_encoder(prompted, tokenizers, tmp_path / "whole")
    trimmed = trim_model(str(tmp_path / "whole"), tmp_path / "trimmed", TEXTS, pieces=1)
    assert {"x30", "x31"} < set(read_tokenizer(trimmed.model).get_vocab())
    before, after = (open_encoder(str(folder)) for folder in (tmp_path / "whole", trimmed.model))
    assert np.array_equal(before.encode_queries(["x1"]).vectors, after.encode_queries(["x1"]).vectors)


def test_a_table_without_all_pieces_is_refused(tmp_path):
    whole = small_masked(tmp_path / "whole")
    small_tokenizer("bert", [*WORDS, "more"]).save_pretrained(whole)
    with pytest.raises(ModelError, match="whole: piece 125, of a table of 125"):
        trim_model(str(whole), tmp_path / "trimmed", ["x1 more"])


def test_a_head_for_masks_has_fewer_pieces_too(tmp_path):
    whole = small_masked(tmp_path / "whole")
    trimmed = trim_model(str(whole), tmp_path / "trimmed", TEXTS)
    with quiet():
        before, after = (AutoModelForMaskedLM.from_pretrained(folder) for folder in (whole, trimmed.model))
    assert after.get_input_embeddings().weight is after.get_output_embeddings().weight
    tokens, fewer = (read_tokenizer(folder) for folder in (whole, trimmed.model))
    rows = [tokens.get_vocab()[piece] for piece in fewer.convert_ids_to_tokens(range(len(fewer)))]
    with torch.no_grad():
        expected = before(**tokens(TEXTS, return_tensors="pt", padding=True)).logits
        logits = after(**fewer(TEXTS, return_tensors="pt", padding=True)).logits
    torch.testing.assert_close(logits, expected[:, :, rows])


def unigram_tokenizer():
    """Pieces of a language model, as XLM-R has them."""
    scores = {"▁": 5.0, "▁ol": 3.0, "ive": 3.0, "▁olive": 2.0, "▁press": 3.0, "s": 4.0, "o": 6.0, "l": 6.0}
    scores |= dict.fromkeys("iveprxz", 7.0)
    names = ("<s>", "<pad>", "</s>", "<unk>")
    vocabulary = [(name, 0.0) for name in names] + [(piece, -cost) for piece, cost in scores.items()]
    backend = Tokenizer(models.Unigram(vocabulary, unk_id=3))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    frame = [("<s>", 0), ("</s>", 2)]
    backend.post_processor = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> $B </s>", frame)
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=64, **special)


def test_words_without_their_piece_are_written_with_shorter_ones(tmp_path):
    whole = small_encoder(tmp_path / "whole", "xlm-roberta")
    tokenizer = unigram_tokenizer()
    with quiet():
        tokenizer.save_pretrained(whole)
    texts = ["olive olive olives", "press"]
    assert tokenizer.tokenize("olives press") == ["▁olive", "s", "▁press"]
    all_pieces = trim_model(str(whole), tmp_path / "all", texts)
    assert read_tokenizer(all_pieces.model).tokenize("olives press") == ["▁olive", "s", "▁press"]
    most = trim_model(str(whole), tmp_path / "one", texts, pieces=1)
    fewer = read_tokenizer(most.model)
    assert fewer.tokenize("olives") == ["▁olive", "s"]  # the letter stays: words may need it
    assert fewer.tokenize("press") == ["▁", *"press"]
    assert "z" not in fewer.get_vocab()
    assert most.covered == pytest.approx(4 / 5)
    ids = fewer("olives")["input_ids"]
    assert fewer.convert_ids_to_tokens(ids) == ["<s>", "▁olive", "s", "</s>"]
    assert len(fewer) == most.kept == load_bi_encoder(most.model)[0].query_encoder.config.vocab_size


def test_merges_are_refused_and_so_are_no_texts(tmp_path):
    whole = small_encoder(tmp_path / "whole", "roberta")
    with pytest.raises(ModelError, match="no text to choose pieces by"):
        trim_model(str(whole), tmp_path / "trimmed", [])
    merges = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")])), unk_token="a"
    )
    with quiet():
        merges.save_pretrained(whole)
    with pytest.raises(ModelError, match="its pieces are BPE's: expected those of Unigram"):
        trim_model(str(whole), tmp_path / "trimmed", ["ab"])
    assert not (tmp_path / "trimmed").exists()


def test_a_collection_says_which_pieces_are_kept(tmp_path):
    whole = small_encoder(tmp_path / "whole")
    (tmp_path / "docs.jsonl").write_text(
        '{"id": "1", "text": "x1 x2"}\n{"id": "2", "text": "x2 q3 unknown"}\n'
    )
    trimmed = trim(str(whole), tmp_path / "trimmed", tmp_path / "docs.jsonl")
    assert PIECES & set(read_tokenizer(trimmed.model).get_vocab()) == {"x1", "x2"}
    assert str(trimmed) == f"{tmp_path / 'trimmed'}: 8 of 125 pieces, which are 100.00 % of the texts' tokens"


def test_pieces_are_counted_whatever_the_length(tmp_path):
    tokenizer = small_tokenizer("bert")
    counts = count_pieces(tokenizer, ["x1 " * 200])
    assert counts[tokenizer.get_vocab()["x1"]] == 200
