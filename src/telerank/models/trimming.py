"""Encoders with fewer pieces: those that texts have, of the hundred languages that a model may know.

A piece that is left out has no row in the table of word embeddings, nor in a head for masks, any more; the
rest is copied. Texts whose pieces are all kept have the tokens and the vectors that they had.

=====  ==============================================
``V``  pieces of the vocabulary
``K``  pieces that are kept
=====  ==============================================
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer
from torch import nn
from transformers import AutoModelForMaskedLM

from telerank.drafts import draft_folder
from telerank.errors import ModelError
from telerank.models.encoders.bi_encoder import BiEncoder, Tokenizers
from telerank.models.encoders.folders import load_bi_encoder, save_bi_encoder
from telerank.models.loading import (
    architecture_of,
    locate,
    naming,
    quiet,
    read_config,
    read_tokenizer,
    read_weights,
    save_weights,
)

Ids = npt.NDArray[np.int64]
_AT_ONCE = 256  # texts
_HEADS = ("ForMaskedLM", "ForPreTraining")


@dataclass(frozen=True)
class TrimmedModel:
    """The folder of a model with ``kept`` of ``before`` pieces, and their share of the texts' tokens."""

    model: Path
    kept: int
    before: int
    covered: float

    def __str__(self) -> str:
        share = f"{100 * self.covered:.2f} % of the texts' tokens"
        return f"{self.model}: {self.kept:,} of {self.before:,} pieces, which are {share}"


def trim_model(
    name: str, output: Path, texts: Iterable[str], *, pieces: int | None = None, overwrite: bool = False
) -> TrimmedModel:
    """Write a model with the pieces of ``texts`` alone; see :func:`telerank.verbs.train.trim`."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())) and not overwrite:
        raise ModelError(f"{output} is not empty: overwrite it (overwrite=True), or name another folder")
    folder = locate(name)
    config = read_config(folder, None)
    is_masked = architecture_of(config).endswith(_HEADS)
    with naming(folder):
        tokenizer = read_tokenizer(folder)
        model, _ = (None, None) if is_masked else load_bi_encoder(name)
        if model is not None and not model.shared:
            raise ModelError("its sides have two vocabularies: expected an encoder of both")
        prompts = () if model is None else (model.settings.query.prompt, model.settings.document.prompt)
        counts = count_pieces(tokenizer, texts)
        kept = choose_pieces(tokenizer, counts, pieces, prompts)
        if kept[-1] >= config.vocab_size:
            raise ModelError(f"piece {kept[-1]}, of a table of {config.vocab_size}")
        trimmed = trim_tokenizer(tokenizer, kept)
        output.parent.mkdir(parents=True, exist_ok=True)
        with draft_folder(output) as draft:
            if model is None:
                save_weights(_trim_weights(read_weights(AutoModelForMaskedLM, folder, config), kept), draft)
                with quiet():
                    trimmed.save_pretrained(draft)
            else:
                encoder = _trim_weights(model.query_encoder, kept)
                tokenizers = Tokenizers.of(trimmed, model.settings)
                save_bi_encoder(BiEncoder(encoder, settings=model.settings), tokenizers, draft)
    covered = float(counts[kept].sum() / counts.sum())
    return TrimmedModel(output, len(kept), len(tokenizer), covered)


def count_pieces(tokenizer: Any, texts: Iterable[str]) -> Ids:
    """How often texts have each piece, (V,). Raises ModelError if there is no text."""
    numbers = tokenizer.get_vocab()
    counts = np.zeros(max(numbers.values()) + 1, np.int64)
    left, plain = iter(texts), deepcopy(tokenizer).backend_tokenizer
    plain.no_truncation()
    while part := list(islice(left, _AT_ONCE)):
        for encoding in plain.encode_batch_fast(part, add_special_tokens=False):
            np.add.at(counts, encoding.ids, 1)
    if not counts.any():
        raise ModelError("no text to choose pieces by")
    return counts


def choose_pieces(tokenizer: Any, counts: Ids, most: int | None, prompts: Iterable[str] = ()) -> Ids:
    """The ids of the pieces to keep, ascending, (K,): the ``most`` frequent ones, and what words need.

    Special pieces are kept, those of the prompts, and every piece of one character that occurs, in another
    piece or alone: a word whose piece is left out is written with shorter ones.
    """
    occurring = np.flatnonzero(counts)
    frequent = occurring[np.argsort(-counts[occurring], kind="stable")][:most]
    numbers = tokenizer.get_vocab()
    written = (piece for piece, number in numbers.items() if counts[number])
    characters = {character for piece in written for character in piece.removeprefix("##")}
    single = [numbers[each] for one in characters for each in (one, f"##{one}") if each in numbers]
    special = {*tokenizer.added_tokens_decoder, *tokenizer.all_special_ids}
    for prompt in prompts:
        special.update(tokenizer(prompt)["input_ids"])  # with the special pieces around a text
    return np.union1d(frequent, np.array(sorted({*single, *special}), np.int64))


def trim_tokenizer(tokenizer: Any, kept: Ids) -> Any:
    """The tokenizer with the pieces of these ids, numbered anew. Raises ModelError if it has merges."""
    record = json.loads(tokenizer.backend_tokenizer.to_str())
    numbers = {int(old): new for new, old in enumerate(kept)}
    own = record["model"]
    match own["vocab"], own["type"]:
        case list(pieces), "Unigram":
            own["vocab"] = [piece for number, piece in enumerate(pieces) if number in numbers]
            own["unk_id"] = numbers.get(own["unk_id"])
        case dict(pieces), "WordPiece" | "WordLevel":
            own["vocab"] = {
                piece: numbers[number]
                for piece, number in sorted(pieces.items(), key=lambda item: item[1])
                if number in numbers
            }
        case _, kind:
            raise ModelError(f"its pieces are {kind}'s: expected those of Unigram, WordPiece or WordLevel")
    for token in record["added_tokens"]:
        token["id"] = numbers[token["id"]]
    _number_anew(record["post_processor"], numbers)
    record["padding"] = record["truncation"] = None
    trimmed = deepcopy(tokenizer)
    trimmed._tokenizer = Tokenizer.from_str(json.dumps(record))  # noqa: SLF001 — it has no setter
    return trimmed


def _number_anew(processor: Any, numbers: Mapping[int, int]) -> None:
    """Give the special pieces of a frame their new numbers."""
    for each in _processors(processor):
        for token in each.get("special_tokens", {}).values():
            token["ids"] = [numbers[number] for number in token["ids"]]
        for name in ("cls", "sep"):
            if isinstance(each.get(name), list):
                each[name][1] = numbers[each[name][1]]


def _processors(processor: Any) -> Iterator[dict[str, Any]]:
    if isinstance(processor, dict):
        yield processor
        for each in processor.get("processors", []):
            yield from _processors(each)


def _trim_weights(model: Any, kept: Ids) -> Any:
    """A copy of a model whose tables, and head for masks, have the rows of ``kept``."""
    trimmed, rows = deepcopy(model), torch.from_numpy(kept)
    table = trimmed.get_input_embeddings()
    size = table.num_embeddings
    numbers = {int(old): new for new, old in enumerate(kept)}
    own = nn.Embedding(len(kept), table.embedding_dim, padding_idx=numbers.get(table.padding_idx))
    own.weight = nn.Parameter(table.weight.detach()[rows].clone())
    was_tied = (head := trimmed.get_output_embeddings()) is not None and head.weight is table.weight
    trimmed.set_input_embeddings(own)
    new = {table.weight: own.weight} if was_tied else {}
    for module in trimmed.modules():
        for name, weight in list(module.named_parameters(recurse=False)):
            if module is not own and len(weight) == size and (module is head or weight.ndim == 1):
                if weight not in new:
                    new[weight] = nn.Parameter(weight.detach()[rows].clone())
                setattr(module, name, new[weight])
    if head is not None:
        head.out_features = len(kept)
    trimmed.config.vocab_size = len(kept)
    for name in ("pad", "bos", "eos", "sep", "cls", "decoder_start"):
        if (number := getattr(trimmed.config, f"{name}_token_id", None)) is not None:
            setattr(trimmed.config, f"{name}_token_id", numbers.get(number))
    return trimmed
