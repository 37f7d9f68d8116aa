from __future__ import annotations

import pytest

from telerank.errors import FormatError
from telerank.show.plots import COLOURS, bar_plot, check_plot_name, line_plot, render_plot, save_plot

DEPTHS = [1, 3, 5, 15]
PANELS = {
    "R": {"bm25": [0.1, 0.2, 0.3, 0.4], "dfi": [0.2, 0.3, 0.4, 0.5]},
    "AP": {"dfi": [0.1, 0.1, 0.1, 0.2]},
}


def test_each_panel_has_its_lines_and_labels():
    figure = line_plot(PANELS, DEPTHS)
    recall, precision = figure.axes
    assert (recall.get_ylabel(), recall.get_xlabel(), precision.get_ylabel()) == ("R", "depth", "AP")
    assert [line.get_ydata().tolist() for line in recall.lines] == list(PANELS["R"].values())
    assert [tick.get_text() for tick in recall.get_xticklabels()] == ["1", "3", "5", "15"]
    assert recall.lines[1].get_color() == precision.lines[0].get_color() == COLOURS[1]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["bm25", "dfi"]


@pytest.mark.parametrize(
    ("x", "scale", "labelled"),
    [
        (range(1, 101), "log", None),
        ([1, 5, 10, 20, 50, 100, 200, 500, 1000], "log", [1, 5, 10, 20, 50, 100, 200, 1000]),
        ([7], "linear", [7]),
    ],
    ids=["all", "long labels", "one"],
)
def test_labels_do_not_touch_and_the_ends_are_labelled(x, scale, labelled):
    figure = line_plot({"R": {"bm25": [0.5] * len(x)}}, list(x))
    ticks = list(figure.axes[0].get_xticks())
    assert ticks == labelled if labelled else 3 < len(ticks) <= 11
    assert figure.axes[0].get_xscale() == scale
    assert figure.legends == []  # one line needs none


def test_many_systems_are_told_apart():
    lines = {f"s{i}": [0.1 * i, 0.2] for i in range(12)}
    drawn = line_plot({"R": lines}, [1, 2]).axes[0].lines
    assert len({(line.get_color(), line.get_marker(), line.get_linestyle()) for line in drawn}) == 12


@pytest.mark.parametrize(("name", "magic"), [("p.png", b"\x89PNG"), ("p.SVG", b"<?xml"), ("p.pdf", b"%PDF")])
def test_a_plot_is_written_as_its_name_says_and_the_same_gives_the_same_bytes(tmp_path, name, magic):
    save_plot(line_plot(PANELS, DEPTHS), tmp_path / name)
    content = (tmp_path / name).read_bytes()
    assert content.startswith(magic)
    assert render_plot(line_plot(PANELS, DEPTHS), name[2:].lower()) == content


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(FormatError, match=r"p.gif: expected the name of a plot, ending in .png, .svg, .pdf"):
        check_plot_name("p.gif")
    with pytest.raises(ValueError, match="the line 'bm25' has 1 values for 2 x"):
        line_plot({"R": {"bm25": [0.1]}}, [1, 2])
    with pytest.raises(ValueError, match="the bars 'bm25' have 0 values for 4 groups"):
        bar_plot(PANELS, ["a", "b", "c", "d"])
    for draw in (line_plot, bar_plot):
        with pytest.raises(ValueError, match="a plot needs a panel"):
            draw({}, [1])


def test_bars_stand_in_groups_with_their_values():
    figure = bar_plot(
        {"R@1": PANELS["R"], "AP": PANELS["R"]}, ["a", "b", "c", "d"], colours=("#111111", "#eeeeee")
    )
    assert [panel.get_ylabel() for panel in figure.axes] == ["R@1", "AP"]
    panel = figure.axes[0]
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["a", "b", "c", "d"]
    heights = {bars.get_label(): [bar.get_height() for bar in bars] for bars in panel.containers}
    assert heights == {name: pytest.approx(values) for name, values in PANELS["R"].items()}
    assert [text.get_text() for text in panel.texts[:4]] == ["0.10", "0.20", "0.30", "0.40"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["bm25", "dfi"]
