"""The loop knows no model: here it fits a line."""

from __future__ import annotations

import json
import math
import shutil
import sys

import pytest
import torch
from small_line import Line, line_training, train_line

from telerank.errors import MissingExtra, ModelError
from telerank.models.on_processor import FreeMemory
from telerank.training.log import (
    LossCurves,
    Record,
    append_record,
    cut_log,
    draw_losses,
    read_log,
    read_losses,
)
from telerank.training.optimisation import build_optimiser, compute_rate, count_warm_up
from telerank.training.settings import DevSettings, OptimisationSettings
from telerank.training.training import train


def lines(output):
    return [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]


def test_batches_of_an_update_are_one_batch_in_parts(tmp_path):
    whole = train_line(line_training(batch=8), tmp_path / "whole", size=8)
    parts = train_line(line_training(batch=2, accumulation=4), tmp_path / "parts", size=2)
    assert parts.numbers("prepare") == list(range(24))
    assert whole.numbers("prepare") == list(range(6))
    torch.testing.assert_close(parts.weight.weight, whole.weight.weight)
    losses = [[line["loss"] for line in lines(tmp_path / name)] for name in ("whole", "parts")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert float(whole.weight.weight.detach()) > 0.2
    assert float(whole.frozen.weight) == 5.0


def test_float16_updates_a_process_without_a_loss_of_its_own(tmp_path):
    """Where a batch has fewer examples than there are processes, it has the others' gradients alone."""
    idle = train_line(line_training(precision="float16"), tmp_path)  # scales no loss
    assert float(idle.weight.weight.detach()) > 0.2


def test_free_memory_is_given_back_between_updates(tmp_path, monkeypatch):
    objects = []
    monkeypatch.setattr(FreeMemory, "give_back", lambda free: objects.append(id(free)))
    train_line(line_training(), tmp_path)
    assert objects == objects[:1] * 6  # one object, which counts the seconds


def test_a_task_goes_on_with_what_it_gave_to_the_checkpoint_and_so_do_curves_for_tensorboard(tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    dev = DevSettings(every=2, patience=6)
    config = line_training(checkpoint_every=4, tensorboard=True, dev=dev)
    values = {"measures": [1, 2, 3], "dev_losses": [0.5, 0.2, 0.4]}
    train_line(config, tmp_path, **values)
    before = lines(tmp_path)
    shutil.rmtree(tmp_path / "checkpoints" / "00000006")
    values = {name: own[2:] for name, own in values.items()}
    again = train_line(config, tmp_path, resume=True, **values)
    assert (again.restored, again.seen, again.numbers("prepare")) == (4, 6, [4, 5])
    assert [line["loss"] for line in lines(tmp_path)] == [line["loss"] for line in before]
    read = events.EventAccumulator(str(tmp_path / "tensorboard"))
    read.Reload()
    names = ("loss", "learning_rate", "dev", "dev_loss")
    curves = {name: {point.step: point.value for point in read.Scalars(name)} for name in names}
    assert curves["loss"] == pytest.approx({line["step"]: line["loss"] for line in before})
    assert curves["dev"] == {2: 1, 4: 2, 6: 3}
    assert curves["dev_loss"] == pytest.approx({2: 0.5, 4: 0.2, 6: 0.4})
    assert len(read.Scalars("learning_rate")) == 6


def test_tensorboard_that_is_not_there_is_named_before_anything_is_read(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtra, match=r"'tensorboard': pip install 'telerank\[tensorboard\]'"):
        train(line_training(tensorboard=True), tmp_path, lambda *_: pytest.fail("the task was made"))
    assert not (tmp_path / "config.yaml").exists()


def test_epochs_are_counted_in_examples(tmp_path):
    assert train_line(line_training(epochs=3.0, warm_up=0.2), tmp_path / "out").seen == 6
    rates = [line["learning_rate"] for line in lines(tmp_path / "out")]
    assert rates == pytest.approx([0.0, 0.1, 0.08, 0.06, 0.04, 0.02])
    with pytest.raises(ModelError, match=r"warm_up \(6\) must be less than the 6 updates .* a share of them"):
        train_line(line_training(epochs=3.0, warm_up=6), tmp_path / "long")


@pytest.mark.parametrize(
    ("every", "patience", "looks"),
    [("0.5 epochs", "2 epochs", [1, 2, 3, 4, 5]), ("1 epoch", 6, [2, 4, 6, 8]), (3, "2 epochs", [3, 6])],
)
def test_looks_and_patience_may_be_epochs_which_are_two_updates_here(tmp_path, every, patience, looks):
    """The measure never rises."""
    config = line_training(steps=20, dev=DevSettings(every=every, patience=patience))
    assert train_line(config, tmp_path, measures=[0.5] * 9).numbers("dev") == looks
    assert [line["step"] for line in lines(tmp_path) if "dev" in line] == looks
    assert (tmp_path / "model").exists()
    assert train_line(config, tmp_path, resume=True).numbers("learn") == []


def test_patience_that_ends_before_the_first_look_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"patience \(1 epochs\) must not be less than every \(2 epochs\)"):
        DevSettings(every="2 epochs", patience="1 epoch")
    mixed = line_training(dev=DevSettings(every=3, patience="1 epoch"))
    with pytest.raises(ModelError, match=r"dev: patience \(1 epochs\) must not be less than every \(3\)"):
        train_line(mixed, tmp_path)


@pytest.mark.parametrize(
    "every", ["0.5", 0.5, 0, "-1 epochs", "nan epochs", "inf epochs", "3 weeks", "epochs", None]
)
def test_what_is_no_interval_says_what_one_is(every):
    with pytest.raises(ValueError, match="expected updates, as 100, or epochs"):
        DevSettings(every=every, patience=9)


def test_the_better_weights_stay(tmp_path):
    """The measure falls from the second look on."""
    config = line_training(steps=20, dev=DevSettings(every=2, patience=4), checkpoint_every=100)
    line = train_line(config, tmp_path, measures=[0.1, 0.5, 0.4, 0.3])
    assert line.numbers("dev") == [2, 4, 6, 8]
    assert line.numbers("save") == [(tmp_path.name, 2), (tmp_path.name, 4), ("checkpoints", 8)]
    best, last = (torch.load(tmp_path / name / "line.pt") for name in ("model", "checkpoints/00000008"))
    assert best["weight"] != last["weight"]


def test_every_training_with_dev_logs_its_loss_and_draws_it(tmp_path):
    config = line_training(steps=9, dev=DevSettings(every=2, patience=9))
    train_line(config, tmp_path, measures=[2, 4, 6, 8, 9], dev_losses=[0.5, 0.2, 0.3, 0.4, 0.1])
    logged = lines(tmp_path)
    looks = [(line["step"], line["dev"], line["dev_loss"]) for line in logged if "dev_loss" in line]
    assert looks == [(2, 2.0, 0.5), (4, 4.0, 0.2), (6, 6.0, 0.3), (8, 8.0, 0.4), (9, 9.0, 0.1)]
    curves = read_losses(tmp_path / "log.jsonl")
    assert (curves.updates, curves.dev) == ([2, 4, 6, 8, 9], [0.5, 0.2, 0.3, 0.4, 0.1])
    means = [(logged[i]["loss"] + logged[i + 1]["loss"]) / 2 for i in (0, 2, 4, 6)]
    assert curves.training == pytest.approx([*means, logged[8]["loss"]])
    assert (tmp_path / "losses.svg").read_bytes().startswith(b"<?xml")
    assert (tmp_path / "losses.png").read_bytes().startswith(b"\x89PNG")
    (axes,) = draw_losses(curves).axes
    assert [line.get_label() for line in axes.get_lines()] == ["training", "dev"]
    assert [line.get_xdata().tolist() for line in axes.get_lines()] == [curves.updates] * 2
    train_line(line_training(), tmp_path / "without")
    assert not (tmp_path / "without" / "losses.svg").exists()


def test_many_updates_stay_on_a_linear_axis():
    updates = list(range(1, 200))
    (axes,) = draw_losses(LossCurves(updates, [0.5] * 199, [0.6] * 199)).axes
    assert axes.get_xscale() == "linear"


def test_a_training_may_stop_by_its_dev_loss_and_keeps_the_weights_of_the_lowest(tmp_path):
    dev = DevSettings(measures="loss", every=2, patience=4)
    config = line_training(steps=20, checkpoint_every=100, dev=dev)
    line = train_line(config, tmp_path, measures=[1, 2, 3, 4], dev_losses=[0.5, 0.2, 0.3, 0.4])
    looks = [(line["step"], line.get("dev")) for line in lines(tmp_path) if "dev_loss" in line]
    assert looks == [(2, None), (4, None), (6, None), (8, None)]
    assert line.numbers("dev") == []  # the measure is not needed
    assert line.numbers("save") == [(tmp_path.name, 2), (tmp_path.name, 4), ("checkpoints", 8)]


def test_dev_values_that_are_not_there_or_no_numbers_are_refused(tmp_path):
    by_loss = line_training(dev=DevSettings(measures="loss", every=2, patience=4))
    with pytest.raises(ModelError, match="section dev, but the task has no dev loss"):
        train_line(by_loss, tmp_path / "none")
    with pytest.raises(ModelError, match="section dev, but the task has no dev set"):
        train_line(line_training(dev=DevSettings(every=2, patience=4)), tmp_path / "no measure")
    with pytest.raises(ModelError, match="the dev loss of update 2 is nan: try a lower learning rate"):
        train_line(by_loss, tmp_path / "nan", dev_losses=[math.nan])


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"broken": 2}, "the loss of update 3 is nan"),
        ({"steep": 5}, "the weights after update 6 are not finite"),
    ],
)
def test_what_is_not_finite_is_named_and_nothing_is_saved(tmp_path, wrong, says):
    """Of the last update the loss is finite, but not the gradient."""
    with pytest.raises(ModelError, match=f"{says}.*: try a lower learning rate"):
        train_line(line_training(), tmp_path, **wrong)
    assert not (tmp_path / "model").exists()
    assert not list((tmp_path / "checkpoints").iterdir())


def test_a_log_is_cut_where_training_goes_on_and_keeps_its_dev_losses(tmp_path):
    records = [Record(step, 0.5, 0.1, 1.0, 0.0, None, step / 10) for step in (1, 2, 3)]
    for record in records:
        append_record(tmp_path / "log.jsonl", record)
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"step": 2, "lo')
    cut_log(tmp_path / "log.jsonl", 2)
    assert read_log(tmp_path / "log.jsonl") == records[:2]


def weights():
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(3, 2)), torch.nn.Parameter(torch.randn(2))]


def stepped(optimiser, some):
    for _ in range(3):
        loss = sum((one * torch.linspace(1, 2, one.numel()).view_as(one)).pow(2).sum() for one in some)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return [one.detach() for one in some]


@pytest.mark.parametrize("kind", ["adamw", "adam"])
def test_the_optimiser_is_torchs_and_biases_do_not_decay(kind):
    settings = {"learning_rate": 0.01, "eps": 1e-5, "betas": (0.8, 0.99), "weight_decay": 0.1}
    some, same = weights(), weights()
    given = OptimisationSettings(steps=9, batch=1, optimiser=kind, **settings)
    theirs = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[kind]
    groups = [{"params": same[:1], "weight_decay": 0.1}, {"params": same[1:], "weight_decay": 0.0}]
    expected = stepped(theirs(groups, lr=0.01, eps=1e-5, betas=(0.8, 0.99)), same)
    for one, other in zip(stepped(build_optimiser(some, given), some), expected, strict=True):
        assert torch.equal(one, other)


def test_the_rate_stays_where_the_schedule_is_constant():
    settings = OptimisationSettings(steps=10, batch=1, learning_rate=0.4, warm_up=2, schedule="constant")
    assert [compute_rate(update, 10, settings) for update in range(5)] == [0.0, 0.2, 0.4, 0.4, 0.4]
    assert compute_rate(9, 10, settings) == 0.4


def test_a_warm_up_may_be_a_share():
    settings = OptimisationSettings(steps=10, batch=1, learning_rate=1, warm_up=0.1)
    assert [count_warm_up(steps, settings) for steps in (5, 10, 350)] == [0, 1, 35]
    assert math.isclose(compute_rate(1, 10, settings), 1.0)


def test_a_long_gradient_is_shortened_unless_it_may_be_long(tmp_path):
    """Adam forgets the length of all gradients, but not of one among others."""

    class Steep(Line):
        def backward(self, number):
            value = super().backward(number)
            self.weight.weight.grad *= 100 if number == 0 else 1
            lengths.append(float(self.weight.weight.grad.abs().max()))
            return value

    ends, lengths = [], []
    for most in (1.0, None):
        task = Steep()
        config = line_training(max_gradient_norm=most, steps=3)
        train(config, tmp_path / str(most), lambda *_, task=task: task)
        ends.append(float(task.weight.weight.detach()))
    assert max(lengths) > 30
    assert ends[0] != ends[1]
