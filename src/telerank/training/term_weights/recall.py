"""What DeepCT learns: for each word of a document the share of its queries that hold the word's term.

Query term recall (Dai and Callan 2019, equation 3): of the queries to which a document is relevant, the share
that holds the term; 0 for words of none, stop words and punctuation among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from telerank.corpus.collection import Collection
from telerank.errors import CollectionError
from telerank.models.encoders.bi_encoder import SideTokenizer
from telerank.models.encoders.word_weights import WordPieces, split_words
from telerank.text import Analyzer
from telerank.text.analyzer import TermPlace, locate_terms
from telerank.training.examples.reading import check_complete, read_texts
from telerank.types import Progress

WordTargets: TypeAlias = Sequence[tuple[range, float]]
"""The pieces of each word of a text, and its target, in the order of the text."""


@dataclass(frozen=True)
class JudgedDocument:
    """A document, and the queries to which it is relevant."""

    docno: str
    text: str
    queries: tuple[str, ...]

    def recall(self, analyzer: Analyzer) -> dict[str, float]:
        """The share of the queries that holds each term."""
        counts = Counter(term for query in self.queries for term in set(analyzer.query(query)))
        return {term: count / len(self.queries) for term, count in counts.items()}


def read_documents(
    collection: Collection, split: str, relevant: Mapping[str, Iterable[str]], progress: Progress
) -> list[JudgedDocument]:
    """The documents that are relevant to queries of a split, by docno; ``relevant`` has theirs by qid.

    Raises
    ------
    CollectionError
        If the collection lacks one of them or a query, or there are none.
    """
    texts = {query.qid: query.text for query in collection.split_queries(split) if query.qid in relevant}
    check_complete(relevant, texts, f"{collection.name}: split {split!r} has no query")
    queries = dict[str, list[str]]()
    for qid, docnos in relevant.items():
        for docno in docnos:
            queries.setdefault(docno, []).append(texts[qid])
    documents = read_texts(collection, queries, progress)
    check_complete(queries, documents, f"{collection.name} has no document")
    if not queries:
        raise CollectionError(f"{collection.name}: no document of split {split!r} is left to learn from")
    return [JudgedDocument(docno, documents[docno], tuple(queries[docno])) for docno in sorted(queries)]


@dataclass(frozen=True, eq=False)
class RecallTargets:
    """Makes the tokens of documents, and the targets of their words."""

    tokenizer: SideTokenizer
    analyzer: Analyzer
    only_first: bool

    def __call__(self, documents: Sequence[JudgedDocument]) -> list[tuple[WordPieces, WordTargets]]:
        """Of each document."""
        texts = [document.text for document in documents]
        spans: list[list[TermPlace]] = [list(locate_terms(self.analyzer, text)) for text in texts]
        split = split_words(self.tokenizer, texts, spans, only_first=self.only_first)
        return [
            (pieces, target_words(pieces, document.recall(self.analyzer)))
            for pieces, document in zip(split, documents, strict=True)
        ]


def target_words(text: WordPieces, recall: Mapping[str, float]) -> WordTargets:
    """The words of a text with their targets: those of the analyzer, and others of the tokenizer with 0.

    Several terms of one word, as synonyms are, have the largest of their targets.
    """
    targets: dict[range, float] = {}
    for term, pieces in text.words:
        targets[pieces] = max(recall.get(term, 0.0), targets.get(pieces, 0.0))
    for token in text.pieces:
        if text.starts[token] and not text.covered[token]:
            targets[range(token, token + 1)] = 0.0
    return sorted(targets.items(), key=lambda each: each[0].start)
