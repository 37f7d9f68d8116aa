from __future__ import annotations

import pytest

from telerank.fusion.tuning import simplex, square
from telerank.show.plots import mixture_plot, render_plot


def test_two_runs_are_a_curve_with_levels():
    points = simplex(2, "0.25")
    figure = mixture_plot(points, [0.1, 0.2, 0.3, 0.2, 0.1], ("a", "b"), measure="AP", levels={"oracle": 0.4})
    (panel,) = figure.axes
    curve, level = panel.lines
    assert list(curve.get_xdata()) == [first for first, _ in points]
    assert list(level.get_ydata()) == [0.4] * 5
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("weight of a", "AP")


def test_three_runs_are_a_triangle_with_every_point_and_the_best_marked():
    points = simplex(3, "0.1")
    values = [b - abs(a - 0.2) for a, b, _ in points]
    figure = mixture_plot(points, values, ("a", "b", "c"), measure="AP", levels={"oracle": 1.25})
    panel = figure.axes[0]
    everything, best = panel.collections
    assert len(everything.get_offsets()) == 66
    assert len(best.get_offsets()) == 1
    assert panel.get_title() == "best: 0.8000 at 0, 1, 0"
    assert {text.get_text() for text in panel.texts} == {"a", "b", "c"}
    assert b"oracle: 1.2500" in render_plot(figure, "svg")


def test_independent_weights_of_two_runs_are_a_square():
    points = square(2, "0.25")
    figure = mixture_plot(points, [a - b for a, b in points], ("a", "b"), measure="AP")
    panel = figure.axes[0]
    everything, best = panel.collections
    assert everything.get_offsets().tolist() == [list(point) for point in points]
    assert best.get_offsets().tolist() == [[1, 0]]
    assert (panel.get_title(), panel.get_ylabel()) == ("best: 1.0000 at 1, 0", "weight of b")


def test_more_runs_are_refused():
    with pytest.raises(ValueError, match="not of 3 that do not sum to 1"):
        mixture_plot(square(3, "0.5"), [0.0] * 26, "abc", measure="AP")
    with pytest.raises(ValueError, match="two or three runs can be drawn, not of 4"):
        mixture_plot(simplex(4), [0.0] * 286, "abcd", measure="AP")
