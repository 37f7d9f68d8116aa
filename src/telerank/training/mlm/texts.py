"""The texts that a masked language model learns from, as windows of pieces on disk, made once and mapped.

=================  ==================================================================================
``manifest.json``  the key of everything that they depend on, counts, and checksums
``pieces.bin``     int32: twice the number of each piece, plus 1 if it begins a word
``windows.bin``    a :data:`WINDOW` each: first those that are learned from, then those of dev
``counts.npy``     (V,) int64: how often each piece occurs in what is learned from
=================  ==================================================================================

The folder appears when it is complete.
"""

from __future__ import annotations

import hashlib
import heapq
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from telerank.corpus.collection import Collection
from telerank.corpus.derived.questions import digest
from telerank.corpus.formats import open_collection
from telerank.drafts import draft_folder
from telerank.errors import CollectionError, IndexDamaged, ModelError
from telerank.models.encoders.bi_encoder import rules_of
from telerank.stored import MANIFEST, Manifest, StoredFiles, check_files, map_npy, record_files
from telerank.training.mlm.config import MaskedTraining, TextSource
from telerank.training.mlm.masks import Ids, PieceWindow
from telerank.types import Progress, silent

WINDOW = np.dtype([("begin", "<i8"), ("pieces", "<i4")])
"""Where a window's pieces begin, and how many it has."""
_PIECES, _WINDOWS, _COUNTS = "pieces.bin", "windows.bin", "counts.npy"
_AT_ONCE = 256  # documents that are tokenised at a time
_LONG = 64  # pieces of a word, of which no tokenizer that knows words has so many


@dataclass(frozen=True)
class TextManifest(Manifest):
    """``key`` is a hash of everything that the windows depend on; ``dev`` is the number of those of dev."""

    key: str
    windows: int
    dev: int
    counts: dict[str, int]
    files: StoredFiles
    kind: str = "masked-windows"
    format: int = 1


@dataclass(frozen=True, eq=False)
class TextWindows:
    """Windows, mapped from the disk: row after row, first those that are learned from."""

    pieces: npt.NDArray[np.int32]
    table: npt.NDArray[Any]
    frequencies: Ids
    before: tuple[int, ...]
    after: tuple[int, ...]
    manifest: TextManifest

    @property
    def learned(self) -> int:
        """Number of windows that are learned from."""
        return self.manifest.windows - self.manifest.dev

    @property
    def lengths(self) -> Ids:
        """The pieces of each window, special ones among them, (windows,)."""
        return self.table["pieces"].astype(np.int64) + len(self.before) + len(self.after)

    def __getitem__(self, row: int) -> PieceWindow:
        begin, count = (int(value) for value in self.table[row])
        marked = np.array(self.pieces[begin : begin + count], np.int64)
        ids = np.concatenate([np.array(self.before, np.int64), marked >> 1, np.array(self.after, np.int64)])
        starts = marked & 1
        starts[0] = 1  # a word that no window holds goes on in the next one
        return PieceWindow(ids, np.flatnonzero(starts) + len(self.before), len(self.before) + count)

    def choose_pieces(self, most: int | None, special: Iterable[int], vocabulary: int) -> Ids:
        """The pieces to choose among, ascending: the ``most`` frequent ones, or all but the ``special``."""
        rest = np.setdiff1d(np.arange(vocabulary), np.array(sorted(special), np.int64))
        if most is None:
            return rest
        counts = self.frequencies[rest]
        frequent = rest[np.argsort(-counts, kind="stable")][: min(most, int((counts > 0).sum()))]
        return np.sort(frequent)


def frame_of(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The special pieces before and after a single text. Raises ModelError if a text has no piece."""
    encoding = tokenizer.backend_tokenizer.encode("a")
    inside = [place for place, number in enumerate(encoding.sequence_ids) if number == 0]
    if not inside:
        raise ModelError("this tokenizer has no pieces for a text")
    return tuple(encoding.ids[: inside[0]]), tuple(encoding.ids[inside[-1] + 1 :])


def open_texts(
    folder: Path, tokenizer: Any, config: MaskedTraining, progress: Progress = silent
) -> TextWindows:
    """The windows of a training's texts in a folder of windows; they are made if they are not there.

    Raises CollectionError if there is nothing to learn from, ModelError if the tokenizer knows no words or
    the windows hold no text, IndexDamaged if a file is missing or differs.
    """
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    before, after = frame_of(tokenizer)
    room = config.model.max_length - len(before) - len(after)
    if room < 1:
        raise ModelError(
            f"windows of {config.model.max_length} pieces hold {len(before) + len(after)} special ones"
        )
    key = _key(tokenizer, config, room)
    target = folder / key[:32]
    if not (target / MANIFEST).exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with draft_folder(target) as draft:
            _Writer(draft, tokenizer, config, room, progress).write(key)
    manifest = TextManifest.read(target)
    if manifest.key != key:
        raise IndexDamaged(f"{target}: it has the windows of other texts")
    check_files(target, manifest.files)
    pieces = np.memmap(target / _PIECES, np.int32, "r")
    table = np.fromfile(target / _WINDOWS, WINDOW)
    frequencies = map_npy(target / _COUNTS, np.int64, mapped=False)
    return TextWindows(pieces, table, frequencies, before, after, manifest)


def _key(tokenizer: Any, config: MaskedTraining, room: int) -> str:
    settings = {
        "rules": rules_of(tokenizer),
        "room": room,
        "whole_words": config.masks.whole_words,
        "seed": config.data_seed,
        "sets": [source.model_dump(mode="json") for source in config.data.sets],
        "dev": config.dev.documents if config.dev else 0,
    }
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=repr).encode()).hexdigest()


@dataclass
class _Chosen:
    """Which documents of each set are read, None being all, and which of them are those of dev."""

    learned: list[set[str] | None]
    dev: list[set[str]]


def _choose_documents(
    sets: Sequence[tuple[TextSource, Collection]], dev: int, seed: int, progress: Progress
) -> _Chosen:
    """Draw the documents by the hashes of their names."""
    learned: list[set[str] | None] = []
    smallest: list[tuple[bytes, int, str]] = []
    for number, (source, collection) in enumerate(sets):
        docs = collection.read_docs("drawing documents", progress)
        drawn: Iterable[tuple[bytes, int, str]] = (
            (digest(seed, f"{number} {doc.docno}"), number, doc.docno) for doc in docs
        )
        if source.documents is not None:
            own = heapq.nsmallest(source.documents, drawn)
            learned.append({docno for _, _, docno in own})
            drawn = own
        else:
            learned.append(None)
        smallest = heapq.nsmallest(dev, (*smallest, *heapq.nsmallest(dev, drawn)))
    held: list[set[str]] = [set() for _ in sets]
    for _, number, docno in smallest:
        held[number].add(docno)
    return _Chosen(learned, held)


@dataclass
class _Writer:
    """Writes the windows of a training's texts into ``draft``, document after document."""

    draft: Path
    tokenizer: Any
    config: MaskedTraining
    room: int
    progress: Progress
    counts: dict[str, int] = field(default_factory=dict)
    written: int = 0

    def write(self, key: str) -> None:
        config, dev = self.config, self.config.dev
        sets = [
            (source, open_collection(source.collection, format=source.format, encoding=source.encoding))
            for source in config.data.sets
        ]
        needed = dev is not None or any(source.documents is not None for source, _ in sets)
        held = dev.documents if dev else 0
        chosen = (
            _choose_documents(sets, held, config.data_seed, self.progress)
            if needed
            else _Chosen([None] * len(sets), [set() for _ in sets])
        )
        kept_back = {
            text for number, (_, own) in enumerate(sets) for text in self._texts(own, chosen.dev[number])
        }
        frequencies = np.zeros(len(self.tokenizer), np.int64)
        with (self.draft / _PIECES).open("wb") as pieces, (self.draft / _WINDOWS).open("wb") as windows:
            learned = self._append(self._learned(sets, chosen, kept_back), pieces, windows, frequencies)
            held_out = self._append(iter(sorted(kept_back)), pieces, windows, None)
        if not learned or (dev and not held_out):
            what = "to learn from" if not learned else "for dev"
            raise CollectionError(f"no document with a text is left {what}")
        self.counts |= {"windows": learned, "pieces": int(frequencies.sum())}
        self.counts |= {"dev documents": len(kept_back), "dev windows": held_out} if dev else {}
        np.save(self.draft / _COUNTS, frequencies)
        files = record_files(self.draft)
        TextManifest(key, learned + held_out, held_out, self.counts, files).write(self.draft)

    def _texts(self, collection: Collection, docnos: set[str]) -> Iterator[str]:
        if docnos:
            docs = collection.read_docs("reading documents", self.progress)
            yield from (doc.full_text for doc in docs if doc.docno in docnos)

    def _learned(
        self, sets: Sequence[tuple[TextSource, Collection]], chosen: _Chosen, kept_back: set[str]
    ) -> Iterator[str]:
        """The texts to learn from: no document of dev, and no copy of one."""
        documents = copies = 0
        for number, (_, collection) in enumerate(sets):
            learned, held = chosen.learned[number], chosen.dev[number]
            for doc in collection.read_docs("making windows", self.progress):
                if doc.docno in held or (learned is not None and doc.docno not in learned):
                    continue
                if doc.full_text in kept_back:
                    copies += 1
                    continue
                documents += 1
                yield doc.full_text
        self.counts |= {"documents": documents, "copies of dev documents": copies}

    def _append(
        self, texts: Iterator[str], pieces: BinaryIO, windows: BinaryIO, frequencies: Ids | None
    ) -> int:
        """Write the windows of texts, and return how many; the pieces of those to learn from are counted."""
        count = 0
        while chunk := list(islice(texts, _AT_ONCE)):
            for marked in self._tokenize(chunk):
                rows = [(self.written + begin, end - begin) for begin, end in cut(marked & 1, self.room)]
                windows.write(np.array(rows, WINDOW).tobytes())
                pieces.write(marked.tobytes())
                self.written += len(marked)
                count += len(rows)
                if frequencies is not None:
                    np.add.at(frequencies, marked >> 1, 1)
        return count

    def _tokenize(self, texts: Sequence[str]) -> Iterator[npt.NDArray[np.int32]]:
        """Twice the number of each piece of each text, plus 1 if it begins a word."""
        encodings = self.tokenizer.backend_tokenizer.encode_batch(list(texts), add_special_tokens=False)
        for text, encoding in zip(texts, encodings, strict=True):
            ids = np.array(encoding.ids, np.int32)
            starts = np.ones(len(ids), np.int32)
            if self.config.masks.whole_words and len(ids):
                words = np.array([-1 if word is None else word for word in encoding.word_ids])
                starts[1:] = words[1:] != words[:-1]
                if starts.sum() == 1 and len(ids) > _LONG and len(text.split()) > 1:
                    lacks = "its tokenizer does not say where words begin"
                    raise ModelError(f"{self.config.model.start}: {lacks}: set masks.whole_words to false")
            yield 2 * ids + starts


def cut(starts: npt.NDArray[Any], room: int) -> list[tuple[int, int]]:
    """Windows of at most ``room`` pieces, one after the other, that begin where a word does.

    A word that is longer than a window is cut all the same.
    """
    begins, windows, begin = np.flatnonzero(starts), [], 0
    while begin < len(starts):
        end = min(begin + room, len(starts))
        if end < len(starts):
            last = int(begins[np.searchsorted(begins, end, side="right") - 1])
            end = last if last > begin else end
        windows.append((begin, end))
        begin = end
    return windows
