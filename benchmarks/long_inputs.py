# ruff: noqa: E402 — how many threads there are is read when libraries are loaded
"""Long inputs: time and peak memory by length, of local attention beside full attention.

A small encoder of random weights (4 layers of 128 dimensions; time does not depend on weights) scores one
pair of each length: as BERT with full attention whose table of positions is as long, in torch's fused
attention and in plain products; as ModernBERT, of whose layers every third has full attention and the others
see 256 tokens; as a Longformer of windows of 256; and as QDS-Transformer, whose query and
beginnings of sentences attend to all. TKL reads as many words on vectors of 50 dimensions. All are measured
in turns, as time of the processor, which other programs do not lengthen as much; memory is what the peak of a
process of its own grows by.
"""

from __future__ import annotations

import os

for name in ("OMP", "OPENBLAS", "MKL", "RAYON"):
    os.environ.setdefault(f"{name}_NUM_THREADS", "1")
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median

import numpy as np
import torch
from results_page import write
from transformers import BertConfig, BertModel, BertTokenizer, ModernBertConfig, ModernBertModel

from telerank.models.pairs.pair import PairBatch, batch_of
from telerank.models.pairs.words import VECTORS, VOCABULARY
from telerank.models.rerankers.kinds import Shape
from telerank.models.rerankers.reranker import Reranker, fresh_reranker
from telerank.reranking.texts import make_pairs
from telerank.show.tables import Table, render_markdown
from telerank.verbs.train import lengthen

WORDS = [f"w{number}" for number in range(100)]
SENTENCE, QUERY = 20, 8  # words
SHAPE = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512}
ROWS = (
    "full attention, plain",
    "full attention, fused",
    "ModernBERT",
    "Longformer",
    "QDS-Transformer",
    "TKL",
)


def make_starts(folder: Path, longest: int) -> None:
    """An encoder with positions for the ``longest`` pair, the same as a Longformer, and word vectors."""
    names = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *WORDS)
    tokenizer = BertTokenizer(vocab={word: number for number, word in enumerate(names)})
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(names), max_position_embeddings=longest, **SHAPE)
    BertModel(config).save_pretrained(folder / "encoder")
    tokenizer.save_pretrained(folder / "encoder")
    special = {
        f"{name}_token_id": n for name, n in (("pad", 0), ("cls", 2), ("bos", 2), ("sep", 3), ("eos", 3))
    }
    modern = ModernBertConfig(
        vocab_size=len(names), max_position_embeddings=longest, local_attention=256, **special, **SHAPE
    )
    ModernBertModel(modern).save_pretrained(folder / "modern")
    tokenizer.save_pretrained(folder / "modern")
    lengthen(folder / "encoder", folder / "long", max_length=longest, window=256)
    (folder / "words").mkdir()
    np.save(folder / "words" / VECTORS, np.random.default_rng(0).normal(size=(len(WORDS), 50)))
    (folder / "words" / VOCABULARY).write_text("".join(f"{word}\n" for word in WORDS))


def open_row(row: str, folder: Path, longest: int) -> Reranker:
    """The re-ranker of a row."""
    kind, start = {"QDS-Transformer": ("qds", "long"), "TKL": ("tkl", "words")}.get(row, ("bert", "encoder"))
    start = {"Longformer": "long", "ModernBERT": "modern"}.get(row, start)
    reranker = fresh_reranker(folder / start, Shape(kind, max_query=QUERY, max_length=longest))
    if row.startswith("full"):
        plain = "eager" if row.endswith("plain") else "sdpa"
        reranker.parts.transformer.set_attn_implementation(plain)
    return reranker


def make_batch(reranker: Reranker, length: int) -> PairBatch:
    """One pair of so many tokens, or words."""
    draw = np.random.default_rng(length)
    words = draw.choice(WORDS, length).tolist()
    text = " ".join(f"{word}." if n % SENTENCE == SENTENCE - 1 else word for n, word in enumerate(words))
    cut = reranker.with_lengths(QUERY, length)
    return batch_of(make_pairs(cut, [(" ".join(WORDS[:QUERY]), text)]), reranker.texts.pad_id)


def measure_time(rerankers: dict[str, Reranker], length: int, rounds: int) -> dict[str, float]:
    """Seconds of the processor for one pair, the median of rounds in turns."""
    batches = {row: make_batch(reranker, length) for row, reranker in rerankers.items()}
    seconds: dict[str, list[float]] = {row: [] for row in rerankers}
    with torch.inference_mode():
        for turn in range(rounds + 1):
            for row, reranker in rerankers.items():
                began = time.process_time()
                reranker.model(batches[row])
                if turn:  # the first one makes what is kept
                    seconds[row].append(time.process_time() - began)
    return {row: median(own) for row, own in seconds.items()}


def measure_memory(row: str, folder: Path, longest: int, length: int) -> float:
    """MiB that one pair needs at its peak, in a process of its own."""
    command = [sys.executable, __file__, "--memory-of", json.dumps([row, str(folder), longest, length])]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def print_memory(row: str, folder: str, longest: int, length: int) -> None:
    """Print the growth of the peak by one pair."""
    reranker = open_row(row, Path(folder), longest)
    batch, short = make_batch(reranker, length), make_batch(reranker, 32)
    with torch.inference_mode():
        reranker.model(short)
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
        before = read_memory("VmRSS")
        reranker.model(batch)
    print((read_memory("VmHWM") - before) / 1024)


def read_memory(name: str) -> int:
    """A size of this process in KiB, as Linux says it."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def measure(lengths: list[int], rounds: int) -> str:
    """Both tables, in Markdown."""
    longest = max(lengths)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_starts(folder, longest)
        rerankers = {row: open_row(row, folder, longest) for row in ROWS}
        times = {length: measure_time(rerankers, length, rounds) for length in lengths}
        memory = {(n, row): measure_memory(row, folder, longest, n) for n in lengths for row in ROWS}
    columns = ("", *(f"{length:,}" for length in lengths))
    tables = (
        Table.of(
            columns,
            [(row, *(1000 * times[length][row] for length in lengths)) for row in ROWS],
            caption="Milliseconds of one core for a pair, by its tokens (TKL: words)",
            form=".0f",
        ),
        Table.of(
            columns,
            [(row, *(memory[length, row] for length in lengths)) for row in ROWS],
            caption="MiB at the peak, beyond the model",
            form=".0f",
        ),
    )
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers"))
    shape = "4 layers of 128 dimensions, windows of 256"
    rest = f"{shape}, queries of {QUERY} words, sentences of {SENTENCE}; medians of {rounds} rounds"
    note = f"{rest}. {packages}, Python {platform.python_version()}."
    return "\n\n".join([*map(render_markdown, tables), note])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", default="256,512,1024,2048,4096,8192")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/results/speed.md")
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.memory_of:
        print_memory(*json.loads(given.memory_of))
        return
    text = measure([int(length) for length in given.lengths.split(",")], given.rounds)
    usual = parser.parse_args([])
    changed = "".join(
        f" --{key} {getattr(given, key)}"
        for key in ("lengths", "rounds")
        if getattr(given, key) != getattr(usual, key)
    )
    text = f"```sh\npython benchmarks/long_inputs.py{changed}\n```\n\n{text}"
    print(text)
    if given.write:
        write("speed", "long-inputs", text)


if __name__ == "__main__":
    main()
