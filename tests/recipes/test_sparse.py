"""The experiment on the sparse models: what is tuned is measured elsewhere, and the figures are those of the parts."""

from __future__ import annotations

import numpy as np
import pytest
from sparse_task import SYSTEMS, few, plan, task

import telerank
from telerank.corpus.collection import Collection
from telerank.errors import CollectionError, MeasureError
from telerank.evaluate.measures import measure
from telerank.evaluate.tune import Folds
from telerank.recipes.sparse import DEFAULT, FAMILIES, GIVEN, TUNED, Parts, System, Task, run_plan
from telerank.sparse.similarities import BM25, DFI, parse_similarity
from telerank.types import Doc, Qrel, Query


@pytest.fixture(scope="module")
def parted(tmp_path_factory):
    """An outcome with a dev part, and the folder with its indexes."""
    folder = tmp_path_factory.mktemp("parted")
    return run_plan(task(), plan(held_out=Parts(10, 15, seed=3)), folder=folder), folder


@pytest.fixture(scope="module")
def folded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("folded")
    return run_plan(task(), plan(held_out=Folds(3), given=(DFI("chisquared"),)), folder=folder), folder


def test_families_are_named_as_their_text_form_is_read():
    assert {name: parse_similarity(name) for name in FAMILIES} == dict(FAMILIES)


def test_parts_are_apart_and_drawn_by_the_seed_alone():
    qids = [f"q{i}" for i in range(20)]
    dev, test = Parts(5, 10).deal(qids)
    assert (len(dev), len(test), dev & test) == (5, 10, frozenset())
    assert Parts(5, 10).deal(reversed(qids)) == (dev, test)
    assert Parts(5, 10, seed=1).deal(qids) != (dev, test)
    assert Parts(5).deal(qids) == (dev, frozenset(qids) - dev)


@pytest.mark.parametrize("parts", [(1, 1), (2, 0)])
def test_parts_too_small_to_choose_or_to_measure_are_refused(parts):
    with pytest.raises(ValueError, match="two questions at least choose, and one measures"):
        Parts(*parts)


def test_too_few_questions_for_the_parts_are_an_error():
    with pytest.raises(ValueError, match="30 judged questions are too few for parts of 20 and 11"):
        run_plan(task(), plan(held_out=Parts(20, 11)))


def test_every_system_is_measured_on_the_questions_held_out(parted):
    outcome, _ = parted
    _, test = Parts(10, 15, seed=3).deal(query.qid for query in task().queries)
    assert (outcome.dev, outcome.test, len(outcome.evaluations)) == (10, 15, SYSTEMS)
    assert {frozenset(one.qids) for one in outcome.evaluations.values()} == {test}


@pytest.mark.parametrize("analyzer", ["folded", "plain"])
def test_defaults_have_the_values_of_the_index_that_stays(parted, analyzer):
    outcome, folder = parted
    index = telerank.open(folder / analyzer)
    for family, default in FAMILIES.items():
        evaluation = outcome.evaluations[System(family, DEFAULT, analyzer)]
        asked = [query for query in task().queries if query.qid in evaluation.qids]
        qrels = {query.qid: task().qrels[query.qid] for query in asked}
        again = measure(index.retriever(default).run(asked), qrels, "R@1 AP@5")
        assert {name: evaluation.of(name) for name in again.measures} == {
            name: again.of(name) for name in again.measures
        }


def test_the_dev_part_chooses_and_the_others_measure(parted):
    outcome, folder = parted
    dev, _ = Parts(10, 15, seed=3).deal(query.qid for query in task().queries)
    index = telerank.open(folder / "folded")
    asked = [query for query in task().queries if query.qid in dev]
    qrels = {qid: task().qrels[qid] for qid in dev}
    means = {one: measure(index.retriever(one).run(asked), qrels, "AP@5").mean["AP@5"] for one in few(BM25())}
    tuning = next(one for one in outcome.tunings if (one.model, one.analyzer) == ("bm25", "folded"))
    assert tuning.best == max(means, key=means.__getitem__)
    assert (tuning.dev, tuning.tried, tuning.choices) == (
        pytest.approx(max(means.values())),
        3,
        (tuning.best,),
    )
    assert tuning.held_out == outcome.evaluations[System("bm25", TUNED, "folded")].mean["AP@5"]
    assert tuning.default == outcome.evaluations[System("bm25", DEFAULT, "folded")].mean["AP@5"]


def test_with_folds_each_question_is_answered_by_what_the_others_chose(folded):
    outcome, folder = folded
    assert outcome.dev == outcome.test == 30
    index = telerank.open(folder / "folded")
    values = {
        one: measure(index.retriever(one).run(task().queries), task().qrels, "AP@5").of("AP@5")
        for one in few(BM25())
    }
    tuned = outcome.evaluations[System("bm25", TUNED, "folded")].of("AP@5")
    for fold in Folds(3).deal(task().qrels):
        others = [qid for qid in task().qrels if qid not in fold]
        means = {one: np.mean([of[qid] for qid in others]) for one, of in values.items()}
        choice = max(means, key=means.__getitem__)
        assert {qid: tuned[qid] for qid in fold} == {qid: values[choice][qid] for qid in fold}


def test_settings_besides_are_measured_under_each_analyzer(folded):
    outcome, _ = folded
    given = [system for system in outcome.evaluations if system.how == GIVEN]
    assert [str(system) for system in given] == [
        "dfi(independence=chisquared), folded",
        "dfi(independence=chisquared), plain",
    ]


def test_a_measure_without_cutoff_sees_the_depth_of_the_plan():
    shallow = run_plan(task(), plan(held_out=Folds(2), measures="AP", objective="R@1", depth=1))
    for one in shallow.evaluations.values():
        assert one.mean["AP"] == one.mean["R@1"]


def test_comparisons_are_with_bm25_at_its_defaults_under_the_first_analyzer(parted):
    outcome, _ = parted
    comparison = outcome.compared([System("dfi", TUNED, "plain")], ["R@1", "AP@5"])
    assert comparison.baselines == ("bm25 default, folded",)
    assert [(one.system, one.measure) for one in comparison.differences] == [
        ("dfi tuned, plain", "R@1"),
        ("dfi tuned, plain", "AP@5"),
    ]


def test_progress_is_told_up_to_the_number_of_all_settings():
    told = []
    run_plan(task(), plan(held_out=Parts(10)), progress=lambda *news: told.append(news))
    tuning = [(done, total) for what, done, total in told if what == "tuning"]
    tried = 2 * sum(len(few(default)) for default in FAMILIES.values())
    assert tuning[0] == (0, tried)
    assert tuning[-1] == (tried, tried)
    assert [done for done, _ in tuning] == sorted(done for done, _ in tuning)


def collection(qrels: list[Qrel]) -> Collection:
    return Collection(
        "three",
        "none",
        docs=lambda: iter([Doc("d", "text")]),
        queries={"all": lambda: iter([Query("a", "text"), Query("b", "text")])},
        qrels={"all": lambda: iter(qrels)},
    )


def test_questions_without_a_judgment_are_left_out_and_counted():
    made = Task.of(collection([Qrel("b", "d", 1)]))
    assert ([query.qid for query in made.queries], made.unjudged) == (["b"], 1)


def test_qrels_of_a_question_that_is_not_there_are_an_error():
    with pytest.raises(CollectionError, match="three: the qrels judge query 'c', which is not there"):
        Task.of(collection([Qrel("c", "d", 1)]))


def test_a_collection_without_qrels_is_an_error():
    with pytest.raises(CollectionError, match="three: the qrels judge nothing"):
        Task.of(collection([]))


def test_measures_may_be_written_in_any_form():
    written = plan(held_out=Folds(2), measures="MRR@10, R@1", objective="MAP@5")
    assert (written.measures, written.objective) == (("RR@10", "R@1"), "AP@5")


def test_settings_are_chosen_by_one_measure():
    with pytest.raises(MeasureError, match="chosen by one measure, got AP@5 R@1"):
        plan(held_out=Folds(2), objective="AP@5 R@1")
