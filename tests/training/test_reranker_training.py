"""A re-ranker is trained, killed, and trained on; frozen or not; and measured at the end."""

from __future__ import annotations

import json
import re
import shutil
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from small_training import ON_CPU, losses
from toy_trainings import counting_scored

from resumed_training import check_resumed
from small_models import WORDS, save_vectors
from small_ranking import QUERIES
from small_readers import small_reader
from telerank.errors import IndexFault, ModelError
from telerank.evaluation.measures import measure
from telerank.models.readers import save_reader
from telerank.models.rerankers.reranker import load_reranker
from telerank.training.examples.groups import Group
from telerank.training.log import Record
from telerank.training.reranker.config import RerankerLoss, RerankerTraining
from telerank.training.reranker.job import start_reranker
from telerank.training.reranker.scoring import EndToEnd, FromStore
from telerank.training.reranker.task import RerankerTask, ranking_loss
from telerank.training.reranker.train import train_reranker
from telerank.training.settings import read_settings
from telerank.trec import read_run
from telerank.types import silent

KINDS = {
    "monobert": {"kind": "monobert"},
    "bert-lite": {"kind": "bert", "frozen": True, "head": {"hidden": [8], "dropout": 0.2}},
    "bert-dmn": {"kind": "bert-dmn", "head": {"hidden": 8, "episodes": 2}},
    "bert-dmn-lite": {"kind": "bert-dmn", "frozen": True, "head": {"hidden": 8, "episodes": 2}},
}


def test_what_is_trained_orders_what_it_could_not_order_before(ranked, on_dev, ranking_set, tmp_path):
    """Query and document have a number in common: the encoder learns which words belong together."""
    records: list[Record] = []
    config = ranked(
        model={"kind": "monobert", "dropout": 0.0},
        data={"negatives": {"run": str(ranking_set / "train.run"), "per_positive": 5}},
        loss={"objective": "softmax"},
        optimisation={"steps": 30, "batch": 12, "warm_up": 10},
        dev=on_dev(every=15, measures="MRR"),
        test=on_dev(queries=QUERIES // 2, measures=["RR", "AP"]),
        log_every=15,
    )
    model = train_reranker(config, tmp_path / "out", report=records.append)
    tested = json.loads((tmp_path / "out" / "test.json").read_text())
    assert [(record.step, record.dev is None) for record in records] == [(15, False), (30, False)]
    assert records[-1].loss < records[0].loss
    assert tested["queries"] == QUERIES // 2
    assert tested["before"]["RR"] < 0.7
    assert tested["measures"]["RR"] > 0.9
    rankings = list(read_run(tmp_path / "out" / "test.run.gz"))
    qrels = {one.query.qid: {f"d{one.query.qid[1:]}": 1} for one in rankings}
    assert measure(rankings, qrels, "RR").mean["RR"] == pytest.approx(tested["measures"]["RR"])
    assert json.loads((tmp_path / "out" / "data.json").read_text())["relevant pairs"] == QUERIES
    assert load_reranker(model).shape.max_query == 8


@pytest.mark.parametrize("name", ["bert-lite", "bert-dmn-lite"])
def test_a_frozen_encoder_stays_as_it_is(ranked, on_dev, tmp_path, name):
    config = ranked(model=KINDS[name], dev=on_dev(every=4), test=on_dev(queries=9, store=True))
    model = train_reranker(config, tmp_path / "out")
    began, ended = start_reranker(config.model, 0), load_reranker(model)
    assert began.encoder_fingerprint == ended.encoder_fingerprint
    assert began.fingerprint != ended.fingerprint
    stores = list((tmp_path / "out" / "features").iterdir())
    assert len(stores) == 1
    assert stores[0].name.endswith("-cls") is (name == "bert-lite")


@pytest.fixture
def task_of(ranked, tmp_path):
    """Makes the task of a training with changes, on the processor, with eight groups."""

    def make(name, dropout=0.1, **changes):
        config = ranked(model=KINDS[name] | {"dropout": dropout}, **changes)
        reranker = start_reranker(config.model, 0)
        groups = Fixed([Group(f"q{i}", (f"d{i} x1. x2 d{i}", f"d{i + 1} x3", "x4 " * 20)) for i in range(8)])
        scorer = EndToEnd(reranker, config.optimisation.tokens, ON_CPU.precision)
        if config.model.frozen:
            scorer = FromStore.of(reranker, tmp_path, ON_CPU, 512, groups=groups, last=10_000)
        reranker.model.train()
        return RerankerTask(config, reranker, groups, scorer, scorer, None, ON_CPU)

    return make


class Fixed(list):
    """Groups that come again and again."""

    window = repeats_from = most_pairs = 8

    def __getitem__(self, number):
        return super().__getitem__(number % len(self))


def test_dropout_is_off_in_a_frozen_encoder_and_on_in_its_head(task_of):
    task = task_of("bert-lite", dropout=0.5)
    model, pairs = task.reranker.model, [pair for group in task.groups for pair in group.pairs]
    assert model.training
    assert not any(module.training for module in model.encoder.modules())
    task.prepare(0, silent)
    stored = task.scorer.store
    features = stored.batch(stored.rows(pairs))
    model.eval()
    found = EndToEnd(task.reranker, 512, task.hardware.precision).score(pairs)
    assert model.head(features).tolist() == pytest.approx(found, abs=2e-3)  # stored in half precision
    model.train()
    assert model.head(features).tolist() != model.head(features).tolist()
    task.backward(task.read(0))
    assert {weight.grad is None for weight in model.encoder.parameters()} == {True}
    assert {weight.grad is None for weight in model.head.parameters()} == {False}


def test_the_encoder_runs_in_the_first_epoch_alone(task_of):
    with counting_scored() as encoded:
        task = task_of("bert-dmn-lite", optimisation={"batch": 3})
        for number in range(6):
            task.prepare(number, silent)
            task.backward(task.read(number))
        pairs = {pair for group in task.groups for pair in group.pairs}
        assert sum(encoded) == len(task.scorer.store) == len(pairs)
        for other in (task_of("bert-dmn-lite", seed=5), task_of("bert-lite")):  # another head
            other.prepare(0, silent)
        assert sum(encoded) == len(pairs)


def test_a_store_that_lacks_a_pair_says_so(task_of):
    task = task_of("bert-lite")
    with pytest.raises(IndexFault, match="have no features here"):
        task.backward(task.read(0))


@pytest.mark.parametrize("name", ["monobert", "bert-dmn"])
def test_parts_change_the_memory_and_nothing_else(task_of, name):
    gradients = []
    for tokens in (16_384, 100, 1):
        task = task_of(name, optimisation={"tokens": tokens, "batch": 5})
        for module in task.reranker.model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        loss = float(task.backward(task.read(1)))
        weights = task.reranker.model.named_parameters()
        gradients.append((loss, {name: one.grad for name, one in weights if one.grad is not None}))
    for loss, found in gradients[1:]:
        assert loss == pytest.approx(gradients[0][0], rel=1e-5)
        assert found.keys() == gradients[0][1].keys()
        for weight, gradient in found.items():
            torch.testing.assert_close(gradient, gradients[0][1][weight], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("objective", ["pointwise", "margin", "ranknet", "softmax", "margin-mse"])
def test_every_loss_trains_and_is_a_mean_over_groups(objective):
    random = torch.Generator().manual_seed(0)
    logits, teacher = (torch.randn(6, 4, generator=random) for _ in range(2))
    teacher = teacher if objective == "margin-mse" else None
    config = RerankerLoss(objective=objective, teacher=teacher if teacher is None else "run")
    whole = ranking_loss(config, logits, teacher)
    labels = [None] * 6 if teacher is None else teacher.split(1)
    each = [ranking_loss(config, *both) for both in zip(logits.split(1), labels, strict=True)]
    torch.testing.assert_close(whole, torch.stack(each).mean())
    better = logits.clone()
    better[:, 0] += 20
    if teacher is None:
        assert ranking_loss(config, better) < whole
    else:
        assert ranking_loss(config, teacher + 3, teacher) == pytest.approx(0.0)


def test_another_test_is_measured_with_the_model_that_is_there(ranked, on_dev, tmp_path):
    out, lists = tmp_path / "out", on_dev(queries=10)
    config = ranked(model=KINDS["bert-lite"], test=lists)
    model = train_reranker(config, out)
    before = load_reranker(model).fingerprint, (out / "test.json").stat().st_mtime_ns
    train_reranker(config, out, resume=True)
    assert (out / "test.json").stat().st_mtime_ns == before[1]
    records: list[Record] = []
    test = {**lists, "queries": 12, "measures": ["P@1"]}
    other = ranked(model=KINDS["bert-lite"], test=test, optimisation={"tokens": 100})
    train_reranker(other, out, resume=True, report=records.append)
    tested = json.loads((out / "test.json").read_text())
    assert (records, tested["queries"], list(tested["measures"])) == ([], 12, ["P@1"])
    assert load_reranker(model).fingerprint == before[0]
    saved = out / "config.yaml"
    assert read_settings(saved, RerankerTraining) == other
    for name in ("test.json", "test.yaml", "test.run.gz"):  # one that earlier versions could not measure
        (out / name).unlink()
    saved.write_text(saved.read_text().replace("- P@1\n", "- APP\n"))
    train_reranker(other, out, resume=True)
    assert json.loads((out / "test.json").read_text()) == tested


@pytest.mark.parametrize("split", ["train", "dev"])
def test_a_test_takes_no_query_that_was_learned_from_or_looked_at(
    ranked, on_dev, ranking_set, tmp_path, split
):
    lists = {"split": split, "run": str(ranking_set / f"{split}.run")}
    few = {"steps": 2, "warm_up": 0}
    trained = partial(
        ranked, model=KINDS["bert-lite"], dev=on_dev(queries=8, every=2, patience=2), optimisation=few
    )
    train_reranker(trained(test={**lists, "queries": 5}), tmp_path)
    for test, number in (({**lists, "queries": 6}, 6), (None, None)):
        with pytest.raises(
            ModelError, match=rf"test\.queries is {number}, but the training in .* began with 5"
        ):
            train_reranker(trained(test=test), tmp_path, resume=True)
    deeper = trained(test={**lists, "queries": 5, "depth": 2})
    train_reranker(deeper, tmp_path, resume=True)
    assert json.loads((tmp_path / "test.json").read_text())["candidates"] == 10


def test_what_cannot_be_trained_says_why(ranked, ranking_set, tmp_path):
    frozen = ranked(model={"kind": "monobert", "frozen": True})
    with pytest.raises(ModelError, match="has no head on a frozen encoder"):
        train_reranker(frozen, tmp_path / "out")
    long = ranked(model={"max_length": 512})
    with pytest.raises(ModelError, match="pairs of 512 tokens, but the model has 66 positions"):
        train_reranker(long, tmp_path / "long")
    lists = {"split": "train", "run": str(ranking_set / "train.run")}
    with pytest.raises(ModelError, match="say which fold is held_out"):
        train_reranker(ranked(folds=3, test=lists), tmp_path / "folds")


PART = re.compile(r"encoding pairs \(.*\): groups (\d+) to (\d+) of (\d+), about .* with those to come")


def parts_of_a_store(config, output) -> list[tuple[int, ...]]:
    """The first group of each part, the last, and how many there are in all."""
    records = dict.fromkeys(())
    train_reranker(config, output, progress=lambda what, *_: records.setdefault(what))
    return [tuple(map(int, found.groups())) for found in map(PART.fullmatch, records) if found]


def bytes_of_a_store(output) -> int:
    return sum(path.stat().st_size for path in (output / "features").rglob("*.npy"))


def twenty_triples(ranked, folder, **length):
    (folder / "triples.tsv").write_text("".join(f"1{i}\td{i}\td{i + 1}\n" for i in range(20)))
    data = {"triples": {"file": str(folder / "triples.tsv"), "window": 8}, "negatives": None}
    return ranked(model=KINDS["bert-lite"], data=data, optimisation=length)


def test_the_size_of_a_store_is_shown_with_that_of_what_is_to_come(ranked, anew, tmp_path):
    """A file is not counted where updates are: there may be as many triples as these need."""
    epochs = twenty_triples(ranked, tmp_path, steps=None, epochs=2.0)
    assert parts_of_a_store(epochs, tmp_path / "epochs") == [(1, 8, 20), (9, 16, 20)]
    steps = twenty_triples(ranked, tmp_path, steps=5)
    assert parts_of_a_store(steps, tmp_path / "steps") == [(1, 8, 30), (9, 16, 30)]
    assert parts_of_a_store(anew(), tmp_path / "drawn") == [(1, 24, 48)]
    assert parts_of_a_store(ranked(model=KINDS["bert-lite"]), tmp_path / "whole") == []


@pytest.fixture
def anew(ranked, ranking_set):
    """Makes a training on negatives that are drawn anew in each epoch."""
    negatives = {"run": str(ranking_set / "train.run"), "per_positive": 2, "resample": True}
    return partial(ranked, model=KINDS["bert-lite"], data={"negatives": negatives})


def test_a_store_that_would_not_fit_is_refused_with_its_first_part(ranked, anew, tmp_path, monkeypatch):
    """Negatives that are drawn anew take no more than their lists."""
    epochs = twenty_triples(ranked, tmp_path, steps=None, epochs=2.0)
    train_reranker(epochs, tmp_path / "out")
    size = bytes_of_a_store(tmp_path / "out")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0.7 * size))
    with pytest.raises(IndexFault, match=r"features of 8 groups take about .* those of all 20 about .* has"):
        train_reranker(epochs, tmp_path / "full")
    assert bytes_of_a_store(tmp_path / "full") == 0
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1.6 * size))
    train_reranker(twenty_triples(ranked, tmp_path, steps=8), tmp_path / "counted")  # 48 would not fit
    monkeypatch.undo()
    drawn = anew(optimisation={"steps": 20})
    train_reranker(drawn, tmp_path / "drawn")
    enough = 1.6 * bytes_of_a_store(tmp_path / "drawn")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=enough))
    train_reranker(drawn, tmp_path / "again")


@pytest.mark.parametrize("kind", ["dmn", "qa-lstm", "k-nrm", "conv-knrm", "co-pacrr", "drmm", "tkl"])
def test_models_on_word_vectors_are_trained(ranked, on_dev, tmp_path, kind):
    words = [*WORDS, "."]
    vectors = torch.randn(2 + len(words), 6, generator=torch.Generator().manual_seed(1))
    save_vectors(tmp_path / "vectors", words, vectors)
    head = {"k-nrm": {}, "conv-knrm": {"filters": 5}, "tkl": {"inner": 5}}.get(kind, {"hidden": 5})
    model = {"kind": kind, "start": str(tmp_path / "vectors"), "head": head}
    config = ranked(model=model, test=on_dev(queries=6))
    trained = load_reranker(train_reranker(config, tmp_path / "out"))
    began = start_reranker(config.model, 0)
    assert trained.fingerprint != began.fingerprint
    assert len(losses(tmp_path / "out")) == 8
    lists = list(read_run(tmp_path / "out" / "test.run.gz"))
    query, (docno, score) = lists[0].query.qid, next(iter(lists[0]))
    number = int(docno[1:])
    text = f"d{number} x{number % 5}. x{number % 7} d{number} x{number % 3}"
    scored = EndToEnd(trained, 512, torch.no_grad).score([(f"q{query[1:]}", text)])
    assert scored == pytest.approx([score], rel=1e-5)


@pytest.mark.parametrize("kind", ["conv-knrm", "co-pacrr", "drmm"])
def test_trainings_on_word_vectors_go_on_where_they_were_stopped(tmp_path, kind):
    vectors = torch.randn(2 + len(WORDS), 6, generator=torch.Generator().manual_seed(1))
    save_vectors(tmp_path / "vectors", WORDS, vectors)
    model = {"kind": kind, "start": str(tmp_path / "vectors"), "head": {}}
    check_resumed(tmp_path, model | ({"head": {"filters": 5}} if kind == "conv-knrm" else {}))


def test_a_training_from_random_weights_goes_on_where_it_was_stopped(ranked, tmp_path):
    model = KINDS["monobert"] | {"fresh": True}
    check_resumed(tmp_path, model)
    drawn, known = (start_reranker(ranked(model=own).model, 0) for own in (model, KINDS["monobert"]))
    assert not torch.equal(embeddings_of(drawn.parts.transformer), embeddings_of(known.parts.transformer))


def embeddings_of(model):
    return model.get_input_embeddings().weight


@pytest.mark.parametrize("name", ["monobert", "bert-dmn"])
def test_frozen_embeddings_stay_while_layers_learn(ranked, tmp_path, name):
    before = start_reranker(ranked(model=KINDS[name]).model, 0).parts.transformer
    for frozen in (True, False):
        config = ranked(model=KINDS[name] | {"frozen_embeddings": frozen}, optimisation={"steps": 3})
        after = load_reranker(train_reranker(config, tmp_path / str(frozen))).parts.transformer
        assert torch.equal(embeddings_of(after), embeddings_of(before)) is frozen
        layers = [dict(model.named_parameters()) for model in (before, after)]
        name_of = next(name for name in layers[0] if name.endswith("layer.1.output.dense.weight"))
        assert not torch.equal(*(own[name_of] for own in layers))


@pytest.mark.parametrize("kind", ["monobert", "bert"])
def test_a_reranker_starts_from_a_reader_and_keeps_its_transformer(ranked, tmp_path, kind):
    """The reader's last layer is replaced by the re-ranker's; what it has learned below that stays."""
    reader = small_reader(tmp_path / "start", seed=3)
    with torch.no_grad():
        for weight in reader.model.parameters():
            weight.add_(0.01)  # as if it had learned
    save_reader(reader, tmp_path / "reader")
    model = {"kind": kind, "start": str(tmp_path / "reader"), "frozen_embeddings": True}
    config = ranked(model=model, optimisation={"steps": 3, "learning_rate": 1e-9})
    trained = load_reranker(train_reranker(config, tmp_path / "out")).parts.transformer
    own = trained.base_model.state_dict()
    theirs = {n: w for n, w in reader.model.base_model.state_dict().items() if ".pooler." not in f".{n}"}
    assert theirs.keys() <= own.keys()
    assert all(torch.allclose(own[name], weight, atol=1e-6) for name, weight in theirs.items())
    assert torch.equal(embeddings_of(trained), embeddings_of(reader.model))
    assert not any("qa_outputs" in name for name in trained.state_dict())
