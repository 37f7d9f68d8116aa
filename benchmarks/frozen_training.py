# ruff: noqa: E402 — libraries read the number of threads when they are loaded
"""Batches a second of training on a frozen encoder's stored features, beside fine-tuning, on one thread.

Fine-tuned is BERT with a layer on its first output, frozen is BERT-DMN-lite (BERT-DMN, sections 5.1 and 6.3).
The encoder has the size of BERT-base and random weights; the pairs are InsuranceQA's, half of them relevant.
All compute in float32. Stored features are compared with computed ones first. Times are processor times, so
that other programs on the machine do not count; ratios of elapsed times, which include waiting for the disk,
are given beside them. Products of matrices are timed before and after, because no training can be faster
than they allow.
"""

from __future__ import annotations

import os

for name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ[f"{name}_NUM_THREADS"] = "1"

import argparse
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from results_page import write
from training_rounds import FIRST, LATER, TUNED, Rounds, Timings, labelled, measure_rounds, timings_table

from telerank.corpus.formats import open_collection
from telerank.inspect.drawn_pairs import CandidateLists
from telerank.models.loading import locate, quiet, read_tokenizer
from telerank.models.pairs.pair import batch_of
from telerank.models.rerankers.kinds import Shape
from telerank.models.rerankers.reranker import Reranker, fresh_reranker
from telerank.reranking.texts import TextPair, make_pairs
from telerank.show.tables import Table, render_markdown
from telerank.training.features.store import FeatureStore, FrozenEncoder
from telerank.training.reranker.config import RerankerOptimisation
from telerank.training.reranker.scoring import batch_pairs_of

TARGETS = {FIRST: 1.5, LATER: 15.0}  # times the batches per second of fine-tuning
WIDTH, LAYERS, HEADS, INNER = 768, 12, 12, 3072
QUESTIONS, POOL = 2000, "train/100"
TOLERANCE = 1e-3


def bert_base(folder: Path, layers: int) -> Path:
    """An encoder of BERT-base's size with random weights, and the vocabulary of BERT."""
    from transformers import AutoConfig, AutoModel

    tokenizer = read_tokenizer(locate("minilm"))
    torch.manual_seed(0)
    shape = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "intermediate_size": INNER}
    with quiet():
        config = AutoConfig.for_model("bert", vocab_size=len(tokenizer), num_hidden_layers=layers, **shape)
        AutoModel.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def real_pairs(count: int) -> tuple[list[TextPair], list[float]]:
    """Pairs of the first train questions: relevant documents, and others of their pools."""
    collection = open_collection(str(Path(os.environ["TELERANK_DATA"]) / "insuranceqa-v2"))
    source = CandidateLists(collection, "train", lambda: islice(collection.pools[POOL](), QUESTIONS))
    return labelled(source, count)


def lengths(reranker: Reranker, pairs: Sequence[TextPair], size: int) -> tuple[float, float]:
    """Mean number of tokens of a pair, before and after the padding of fine-tuning."""
    counts = [len(tokens) for tokens in make_pairs(reranker, pairs)]
    padded = 0
    for first in range(0, len(counts), size):
        batch = counts[first : first + size]
        batching = batch_pairs_of(torch.device("cpu"), 512, RerankerOptimisation().tokens)
        padded += sum(len(rows) * width for rows, width in batching.cut(np.array(batch)))
    return sum(counts) / len(counts), padded / len(counts)


def deviation(frozen: Reranker, pairs: Sequence[TextPair], folder: Path) -> float:
    """The largest difference of stored features and their logits to computed ones; relative above 1."""
    fingerprint = frozen.encoder_fingerprint
    encoder = FrozenEncoder(frozen.model, frozen.texts, fingerprint)
    store = FeatureStore(folder, fingerprint, encoder.width)
    size = store.estimate(pairs, encoder)
    store.fill(pairs, encoder, batch_tokens=1024)
    if store.bytes != size:
        sys.exit(f"the store takes {store.bytes} bytes, {size} were estimated")
    stored = store.batch(store.rows(pairs))
    with torch.no_grad():
        computed = frozen.model.features(batch_of(make_pairs(frozen, pairs), 0))
        logits = [frozen.model.head.eval()(features) for features in (stored, computed)]
    compared = [*zip(vars(stored).values(), vars(computed).values(), strict=True), logits]
    return max(_difference(value.float(), exact.float()) for value, exact in compared)


def _difference(value: torch.Tensor, exact: torch.Tensor) -> float:
    return float(((value - exact).abs() / exact.abs().clamp(min=1)).max())


def peak(side: int = 1536, times: int = 12) -> float:
    """GFLOP/s of float32 products of matrices, the best of several."""
    left, right = torch.randn(side, side), torch.randn(side, side)
    best = 0.0
    for _ in range(times):
        began = time.process_time()
        left @ right
        best = max(best, 2 * side**3 / (time.process_time() - began) / 1e9)
    return best


def forward_operations(tokens: float, layers: int) -> float:
    """Floating-point operations of the encoder's products for a pair of ``tokens`` tokens."""
    linear = 2 * tokens * (4 * WIDTH * WIDTH + 2 * WIDTH * INNER)
    return layers * (linear + 4 * tokens * tokens * WIDTH)


def report(timings: Timings, facts: dict[str, float], options: argparse.Namespace) -> tuple[Table, bool]:
    """The table, and whether the targets are met and the figures plausible."""
    table = timings_table(timings)
    reached = {
        TUNED: 3 * forward_operations(facts["padded"], options.layers) * 16 * timings.pace(TUNED) / 1e9,
        FIRST: forward_operations(facts["tokens"], options.layers) * 16 * timings.pace(FIRST) / 1e9,
    }
    spread = ", ".join(f"{training} {_span(timings, training)}" for training in TARGETS)
    elapsed = ", ".join(f"{training} {timings.ratio(training, elapsed=True):.2f}" for training in TARGETS)
    share = ", ".join(f"{training} {value:.0f}" for training, value in reached.items())
    packages = f"torch {version('torch')}, transformers {version('transformers')}"
    machine = f"Python {platform.python_version()}, {platform.machine()}, one thread, processor time"
    busy = f"load of the machine {facts['load']:.1f} on {os.cpu_count()} cores"
    rounds = f"Times fine-tuning, smallest and largest of {options.rounds} rounds"
    notes = (
        *table.notes,
        f"{rounds}: {spread}; by the clock: {elapsed}.",
        f"GFLOP/s of the encoder’s products: {share}; a product of matrices reaches {facts['peak']:.0f}.",
        f"Stored features, and their logits, differ by {facts['deviation']:.1g} at most from computed ones.",
        f"{facts['tokens']:.0f} tokens a pair, padded to {facts['padded']:.0f}; {busy}.",
        f"{packages}, {machine}.",
    )
    met = all(timings.ratio(training) >= least for training, least in TARGETS.items())
    plausible = facts["deviation"] <= TOLERANCE and max(reached.values()) <= facts["peak"]
    return Table(table.columns, table.rows, notes=notes), met and plausible


def _span(timings: Timings, training: str) -> str:
    ratios = timings.seconds[TUNED][:, 0] / timings.seconds[training][:, 0]
    return f"{ratios.min():.2f} to {ratios.max():.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--max-length", type=int, default=96)
    parser.add_argument("--write", action="store_true", help="put the table into docs/results/speed.md")
    options = parser.parse_args()
    torch.set_num_threads(1)
    plan = Rounds(number=options.rounds)
    pairs, labels = real_pairs(plan.pairs + 64)
    with tempfile.TemporaryDirectory() as folder:
        start = bert_base(Path(folder) / "encoder", options.layers)
        tuned, frozen = (
            fresh_reranker(start, Shape(kind, frozen=kind == "bert-dmn", max_length=options.max_length))
            for kind in ("bert", "bert-dmn")
        )
        tokens, padded = lengths(tuned, pairs, plan.size)
        facts = {"tokens": tokens, "padded": padded, "peak": peak()}
        facts["deviation"] = deviation(frozen, pairs[plan.pairs :], Path(folder) / "compared")
        features = Path(folder) / "features"
        timings = measure_rounds(tuned, frozen, features, pairs, labels, plan=plan, progress=_progress)
        facts |= {"peak": max(facts["peak"], peak()), "load": float(np.mean(os.getloadavg()[:2]))}
    table, met = report(timings, facts, options)
    command = f"python benchmarks/frozen_training.py{_options(options)}"
    text = f"```sh\n{command}\n```\n\n{_about(options, plan)}\n\n{render_markdown(table)}"
    print(text)
    if options.write:
        write("speed", "frozen training", text)
    sys.exit(0 if met else "a target is missed")


def _about(options: argparse.Namespace, plan: Rounds) -> str:
    encoder = f"An encoder of {options.layers} layers of {WIDTH}, batches of {plan.size} pairs, float32"
    return f"{encoder}. The paper's values were measured on a GTX 1080Ti."


def _progress(what: str, done: int, total: int | None) -> None:
    print(f"{what}: {done} of {total}", file=sys.stderr)


def _options(options: argparse.Namespace) -> str:
    usual = {"rounds": 5, "layers": LAYERS, "max_length": 96}
    return "".join(
        f" --{name.replace('_', '-')} {getattr(options, name)}"
        for name, value in usual.items()
        if getattr(options, name) != value
    )


if __name__ == "__main__":
    main()
