# ruff: noqa: E402 — how many threads there are is read when libraries are loaded
"""Scoring pairs beside sentence_transformers' CrossEncoder.predict: one core, one run, taking turns.

The pairs are real ones of uneven length, queries and passages of the MS MARCO slice in TELERANK_DATA. Weights
are MiniLM's under a classification layer drawn at random, and BERT-base's size drawn at random under a layer
that reads the direction in which its outputs differ most, as a trained one would. Times are
those of the processor, tokenising among them, so that other programs on the machine count little. Scores are
compared before any time is believed; what the core can do at most is measured in each round, and a row above
that, or with another order of scores, fails.
"""

from __future__ import annotations

import os

for name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "RAYON"):
    os.environ[f"{name}_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import argparse
import gzip
import platform
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from results_page import write
from scipy.stats import spearmanr
from sentence_transformers import CrossEncoder
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from telerank.errors import TelerankError
from telerank.models.loading import locate, quiet
from telerank.reranking.scorer import Scorer
from telerank.reranking.texts import make_pairs
from telerank.show.tables import Cell, Table, render_markdown

PREDICT = "CrossEncoder.predict"
CALIBRATION = 200  # pairs beside those that are scored


@dataclass(frozen=True)
class Row:
    """A way to score; ``target`` is how many times as fast as predict it should be."""

    backend: str
    precision: str
    target: float | None = None

    @property
    def name(self) -> str:
        return f"{self.backend}/{self.precision}"


ROWS = (
    Row("torch", "float32"),
    Row("torch", "float32-fast"),
    Row("onnx", "float32"),
    Row("openvino", "float32", 3.0),
    Row("torch", "bfloat16"),
    Row("openvino", "bfloat16", 5.5),
    Row("openvino", "int8"),
)
LARGEST = {"float32": 1e-4, "float32-fast": 1e-4}  # deviation of a score, in their standard deviations
LEAST = {"float32": 0.999999, "float32-fast": 0.999999, "bfloat16": 0.9998, "int8": 0.99}  # rank correlation


def real_pairs(folder: Path, count: int) -> list[tuple[str, str]]:
    """Of the BM25 lists of dev queries, drawn by a fixed seed."""
    with gzip.open(folder / "collection.tsv.gz", "rt", encoding="utf-8") as lines:
        passages = dict(line.rstrip("\n").split("\t", 1) for line in lines)
    with (folder / "queries.dev.small.tsv").open(encoding="utf-8") as lines:
        queries = dict(line.rstrip("\n").split("\t", 1) for line in lines)
    with gzip.open(folder / "top20.dev.tsv.gz", "rt", encoding="utf-8") as lines:
        listed = [line.split() for line in lines]
    random.Random(0).shuffle(listed)
    return [(queries[qid], passages[docno]) for qid, docno, *_ in listed[:count]]


def saved(folder: Path, kind: str, samples: list[tuple[str, str]]) -> Path:
    """A cross-encoder as the hub has them."""
    tokenizer = AutoTokenizer.from_pretrained(locate("minilm"))
    tokenizer.model_max_length = 512
    torch.manual_seed(0)
    made: Any = AutoModelForSequenceClassification
    with quiet():
        if kind == "MiniLM-L6":
            model = made.from_pretrained(locate("minilm"), num_labels=1)
        else:
            model = made.from_config(AutoConfig.for_model("bert", num_labels=1, initializer_range=0.04))
            _read_what_differs(model.eval(), tokenizer, samples)
        model.save_pretrained(folder / kind)
    tokenizer.save_pretrained(folder / kind)
    return folder / kind


def _read_what_differs(model: Any, tokenizer: Any, samples: list[tuple[str, str]]) -> None:
    """Make the classification layer the first principal component of its inputs over these pairs."""
    read: list[torch.Tensor] = []
    hook = model.classifier.register_forward_pre_hook(lambda _, given: read.append(given[0]))
    with torch.no_grad():
        for pair in samples:
            model(**tokenizer(*pair, truncation=True, return_tensors="pt"))
        hook.remove()
        seen = torch.cat(read)
        model.classifier.weight.copy_(torch.linalg.svd(seen - seen.mean(0), full_matrices=False).Vh[:1])


def operations(lengths: list[int], config: Any) -> tuple[float, float]:
    """Of all tokens that are no padding; and of what the first token's output is made of alone.

    Products with weights are 24 H² a token and layer where the inner layer is 4 H wide, attention 4 L H.
    """
    layers, wide, inner = config.num_hidden_layers, config.hidden_size, config.intermediate_size
    token = 8 * wide**2 + 4 * wide * inner
    whole = sum(layers * (n * token + 4 * n * n * wide) for n in lengths)
    last = sum(n * token + 4 * n * n * wide for n in lengths)
    needed = sum(n * 4 * wide**2 + (token - 4 * wide**2) + 4 * n * wide for n in lengths)
    return float(whole), float(whole - last + needed)


def _peak(kind: str) -> Any:
    """Chains of an instruction on registers alone: fused products, dot products of bfloat16 or bytes."""
    lanes = 16
    single = ir.VectorType(ir.FloatType(), lanes)
    whole = ir.VectorType(ir.IntType(32), lanes)
    name, kinds, of = {
        "float32": (f"llvm.fma.v{lanes}f32", [single] * 3, single),
        "bfloat16": ("llvm.x86.avx512bf16.dpbf16ps.512", [single, whole, whole], single),
        "int8": ("llvm.x86.avx512.vpdpbusd.512", [whole] * 3, whole),
    }[kind]

    @intrinsic
    def chains(_: Any, times: Any, out: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[1])(context, builder, arguments[1]).data
            add = cgutils.get_or_insert_function(builder.module, ir.FunctionType(of, kinds), name)
            held = [builder.load(builder.bitcast(data, one.as_pointer())) for one in kinds]
            for one in held:
                one.align = 4
            sums = [
                cgutils.alloca_once_value(builder, held[0 if kind != "float32" else 2]) for _ in range(12)
            ]
            with cgutils.for_range(builder, arguments[0]):
                for one in sums:
                    before = builder.load(one)
                    given = [held[0], held[1], before] if kind == "float32" else [before, held[1], held[2]]
                    builder.store(builder.call(add, given), one)
            for number, one in enumerate(sums):
                place = builder.gep(data, [ir.Constant(ir.IntType(64), lanes * number)])
                builder.store(builder.load(one), builder.bitcast(place, of.as_pointer())).align = 4
            return context.get_dummy_value()

        return types.void(times, out), generate

    @numba.njit
    def run(times: int, out: np.ndarray) -> None:
        chains(times, out)

    return run


PER_ROUND = {"float32": 12 * 32, "bfloat16": 12 * 64, "int8": 12 * 128}


def peaks() -> dict[str, Callable[[], float]]:
    """What measures the operations a second of this core's registers; a kind that it lacks is left out."""
    from llvmlite import binding

    has = dict(binding.get_host_cpu_features())
    needs = {"float32": "avx512f", "bfloat16": "avx512bf16", "int8": "avx512vnni"}
    found = {}
    for kind, feature in needs.items():
        if has.get(feature):
            found[kind] = _measure(_peak(kind), PER_ROUND[kind])
    return found


def _measure(run: Any, operations_a_round: int) -> Callable[[], float]:
    out = np.zeros(16 * 16, np.float32)
    run(10, out)

    def measured() -> float:
        best = 0.0
        for _ in range(5):
            began = time.process_time()
            run(2_000_000, out)
            best = max(best, 2_000_000 * operations_a_round / (time.process_time() - began))
        return best

    return measured


def timed(
    engines: dict[str, Callable[[], np.ndarray]], rounds: int
) -> tuple[dict[str, np.ndarray], dict[str, list[float]], dict[str, list[float]]]:
    """Scores, seconds of each round, and the peak in each round."""
    scores = {name: engine() for name, engine in engines.items()}  # loads, compiles
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    most: dict[str, list[float]] = {}
    probes = peaks()
    for _ in range(rounds):
        for kind, probe in probes.items():
            most.setdefault(kind, []).append(probe())
        for name, engine in engines.items():
            began = time.process_time()
            engine()
            seconds[name].append(time.process_time() - began)
            print(f"{name}: {seconds[name][-1]:.2f} s", file=sys.stderr, flush=True)
    return scores, seconds, most


def engines_of(
    folder: Path, rows: list[Row], pairs: list[tuple[str, str]], samples: list[tuple[str, str]]
) -> tuple[Any, Any, Any]:
    """predict, and every row that this machine can compute; the scorer of float32."""
    predictor = CrossEncoder(str(folder), device="cpu", max_length=512)
    plain = torch.nn.Identity()

    def predict() -> np.ndarray:
        found = predictor.predict(pairs, show_progress_bar=False, activation_fn=plain)
        return np.asarray(found, np.float64)

    engines: dict[str, Callable[[], np.ndarray]] = {PREDICT: predict}
    skipped = []
    for row in rows:
        given = tuple(samples) if row.precision == "int8" else ()
        scorer = Scorer(folder, row.backend, row.precision, 1, None, "cpu", given)
        try:
            scorer.score(pairs[:4])
        except TelerankError as error:
            skipped.append(f"{row.name} is left out: {error}")
            continue
        engines[row.name] = lambda scorer=scorer: scorer.score(pairs).astype(np.float64)
    return engines, skipped, Scorer(folder, device="cpu")


def report(kind: str, folder: Path, pairs: list[tuple[str, str]], given: Any) -> tuple[Table, list[str]]:
    engines, skipped, plain = engines_of(
        folder,
        [row for row in ROWS if row.name in {*given.rows, ROWS[0].name}],
        pairs[CALIBRATION:],
        pairs[:CALIBRATION],
    )
    scored = pairs[CALIBRATION:]
    lengths = [len(one) for one in make_pairs(plain.reranker, scored)]
    whole, needed = operations(lengths, plain.reranker.model.classifier.config)
    scores, seconds, most = timed(engines, given.rounds)
    exact, spread = scores[ROWS[0].name], float(np.std(scores[ROWS[0].name]))
    usual = np.array(seconds[PREDICT])
    rows, failed = [], []
    for name in engines:
        row = next((one for one in ROWS if one.name == name), Row("", "float32"))
        taken = np.array(seconds[name])
        deviation = float(np.abs(scores[name] - exact).max()) / spread
        order = float(spearmanr(scores[name], exact).statistic)
        done = needed if row.backend == "openvino" else whole
        peak = max(most.get(row.precision.removesuffix("-fast"), [np.nan]))
        share = done / taken.min() / peak
        ratio = float(np.median(usual / taken))
        wrong = order < LEAST[row.precision] - 1e-9 or deviation > LARGEST.get(row.precision, np.inf)
        said = {
            "gives other scores than the model": wrong,
            "is above the core's peak": share > 1,
            f"is {ratio:.2f} times as fast, not {row.target}": ratio < (row.target or 0),
        }
        failed += [f"{kind}: {name} {what}" for what, so in said.items() if so]
        rates = len(scored) / taken
        rows.append(
            (
                name,
                f"{np.median(rates):.1f}",
                f"{rates.min():.1f} to {rates.max():.1f}",
                Cell(f"{ratio:.2f}", strong=row.target is not None),
                f"{deviation:.1g}",
                f"{order:.5f}",
                f"{done / taken.min() / 1e9:.0f}",
                f"{100 * share:.0f} %",
            )
        )
    tokens = f"{np.mean(lengths):.0f} tokens in the mean, {min(lengths)} to {max(lengths)}"
    registers = ", ".join(f"{what} {max(held) / 1e9:.0f}" for what, held in most.items())
    packages = ("torch", "sentence-transformers", "openvino", "nncf", "onnxruntime")
    notes = (
        f"{len(scored):,} pairs: {tokens}. Processor time of one core, rounds: {given.rounds}.",
        f"Peak of the core in the same rounds, in thousand millions of operations a second: {registers}.",
        "Deviation: the largest of a score from torch float32, in standard deviations of the scores.",
        "Operations are those of tokens that are no padding; of OpenVINO's last layer, what the score needs.",
        *([f"int8 is calibrated on {CALIBRATION} other pairs."] if "openvino/int8" in engines else []),
        *skipped,
        f"{', '.join(f'{one} {version(one)}' for one in packages)}, Python {platform.python_version()}.",
    )
    columns = (
        kind,
        "pairs a second",
        "from to",
        "times predict",
        "deviation",
        "rank correlation",
        "GFLOP/s",
        "of peak",
    )
    return Table.of(columns, rows, notes=notes, left=1), failed


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=["MiniLM-L6", "BERT-base"])
    parser.add_argument("--rows", nargs="+", default=[row.name for row in ROWS], help="a part of them")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/results/speed.md")
    given = parser.parse_args()
    if "TELERANK_DATA" not in os.environ:
        sys.exit("TELERANK_DATA is not set: no real pairs here")
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pairs = real_pairs(Path(os.environ["TELERANK_DATA"]) / "msmarco-slice", given.pairs + CALIBRATION)
    texts, failed = [], []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        for kind in given.models:
            table, missed = report(kind, saved(Path(folder), kind, pairs[:CALIBRATION]), pairs, given)
            texts.append(render_markdown(table))
            failed += missed
            print(texts[-1], *missed, sep="\n", file=sys.stderr, flush=True)
    usual = vars(parser.parse_args([]))
    changed = {
        name: vars(given)[name] for name in usual if name != "write" and vars(given)[name] != usual[name]
    }
    options = (f" --{key} {' '.join(one) if isinstance(one, list) else one}" for key, one in changed.items())
    command = f"python benchmarks/rerank_speed.py{''.join(options)}"
    text = "\n\n".join((f"```sh\n{command}\n```", *texts))
    print(text)
    if given.write:
        write("speed", "rerank speed", text)
    sys.exit("\n".join(failed) or 0)


if __name__ == "__main__":
    main()
