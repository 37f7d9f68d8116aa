"""The tokens of a query and a passage, as one input.

Two texts are joined by the tokenizer's own template for pairs (``[CLS] q [SEP] d [SEP]`` for BERT,
``<s> q </s></s> d </s>`` for CamemBERT), which is read off the tokenizer. A query is cut at its own length,
then the passage at that of the pair (monoBERT, section 2); a :class:`Pair` counts the lost tokens.

A head reads, of the encoder's outputs, the first token's, the query's, and the means of the sentences'
(:class:`PairFeatures`). Recurrent layers read rows of uneven lengths without padding, packed as torch packs
them: sorted by length, the longest first; all first items, then all second items. So each step is a matrix
product over the rows of at least that length. A row without items is read as a single item of zeros, so that
a text without words has a state, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from telerank.errors import ModelError
from telerank.models.encoders.bi_encoder import rules_of

NEITHER, QUERY, PASSAGE = 0, 1, 2
"""Values of :attr:`PairBatch.parts`: a token is special or padding, of the query, of the passage."""

Spans: TypeAlias = Sequence[tuple[int, int]]
"""The first character of each sentence of a text, and the character after its last, ascending."""

_Ids: TypeAlias = npt.NDArray[np.int32]
_CHUNK = 1024  # texts whose encodings, with their offsets, are in memory at a time


@dataclass(frozen=True, eq=False)
class Passage:
    """The tokens of a passage, and the number of the sentence of each, from 0 without gaps."""

    ids: _Ids
    sentences: _Ids


@dataclass(frozen=True, eq=False)
class Pair:
    """The tokens of one pair, special ones among them: four arrays of one length.

    ``cut_query`` and ``cut_passage`` count the tokens that were cut off.
    """

    ids: _Ids
    types: _Ids
    parts: _Ids
    sentences: _Ids
    cut_query: int = 0
    cut_passage: int = 0

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def cut(self) -> int:
        """Number of tokens that were cut off."""
        return self.cut_query + self.cut_passage


@dataclass(frozen=True, eq=False)
class PairBatch:
    """``B`` pairs, all (B, L) int64, padded on the right.

    ``parts`` is 1 for the query's tokens, 2 for the passage's, and 0 for special ones and padding.
    ``sentences`` has the number of each passage token's sentence, and -1 for every other token. Both are
    (B, 0) for models that read neither. The first token is the one for classification (``[CLS]``, ``<s>``),
    if the tokenizer has one.
    """

    input_ids: Tensor
    attention_mask: Tensor
    token_type_ids: Tensor
    parts: Tensor
    sentences: Tensor

    def __len__(self) -> int:
        return int(self.input_ids.shape[0])

    @classmethod
    def of_block(cls, block: Tensor) -> PairBatch:
        """Tokens, mask and types, and perhaps parts and sentences, (3 or 5, B, L)."""
        given = block.unbind(0)
        nothing = block.new_empty(block.shape[1], 0)
        return cls(*given, *(nothing for _ in range(5 - len(given))))

    def to(self, device: torch.device | str) -> PairBatch:
        return PairBatch(*(tensor.to(device, non_blocking=True) for tensor in vars(self).values()))


@dataclass(frozen=True, eq=False)
class Frame:
    """Tokens that a tokenizer adds before, between and after two texts, and the types of all five parts."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    types: tuple[int, int, int, int, int]

    @property
    def size(self) -> int:
        return len(self.before) + len(self.between) + len(self.after)

    @classmethod
    def of(cls, tokenizer: Any) -> Frame:
        """The frame of a fast tokenizer of transformers.

        Raises ModelError if it does not begin a pair with a token for classification.
        """
        _reset(tokenizer)
        encoding = tokenizer.backend_tokenizer.encode("a", "a")
        ids, types, texts = encoding.ids, encoding.type_ids, encoding.sequence_ids
        if not {0, 1} <= set(texts):
            raise ModelError("this tokenizer has no tokens for a text")
        a, b = texts.index(0), texts.index(1)
        a_end = len(texts) - texts[::-1].index(0)
        b_end = len(texts) - texts[::-1].index(1)
        if not a or ids[0] != tokenizer.cls_token_id:
            raise ModelError("this tokenizer does not begin a pair with a token for classification")
        parts = (0, a, a_end if b > a_end else a, b, b_end if len(ids) > b_end else b)
        of_parts = tuple(types[part] for part in parts)
        return cls(tuple(ids[:a]), tuple(ids[a_end:b]), tuple(ids[b_end:]), of_parts)


class PairTexts(ABC):
    """Makes pairs of texts: :class:`PairTokenizer`, or :class:`telerank.models.pairs.words.Words`.

    A ``max_query`` of None leaves the passage a token.
    """

    frame: Frame
    max_query: int | None
    max_length: int
    pad_id: int

    @property
    def longest_query(self) -> int:
        """Most tokens of a query in a pair."""
        return self.max_length - self.frame.size - 1 if self.max_query is None else self.max_query

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> Iterator[Any]:
        """The encoding of each text: its tokens, ``ids``, and the characters of each, ``offsets``."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Everything that decides its pairs, for JSON."""

    @abstractmethod
    def with_lengths(self, max_query: int | None, max_length: int) -> PairTexts:
        """The same for pairs that are cut at other lengths."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the files of the tokenizer, or the vocabulary."""

    def queries(self, texts: Sequence[str]) -> list[_Ids]:
        """The tokens of queries, not yet cut."""
        return [np.array(encoding.ids, np.int32) for encoding in self.encode(texts)]

    def passages(self, texts: Sequence[str], spans: Sequence[Spans] | None = None) -> list[Passage]:
        """The tokens of passages, not yet cut; without ``spans`` each is one sentence."""
        if spans is None:
            tokens = self.queries(texts)
            zeros = np.zeros(max(map(len, tokens), default=0), np.int32)
            return [Passage(ids, zeros[: len(ids)]) for ids in tokens]
        return [
            Passage(np.array(encoding.ids, np.int32), number_sentences(encoding.offsets, sentences))
            for encoding, sentences in zip(self.encode(texts), spans, strict=True)
        ]

    def pair(self, query: _Ids, passage: Passage) -> Pair:
        """Both in the frame: the query is cut at its longest, then the pair at ``max_length``."""
        frame, start = self.frame, query[: self.longest_query]
        room = self.max_length - frame.size - len(start)
        parts = (frame.before, start, frame.between, passage.ids[:room], frame.after)
        sizes = [len(part) for part in parts]
        sentences = np.full(sum(sizes), -1, np.int32)
        sentences[sum(sizes[:3]) : sum(sizes[:4])] = passage.sentences[:room]
        return Pair(
            np.concatenate([np.asarray(part, np.int32) for part in parts]),
            np.repeat(np.array(frame.types, np.int32), sizes),
            np.repeat(np.array((NEITHER, QUERY, NEITHER, PASSAGE, NEITHER), np.int32), sizes),
            sentences,
            len(query) - sizes[1],
            len(passage.ids) - sizes[3],
        )


class PairTokenizer(PairTexts):
    """``tokenizer`` is a fast one of transformers; lengths count tokens.

    Raises ModelError if the lengths leave no room for a passage, or the tokenizer has no template for pairs.
    """

    def __init__(self, tokenizer: Any, *, max_query: int | None = 64, max_length: int = 512) -> None:
        self.tokenizer, self.max_query, self.max_length = tokenizer, max_query, max_length
        self.frame = Frame.of(tokenizer)
        if not 1 <= self.longest_query < max_length - self.frame.size:
            raise ModelError(
                f"a query of {max_query or 1} tokens and {self.frame.size} special ones leave no room "
                f"for a passage in {max_length}"
            )
        self.pad_id = int(tokenizer.pad_token_id or 0)

    def record(self) -> dict[str, Any]:
        """Rules, vocabulary, frame and lengths."""
        lengths = {"max_query": self.max_query, "max_length": self.max_length}
        return {"rules": rules_of(self.tokenizer), **lengths, "frame": asdict(self.frame)}

    def with_lengths(self, max_query: int | None, max_length: int) -> PairTokenizer:
        return type(self)(self.tokenizer, max_query=max_query, max_length=max_length)

    def save(self, folder: Path) -> None:
        tokenizer = deepcopy(self.tokenizer)
        tokenizer.model_max_length = self.max_length
        tokenizer.save_pretrained(folder)

    def encode(self, texts: Sequence[str]) -> Iterator[Any]:
        for chunk in self._chunks(texts):
            yield from self.tokenizer.backend_tokenizer.encode_batch(chunk, add_special_tokens=False)

    def queries(self, texts: Sequence[str]) -> list[_Ids]:
        tokens: list[_Ids] = []
        for chunk in self._chunks(texts):
            backend = self.tokenizer.backend_tokenizer  # fast: without the characters of each token
            encodings = backend.encode_batch_fast(chunk, add_special_tokens=False)
            bounds = np.cumsum([0, *map(len, encodings)]).tolist()
            flat = chain.from_iterable(encoding.ids for encoding in encodings)
            joined = np.fromiter(flat, np.int32, bounds[-1])
            tokens += [joined[start:end] for start, end in pairwise(bounds)]
        return tokens

    def _chunks(self, texts: Sequence[str]) -> Iterator[list[str]]:
        _reset(self.tokenizer)
        for first in range(0, len(texts), _CHUNK):
            yield list(texts[first : first + _CHUNK])


def batch_of(pairs: Sequence[Pair], pad_id: int, width: int | None = None) -> PairBatch:
    """Pairs, padded to ``width`` tokens, or else to the longest of them."""
    shape = (len(pairs), max(map(len, pairs), default=0) if width is None else width)
    ids, sentences = np.full(shape, pad_id, np.int64), np.full(shape, -1, np.int64)
    mask, types, parts = (np.zeros(shape, np.int64) for _ in range(3))
    for row, pair in enumerate(pairs):
        end = len(pair)
        ids[row, :end], types[row, :end], parts[row, :end] = pair.ids, pair.types, pair.parts
        sentences[row, :end], mask[row, :end] = pair.sentences, 1
    return PairBatch(*map(torch.from_numpy, (ids, mask, types, parts, sentences)))


def number_sentences(offsets: Sequence[tuple[int, int]], spans: Spans) -> _Ids:
    """The number of the sentence of each token; sentences without a token are not numbered.

    A token belongs to the sentence of its last character: many tokenizers begin it with the blank before it.
    """
    starts = np.array([start for start, _ in spans], np.int64)
    sentences = number_spans(np.array(offsets, np.int64).reshape(-1, 2), starts)
    return np.unique(sentences, return_inverse=True)[1].astype(np.int32).reshape(-1)


def number_spans(offsets: npt.NDArray[Any], starts: npt.NDArray[np.int64]) -> _Ids:
    """Which of the spans that begin at ``starts`` each token is in, by its last character, (T,)."""
    lasts = np.maximum(offsets[:, 0], offsets[:, 1] - 1)
    numbers: _Ids = np.maximum(np.searchsorted(starts, lasts, side="right") - 1, 0).astype(np.int32)
    return numbers


def _reset(tokenizer: Any) -> None:
    """Drop the cutting and padding that earlier calls left in the tokenizer.

    It is changed only then: a tokenizer cannot be changed while another thread reads a text with it.
    """
    backend = tokenizer.backend_tokenizer
    if backend.truncation is not None:
        backend.no_truncation()
    if backend.padding is not None:
        backend.no_padding()


@dataclass(frozen=True, eq=False)
class PairFeatures:
    """``cls`` (B, H), ``query`` (B, N, H), ``sentences`` (B, S, H); masks (B, N) and (B, S).

    Outputs are zeros if the mask is false. Both masks have at least one column, even if no text has a token.
    """

    cls: Tensor
    query: Tensor
    query_mask: Tensor
    sentences: Tensor
    sentence_mask: Tensor

    @classmethod
    def of_first(cls, outputs: Tensor) -> PairFeatures:
        """The first token's output alone, (B, H); there are neither query nor sentences."""
        nothing, mask = torch.zeros_like(outputs)[:, None], outputs.new_zeros(len(outputs), 1).bool()
        return cls(outputs, nothing, mask, nothing, mask)

    def __len__(self) -> int:
        return int(self.cls.shape[0])

    def to(self, device: torch.device | str) -> PairFeatures:
        return PairFeatures(*(tensor.to(device, non_blocking=True) for tensor in vars(self).values()))


def pair_features(tokens: Tensor, batch: PairBatch) -> PairFeatures:
    """The features of an encoder's outputs, (B, L, H): BERT-DMN's section 3.2.1."""
    query, query_mask = gather_tokens(tokens, batch.parts == QUERY)
    of_passage = batch.sentences.masked_fill(batch.parts != PASSAGE, -1)
    return PairFeatures(tokens[:, 0], query, query_mask, *group_means(tokens, of_passage))


def gather_tokens(tokens: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """The tokens that a mask (B, L) chooses, moved to the left, (B, N, H), and their mask, (B, N)."""
    if not chosen.shape[1]:  # pairs without a token, of word vectors
        tokens, chosen = (tensor.new_zeros(len(tensor), 1, *tensor.shape[2:]) for tensor in (tokens, chosen))
    counts = chosen.sum(1)  # (B,)
    most = max(1, int(counts.max())) if len(chosen) else 1
    order = (~chosen).to(torch.int8).argsort(dim=1, stable=True)[:, :most]  # (B, N)
    mask = torch.arange(most, device=chosen.device) < counts.unsqueeze(1)  # (B, N)
    moved = tokens.gather(1, order.unsqueeze(-1).expand(-1, -1, tokens.shape[-1]))
    return moved * mask.unsqueeze(-1).to(tokens.dtype), mask


def group_means(tokens: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
    """The means of tokens, (B, L, H), with the same number, (B, L), (B, S, H), and their mask, (B, S).

    Tokens with the number -1 are in no mean.
    """
    columns = torch.arange(max(1, int(numbers.max()) + 1) if numbers.numel() else 1, device=numbers.device)
    members = (numbers.unsqueeze(1) == columns.view(1, -1, 1)).to(tokens.dtype)  # (B, S, L)
    counts = members.sum(2, keepdim=True)  # (B, S, 1)
    return members @ tokens / counts.clamp(min=1), counts.squeeze(2) > 0


def pack(items: Tensor, mask: Tensor) -> PackedSequence:
    """Pack items, (B, L, H), by their mask, (B, L), which is true from the left without gaps."""
    lengths = mask.sum(1).clamp(min=1).cpu()  # torch requires the processor
    return pack_padded_sequence(items, lengths, batch_first=True, enforce_sorted=False)


def drop_items(packed: PackedSequence, dropout: nn.Dropout) -> PackedSequence:
    """Apply dropout to the items, without drawing random numbers for padding."""
    return PackedSequence(dropout(packed.data), *packed[1:])


def item_positions(packed: PackedSequence) -> tuple[Tensor, Tensor]:
    """The row of each item, in sorted order, and its position in the row: both (R,)."""
    sizes = packed.batch_sizes
    numbers = torch.repeat_interleave(torch.arange(len(sizes)), sizes)  # (R,)
    rows = torch.arange(len(numbers)) - (sizes.cumsum(0) - sizes)[numbers]
    device = packed.data.device
    return rows.to(device, non_blocking=True), numbers.to(device, non_blocking=True)


def with_first_item(mask: Tensor) -> Tensor:
    """The mask, (B, L), of the items that :func:`pack` reads: the first item of rows without items, too."""
    first = torch.zeros_like(mask)
    first[:, 0] = ~mask.any(1)
    return mask | first
