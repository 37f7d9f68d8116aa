"""Every example runs, and shows what it promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.docs

EXAMPLES = {path.name: path for path in (Path(__file__).parent.parent / "examples").glob("*.py")}
SHOWN = {
    "compare_models.py": ["bm25(k1=0.9, b=0.4)    0.7640", "0.7526†", "Paired t-test over 7,569 queries"],
    "search_your_texts.py": ["  1. passeport 1.558", "'valabl': tf 1, df 2, cf 2"],
    "tune_a_pipeline.py": ["RR@10 0.7664  0.9 * minmax(bm25(k1=1.2", ", 0.76"],
}


def test_every_example_is_tested():
    assert EXAMPLES.keys() == SHOWN.keys()


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_shows_what_it_promises(name):
    run = [sys.executable, "-W", "error", "-X", "utf8", str(EXAMPLES[name])]
    ran = subprocess.run(run, capture_output=True, text=True, check=True, encoding="utf-8")
    assert ran.stderr == ""
    for text in SHOWN[name]:
        assert text in ran.stdout
