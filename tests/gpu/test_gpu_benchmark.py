"""benchmarks/gpu measures the rows that are asked for, goes on after one that fails, and writes a file to send."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

ROOT = Path(__file__).parents[2]


def make_small(monkeypatch, inputs):
    """Small encoders, few words and few pairs."""
    monkeypatch.setattr(inputs, "SHAPES", dict.fromkeys(inputs.SHAPES, (2, 32, 64, 2)))
    monkeypatch.setattr(inputs, "VOCABULARY", 2000)
    monkeypatch.setattr(inputs, "POOL_TOKENS", 400_000)
    monkeypatch.setattr(inputs.Inputs, "minilm", None)


@pytest.fixture
def run_benchmark(monkeypatch, tmp_path):
    """Runs the command with small encoders, and returns what it printed and wrote."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    main = pytest.importorskip("gpu.__main__")
    inputs = sys.modules["gpu.inputs"]
    make_small(monkeypatch, inputs)
    monkeypatch.setattr(sys.modules["gpu.searching"], "searching_rows", list)

    def run(*arguments):
        file = tmp_path / "gpu.json"
        given = ["gpu", "--device", "cpu", "--output", str(file), *arguments]
        monkeypatch.setattr(sys, "argv", given)
        threads = torch.get_num_threads()
        try:
            with pytest.raises(SystemExit) as ended:
                main.main()
        finally:
            torch.set_num_threads(threads)
        return json.loads(file.read_text()), ended.value.code

    return run


def test_rows_have_their_rates_and_the_file_says_what_measured_them(run_benchmark, capsys):
    record, code = run_benchmark("--only", "one query,encoding: MiniLM-L6 / 60 tokens / float32")
    printed = capsys.readouterr().out
    assert code == 0
    assert {row["part"] for row in record["rows"]} == {"scoring", "encoding"}
    for row in record["rows"]:
        assert row["a second"] > 0
        assert row["tokens a second"] > row["a second"]
        assert 0 < row["share of peak"] < 1
        assert row["name"] in printed
    assert record["versions"]["torch"] == torch.__version__
    assert record["weights of MiniLM"] == "drawn"
    assert record["limits"]["products"]["bfloat16"] > 0


@pytest.mark.parametrize("row", ["monobert MiniLM-L6 / 60 tokens", "frozen / 60 tokens / stored", "of 512"])
def test_a_training_is_measured_for_some_updates_and_profiled(run_benchmark, row, tmp_path):
    record, code = run_benchmark("--only", f"training: {row}" if row.startswith("mono") else row, "--profile")
    assert code == 0
    [measured] = record["rows"]
    assert measured["a second"] > 0
    profile = (tmp_path / "gpu.profile.txt").read_text()
    assert measured["name"] in profile
    assert "aten::" in profile
    assert "Time of Python's threads" in profile


def test_a_row_that_fails_says_why_and_the_others_are_measured(run_benchmark, monkeypatch, capsys):
    scoring = sys.modules["gpu.scoring"]
    score = scoring.score

    def fail_first(inputs, model, *arguments, **more):
        if model == "MiniLM-L6":
            raise RuntimeError("no memory\nat all")
        return score(inputs, model, *arguments, **more)

    monkeypatch.setattr(scoring, "score", fail_first)
    record, code = run_benchmark("--only", "60 tokens / float32")
    errors = [row.get("error") for row in record["rows"] if row["part"] == "scoring"]
    assert errors == ["RuntimeError: no memory at all", None]
    assert code == "some rows have failed"
    assert "no memory at all" in capsys.readouterr().out


def test_operations_are_those_of_the_shape(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    inputs = pytest.importorskip("gpu.inputs")
    counter = pytest.importorskip("torch.utils.flop_counter").FlopCounterMode(display=False)
    layer = torch.nn.TransformerEncoderLayer(64, 2, 256, batch_first=True).train()
    with counter:
        layer(torch.randn(1, 10, 64))
        layer(torch.randn(1, 7, 64))
    assert inputs.Shape(1, 64, 256).operations([10, 7]) == counter.get_total_flops()
