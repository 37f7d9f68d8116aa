"""Each cell that a paper prints stands in one of its experiments, and nothing else does; all are complete."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain

import pytest
import yaml
from printed import PRINTED, read_lines

from papers import read_paper, training
from telerank.experiments.packaged import FOLDER, packaged_names
from telerank.experiments.schema import Experiment

PAPERS = ("best", "bert-dmn", "monobert", "piaf", "repbert")
FIGURES = {
    "best": ["figure1", "figure2"],
    "bert-dmn": ["figure3"],
    "monobert": ["figure1"],
    "piaf": ["figure7", "figure8", "figure9", "figure11", "figure12", "figure14", "figure15"],
    "repbert": ["figure1a", "figure1b", "figure2"],
}
TEXTS = (  # of sections without a table
    *("piaf/answers", "piaf/answers-dila", "piaf/answers-end-to-end", "piaf/no-answers"),
    *("best/causes", "best/documents", "piaf/bi-encoders", "piaf/exact-match", "piaf/grid", "piaf/mlm"),
    "repbert/mismatch",
)
IN_OTHER_LINES = ("piaf/ranking-set", "repbert/table4")
"""Values of the text are among those of the table, and rows of two tables have the same name."""
PARTS = ("bert-dmn/authors", "bert-dmn/word-vectors")
"""Rows of another table, with systems beside them that the paper does not have."""
FILES = [
    str(path.relative_to(FOLDER).with_suffix(""))
    for paper in PAPERS
    for path in sorted((FOLDER / paper).glob("*.yaml"))
    if not path.name.startswith("_")
]
NAMES = [name for name in FILES if name not in PARTS]


def published(experiment: Experiment) -> tuple[list[list[float]], list[list[float]]]:
    """All values that an experiment has of its paper, by row and by column, each in rising order."""
    rows, columns = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for part in (experiment.published, *(analysis.published for analysis in experiment.analyses)):
        for row, values in chain.from_iterable(data.items() for data in part.values()):
            for column, value in values.items():
                if value is not None:
                    rows[row].append(value)
                    columns[column].append(value)
    return tuple(sorted(map(sorted, lines.values())) for lines in (rows, columns))


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_has_the_values_of_its_table_and_no_others(name):
    lines, (rows, columns) = read_lines(name), published(read_paper(name))
    if name in IN_OTHER_LINES:
        lines, rows = sorted(chain.from_iterable(lines)), sorted(chain.from_iterable(rows))
    assert lines in (rows, columns)


def test_every_table_and_figure_is_listed():
    figures = {f"{paper}/{figure}" for paper, names in FIGURES.items() for figure in names}
    assert set(NAMES) == PRINTED.keys() | figures | set(TEXTS)
    assert set(FILES) <= {*packaged_names()}


@pytest.mark.parametrize("name", FILES)
def test_each_is_read_whole_and_small_on_all_of_its_data(name):
    whole, small = (read_paper(name, small=small) for small in (False, True))
    assert whole.source
    assert any(data.paper for data in whole.data.values())
    for experiment in (whole, small):
        alone = [experiment.on(data) for data in experiment.data]
        assert all(each.analyses for each in alone)
        for each in alone:
            on_sets = ("reader", "mlm")  # which learn from sets of their own
            trained = [model for model, settings in each.trained.items() if settings.train not in on_sets]
            # those of BeST get their lists, and the folds of their tests, when they are run
            assert name.startswith("best/") or all(training(each, model) for model in trained)
        assert Experiment.model_validate(yaml.safe_load(alone[0].yaml())) == alone[0]
