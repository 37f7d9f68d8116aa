"""The stage that scores the documents of rankings anew, and explains a score: what it shows of a pair.

================  ======================================================================
any re-ranker     the score minus the score without the sentence, for each sentence
``bert-dmn``      the gates of each episode over the sentences
``dmn``           the same
``qa-lstm``       the attention over the passage's words
``k-nrm``         each kernel's share of the argument of the tanh
``conv-knrm``     the share of each two lengths of n-grams
``co-pacrr``      the score minus the score without the word, for each word of the query
``drmm``          what each word of the query adds
``tkl``           what each of the document's best regions adds
================  ======================================================================
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path

import torch

from telerank.corpus.docstore import identify_docs, read_candidates, read_doc
from telerank.corpus.read_fields import FieldNames, as_field_names, check_known, fields_text, select_fields
from telerank.errors import ModelError
from telerank.expressions import call_text, depth_text, quote
from telerank.models.inference import compute_each
from telerank.models.pairs.pair import Pair, batch_of
from telerank.models.rerankers.reranker import Reranker
from telerank.reranking.scorer import Scorer
from telerank.reranking.texts import TextPair, make_pairs, sentences_with_tokens
from telerank.stage import CALL, PRODUCT, Stage, check_depth
from telerank.text.sentences import split_sentences
from telerank.types import Docs, Explanation, Phrase, Query, Ranking

_WIDTH = 100  # characters of a sentence that are shown


def explain_score(scorer: Scorer, query: str, passage: str, name: str = "") -> Explanation:
    """The score of a pair, and its explanations: see the table above. What is scored is not counted.

    ``name`` stands for the model; empty: the scorer's name, which may be a path. The last sentences are one
    part, of 0, if the pair is cut before them.
    """
    reranker = scorer.reranker
    spans = split_sentences(passage, reranker.shape.language)
    texts = reranker.texts
    [tokens], [encoding] = texts.queries([query]), texts.encode([passage])
    room = texts.max_length - texts.frame.size - min(len(tokens), texts.longest_query)
    # where the last token of the passage begins that is read
    last_token = math.inf if len(encoding.ids) <= room else encoding.offsets[room - 1][0]
    read = [span for span in spans if span.start <= last_token]
    without = [passage[:start] + passage[end:] for start, end in read]
    score, *others = scorer.uncounted.score((query, text) for text in (passage, *without)).tolist()
    parts = [
        Explanation(
            score - other,
            Phrase(
                "sentence {n}, “{text}”: without it {value:.4g}",
                n=number,
                text=_shorten(passage[start:end]),
                value=other,
            ),
        )
        for number, ((start, end), other) in enumerate(zip(read, others, strict=True), 1)
    ]
    if len(read) < len(spans):
        template = "sentences {n} to {of}" if len(read) + 1 < len(spans) else "sentence {n}"
        limits = {"n": len(read) + 1, "of": len(spans), "k": reranker.texts.max_length}
        parts.append(Explanation(0.0, Phrase(template + ": not read, beyond {k} tokens", **limits)))
    sentences = Explanation(
        sum(part.value for part in parts), "what single sentences add, in all", tuple(parts)
    )
    return Explanation(
        score,
        Phrase("logit by {model}", model=name or scorer.name),
        (*_of_model(reranker, query, passage), sentences),
    )


def explain_fields(explained: Explanation, model: str, fields: FieldNames) -> Explanation:
    """The explanation of a score of a model that reads these fields, which says so."""
    if not fields:
        return explained
    what = Phrase("logit by {model}, which reads {fields}", model=model, fields=", ".join(fields))
    return replace(explained, what=what)


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else f"{line[:_WIDTH]}…"


@torch.inference_mode()
def _of_model(reranker: Reranker, query: str, passage: str) -> Iterator[Explanation]:
    kind, model = reranker.kind, reranker.model
    if kind.gates is None and kind.explain is None:
        return
    (pair,) = make_pairs(reranker, [(query, passage)])
    batch = batch_of([pair], reranker.texts.pad_id).to(reranker.device)
    if kind.gates is not None:
        names = _sentence_names(reranker, passage, pair)
        gates = kind.gates(model, batch)[1][0, :, : len(names)]  # (episodes, S)
        for episode, row in enumerate(gates.tolist(), 1):
            yield _sum_of(Phrase("gates of episode {n}", n=episode), zip(row, names, strict=True))
    if kind.explain is not None:
        shown = kind.explain(model, reranker.texts, batch)
        yield _sum_of(shown.title, shown.values)


def _sentence_names(reranker: Reranker, passage: str, pair: Pair) -> Sequence[str]:
    """The names of the sentences in the pair, without those that have no token or were cut off.

    If sentences share a token these are not known, and the names say so.
    """
    count = int(pair.sentences.max(initial=-1)) + 1
    spans = split_sentences(passage, reranker.shape.language)
    (tokens,) = reranker.texts.passages([passage], [spans])
    try:
        in_tokens = sentences_with_tokens(reranker.texts, passage, spans, tokens)
    except ModelError as error:
        return [
            Phrase("number {n} by the tokens ({error})", n=n, error=str(error)) for n in range(1, count + 1)
        ]
    names = [
        Phrase("sentence {n}, “{text}”", n=number, text=_shorten(passage[start:end]))
        for number, (start, end) in enumerate(spans, 1)
    ]
    return list(compress(names, in_tokens))[:count]


def _sum_of(title: str, values: Iterable[tuple[float, str]]) -> Explanation:
    parts = tuple(Explanation(value, name) for value, name in values)
    return Explanation(sum(part.value for part in parts), title, parts)


@dataclass(frozen=True, repr=False)
class CrossReranker(Stage):
    """Score each document, title and text, by the logit of ``model`` for it and the query; keep ``k``.

    ``model`` is a re-ranker, its name or folder, or a :class:`~telerank.reranking.scorer.Scorer`, which also
    says how it is computed. The stage reads ahead over queries to fill its batches. ``name`` stands for the
    model in the text of a pipeline over an index; without it the text cannot be read back. ``fields`` are
    read instead of title and text: ``title,topics``, or a list of them (:mod:`telerank.corpus.read_fields`).

    Raises
    ------
    ValueError
        If k is not a whole number of at least 1, or there is no such field.
    CollectionError
        When a ranking names a document that ``docs`` lacks.
    """

    model: Scorer | Reranker | str | Path
    docs: Docs = field(hash=False)
    k: int | None = None
    name: str = field(default="", compare=False)
    fields: str | Sequence[str] = ()
    role = "rerank"

    reorders = True

    def __post_init__(self) -> None:
        if self.k is not None:
            check_depth(self.k)
        object.__setattr__(self, "fields", as_field_names(self.fields))
        check_known(self.read_names, self.docs)
        if not isinstance(self.model, Scorer):
            object.__setattr__(self, "model", Scorer(self.model))

    @property
    def read_names(self) -> FieldNames:
        """The names of the fields that are read; empty for title and text."""
        return tuple(self.fields)

    @property
    def texts(self) -> Docs:
        """The documents as they are read."""
        return select_fields(self.docs, self.read_names)

    @property
    def scorer(self) -> Scorer:
        return self.model if isinstance(self.model, Scorer) else Scorer(self.model)

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        for candidates, scores in compute_each(stream, self._texts, self.scorer.stream):
            ranking = Ranking.ranked(candidates.query, candidates.docnos, scores)
            yield ranking if self.k is None else ranking.cut(self.k)

    def _texts(self, ranking: Ranking) -> Iterator[TextPair]:
        return ((ranking.query.text, doc.full_text) for doc in read_candidates(ranking, self.texts))

    def limit(self, k: int) -> CrossReranker:
        return replace(self, k=k if self.k is None else min(self.k, k))

    @property
    def text(self) -> str:
        own = {"fields": fields_text(self.read_names)} if self.fields else {}
        call = call_text("rerank", quote(self.name or self.scorer.name), **self.scorer.changed, **own)
        return depth_text(call if self.name and not self.scorer.samples else f"<{call}>", self.k)

    @property
    def binding(self) -> int:
        return CALL if self.k is None else PRODUCT

    @property
    def sources(self) -> Mapping[str, object]:
        source = self.scorer.source
        if self.fields:
            source["fields"] = list(self.fields)
        if not self.name:  # of an index, which has its own checksums
            source["documents"] = identify_docs(self.docs)
        return {f"rerank({self.name or self.scorer.name})": source}

    @property
    def remarks(self) -> Sequence[str]:
        return [f"rerank({self.name or self.scorer.name}): {line}" for line in self.scorer.remarks]

    def explanation(self, query: Query, docno: str) -> Explanation:
        """The score, what each sentence adds to it, and what the model shows of itself."""
        explained = explain_score(self.scorer, query.text, read_doc(self.texts, docno).full_text, self.name)
        return explain_fields(explained, self.name or self.scorer.name, self.read_names)
