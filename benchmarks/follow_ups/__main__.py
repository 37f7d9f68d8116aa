"""How well follow-ups are completed: RR@10 of each as typed, completed, and asked in full, on both halves.

::

    python -m benchmarks.follow_ups        # about a minute; needs squad2-dev-half in TELERANK_DATA
    python -m benchmarks.follow_ups dev    # the half by which rules are chosen

The paragraph of the question is relevant; BM25 (k1 0.9, b 0.4) ranks all paragraphs of the collection. The
intervals are of the difference between completed and typed, by a bootstrap over the questions.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import telerank as tr

SET = Path(__file__).parent / "follow_ups.yaml"
ANALYZERS = {"fr": "french", "en": "english"}
FORMS = ("typed", "completed", "full")


def read_items(language: str, half: str) -> list[dict[str, Any]]:
    record = yaml.safe_load(SET.read_text(encoding="utf-8"))[language]
    return [item for item in record["items"] if item["half"] == half]


def forms_of(item: dict[str, Any], language: Any = None) -> dict[str, str]:
    text = tr.follow_up(item["follow_up"], [item["first"]["text"]], language).text
    return {"typed": item["follow_up"], "completed": text, "full": item["full"]}


def reciprocal_ranks(stage: Any, items: list[dict[str, Any]], relevant: Any) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {form: [] for form in FORMS}
    for item in items:
        for form, text in forms_of(item).items():
            docnos = stage.search(text).docnos
            ranks = [rank for rank, docno in enumerate(docnos, 1) if relevant[item["asked"]].get(docno)]
            values[form].append(1 / ranks[0] if ranks else 0.0)
    return values


def interval(differences: list[float]) -> tuple[float, float]:
    random = np.random.default_rng(0)
    means = random.choice(differences, (10_000, len(differences))).mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def main(halves: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pooled: dict[str, dict[str, list[float]]] = {}
        for language, analyzer in ANALYZERS.items():
            name = yaml.safe_load(SET.read_text(encoding="utf-8"))[language]["collection"]
            collection = tr.piaf() if name == "piaf" else tr.collection(name)
            index = tr.index(collection, f"{folder}/{name}", analyzer=analyzer)
            relevant = collection.judged()
            for half in halves:
                items = read_items(language, half)
                values = reciprocal_ranks(index.bm25(0.9, 0.4) % 10, items, relevant)
                describe(f"{language} {half}", values)
                for form, own in values.items():
                    pooled.setdefault(half, {}).setdefault(form, []).extend(own)
        for half, values in pooled.items():
            describe(f"both {half}", values)


def describe(name: str, values: dict[str, list[float]]) -> None:
    means = "  ".join(f"{form} {np.mean(own):.3f}" for form, own in values.items())
    differences = [new - old for new, old in zip(values["completed"], values["typed"], strict=True)]
    low, high = interval(differences)
    print(
        f"{name}: {len(differences)} follow-ups, RR@10 {means}  (completed − typed {low:+.3f} to {high:+.3f})"
    )


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or ("dev", "test"))
