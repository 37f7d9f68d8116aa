"""Why a pair has its score: what each sentence adds, and what the model shows of itself.

================  ======================================================================
any re-ranker     the score less the score without the sentence, sentence by sentence
``bert-dmn``      the gates of each episode over the sentences, too
``dmn``           the same
``qa-lstm``       the attention over the passage's words
``k-nrm``         each kernel's share of what the tanh is taken of: they sum up to it
================  ======================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from telerank.errors import ModelError
from telerank.models.pairs.pair import PASSAGE, Pair, PairBatch, batch_of
from telerank.models.pairs.words import SPECIAL, Words
from telerank.models.rerankers.bert_dmn import DmnHead
from telerank.models.rerankers.dmn import Dmn
from telerank.models.rerankers.encoder_ranker import EncoderRanker
from telerank.models.rerankers.knrm import DEVIATIONS, MEANS, Knrm
from telerank.models.rerankers.qa_lstm import QaLstm
from telerank.models.rerankers.reranker import Reranker
from telerank.reranking.scorer import Scorer
from telerank.reranking.texts import pair_texts, spoken
from telerank.text.sentences import split_sentences
from telerank.types import Explanation

_SHOWN = 100  # characters of a sentence


def explained(scorer: Scorer, query: str, passage: str) -> Explanation:
    """The score of a pair and its parts, see the table above."""
    reranker = scorer.reranker
    spans = split_sentences(passage, reranker.shape.language)
    without = [passage[:start] + passage[end:] for start, end in spans]
    score, *others = scorer.score((query, one) for one in (passage, *without)).tolist()
    adds = tuple(
        Explanation(score - other, f"{_sentence(number, passage[start:end])}: without it {other:.4g}")
        for number, ((start, end), other) in enumerate(zip(spans, others, strict=True), 1)
    )
    shown = Explanation(sum(one.value for one in adds), "what single sentences add, in all", adds)
    return Explanation(score, f"logit by {scorer.name}", (*_of_model(reranker, query, passage), shown))


def _sentence(number: int, text: str) -> str:
    said = " ".join(text.split())
    return f"sentence {number}, “{said if len(said) <= _SHOWN else said[:_SHOWN] + '…'}”"


@torch.inference_mode()
def _of_model(reranker: Reranker, query: str, passage: str) -> Iterator[Explanation]:
    (pair,) = pair_texts(reranker, [query], [passage])
    model = reranker.model
    device = next(model.parameters()).device
    batch = batch_of([pair], reranker.texts.pad_id).to(device)
    if isinstance(model, EncoderRanker) and isinstance(model.head, DmnHead):
        yield from _gates(model.head.gates(model.features(batch))[0], _read(reranker, passage, pair))
    elif isinstance(model, Dmn):
        yield from _gates(model.gates(batch)[0], _read(reranker, passage, pair))
    elif isinstance(model, QaLstm) and isinstance(reranker.texts, Words):
        yield _attention(model, reranker.texts, batch)
    elif isinstance(model, Knrm):
        yield _kernels(model, batch)


def _read(reranker: Reranker, passage: str, pair: Pair) -> list[str]:
    """What to call the sentences that the pair numbers: neither those without a token, nor those cut off.

    Where sentences share a token it cannot be told which ones these are: their names say so.
    """
    numbered = int(pair.sentences.max(initial=-1)) + 1
    spans = split_sentences(passage, reranker.shape.language)
    (read,) = reranker.texts.passages([passage], [spans])
    try:
        said = spoken(reranker.texts, passage, spans, read)
    except ModelError as error:
        return [f"number {number} by the tokens ({error})" for number in range(1, numbered + 1)]
    names = [_sentence(number, passage[start:end]) for number, (start, end) in enumerate(spans, 1)]
    return [name for name, speaks in zip(names, said, strict=True) if speaks][:numbered]


def _gates(gates: torch.Tensor, sentences: Sequence[str]) -> Iterator[Explanation]:
    """Of an episode each: (episodes, S), with a column also where there is no sentence."""
    for episode, row in enumerate(gates[:, : len(sentences)].tolist(), 1):
        parts = tuple(Explanation(gate, text) for gate, text in zip(row, sentences, strict=True))
        yield Explanation(sum(one.value for one in parts), f"gates of episode {episode}", parts)


def _attention(model: QaLstm, words: Words, batch: PairBatch) -> Explanation:
    weights = model.attention(batch)[0]
    places = (batch.parts[0] == PASSAGE).nonzero().flatten().tolist()
    rows = batch.input_ids[0].tolist()
    parts = tuple(
        Explanation(
            float(weights[place]),
            words.vocabulary[rows[place] - SPECIAL]
            if rows[place] >= SPECIAL
            else "(a word without a vector)",
        )
        for place in places
    )
    return Explanation(sum(one.value for one in parts), "attention over the words", parts)


def _kernels(model: Knrm, batch: PairBatch) -> Explanation:
    sums = model.kernels(batch)[0].tolist()
    weights, bias = model.weight.weight[0].tolist(), float(model.weight.bias[0])
    parts = [
        Explanation(weight * held, f"{weight:.4g} times {held:.4g}, the kernel at {mean} (width {width})")
        for weight, held, mean, width in zip(weights, sums, MEANS, DEVIATIONS, strict=True)
    ]
    parts.append(Explanation(bias, "bias"))
    return Explanation(sum(one.value for one in parts), "the score is the tanh of the sum of", tuple(parts))
