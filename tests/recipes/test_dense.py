"""Dense retrieval and fusion beside a sparse model, on a collection that can be checked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sparse_task import task

from small_vectors import Letters
from telerank.evaluate.measures import measure
from telerank.fuse import interleave_rankings, sum_rankings, sum_reciprocal_ranks
from telerank.recipes.dense import DEPTH, Fused, encoded, fused_findings, fused_table, run_fused
from telerank.recipes.sparse import Parts
from telerank.sparse.writer import build_index
from telerank.types import Doc, Query

WHAT = Fused("words", "letters", ("R@1", "AP@5"), "AP@5")
PARTS = Parts(20)


@pytest.fixture(scope="module")
def stages(tmp_path_factory):
    index = build_index(task(60).docs(), tmp_path_factory.mktemp("fused") / "index", analyzer="standard")
    return index.bm25(), encoded(index, Letters())


@pytest.fixture(scope="module")
def outcome(stages):
    return run_fused(task(60), PARTS, stages, WHAT)


def test_vectors_lie_in_the_index_and_are_made_anew(stages):
    index, dense = stages[0].index, stages[1]
    assert dense.vectors.folder == index.folder / "vectors" / "letters"
    assert dense.vectors.manifest.source == index.state
    again = encoded(index, Letters(seed=1))
    assert again.vectors.manifest.fingerprint != dense.vectors.manifest.fingerprint
    assert encoded(index, Letters()).vectors.manifest == dense.vectors.manifest


def test_the_rows_are_the_lists_and_their_fusions_on_the_questions_that_measure(stages, outcome):
    all_questions = task(60)
    test = all_questions.part(PARTS.deal(query.qid for query in all_questions.queries)[1])
    sparse, dense = (list((stage % DEPTH).run(test.queries)) for stage in stages)
    weights = outcome.tuning.result.best
    name = f"{weights[0]:g} words + {weights[1]:g} letters"
    expected = {
        "words": sparse,
        "letters": dense,
        "in turns, words first": [
            interleave_rankings(both, None) for both in zip(sparse, dense, strict=True)
        ],
        "reciprocal ranks": [sum_reciprocal_ranks(both) for both in zip(sparse, dense, strict=True)],
        name: [sum_rankings(both, weights) for both in zip(sparse, dense, strict=True)],
    }
    assert list(outcome.evaluations) == list(expected)
    for row, rankings in expected.items():
        assert outcome.evaluations[row].mean == measure(rankings, test.qrels, WHAT.measures).mean


def test_weights_are_chosen_on_other_questions(stages, outcome):
    dev, test = PARTS.deal(query.qid for query in task(60).queries)
    assert set(outcome.tuning.result.table) == set(dev)
    assert set(outcome.evaluations["words"].qids) == set(test)
    assert sum(outcome.tuning.result.best) == pytest.approx(1)
    assert outcome.tuning.in_sample >= max(one.mean["AP@5"] for one in outcome.tuning.alone)


def test_the_table_marks_what_differs_from_the_sparse_model(outcome):
    table = fused_table(outcome)
    assert table.columns == ("first stage", "R@1", "AP@5")
    assert [row[0].text for row in table.rows] == list(outcome.evaluations)
    for row in table.rows:
        mean = outcome.evaluations[row[0].text].mean
        assert [cell.text for cell in row[1:]] == [
            f"{mean[name]:.3f}".removeprefix("0") for name in ("R@1", "AP@5")
        ]
    assert [cell.marks for cell in table.rows[0]] == ["", "", ""]
    assert [cell.marks for cell in table.rows[1]] == ["", "†", "†"]  # the same letters stand in all documents
    assert table.notes[1] == "The weights are the best of 11 on the 20 questions that choose."


def test_what_was_found_is_said(outcome):
    dense, together = fused_findings(outcome)
    means = {name: one.mean["AP@5"] for name, one in outcome.evaluations.items()}
    assert dense == (
        f"Dense: AP@5 of letters {means['letters']:.3f}, of words {means['words']:.3f}; "
        f"{outcome.cut} of 40 paragraphs are longer than letters reads."
    )
    best = max(list(means)[2:], key=means.__getitem__)
    assert together.startswith(f"Together: {best}, {means[best]:.3f}, ")
    assert together.endswith(" words.")


def test_what_is_cut_is_counted(tmp_path):
    texts = ["a" * 40, "b" * 41, "c" * 200]
    index = build_index(
        [Doc(f"d{n}", text) for n, text in enumerate(texts)], tmp_path / "index", analyzer="none"
    )
    assert encoded(index, Letters()).vectors.manifest.cut == 2


def test_dense_finds_by_its_vectors(stages):
    found = stages[1].search(Query("q", "word1 word2"))
    vectors = stages[1].vectors
    rows = np.array([vectors.docnos.row(docno) for docno in found.docnos[:5]])
    asked = Letters().queries(["word1 word2"]).vectors[0]
    assert vectors.scores(np.sort(rows), asked) == pytest.approx(
        [dict(found)[vectors.docnos[row]] for row in np.sort(rows)]
    )
