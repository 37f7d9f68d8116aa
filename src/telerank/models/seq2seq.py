"""Models that read a text and write another: T5, BART, an encoder-decoder of two BERTs, and their folders.

A folder is any that transformers opens as ``AutoModelForSeq2SeqLM``. An encoder alone becomes both halves of
an ``EncoderDecoderModel`` (Rothe, Narayan and Severyn, Leveraging Pre-trained Checkpoints for Sequence
Generation Tasks, TACL 2020): its decoder begins with the encoder's weights, and what an encoder lacks, the
attention to the other half and the layer before the vocabulary, is drawn at random.

=====  ==============================================
``B``  texts
``L``  pieces of a text, special ones among them
``T``  pieces of what is written
``V``  pieces of the vocabulary
=====  ==============================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    EncoderDecoderConfig,
    EncoderDecoderModel,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
)

from telerank.errors import ModelError
from telerank.models.fingerprints import hash_parts
from telerank.models.loading import (
    locate,
    naming,
    quiet,
    read_config,
    read_encoder,
    read_tokenizer,
    read_weights,
    reading,
    save_weights,
)
from telerank.models.random_numbers import seeded

_DRAWN = ("crossattention", "cls.", "lm_head", "generator")
"""Parts of the names of a decoder's weights that an encoder lacks."""
_UNKNOWN = int(1e6)  # tokenizers that know no length have a larger one


@dataclass(frozen=True, eq=False)
class Seq2Seq:
    """``model`` is one of transformers; ``start_id`` is the piece before the first that it writes."""

    model: Any
    tokenizer: Any
    start_id: int
    eos_id: int
    pad_id: int

    @property
    def longest(self) -> int | None:
        """The most pieces that it reads and writes, if it has so many positions; None: any number."""
        configs = [self.model.config, *(getattr(self.model.config, n, None) for n in ("encoder", "decoder"))]
        lengths = [
            int(longest)
            for config in configs
            if (longest := getattr(config, "max_position_embeddings", None)) is not None
        ]
        known = int(self.tokenizer.model_max_length)
        return min([*lengths, *([known] if known < _UNKNOWN else [])], default=None)

    @property
    def fingerprint(self) -> str:
        """Identifies everything that decides what it writes."""
        ids = {"start": self.start_id, "eos": self.eos_id, "pad": self.pad_id}
        framed = {"framed": self.tokenizer("a b")["input_ids"], "size": len(self.tokenizer)}
        return hash_parts(self.model, ids, framed)

    def read_texts(self, texts: Sequence[str], max_length: int) -> tuple[list[list[int]], int]:
        """The pieces of texts, and how many texts were cut at ``max_length`` pieces."""
        whole = self.tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]
        cut = [row for row, ids in enumerate(whole) if len(ids) > max_length]
        if cut:
            short = self.tokenizer([texts[row] for row in cut], truncation=True, max_length=max_length)
            for row, ids in zip(cut, short["input_ids"], strict=True):
                whole[row] = ids
        return whole, len(cut)

    def frame_target(self, text: str, max_length: int) -> list[int]:
        """The pieces that are to be written for a text, with the one that ends it."""
        ids = self.tokenizer(text_target=text, verbose=False)["input_ids"]
        ids = ids[1:] if ids[:1] == [self.start_id] else ids
        ids = ids[:-1] if ids[-1:] == [self.eos_id] else ids
        return [*ids[: max_length - 1], self.eos_id]

    def score(self, input_ids: Tensor, attention_mask: Tensor, decoder_ids: Tensor) -> Tensor:
        """The logits (B, T, V) of what follows each piece of ``decoder_ids`` (B, T), of texts (B, L)."""
        outputs = self.model(
            input_ids=input_ids, attention_mask=attention_mask, decoder_input_ids=decoder_ids, use_cache=False
        )
        logits: Tensor = outputs.logits
        return logits

    @torch.no_grad()
    def write(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        count: int,
        max_length: int,
        choose: LogitsProcessor | int,
    ) -> list[list[str]]:
        """``count`` texts of at most ``max_length`` pieces for each of those read, (B, L).

        ``choose`` leaves one piece of each row of logits, (B * count, V), or is the width of a beam.
        """
        given: dict[str, Any] = {"attention_mask": attention_mask}
        settings = self._settings(max_length)
        if isinstance(choose, int):
            settings.num_beams, settings.num_return_sequences = choose, count
            given["input_ids"] = input_ids
        else:
            encoder = self.model.get_encoder()
            read = encoder(input_ids=input_ids, attention_mask=attention_mask, return_dict=True)
            states = read.last_hidden_state.repeat_interleave(count, 0)
            given["attention_mask"] = attention_mask.repeat_interleave(count, 0)
            given["encoder_outputs"] = type(read)(last_hidden_state=states)
            given["logits_processor"] = LogitsProcessorList([choose])
        with quiet():
            ids = self.model.generate(generation_config=settings, **given)
        texts = [
            " ".join(text.split()) for text in self.tokenizer.batch_decode(ids, skip_special_tokens=True)
        ]
        return [texts[first : first + count] for first in range(0, len(texts), count)]

    def _settings(self, max_length: int) -> Any:
        """The settings of transformers for writing, of which those of a folder decide only special pieces."""
        own, make = self.model.generation_config, cast("Any", GenerationConfig)
        return make(
            max_new_tokens=max_length,
            do_sample=False,
            num_beams=1,
            decoder_start_token_id=self.start_id,
            eos_token_id=self.eos_id,
            pad_token_id=self.pad_id,
            bos_token_id=own.bos_token_id,
            forced_bos_token_id=getattr(own, "forced_bos_token_id", None),
        )


def load_seq2seq(name: str | Path, dropout: float | None = None) -> Seq2Seq:
    """The model of a folder or a name on the hub, on the processor.

    Raises
    ------
    ModelError
        If there is no such model, or it does not write texts.
    """
    folder = locate(name)
    config = read_config(folder, dropout)
    if not config.is_encoder_decoder:
        kind = f"a model that writes texts (T5, BART, an encoder-decoder), got {config.model_type}"
        raise ModelError(f"{folder}: expected {kind}")
    model = read_weights(AutoModelForSeq2SeqLM, folder, config)
    with naming(folder):
        return _with_ids(model, read_tokenizer(folder))


def fresh_seq2seq(start: str | Path, *, seed: int = 0, dropout: float | None = None) -> Seq2Seq:
    """The model of that name or, of an encoder, one of two halves that begin as the encoder.

    The weights that it lacks are drawn by ``seed``. Raises ModelError if there is no such model, or its
    architecture has no decoder.
    """
    folder = locate(start)
    config = read_config(folder, dropout)
    if config.is_encoder_decoder:
        return load_seq2seq(folder, dropout)
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ModelError(f"{folder}: a model of the kind {config.model_type} cannot be a decoder")
    decoding = read_config(folder, dropout)
    decoding.is_decoder = decoding.add_cross_attention = decoding.tie_word_embeddings = True
    with seeded(seed):
        encoder = read_encoder(folder, dropout)
        decoder = read_weights(AutoModelForCausalLM, folder, decoding, drawn=_DRAWN)
        with reading(f"{folder}: it cannot become an encoder and a decoder"):
            for half in (encoder.config, decoder.config):
                half._name_or_path = ""  # noqa: SLF001 — the model does not depend on where it began
            both = EncoderDecoderConfig.from_encoder_decoder_configs(encoder.config, decoder.config)
            model = EncoderDecoderModel(config=both, encoder=encoder, decoder=decoder)
        with naming(folder):
            return _with_ids(model, read_tokenizer(folder))


def save_seq2seq(written: Seq2Seq, folder: Path) -> None:
    """Write the model and its tokenizer into ``folder``, as transformers opens them."""
    save_weights(written.model, folder)
    with quiet():
        written.tokenizer.save_pretrained(folder)


def _with_ids(model: Any, tokenizer: Any) -> Seq2Seq:
    """The model with the special pieces of its settings, or else of its tokenizer."""
    if isinstance(model, EncoderDecoderModel) and getattr(model.encoder, "pooler", None) is not None:
        model.encoder.pooler = None  # nothing reads it
    own, config = model.generation_config, model.config
    start = own.decoder_start_token_id
    first = [start, getattr(config, "decoder_start_token_id", None), tokenizer.cls_token_id]
    ends = [own.eos_token_id, getattr(config, "eos_token_id", None)]
    ends += [tokenizer.eos_token_id, tokenizer.sep_token_id]
    pads = [tokenizer.pad_token_id, getattr(config, "pad_token_id", None)]
    ids = [next((int(one) for one in each if isinstance(one, int)), None) for each in (first, ends, pads)]
    if None in ids:
        raise ModelError("expected a piece that begins, one that ends and one that fills texts")
    start_id, eos_id, pad_id = (int(one) for one in ids if one is not None)
    for settings in (own, config):
        settings.decoder_start_token_id, settings.eos_token_id = start_id, eos_id
        settings.pad_token_id = pad_id
    return Seq2Seq(model.eval(), tokenizer, start_id, eos_id, pad_id)
