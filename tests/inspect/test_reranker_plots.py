"""Plots of re-rankers show what was measured."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from telerank.inspect.diffusion import KINDS, Spread, diffusion_plot
from telerank.inspect.embeddings import map_plot
from telerank.inspect.gates import GatedSentence, Gates
from telerank.show.plots import render_plot


def spread(middle):
    return Spread(10, middle + 0.01, middle - 0.3, middle - 0.1, middle, middle + 0.1, middle + 0.3)


def test_a_box_stands_at_the_quartiles_of_each_kind_and_checkpoint():
    found = {
        name: {kind: spread(base + 0.1 * i) for i, kind in enumerate(KINDS)}
        for name, base in (("before", 0.1), ("after", 0.4))
    }
    figure = diffusion_plot(found)
    (panel,) = figure.axes
    boxes = [patch.get_path().vertices[:, 1] for patch in panel.patches]
    expected = [(base + 0.1 * i - 0.1, base + 0.1 * i + 0.1) for base in (0.1, 0.4) for i in range(3)]
    assert [(box.min(), box.max()) for box in boxes] == [pytest.approx(one) for one in expected]
    assert [tick.get_text() for tick in panel.get_xticklabels()] == list(KINDS)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["before", "after"]
    assert render_plot(figure, "svg") == render_plot(diffusion_plot(found), "svg")


def test_kinds_without_a_cosine_have_no_box():
    nothing = Spread(0, *[math.nan] * 6)
    found = {"one": {kind: nothing if kind == KINDS[2] else spread(0) for kind in KINDS}}
    assert render_plot(diffusion_plot(found), "png")


def test_relevant_pairs_are_marked_in_maps_of_two_and_three_dimensions():
    relevant = np.arange(20) % 4 == 0
    maps = {
        name: [np.random.default_rng(0).normal(size=(20, n)) for n in (2, 3)] for name in ("before", "after")
    }
    figure = map_plot(maps, relevant, {"before": "agreement 0.50", "after": "agreement 0.90"})
    assert [panel.get_title() for panel in figure.axes] == [
        "before\nagreement 0.50",
        "",
        "after\nagreement 0.90",
        "",
    ]
    for panel, dimensions in zip(figure.axes, (2, 3, 2, 3), strict=True):
        assert hasattr(panel, "get_zlim") == (dimensions == 3)
        rest, good = panel.collections
        assert (len(rest.get_offsets()), len(good.get_offsets())) == (15, 5)
    assert np.allclose(figure.axes[0].collections[1].get_offsets(), maps["before"][0][relevant])


def test_a_gate_is_shaded_by_its_value_and_what_is_not_read_is_empty():
    sentences = (
        GatedSentence("First one.", (0.25, 0.9)),
        GatedSentence("second " * 60, (0.75, 0.1)),
        GatedSentence("third"),
    )
    figure = Gates("why", sentences, 1.0, 2, 7).plot()
    panel = figure.axes[0]
    shaded = panel.collections[0].get_array()
    assert np.ma.filled(shaded, -1).tolist() == [[0.25, 0.9], [0.75, 0.1], [-1, -1]]
    assert [text.get_text() for text in panel.texts] == ["0.25", "0.90", "0.75", "0.10", "–", "–"]
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["1", "2"]
    labels = [tick.get_text() for tick in panel.get_yticklabels()]
    assert labels[0] == "First one."
    assert labels[1].endswith("…")
