"""The consistency factor, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from telerank.evaluation.depth import measure_consistency, read_candidates
from telerank.types import Query, Ranking


def listed(qid: str, names: str) -> Ranking:
    return Ranking(Query(qid, ""), tuple(names), np.arange(len(names), 0, -1))


REFERENCE = read_candidates([listed("1", "abcdef"), listed("2", "gh"), listed("3", ""), listed("4", "a")], 4)


def test_equation_5_by_hand():
    found = measure_consistency([listed("1", "axbe"), listed("2", "hg")], REFERENCE, [1, 2, 3, 4, 1000])
    assert found.values == pytest.approx(
        [1, (0.5 + 1) / 2, (2 / 3 + 1) / 2, (2 / 4 + 1) / 2, (2 / 4 + 1) / 2]
    )
    assert found.queries == 2
    assert found.unanswered == ("4",)


def test_the_reference_is_cut_at_its_depth_and_a_run_is_wholly_consistent_with_itself():
    whole = read_candidates([listed("1", "abcdef")])
    assert measure_consistency([listed("1", "f")], whole, [1]).values == (1.0,)
    assert measure_consistency([listed("1", "f")], REFERENCE, [1]).values == (0.0,)
    run = [listed("1", "abc"), listed("2", "b")]
    assert measure_consistency(run, read_candidates(run, 3), [1, 2, 3]).values == (1.0, 1.0, 1.0)


def test_a_query_that_the_reference_lacks_counts_0_and_an_empty_list_has_no_share():
    found = measure_consistency([listed("1", "a"), listed("3", "a"), listed("9", "a")], REFERENCE, [1])
    assert found.values == pytest.approx([1 / 3])
    assert found.unknown == ("3", "9")
    assert measure_consistency([listed("1", "a"), listed("2", "")], REFERENCE, [1]).values == (1.0,)
    with pytest.raises(ValueError, match="the run has no document"):
        measure_consistency([listed("1", "")], REFERENCE, [1])
    for depths in ([], [0, 1]):
        with pytest.raises(ValueError, match="depths must be 1 or more"):
            measure_consistency([listed("1", "a")], REFERENCE, depths)
