"""The models that come with telerank: their files, if they are there, their cards, and what measures them."""

from __future__ import annotations

import importlib.util
import re
import sys

import numpy as np
import pytest
from reader_place import squad_file

import telerank as tr
from documents import ROOT
from small_models import small_encoder
from small_service import save_models
from telerank import model_names
from telerank.model_names import COMPACT, READER, RERANKER, SHIPPED, ShippedModel
from telerank.models.compact import LEARNED, read_manifest
from telerank.types import Query, Ranking

sys.path.insert(0, str(ROOT / "tests" / "training"))

CARDS = {name: ROOT / "src" / "telerank_e5" / "models" / name / "README.md" for name in SHIPPED}


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("measure_models", ROOT / "scripts" / "measure_models.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_shipped_files_are_whole_small_licensed_and_measured(script):
    for name, card in CARDS.items():
        text = card.read_text(encoding="utf-8")
        assert text.count(script.BEGIN) == text.count(script.END) == 1
        assert "CC BY-SA 4.0" in text
        if (card.parent / COMPACT).is_file():
            manifest = read_manifest(card.parent)
            assert (manifest.licence, manifest.encoder.name) == ("CC-BY-SA-4.0", SHIPPED[name].encoder)
            assert (card.parent / LEARNED).stat().st_size <= 13_000_000
            assert {"config", "data", "versions"} <= manifest.training.keys()
            assert "Not measured yet" not in text
            assert f"{manifest.sha256}  {name}/{LEARNED}" in text
            start = manifest.encoder.sha256 if name == READER else read_manifest(CARDS[READER].parent).sha256
            assert start in text


def test_a_sum_is_the_pipeline_of_the_card(script):
    """Of a share and a scaled score, as ``0.6 * softmax(a) + 0.4 * minmax(b)`` has it."""
    docnos, query = list("abc"), Query("1", "q")
    first, second, flat = (
        Ranking.ranked(query, docnos, scores) for scores in ([3, 0, -1000], [10, 10, 30], [5, 5, 5])
    )
    expected = {"a": 0.6 / (1 + np.exp(-3)), "b": 0.6 / (1 + np.exp(3)), "c": 0.4}
    assert dict(script.fuse(0.6, first, second)) == pytest.approx(expected)
    assert script.fuse(0.5, first, flat).docnos == first.docnos
    stages = [tr.retriever(lambda _query, _k, own=own: dict(own)) for own in (first, second)]
    pipeline = 0.6 * tr.softmax(stages[0]) + 0.4 * tr.minmax(stages[1])
    assert dict(script.fuse(0.6, first, second)) == pytest.approx(dict(pipeline.search(query)))


def test_the_weight_is_the_least_that_the_questions_do_not_tell_from_the_best(script):
    values = {
        0.0: [0, 0, 0, 0],
        0.5: [1.0, 0.9, 1.0, 0.4],
        0.7: [1.0, 1.0, 1.0, 0.6],
        1.0: [0.5, 1.0, 0.9, 0.6],
    }
    arrays = {weight: np.array(own) for weight, own in values.items()}
    assert script.choose_weight(arrays) == 0.7  # 0.5 is .075 below, with a standard error of .048
    arrays[0.5][3] = 0.65
    assert script.choose_weight(arrays) == 0.5  # .013 below, with a standard error of .032


def test_the_script_measures_held_out_articles_and_writes_the_cards(script, tmp_path, monkeypatch):
    """On small sets of the names that it knows, with small models; a set that is not there has no row."""
    for seed, name in enumerate(("piaf", "fquad")):
        (tmp_path / "data" / name).mkdir(parents=True)
        squad_file(tmp_path / "data" / name / f"{name}.json", articles=24, seed=seed)
    made = save_models(tmp_path / "made")
    (tmp_path / "models").mkdir()
    for kind, name in (("reader", READER), ("reranker", RERANKER)):
        made[kind].rename(tmp_path / "models" / name)
        (tmp_path / "cards" / name).mkdir(parents=True)
        (tmp_path / "cards" / name / "README.md").write_text(f"a\n{script.BEGIN}old\n{script.END}\nb\n")
    small_encoder(tmp_path / "models" / "e5-small")
    monkeypatch.setenv("TELERANK_DATA", str(tmp_path / "data"))
    monkeypatch.setenv(model_names.VARIABLE, str(tmp_path / "models"))
    monkeypatch.setattr(ShippedModel, "folder", property(lambda own: tmp_path / "cards" / own.name))
    monkeypatch.setattr(sys, "argv", ["measure_models.py"])
    monkeypatch.chdir(tmp_path)
    script.main()
    reader, reranker = ((tmp_path / "cards" / name / "README.md").read_text() for name in (READER, RERANKER))
    for card in (reader, reranker):
        assert card.startswith(f"a\n{script.BEGIN}| set |")
        assert card.endswith(f"{script.END}\nb\n")
    rows = [line.split(" | ") for line in reader.splitlines() if line.startswith(("| piaf", "| fquad"))]
    held_out = sum(script.PARTS.part_of(f"article {n}") == "test" for n in range(24))
    assert [int(row[1]) for row in rows] == [6 * held_out, 6 * 24]
    systems = [line.split(" | ")[1] for line in reranker.splitlines() if line.startswith("| piaf")]
    assert systems == ["BM25", "e5-small", "hybrid", "re-ranked", "fused"]
    assert re.search(r"Fused: `[01]\.\d \* softmax\(H >> rerank\) \+ [01]\.\d \* minmax\(H\)`", reranker)
    assert np.isfinite(float(rows[0][2].split()[0]))
