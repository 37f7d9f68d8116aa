"""Batches of like lengths: what texts, pairs and groups of pairs are computed in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from telerank.batches import batch_by_length


def batches(*given, **how):
    return list(batch_by_length(*given, **how))


def test_batches_hold_like_lengths_within_the_budget():
    lengths = [3, 9, 1, 4, 4, 9, 30, 2]
    found = batches(lengths, 18)
    assert [[lengths[place] for place in batch] for batch in found] == [[30], [9, 9], [4, 4, 3, 2], [1]]
    assert batches([3, 9, 1, 40, 9], 20) == [[3], [1, 4], [0, 2]]


def test_what_is_much_shorter_than_the_longest_begins_another_batch():
    assert batches([3, 100, 5, 90, 4], 200, shortest=2 / 3) == [[1, 3], [2, 4], [0]]
    assert batches([100, 99, 98], 200, shortest=2 / 3) == [[0, 1], [2]]
    assert batches([500, 1], 200) == [[0], [1]]


@given(
    st.lists(st.integers(0, 60)),
    st.integers(0, 200),
    st.sampled_from([0, 0.5, 2 / 3, 1]),
)
def test_every_place_comes_once_the_longest_first(lengths, budget, shortest):
    found = batches(lengths, budget, shortest=shortest)
    order = [place for batch in found for place in batch]
    assert order == sorted(range(len(lengths)), key=lambda place: (-lengths[place], place))
    for batch in found:
        assert len(batch) == 1 or lengths[batch[0]] * len(batch) <= budget
        assert lengths[batch[-1]] >= shortest * lengths[batch[0]]
