"""Pairs of a collection, drawn by a seed, and the outputs of a transformer for each of their tokens.

======  ==============================================================================================
``B``   pairs of a batch
``L``   tokens of the longest of them
``H``   width of the outputs
======  ==============================================================================================
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from telerank.corpus.collection import Collection
from telerank.corpus.formats import open_collection
from telerank.errors import CollectionError, ModelError, count_noun
from telerank.models.pairs.pair import Pair, PairBatch
from telerank.models.rerankers.kinds import Shape
from telerank.models.rerankers.reranker import (
    Reranker,
    fresh_reranker,
    load_reranker,
    locate_reranker,
    read_shape,
    readable_lengths,
)
from telerank.reranking.texts import batch_pairs, make_pairs
from telerank.training.examples.reading import read_texts
from telerank.training.task import choose_device
from telerank.trec import read_run
from telerank.types import Progress, Ranking, silent

_Names = tuple[str, str]  # qid, docno


@dataclass(frozen=True)
class JudgedPair:
    """A query's text and a passage's, and whether the qrels call the passage relevant.

    An unjudged pair is not relevant; without qrels of the split, ``relevant`` is None.
    """

    qid: str
    docno: str
    query: str
    passage: str
    relevant: bool | None


@dataclass(frozen=True, eq=False)
class CandidateLists:
    """A collection, one of its splits, and the candidates of the split's queries, from a run or a pool."""

    collection: Collection
    split: str
    rankings: Callable[[], Iterator[Ranking]]
    name: str | None = None

    def record(self, seed: int) -> dict[str, object]:
        """What a report says about pairs that were drawn by a seed."""
        return {
            "collection": self.collection.name,
            "split": self.split,
            "candidates": self.name,
            "seed": seed,
        }


def open_candidates(
    data: Collection | str | Path, candidates: str | None = None, split: str | None = None
) -> CandidateLists:
    """The candidates in a run file or in a pool of the collection (``test/100``); by default its only pool.

    Raises
    ------
    CollectionError
        If ``candidates`` is neither a pool nor a file; if it is None and there is not exactly one pool.
    """
    collection = data if isinstance(data, Collection) else open_collection(data)
    pools = collection.pools
    if not candidates and len(pools) != 1:
        known = f"its pools: {', '.join(pools)}" if pools else "it has no pools: a run file"
        raise CollectionError(f"{collection.name}: say with candidates=… which pairs ({known})")
    name = candidates or next(iter(pools))
    if name in pools:
        return CandidateLists(
            collection,
            collection.resolve_split(name.partition("/")[0] if split is None else split),
            pools[name],
            name,
        )
    if not Path(name).is_file():
        known = ", ".join(pools) or "none"
        raise CollectionError(f"{name}: no run file, nor a pool of {collection.name} (it has: {known})")
    return CandidateLists(collection, collection.resolve_split(split), partial(read_run, name), name)


def draw_pairs(
    source: CandidateLists, count: int, *, seed: int = 0, progress: Progress = silent
) -> list[JudgedPair]:
    """Draw ``count`` candidates, each with the same probability; all, if there are fewer.

    Streams the rankings once, and reads the documents once.

    Raises
    ------
    CollectionError
        If there is no candidate, or the collection lacks the query or the document of one.
    """
    drawn = _draw(_names(source.rankings()), count, seed)
    has_qrels = source.split in source.collection.qrels
    return _read(source, drawn, _relevant(source, {qid for qid, _ in drawn}) if has_qrels else None, progress)


def draw_by_class(
    source: CandidateLists, *, relevant: int, others: int, seed: int = 0, progress: Progress = silent
) -> list[JudgedPair]:
    """Draw relevant pairs of the qrels, whether candidates or not, and candidates that are not relevant.

    Of each class all are taken if there are fewer. Relevant pairs are those of queries with candidates.

    Raises
    ------
    CollectionError
        As :func:`draw_pairs`; if no query with candidates has a relevant document.
    """
    known = _relevant(source, {ranking.query.qid for ranking in source.rankings()})
    if not known:
        raise CollectionError(f"{source.collection.name}: no query with candidates has a relevant document")
    candidates = _names(source.rankings()) if others else iter(())
    return _read(
        source,
        [
            *_draw(sorted(known), relevant, seed),
            *_draw((names for names in candidates if names not in known), others, seed),
        ],
        known,
        progress,
    )


def tokenize_drawn(reranker: Reranker, drawn: Sequence[JudgedPair]) -> list[Pair]:
    """The tokens of drawn pairs, as the re-ranker reads them."""
    return make_pairs(reranker, [(pair.query, pair.passage) for pair in drawn])


def describe_cut(cut: int, pairs: int, model: str) -> list[str]:
    """A remark on the pairs that are longer than a model reads; none if there is no such pair."""
    return [f"{cut:,} of {count_noun(pairs, 'pair')} are longer than {model} reads: cut there"] * bool(cut)


def _draw(pairs: Iterable[_Names], size: int, seed: int) -> list[_Names]:
    """``size`` of the pairs, each with the same probability, in one pass (Vitter's algorithm R)."""
    draw, kept = random.Random(seed), list[_Names]()
    for number, names in enumerate(pairs, 1):
        if len(kept) < size:
            kept.append(names)
        elif (row := draw.randrange(number)) < size:
            kept[row] = names
    return kept


def _names(rankings: Iterable[Ranking]) -> Iterator[_Names]:
    return ((ranking.query.qid, docno) for ranking in rankings for docno in ranking.docnos)


def _relevant(source: CandidateLists, qids: set[str]) -> set[_Names]:
    judged = source.collection.judged(source.split)
    return {(qid, docno) for qid in qids for docno, grade in judged.get(qid, {}).items() if grade > 0}


def _read(
    source: CandidateLists, drawn: list[_Names], relevant: set[_Names] | None, progress: Progress
) -> list[JudgedPair]:
    """The drawn pairs with their texts, sorted by name."""
    collection = source.collection
    if not drawn:
        raise CollectionError(f"{collection.name}: no candidates")
    qids, docnos = {qid for qid, _ in drawn}, {docno for _, docno in drawn}
    queries = {query.qid: query.text for query in collection.split_queries(source.split) if query.qid in qids}
    passages = read_texts(collection, docnos, progress)
    for kind, needed, present in (("query", qids, queries), ("document", docnos, passages)):
        if missing := needed - present.keys():
            where = f"{collection.name}, split {source.split!r}," if kind == "query" else collection.name
            raise CollectionError(f"{where} lacks {kind} {min(missing)!r} of the candidates")
    return [
        JudgedPair(
            qid, docno, queries[qid], passages[docno], None if relevant is None else (qid, docno) in relevant
        )
        for qid, docno in sorted(drawn)
    ]


# Default number of tokens in a batch, padding included.
BATCH = 8192


def open_checkpoints(models: Sequence[str], device: str = "cpu") -> Iterator[tuple[str, Reranker]]:
    """Open models one after the other, on a device, each with a short name.

    The name is the last part of the model's path, unless two models share it. An encoder that is no re-ranker
    has the lengths of the first re-ranker among them. Raises ModelError if a model is given twice or does not
    exist, or there is no such device.
    """
    if len(set(models)) < len(models):
        raise ModelError("a model is given twice")
    shapes = (read_shape(locate_reranker(model)) for model in models)
    like = next((shape for shape in shapes if shape is not None), None)
    short = [Path(model).name or model for model in models]
    for name, model in zip(short, models, strict=True):
        yield name if short.count(name) == 1 else model, move(open_checkpoint(model, like=like), device)


def open_checkpoint(name: str | Path, *, like: Shape | None = None) -> Reranker:
    """The re-ranker of that name, or an encoder without a head, as it is before any training.

    An encoder gets an untrained head, which does not change the outputs of tokens, and the lengths of
    ``like``, so that it reads the same tokens as the re-rankers it is compared with.

    Raises
    ------
    ModelError
        If there is no such model.
    """
    folder = locate_reranker(name)
    if read_shape(folder) is not None:
        return load_reranker(folder)
    query, length = (like.max_query, like.max_length) if like else readable_lengths(folder)
    return fresh_reranker(folder, Shape("bert", frozen=True, max_query=query, max_length=length))


def move(reranker: Reranker, device: str) -> Reranker:
    """Move the re-ranker's model to a device, and return the re-ranker.

    Raises
    ------
    ModelError
        If there is no such device.
    """
    reranker.model.to(choose_device(device))
    return reranker


@torch.no_grad()
def compute_token_outputs(reranker: Reranker, batch: PairBatch) -> Tensor:
    """The last hidden states for a batch, in float32 on the processor: (B, L, H).

    Raises ModelError if the re-ranker has none: over word vectors, a token's vector does not depend on the
    others.
    """
    return reranker.transformer.token_outputs(batch.to(reranker.device)).float().cpu()


def iterate_batches(
    pairs: Sequence[Pair], pad_id: int, tokens: int, progress: Progress = silent, label: str = "reading pairs"
) -> Iterator[tuple[list[int], PairBatch]]:
    """:func:`~telerank.reranking.texts.batch_pairs` with progress."""
    done = 0
    for rows, batch in batch_pairs(pairs, pad_id, tokens):
        yield rows, batch
        done += len(rows)
        progress(label, done, len(pairs))
