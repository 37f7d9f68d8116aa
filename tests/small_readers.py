"""Small readers on real encoders, with tokenizers for any text."""

from __future__ import annotations

from pathlib import Path

from small_models import small_encoder

SMALL = {"max_length": 32, "stride": 8, "max_question": 8, "max_answer": 5}


def small_reader(folder: Path, architecture: str = "bert", *, seed: int = 1, **settings):
    """A reader of words ``q0 … x39``, drawn at random."""
    from telerank.models.readers import ReaderSettings, fresh_reader

    start = folder / f"start-{architecture}"
    if not start.exists():
        small_encoder(start, architecture)
    return fresh_reader(start, ReaderSettings(**{**SMALL, **settings}), seed=seed)


def reader_with(folder: Path, tokenizer: str, *, seed: int = 1, **settings):
    """A reader with one of :data:`TOKENIZERS`: each reads any text."""
    import torch
    from transformers import BertConfig, BertModel

    from telerank.models.loading import quiet
    from telerank.models.readers import ReaderSettings, fresh_reader

    made = TOKENIZERS[tokenizer]()
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(
        vocab_size=len(made), max_position_embeddings=66, pad_token_id=0, initializer_range=0.5, **shape
    )
    start = folder / f"start-{tokenizer}"
    with torch.random.fork_rng(), quiet():
        torch.manual_seed(seed)
        BertModel(config).save_pretrained(start)
    made.save_pretrained(start)
    return fresh_reader(start, ReaderSettings(**{**SMALL, **settings}), seed=seed)


_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789'’.,;:!?()«»-éèœfilשלוםابجد漢字"


def _word_pieces():
    """BERT's tokenizer over letters: lower case, accents stripped, unknown words as one token."""
    from transformers import BertTokenizer

    names = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    pieces = dict.fromkeys((*names, *_LETTERS, *(f"##{letter}" for letter in _LETTERS)))
    return BertTokenizer(vocab={piece: number for number, piece in enumerate(pieces)}, model_max_length=64)


def _bytes():
    """RoBERTa's byte-level tokens, without merges: several tokens are one character."""
    from tokenizers import models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    model = models.BPE({piece: n for n, piece in enumerate((*_FRAME, *alphabet))}, [])
    return _framed(model, pre_tokenizers.ByteLevel(add_prefix_space=False))


def _sentence_pieces():
    """XLM-R's way: NFKC first, which changes lengths, and a mark for each blank, which is part of a token."""
    from tokenizers import models, normalizers, pre_tokenizers

    pieces = [(piece, 0.0) for piece in _FRAME]
    pieces += [(piece, -2.0) for piece in dict.fromkeys(("▁", *_LETTERS, "▁a", "▁l", "es", "fi"))]
    model = models.Unigram(pieces, unk_id=3, byte_fallback=False)
    return _framed(model, pre_tokenizers.Metaspace(), normalizers.NFKC())


_FRAME = ("<pad>", "<s>", "</s>", "<unk>")


def _framed(model, pre_tokenizer, normalizer=None):
    from tokenizers import Tokenizer, processors
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        backend.normalizer = normalizer
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1), trim_offsets=False)
    special = {"pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=64, **special)


TOKENIZERS = {"word pieces": _word_pieces, "bytes": _bytes, "sentence pieces": _sentence_pieces}
