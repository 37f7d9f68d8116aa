# ruff: noqa: E402 — how many threads there are is read when libraries are loaded
"""Training on a frozen encoder's stored features beside fine-tuning, on one thread, the three taking turns.

Fine-tuned is BERT with a layer on its first output, frozen is BERT-DMN-lite (BERT-DMN, sections 5.1 and 6.3).
The encoder has the size of BERT-base and random weights; the pairs are InsuranceQA's, half of them relevant.
All compute in float32. What the store gives back is compared with what the encoder says before any time is
believed. Times are those of the processor, so that other programs on the machine do not count; ratios by the
clock, which has the waiting for the disk, too, stand beside. Products of matrices are timed before and after:
what trains faster than they allow does not train.
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

from telerank.corpus.formats import open_collection
from telerank.inspect.drawn_pairs import CandidateLists
from telerank.inspect.efficiency import (
    FIRST,
    LATER,
    TUNED,
    Contest,
    Efficiency,
    Rounds,
    efficiency_table,
    labelled,
)
from telerank.models.identity import encoder_fingerprint
from telerank.models.loading import locate, read_tokenizer
from telerank.models.pairs.pair import batch_of
from telerank.models.quiet import quiet
from telerank.models.rerankers.reranker import Reranker, Shape, fresh_reranker
from telerank.reranking.texts import TextPair, pair_texts
from telerank.show.tables import Table, markdown
from telerank.training.features.frozen_encoder import FrozenEncoder
from telerank.training.features.store import FeatureStore
from telerank.training.reranker.config import RerankerOptimisation
from telerank.training.reranker.pair_logits import parts

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


def real_pairs(wanted: int) -> tuple[list[TextPair], list[float]]:
    """Of the first train questions, with what the qrels call relevant and with others of their pools."""
    collection = open_collection(str(Path(os.environ["TELERANK_DATA"]) / "insuranceqa-v2"))
    some = CandidateLists(collection, "train", lambda: islice(collection.pools[POOL](), QUESTIONS))
    return labelled(some, wanted)


def lengths(reranker: Reranker, pairs: Sequence[TextPair], size: int) -> tuple[float, float]:
    """Tokens of a pair; and of what fine-tuning pads it to."""
    made = [len(one) for one in pair_texts(reranker, *zip(*pairs, strict=True))]
    batches = (made[first : first + size] for first in range(0, len(made), size))
    padded = 0
    for batch in batches:
        for places in parts(batch, RerankerOptimisation().tokens, torch.device("cpu")):
            padded += len(places) * max(batch[place] for place in places)
    return sum(made) / len(made), padded / len(made)


def deviation(frozen: Reranker, pairs: Sequence[TextPair], folder: Path) -> float:
    """The largest difference of stored features to computed ones, and of their logits; relative beyond 1."""
    known = encoder_fingerprint(frozen)
    encoder = FrozenEncoder(frozen.model, frozen.texts, known)
    store = FeatureStore.open(folder, known, encoder.width)
    size = store.estimate(pairs, encoder)
    store.fill(pairs, encoder, batch_tokens=1024)
    if store.bytes != size:
        sys.exit(f"the store takes {store.bytes} bytes, {size} were estimated")
    stored = store.batch(store.rows(pairs))
    with torch.no_grad():
        made = frozen.model.features(batch_of(pair_texts(frozen, *zip(*pairs, strict=True)), 0))
        logits = [frozen.model.head.eval()(one) for one in (stored, made)]
    compared = [*zip(vars(stored).values(), vars(made).values(), strict=True), logits]
    return max(_difference(one.float(), other.float()) for one, other in compared)


def _difference(found: torch.Tensor, exact: torch.Tensor) -> float:
    return float(((found - exact).abs() / exact.abs().clamp(min=1)).max())


def peak(side: int = 1536, times: int = 12) -> float:
    """GFLOP/s of float32 products of matrices, the best of some."""
    left, right = torch.randn(side, side), torch.randn(side, side)
    best = 0.0
    for _ in range(times):
        began = time.process_time()
        left @ right
        best = max(best, 2 * side**3 / (time.process_time() - began) / 1e9)
    return best


def forward_operations(tokens: float, layers: int) -> float:
    """Of the encoder's products for one pair of so many tokens."""
    linear = 2 * tokens * (4 * WIDTH * WIDTH + 2 * WIDTH * INNER)
    return layers * (linear + 4 * tokens * tokens * WIDTH)


def report(found: Efficiency, told: dict[str, float], given: argparse.Namespace) -> tuple[Table, bool]:
    table = efficiency_table(found)
    reached = {
        TUNED: 3 * forward_operations(told["padded"], given.layers) * 16 * found.pace(TUNED) / 1e9,
        FIRST: forward_operations(told["tokens"], given.layers) * 16 * found.pace(FIRST) / 1e9,
    }
    spread = ", ".join(f"{way} {_span(found, way)}" for way in (FIRST, LATER))
    clock = ", ".join(f"{way} {found.ratio(way, by_the_clock=True):.2f}" for way in (FIRST, LATER))
    share = ", ".join(f"{way} {value:.0f}" for way, value in reached.items())
    made = f"torch {version('torch')}, transformers {version('transformers')}"
    where = f"Python {platform.python_version()}, {platform.machine()}, one thread, processor time"
    busy = f"load of the machine {told['load']:.1f} on {os.cpu_count()} cores"
    notes = (
        *table.notes,
        f"Times fine-tuning, smallest and largest of {given.rounds} rounds: {spread}; by the clock: {clock}.",
        f"GFLOP/s of the encoder’s products: {share}; a product of matrices reaches {told['peak']:.0f}.",
        f"Stored features, and their logits, differ by {told['deviation']:.1g} at most from computed ones.",
        f"{told['tokens']:.0f} tokens a pair, padded to {told['padded']:.0f}; {busy}.",
        f"{made}, {where}.",
    )
    met = all(found.ratio(way) >= least for way, least in TARGETS.items())
    right = told["deviation"] <= TOLERANCE and max(reached.values()) <= told["peak"]
    return Table(table.columns, table.rows, notes=notes), met and right


def _span(found: Efficiency, way: str) -> str:
    ratios = found.seconds[TUNED][:, 0] / found.seconds[way][:, 0]
    return f"{ratios.min():.2f} to {ratios.max():.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--max-length", type=int, default=96)
    parser.add_argument("--write", action="store_true", help="put the table into docs/results.md")
    given = parser.parse_args()
    torch.set_num_threads(1)
    plan = Rounds(number=given.rounds)
    pairs, labels = real_pairs(plan.pairs + 64)
    with tempfile.TemporaryDirectory() as folder:
        start = bert_base(Path(folder) / "encoder", given.layers)
        tuned, frozen = (
            fresh_reranker(start, Shape(kind, frozen=kind == "bert-dmn", max_length=given.max_length))
            for kind in ("bert", "bert-dmn")
        )
        tokens, padded = lengths(tuned, pairs, plan.size)
        told = {"tokens": tokens, "padded": padded, "peak": peak()}
        told["deviation"] = deviation(frozen, pairs[plan.pairs :], Path(folder) / "compared")
        contest = Contest(tuned, frozen, Path(folder) / "features")
        found = contest.measure(pairs, labels, plan, progress=_progress)
        told |= {"peak": max(told["peak"], peak()), "load": float(np.mean(os.getloadavg()[:2]))}
    table, met = report(found, told, given)
    command = f"python benchmarks/frozen_training.py{_options(given)}"
    text = f"```sh\n{command}\n```\n\n{_about(given, plan)}\n\n{markdown(table)}"
    print(text)
    if given.write:
        write("frozen training", text)
    sys.exit(0 if met else "a target is missed")


def _about(given: argparse.Namespace, plan: Rounds) -> str:
    encoder = f"An encoder of {given.layers} layers of {WIDTH}, batches of {plan.size} pairs, float32"
    return f"{encoder}. The paper's values were measured on a GTX 1080Ti."


def _progress(what: str, done: int, total: int | None) -> None:
    print(f"{what}: {done} of {total}", file=sys.stderr)


def _options(given: argparse.Namespace) -> str:
    usual = {"rounds": 5, "layers": LAYERS, "max_length": 96}
    return "".join(
        f" --{name.replace('_', '-')} {getattr(given, name)}"
        for name, value in usual.items()
        if getattr(given, name) != value
    )


if __name__ == "__main__":
    main()
