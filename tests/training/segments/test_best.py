"""BeST: what theta(0) and theta(1) learn from, its iterations, their files, and an interrupted training."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
import torch
from small_training import ON_CPU, losses

from small_segments import QUERIES, answer_of, segment_settings, text_of
from telerank.errors import FormatError, ModelError
from telerank.models.rerankers.reranker import load_reranker
from telerank.training.loop import Loop
from telerank.training.reranker.iteration_results import IterationResult, Iterations, read_result
from telerank.training.reranker.iterations import join_tasks
from telerank.training.reranker.job import RerankerJob, start_reranker
from telerank.training.reranker.plan import TrainingPlan
from telerank.training.reranker.selection import Selection, read_selection, read_truth
from telerank.training.reranker.task import RerankerTask
from telerank.training.reranker.train import train_reranker, train_rerankers
from telerank.training.settings import read_settings
from telerank.types import silent

HINGE = {"objective": "margin", "margin": 1.0, "of": "logit"}
TWO = {"iterations": 2}


@pytest.fixture(scope="module")
def trained(segmented, tmp_path_factory):
    """Two iterations; the first checkpoint of each is copied beside the folder."""
    output = tmp_path_factory.mktemp("trained") / "out"

    def copy_checkpoints(_record):
        for folder in output.glob("iterations/*/checkpoints/*"):
            if not (copy := output.parent / folder.parent.parent.name).exists():
                shutil.copytree(folder, copy)

    train_reranker(segmented("best", TWO), output, report=copy_checkpoints)
    return output


@pytest.fixture
def joint_task(segmented, tmp_path):
    """Makes the first iteration's task, without dropout; theta(0) may begin elsewhere, so that both differ."""

    def make(seed_of_selector=0, **changes):
        config = segmented("best", model={"dropout": 0.0, "head": {"dropout": 0.0}}, **changes)
        tasks = RerankerJob.open(config, tmp_path, tmp_path).open_tasks(None, ON_CPU, silent)
        task = join_tasks(tasks, start_reranker(config.model, seed_of_selector))
        for model in task.models:
            for module in model:
                module.train()
        return config, tasks, task

    return make


@pytest.fixture(scope="module")
def results(trained):
    return json.loads((trained / "iterations.json").read_text())["iterations"]


def read_rows(path):
    head, *rows = map(json.loads, path.read_text().splitlines())
    return head, rows


def gradients(module):
    return [weight.grad.clone() for weight in module.parameters() if weight.grad is not None]


@pytest.mark.parametrize("loss", [HINGE, {"objective": "pointwise", "class_weights": False}])
def test_theta_1_learns_from_the_arg_max_of_theta_0_in_each_document(joint_task, loss):
    """Its gradients are those of the chosen segments alone, relevant or not; theta(0) chooses."""
    _, tasks, task = joint_task(seed_of_selector=5, loss=loss)
    groups, _ = task.batch(0)
    expected = []
    for group in groups:
        texts = []
        for docno in group.docnos:
            own = tasks.table.texts(docno)
            scores = task.selecting.score([(group.query, text) for text in own])
            texts.append(own[scores.index(max(scores))])
        expected.append(replace(group, documents=tuple(texts)))
    value = task.backward(task.read(0))
    found = gradients(task.reranker.model)
    task.reranker.model.zero_grad()
    again = RerankerTask.backward(task, task.scorer.read(expected, 0))
    assert float(again) == pytest.approx(float(value), rel=1e-4)
    for one, other in zip(found, gradients(task.reranker.model), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_the_gradients_of_both_models_are_limited_apart(joint_task, tmp_path, monkeypatch):
    def learned(model):
        return {weight for weight in model.parameters() if weight.requires_grad}

    limited = []
    monkeypatch.setattr(
        torch.nn.utils, "clip_grad_norm_", lambda weights, most: limited.append((set(weights), most))
    )
    config, _, task = joint_task(optimisation={"max_gradient_norm": 1.0})
    Loop(config, tmp_path, 2, None, task, ON_CPU).update(silent)
    most = config.optimisation.max_gradient_norm
    assert limited == [(learned(task.selector.model), most), (learned(task.reranker.model), most)]


def test_theta_0_learns_from_all_segments_of_the_same_number(joint_task):
    """The sum over j of the hinge of segment j of both documents, a mean over groups."""
    config, tasks, task = joint_task(loss=HINGE)
    groups, _ = task.batch(0)
    task.learn_from_all(groups)
    found = gradients(task.selector.model)
    task.selector.model.zero_grad()
    total = torch.zeros(())
    for group in groups:
        counts = [tasks.table.count(docno) for docno in group.docnos]
        for j in range(max(counts)):
            pairs = [
                (group.query, tasks.table.text(docno, j % count))
                for docno, count in zip(group.docnos, counts, strict=True)
            ]
            own = replace(group, documents=tuple(text for _, text in pairs))
            ((_, logits, _),) = task.selecting.group_logits(task.selecting.read([own], 0))
            first, *others = logits[0]
            hinge = sum((1 - first + other).clamp(min=0) for other in others) / len(others)
            total = total + hinge / config.optimisation.batch
    total.backward()
    for one, other in zip(found, gradients(task.selector.model), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


class Rising:
    """Scores later groups higher than earlier ones."""

    def __init__(self, scorer):
        self.scorer, self.order = scorer, {}

    def read(self, groups, number):
        self.order = {id(group): place for place, group in enumerate(groups)}
        return self.scorer.read(groups, number)

    def group_logits(self, tokens):
        for learned, logits, last in self.scorer.group_logits(tokens):
            later = torch.tensor([[1000.0 * self.order[id(group)]] for group in learned])
            yield learned, logits + later, last


def test_a_segment_that_comes_again_is_chosen_by_its_first_score(joint_task):
    """Of a shorter document: dropout would give those that come again another chance."""
    _, tasks, task = joint_task(loss=HINGE)
    groups, _ = task.batch(0)
    for group in groups:
        docno = group.docnos[0]
        tasks.table.segments[docno] = tasks.table.segments[docno].first(2)
    chosen = replace(task, selecting=Rising(task.selecting)).learn_from_all(groups)
    assert {tasks.table.count(docno) for group in groups for docno in group.docnos} == {2, 3}
    for group, own in zip(chosen, groups, strict=True):
        last = tuple(tasks.table.texts(docno)[-1] for docno in own.docnos)
        assert group.documents == last


def test_both_models_start_from_the_same_weights_and_are_in_every_checkpoint(segmented, tmp_path, trained):
    tasks = RerankerJob.open(segmented("best"), tmp_path, tmp_path)
    one, other = tasks.model_of(None), tasks.model_of(None)
    assert one.fingerprint == other.fingerprint
    checkpoint = trained.parent / "1"
    ranker, selector = load_reranker(checkpoint), load_reranker(checkpoint / "selector")
    prints = {model.fingerprint for model in (ranker, selector, one)}
    assert len(prints) == 3  # both have learned, from different segments


def test_later_iterations_start_afresh_and_learn_from_the_arg_max_of_the_one_before(
    segmented, trained, tmp_path
):
    """Equation 4: I(2) are the best segments of theta(1), in relevant and in other documents."""
    head, rows = read_rows(trained / "selections" / "2.jsonl")
    job = RerankerJob.open(segmented("best", TWO), tmp_path, tmp_path)
    tasks = job.open_tasks(None, ON_CPU, silent)
    scorer = tasks.score_with(load_reranker(trained / "iterations" / "1" / "model"))
    assert head["pairs"] == len(rows) > QUERIES
    assert head["iteration"] == 2
    for row in rows[::5]:
        own = tasks.table.texts(row["corpus-id"])
        scores = scorer.score([(f"q{row['query-id'][1:]}", text) for text in own])
        assert row["scores"] == pytest.approx(scores, abs=1e-4)
        assert row["segment"] == scores.index(max(scores))
        segments = tasks.table.segments[row["corpus-id"]]
        assert segments.doc.text[row["start"] : row["end"]] == segments.text(row["segment"])
    second = trained.parent / "2"
    assert (second / "manifest.json").exists()
    assert not (second / "selector").exists()
    assert min(losses(trained / "iterations" / "2")) == 1  # a whole training of its own


def test_the_iteration_with_the_best_dev_measure_is_the_model(trained, results):
    best = max(results, key=lambda result: (result["dev"], -result["iteration"]))["iteration"]
    model, kept = load_reranker(trained / "model"), trained / "iterations" / str(best) / "model"
    assert model.fingerprint == load_reranker(kept).fingerprint
    assert not (trained / "model" / "selector").exists()
    log = (trained / "iterations" / str(best) / "log.jsonl").read_text()
    assert (trained / "log.jsonl").read_text() == log
    assert (trained / "iterations.svg").exists()
    assert results[0]["changed"] is None
    assert 0 <= results[1]["changed"] <= 1
    assert all(0 <= own[f"{part}_precision"] <= 1 for own in results for part in ("selection", "dev"))
    assert all((trained / "selections" / f"{number}.jsonl").exists() for number in (1, 2, 3))


def test_the_precision_of_a_selection_is_that_of_its_file(trained, results):
    """Of the relevant documents: the answer's characters lie within those of the selected segment."""
    answers = {f"1{i}": answer_of(1, i)["text"] for i in range(QUERIES)}
    for result in results:
        _, rows = read_rows(trained / "selections" / f"{result['iteration'] + 1}.jsonl")
        relevant = [row for row in rows if row["corpus-id"][1:] == row["query-id"][1:]]
        right = [
            answers[row["query-id"]] in text_of(int(row["corpus-id"][1:]))[row["start"] : row["end"]]
            for row in relevant
        ]
        assert len(right) == QUERIES
        assert result["selection_precision"] == pytest.approx(sum(right) / QUERIES)


@pytest.mark.parametrize("leading", [1, 2, 4])
def test_within_reach_are_passages_in_one_of_the_segments_learned_from(segmented, results, tmp_path, leading):
    """So high can P@1 on train be; the settings of the trained model are those of four."""
    job = RerankerJob.open(segmented("best", {"leading": leading}), tmp_path, tmp_path)
    tasks = job.open_tasks(None, ON_CPU, silent)
    table, collection = tasks.table, tasks.reading.collection
    docs = [own.doc for own in table.segments.values()]
    truth = read_truth(job.config.data.segments, collection, job.config.data.split, docs)
    within = 0
    for qid, docno in truth.spans:
        spans = map(table.segments[docno].span, range(table.count(docno)))
        passages = truth.spans[qid, docno]
        within += any(start <= p.start and p.end <= end for start, end in spans for p in passages)
    selection = Selection({key: [0.0] * table.count(key[1]) for key in truth.spans})
    assert selection.reachable(truth, table) == pytest.approx(within / len(truth.spans))
    assert (within == len(truth.spans)) == (leading == 4)
    if leading == 4:
        assert [own["reachable"] for own in results] == [1.0] * 2


def test_the_share_that_changed_compares_two_files(trained, results):
    first, second = (
        {(row["query-id"], row["corpus-id"]): row["segment"] for row in rows}
        for _, rows in (read_rows(trained / "selections" / f"{number}.jsonl") for number in (1, 2))
    )
    share = sum(first[key] != second[key] for key in first) / len(first)
    assert results[1]["changed"] == pytest.approx(share)


def test_other_settings_do_not_resume(segmented, trained):
    with pytest.raises(ModelError, match=r"data\.segments\.iterations"):
        train_reranker(segmented("best", {"iterations": 3}), trained, resume=True)


def test_iterations_stop_after_some_without_a_better_dev_measure(segment_set, tmp_path):
    """All have the same dev measure: the rate is so low that nothing changes."""
    settings = segment_settings(segment_set, "best", {"iterations": 3, "patience": 1})
    settings["optimisation"] |= {"learning_rate": 1e-12, "steps": 2}
    trained = train_rerankers(read_settings(settings, TrainingPlan), tmp_path / "out")
    results = json.loads((tmp_path / "out" / "iterations.json").read_text())["iterations"]
    assert [result["iteration"] for result in results] == [1, 2]
    (table,) = trained.tables()
    assert "Iteration 1 has the highest dev measure" in " ".join(table.notes)


def test_a_frozen_encoder_runs_once_for_both_models(segmented, tmp_path):
    model = {"kind": "bert", "frozen": True, "head": {"hidden": [4], "dropout": 0.0}}
    few = {"steps": 2, "warm_up": 0}
    config = segmented("best", {"iterations": 1}, model=model, loss=HINGE, optimisation=few)
    train_reranker(config, tmp_path / "out")
    assert len(list((tmp_path / "out" / "features").iterdir())) == 1


def test_a_selection_of_documents_that_were_cut_otherwise_is_refused(trained, tmp_path):
    path = trained / "selections" / "1.jsonl"
    head, rows = read_rows(path)
    head.pop("pairs")
    assert len(read_selection(path, head).scores) == len(rows)
    with pytest.raises(ModelError, match="cut otherwise"):
        read_selection(path, {**head, "seed": 7})
    short = tmp_path / "short.jsonl"
    short.write_text("\n".join(path.read_text().splitlines()[:-1]))
    with pytest.raises(FormatError):
        read_selection(short, head)


def test_the_first_of_equal_segments_is_selected():
    assert Selection({("q", "d"): (1.0, 3.0, 3.0)})("q", "d") == 1


def test_results_without_known_passages_have_a_table_and_a_plot():
    results = [
        IterationResult(1, 0.37, 5, None, None, None, 8, 0, 0),
        IterationResult(2, 0.36, 4, None, None, 0.25, 8, 0, 0),
    ]
    table = Iterations("RR", results).table()
    assert tuple(cell.text for cell in table.rows[1]) == ("2", "–", "–", "–", "0.3600", "25.0 %", "4")
    assert Iterations("RR", results).draw().axes
    assert results[1].describe("RR") == "iteration 2: dev RR 0.3600, changed 25.0 %"


def test_precision_on_train_is_named_after_the_segments_that_it_is_of(tmp_path):
    """Those that are learned from, not all of a document; a file of the name before is read."""
    result = IterationResult(1, 0.37, 5, 0.5, 0.25, None, 8, 0, 0)
    table = Iterations("RR", [result]).table()
    assert table.columns[1:4] == ("P@1 of the selection", "within reach", "P@1 dev")
    assert any("of the segments that are learned from" in note for note in table.notes)
    result.write(tmp_path)
    record = json.loads((tmp_path / "result.json").read_text())
    record["train_precision"] = record.pop("selection_precision")
    (tmp_path / "result.json").write_text(json.dumps(record))
    assert read_result(tmp_path) == result
