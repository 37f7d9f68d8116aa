"""Long documents whose relevant passage stands late, made of passages, as MS MARCO FarRelevant is.

Models of long documents that hardly differ on other collections differ on such a set, because elsewhere
relevant text stands early (Boytsov et al. 2022, arXiv 2207.01262: MS MARCO FarRelevant, "where the relevant
passages were not present among the first 512 tokens"). Here each passage that is relevant to a query becomes
a document:

1. A place is drawn, uniform between ``beyond`` and the last at which the passage fits into ``length`` tokens.
2. Other passages are put before it until about that many tokens are there (never fewer than ``beyond``), and
   after it while they fit.
3. The answer of its queries is the whole passage: its span is known, and with it the position.

The filler is drawn from passages that no query judges relevant. It has another title than the relevant
passage, and for its queries it is in none of their pools and has none of their answers. The document has no
title: that of the passage would stand at the beginning. Which filler and which place a document has is a
function of the seed and of the passage's docno.

What the paper does not say in the copies that were read, and is decided here: the length, the draw of the
place, that queries which share a passage share a document, and that filler may come in several documents.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from itertools import chain, islice

from telerank.corpus.collection import Collection
from telerank.corpus.derived.articles import BETWEEN, title_words
from telerank.corpus.derived.questions import Question, deal_questions, digest, name_folds, normalise, shuffle
from telerank.corpus.docstore import Docstore, DocstoreWriter
from telerank.corpus.lengths import TokenSpans, word_spans
from telerank.corpus.writing import LongDocument, LongDocuments
from telerank.errors import ArgumentError, CollectionError
from telerank.types import Answer, Doc, Progress, Query, silent

PREFIX = "far-"
_TRIES = 200  # drawn passages that may be refused in a row
_CACHED = 50_000  # lengths of passages


@dataclass(frozen=True, slots=True)
class FarSettings:
    """How documents are made; ValueError if a number makes no sense.

    ``beyond`` is the least number of tokens before the relevant passage, ``length`` the greatest of a
    document, unless ``beyond`` and the passage together are longer. ``queries`` limits each split to as many
    queries, drawn by the seed. ``filler`` is the share of articles (passages of one title) that are given up
    to be filler, with their questions: where every passage is relevant to some query. ``folds`` deals the
    queries of all splits into folds by document; 0 keeps the splits. ``halved`` is a split that is dealt into
    two by document, ``SPLIT-1`` and ``SPLIT-2``: for dev and test where a model has learned from the others.
    """

    beyond: int = 512
    length: int = 1400
    queries: int | None = None
    filler: float = 0.0
    folds: int = 0
    seed: int = 0
    halved: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.beyond < self.length:
            raise ArgumentError(f"beyond from 0 to below the length, got {self.beyond} and {self.length}")
        if not 0 <= self.filler < 1 or self.folds < 0 or self.folds == 1:
            raise ArgumentError(
                f"filler is a share below 1, folds 0 or 2 and more: got {self.filler}, {self.folds}"
            )
        if self.queries is not None and self.queries < 1:
            raise ArgumentError(f"queries must be positive, got {self.queries}")
        if self.halved is not None and self.folds:
            raise ArgumentError(f"folds deal all splits: {self.halved!r} cannot be halved besides")


def make_far_relevant(
    collection: Collection,
    settings: FarSettings,
    *,
    spans: TokenSpans = word_spans,
    unit: str = "words",
    resources: ExitStack,
    progress: Progress = silent,
) -> LongDocuments:
    """Make long documents of a collection of passages; ``unit`` is the name of the tokens that are counted.

    The passages are stored in a temporary folder, which ``resources`` releases: only the docnos, the queries
    and their judgments are in memory.

    Raises
    ------
    CollectionError
        If no query has a relevant passage, too few passages are left as filler, or the split to be halved
        is missing, is too small, or another one has the name of a half.
    """
    folder = resources.enter_context(tempfile.TemporaryDirectory(prefix="telerank-passages-"))
    with DocstoreWriter(folder) as writer:
        for doc in collection.read_docs("storing passages", progress):
            writer.add(doc)
    passages = Docstore(folder)
    relevant = collection.relevant(collection.qrels)
    judged = {*chain.from_iterable(relevant.values())}
    given_up = _give_up(passages, settings)
    splits, kept, left_out = _choose_queries(collection, settings, relevant, passages, given_up)
    targets: dict[str, list[str]] = {}  # the passages that become documents, with their queries
    for query in dict.fromkeys(chain.from_iterable(splits.values())):
        for docno in kept[query.qid]:
            targets.setdefault(docno, []).append(query.qid)
    if not targets:
        raise CollectionError(f"{collection.name}: no query has a relevant passage that is no filler")
    rows = [row for row, docno in enumerate(passages.docnos) if docno not in judged]
    rows += [row for row, docno in enumerate(passages.docnos) if docno in judged & given_up]
    if not rows:
        raise CollectionError(
            f"{collection.name}: every passage is relevant to a query, so that none can be filler; "
            "give up a share of the articles (filler=…)"
        )
    maker = _Maker(passages, rows, settings, spans, _find_refusals(collection, kept))
    record = {
        "recipe": {"kind": "far-relevant", **asdict(settings), "unit": unit},
        "sources": [collection.provenance],
        "filler": {"passages": len(rows), "of_which_given_up": len(given_up & judged)},
        "left_out": left_out,
    }
    order = [docno for docno in passages.docnos if docno in targets]
    return LongDocuments(
        partial(map, maker.make, order, [targets[docno] for docno in order]),
        _deal(splits, kept, settings),
        len(order),
        record,
    )


def _give_up(passages: Docstore, settings: FarSettings) -> set[str]:
    """The passages of the articles that become filler, drawn by the seed until their share is reached."""
    if not settings.filler:
        return set()
    articles: dict[str, list[str]] = {}
    for doc in passages:
        articles.setdefault(title_words(doc.title) or f"\n{doc.docno}", []).append(doc.docno)
    order = shuffle(articles, str, seed=settings.seed)
    return {docno for title in order[: round(settings.filler * len(order))] for docno in articles[title]}


def _choose_queries(
    collection: Collection,
    settings: FarSettings,
    relevant: Mapping[str, Sequence[str]],
    passages: Docstore,
    given_up: AbstractSet[str],
) -> tuple[dict[str, list[Query]], dict[str, tuple[str, ...]], dict[str, int]]:
    """The queries that are asked, by split; the relevant passages of each that are no filler; counts."""
    left_out = {"queries_whose_passage_is_missing": 0, "queries_of_filler": 0, "queries_not_drawn": 0}
    splits: dict[str, list[Query]] = {}
    kept: dict[str, tuple[str, ...]] = {}
    for split in collection.qrels:
        queries = []
        for query in collection.split_queries(split):
            here = [docno for docno in relevant.get(query.qid, ()) if docno in passages]
            if own := tuple(docno for docno in here if docno not in given_up):
                kept[query.qid] = own
                queries.append(query)
            elif query.qid in relevant:
                left_out["queries_of_filler" if here else "queries_whose_passage_is_missing"] += 1
        drawn = {*shuffle(queries, lambda query: query.qid, seed=settings.seed)[: settings.queries]}
        splits[split] = [query for query in queries if query in drawn]
        left_out["queries_not_drawn"] += len(queries) - len(splits[split])
    return splits, kept, left_out


def _deal(
    splits: Mapping[str, Sequence[Query]], kept: Mapping[str, tuple[str, ...]], settings: FarSettings
) -> Mapping[str, Sequence[Query]]:
    """The queries by split: in folds, or as they are, but for the one that is halved.

    Parts are of one size, and no document is relevant in two of them.
    """
    whole: dict[str, Sequence[Query]] = {}
    if settings.folds:
        names = name_folds(settings.folds)
        queries = {query.qid: query for query in chain.from_iterable(splits.values())}
    elif (halved := settings.halved) is None:
        return splits
    else:
        if halved not in splits:
            raise CollectionError(f"no split {halved!r} to halve: {', '.join(splits)}")
        names = [f"{halved}-{number}" for number in (1, 2)]
        if taken := [name for name in names if name in splits]:
            raise CollectionError(f"{halved!r} cannot be halved: there is a split {taken[0]!r}")
        whole = {name: own for name, own in splits.items() if name != halved}
        queries = {query.qid: query for query in splits[halved]}
    questions = tuple(Question(query, kept[qid]) for qid, query in queries.items())
    parts = deal_questions(questions, names, seed=settings.seed)
    return {**whole, **{name: [question.query for question in own] for name, own in parts.items()}}


def _find_refusals(collection: Collection, qids: Iterable[str]) -> Callable[[Sequence[str], Doc], bool]:
    """Whether a passage may not be filler for queries: it is in their pools, or has their answers."""
    pooled: dict[str, set[str]] = {qid: set() for qid in qids}
    answers: dict[str, set[str]] = {qid: set() for qid in pooled}
    for ranking in chain.from_iterable(pool() for pool in collection.pools.values()):
        if ranking.query.qid in pooled:
            pooled[ranking.query.qid].update(ranking.docnos)
    for answer in chain.from_iterable(own() for own in collection.answers.values()):
        if answer.qid in answers:
            answers[answer.qid].add(normalise(answer.text))

    def refuses(qids: Sequence[str], passage: Doc) -> bool:
        texts = {text for qid in qids for text in answers[qid]}
        words = f" {normalise(passage.full_text)} " if texts else ""
        return any(passage.docno in pooled[qid] for qid in qids) or any(
            f" {text} " in words for text in texts
        )

    return refuses


class _Maker:
    """Makes the document of a relevant passage."""

    def __init__(
        self,
        passages: Docstore,
        rows: Sequence[int],
        settings: FarSettings,
        spans: TokenSpans,
        refuses: Callable[[Sequence[str], Doc], bool],
    ) -> None:
        self._passages, self._rows, self._settings, self._refuses = passages, rows, settings, refuses
        self._count = lru_cache(_CACHED)(lambda row: len(spans(passages.get_row(row).text)))
        self._spans = spans

    def make(self, docno: str, qids: Sequence[str]) -> LongDocument:
        passage = self._passages[docno]
        generator = random.Random(int.from_bytes(digest(self._settings.seed, docno)[:8]))
        size = len(self._spans(passage.text))
        latest = max(self._settings.beyond, self._settings.length - size)
        target = self._settings.beyond + generator.random() * (latest - self._settings.beyond)
        filler = self._draw(generator, passage, qids)
        before, count = self._fill(filler, target, latest)
        after, total = [], count + size
        for row in islice(filler, _TRIES):
            if total + self._count(row) > self._settings.length:
                break
            after.append(self._passages.get_row(row).text)
            total += self._count(row)
        start = len(BETWEEN.join((*before, ""))) if before else 0
        doc = Doc(f"{PREFIX}{docno}", BETWEEN.join((*before, passage.text, *after)))
        return LongDocument(
            doc, tuple(qids), tuple(Answer(qid, doc.docno, passage.text, start) for qid in qids)
        )

    def _fill(self, filler: Iterator[int], target: float, latest: int) -> tuple[list[str], int]:
        """Texts of about ``target`` tokens, no fewer than ``beyond``; from there on not over ``latest``."""
        texts: list[str] = []
        count, beyond = 0, self._settings.beyond
        while count < target:
            row = next(filler, None)
            if row is None:
                raise CollectionError(f"too little filler for {target:,.0f} tokens before a relevant passage")
            if count >= beyond and count + self._count(row) > latest:
                break
            texts.append(self._passages.get_row(row).text)
            count += self._count(row)
            if count >= beyond:
                count = len(self._spans(BETWEEN.join(texts)))  # tokens may join where texts meet
        return texts, count

    def _draw(self, generator: random.Random, passage: Doc, qids: Sequence[str]) -> Iterator[int]:
        """Rows of filler, each once, as long as few enough are refused."""
        used: set[int] = set()
        title = title_words(passage.title)
        refused = 0
        while refused < _TRIES:
            row = self._rows[int(generator.random() * len(self._rows))]  # the same in all Pythons
            refused += 1
            other = self._passages.get_row(row)
            is_near = title and title_words(other.title) == title
            if row not in used and other.text.strip() and not is_near and not self._refuses(qids, other):
                used.add(row)
                refused = 0
                yield row
