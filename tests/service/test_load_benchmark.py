from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from small_set import write_beir

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]


def test_the_load_benchmark_measures_every_part(models, tmp_path):
    docs = [{"_id": f"d{n}", "title": f"t{n}", "text": f"q{n % 7} x{n % 9}. x{n % 5} q1."} for n in range(60)]
    queries = {str(n): f"q{n % 7} x{n % 5}" for n in range(20)}
    data = write_beir(tmp_path / "set", docs, queries, {"test": [(n, f"d{n}", 1) for n in range(20)]})
    options = ["--small", "--data", data, "--reranker", models["reranker"], "--reader", models["reader"]]
    counts = ["--users", 4, "--searches", 20, "--models", 8, "--swaps", 1, "--memory", 40, "--seconds", 0.1]
    command = [sys.executable, ROOT / "benchmarks/serve_load", *options, *counts]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    ran = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    shown = ran.stdout
    for kind in ("search", "search, re-ranking 20", "/rerank of 20 texts", "answer, reading 5"):
        assert re.search(rf"\| {re.escape(kind)} \| (20|8) \|.*\| 0 \| 200: (20|8) \|", shown), shown
    for kind in ("with a filter, 1 in 5 pass", "with three facets", "with a filter and three facets"):
        assert re.search(rf"\| {re.escape(kind)} \| 4 \|.*\| 0 \| 200: 4 \|", shown), shown
    assert re.search(r"\| 1 \|.*\| \*\*0\*\* \| \*\*0\*\* \| 2 of 2 \|", shown), shown
    assert re.search(r"\| 40 \| \d+\.\d \|", shown), shown
    assert re.search(r"\| a body beyond the limit \| (\d+) \| 413: \1 \|", shown), shown
    assert "undocumented" not in shown


def test_replies_of_two_generations_are_noticed(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    inputs = pytest.importorskip("serve_load.inputs")

    def wrong(*generations):
        marks = [inputs.mark_of(number) for number in generations]
        hits = [{"docno": f"d-{mark}", "title": f"t {mark}", "text": f"x {mark}"} for mark in marks]
        return inputs.check_generation(json.dumps({"generation": 2, "hits": hits}).encode())

    assert not wrong(2, 2)
    assert wrong(2, 1)
    assert wrong(3, 3)
    assert wrong()
