"""Rows of scoring pairs and of encoding documents."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice

import numpy as np

from telerank.dense.encode import Encoding, encode_documents
from telerank.dense.encoder import PRECISIONS, TorchEncoder
from telerank.models.rerankers.reranker import Reranker, fresh_reranker
from telerank.models.rerankers.reranker import Shape as RerankerShape
from telerank.reranking.backends import BACKENDS
from telerank.reranking.scorer import Scorer
from telerank.reranking.texts import make_pairs
from telerank.types import Doc

from .inputs import BASE, MINILM, Inputs
from .measuring import STEP_TOKENS, Amount, Probe

SECONDS = 2.0


@dataclass(frozen=True)
class Row:
    """``run`` measures with a probe, and returns what was computed in the timed pass."""

    part: str
    name: str
    unit: str
    run: object


def precisions(inputs: Inputs, names: tuple[str, ...]) -> list[str]:
    """Those of a GPU, or of a processor; what it refuses is a row with that error."""
    left_out = {"auto", "float32-fast"} if inputs.on_gpu else {"auto", "float32-fast", "tf32"}
    return [name for name in names if name not in left_out]


def scoring_rows(inputs: Inputs) -> Iterator[Row]:
    for model in (MINILM, BASE):
        for tokens in (60,) if inputs.small else (60, 130, 512):
            for precision in precisions(inputs, BACKENDS["torch"].precisions):
                name = f"monobert {model} / {tokens} tokens / {precision}"
                run = partial(score, inputs, model, tokens, {"precision": precision})
                yield Row("scoring", name, "pairs", run)
    tokens = 60 if inputs.small else 130
    run = partial(score, inputs, MINILM, tokens, {})
    yield Row("scoring", f"monobert {MINILM} / {tokens} tokens / no setting", "pairs", run)
    run = partial(score, inputs, MINILM, tokens, {}, most=20 if inputs.small else 100)
    yield Row("scoring", f"monobert {MINILM} / {tokens} tokens / one query / no setting", "pairs", run)


def compiled_rows(inputs: Inputs) -> Iterator[Row]:
    """The first pass compiles, which is not timed but takes its time: only on request."""
    settings = {"precision": "bfloat16", "backend": "compiled"}
    for model in (MINILM, BASE):
        for tokens in (60,) if inputs.small else (60, 130):
            name = f"scoring monobert {model} / {tokens} tokens / bfloat16"
            yield Row("compiled", name, "pairs", partial(score, inputs, model, tokens, settings))


def score(inputs: Inputs, model: str, tokens: int, settings: dict, probe: Probe, *, most: int = 0) -> Amount:
    pairs = inputs.pairs(tokens)
    reranker = fresh_reranker(inputs.encoder(model), RerankerShape("monobert"))
    lengths = _lengths(inputs, reranker, tokens)
    scorer = Scorer(reranker, device=str(inputs.device), **settings)

    def run(count: int) -> Amount:
        scorer.score(islice(cycle(pairs), count))
        own = np.resize(lengths, count)
        steps = max(1, own.sum() / STEP_TOKENS)
        return Amount(count, float(own.sum()), inputs.shape(model).operations(own), steps)

    warm = most or (4 if inputs.small else min(len(pairs), 2 * STEP_TOKENS // tokens))
    return probe.measure(run, warm, most or 4 * len(pairs), 0.2 if inputs.small else SECONDS)


def _lengths(inputs: Inputs, reranker: Reranker, tokens: int) -> np.ndarray:
    """The tokens of each pair, which all models read alike."""
    if tokens not in inputs.lengths:
        inputs.lengths[tokens] = np.array([len(pair) for pair in make_pairs(reranker, inputs.pairs(tokens))])
    return inputs.lengths[tokens]


def encoding_rows(inputs: Inputs) -> Iterator[Row]:
    for model in (MINILM, BASE):
        for tokens in (60,) if inputs.small else (60, 130):
            for precision in precisions(inputs, PRECISIONS):
                name = f"{model} / {tokens} tokens / {precision} / to disk"
                yield Row("encoding", name, "texts", partial(encode, inputs, model, tokens, precision))


def encode(inputs: Inputs, model: str, tokens: int, precision: str, probe: Probe) -> Amount:
    docs = [Doc(str(row), text) for row, (_, text) in enumerate(inputs.pairs(tokens))]
    encoder = TorchEncoder(str(inputs.encoder(model)), str(inputs.device), precision)
    lengths = np.array(list(map(len, encoder.tokenize([doc.text for doc in docs])[0])))
    how = Encoding(batch_tokens=encoder.batch_tokens)
    folder = inputs.folder / "encoded"

    def run(count: int) -> Amount:
        shutil.rmtree(folder, ignore_errors=True)
        encode_documents(docs[:count], folder, encoder, encoding=how)
        own = lengths[:count]
        steps = max(1, own.sum() / STEP_TOKENS)
        return Amount(count, float(own.sum()), inputs.shape(model).operations(own), steps)

    warm = 4 if inputs.small else min(len(docs), 2 * STEP_TOKENS // tokens)
    try:
        return probe.measure(run, warm, len(docs), 0.2 if inputs.small else SECONDS)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
