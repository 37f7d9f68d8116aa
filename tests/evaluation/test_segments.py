"""Segment P@1: what a segment must hold, and the interval of the share."""

from __future__ import annotations

import pytest

from telerank.evaluation.segments import (
    SegmentChoice,
    choose_segment,
    held_by,
    measure_segments,
    top_segment,
)

SEGMENTS = [(0, 100), (100, 200), (200, 300)]


@pytest.mark.parametrize(
    ("span", "most", "whole"),
    [
        ((10, 20), [True, False, False], [True, False, False]),
        ((90, 105), [True, False, False], [False, False, False]),
        ((90, 110), [True, True, False], [False, False, False]),
        ((50, 250), [False, True, False], [False, False, False]),
        ((300, 310), [False, False, False], [False, False, False]),
    ],
)
def test_a_segment_holds_most_or_all_of_a_span(span, most, whole):
    assert held_by([span], SEGMENTS, "most") == most
    assert held_by([span], SEGMENTS) == whole


def test_one_of_several_spans_is_enough_and_overlapping_segments_may_both_hold_it():
    assert held_by([(10, 20), (210, 220)], SEGMENTS) == [True, False, True]
    assert held_by([(60, 90)], [(0, 100), (50, 150)], "whole") == [True, True]


def test_a_choice_knows_how_easy_it_was_and_of_equal_scores_the_first_is_selected():
    assert top_segment([0.1, 0.7, 0.7]) == 1
    choice = choose_segment(("q", "d"), [(10, 20)], SEGMENTS, 1)
    assert choice == SegmentChoice("q", "d", right=False, chance=1 / 3, first=True)
    assert choose_segment(("q", "d"), [(110, 120)], SEGMENTS, 1).right


@pytest.mark.parametrize(
    ("gold", "selected", "says"),
    [
        ([], 0, "query q, document d: no gold span"),
        ([(1, 2)], 3, "no segment 3 among 3"),
        ([(5, 5)], 0, "no text"),
    ],
)
def test_what_cannot_be_judged_is_refused(gold, selected, says):
    with pytest.raises(ValueError, match=says):
        choose_segment(("q", "d"), gold, SEGMENTS, selected)


def test_precision_is_of_pairs_and_its_interval_of_queries():
    choices = [SegmentChoice(f"q{n // 2}", f"d{n}", n % 4 < 2, 0.25 * (n % 2), n == 0) for n in range(40)]
    result = measure_segments(choices)
    assert (result.pairs, result.queries) == (40, 20)
    assert result.precision == 0.5
    assert result.chance == 0.125
    assert result.first == 1 / 40
    assert result.reachable == 0.5
    # ten queries with all of their pairs right, ten with none: the share of ten in twenty draws
    assert 0.25 <= result.low <= 0.3
    assert 0.7 <= result.high <= 0.75


def test_the_interval_of_one_outcome_is_a_point_and_without_choices_there_is_none():
    same = measure_segments([SegmentChoice(f"q{n}", "d", True, 0.5, False) for n in range(5)])
    assert (same.low, same.high) == (1.0, 1.0)
    with pytest.raises(ValueError, match="no pair has known relevant text"):
        measure_segments([])
