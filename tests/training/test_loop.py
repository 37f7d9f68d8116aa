"""The loop knows no model: here it fits a line."""

from __future__ import annotations

import json
import math

import pytest

torch = pytest.importorskip("torch")

from telerank.errors import ModelError  # noqa: E402
from telerank.models.memory import FreeMemory  # noqa: E402
from telerank.training import checkpoint  # noqa: E402
from telerank.training.log import Record, append_record, cut_log, read_log  # noqa: E402
from telerank.training.loop import build_optimiser, compute_rate, count_warm_up  # noqa: E402
from telerank.training.loss_plot import LossCurves, draw_losses, read_losses  # noqa: E402
from telerank.training.settings import DevSettings, OptimisationSettings, Training  # noqa: E402
from telerank.training.training import train  # noqa: E402


class Line:
    """``y = 3 x``, eight examples to an epoch; a frozen weight of 5 beside it that nobody may touch."""

    examples = 8

    def __init__(self, size, begun=None, place=None):
        self.size, self.place = size, place
        self.weight = torch.nn.Linear(1, 1, bias=False)
        self.frozen = torch.nn.Linear(1, 1, bias=False).requires_grad_(False)
        with torch.no_grad():
            self.weight.weight.fill_(0.0)
            self.frozen.weight.fill_(5.0)
        self.prepared, self.seen, self.restored = [], 0, None
        if begun is not None:
            self.weight.load_state_dict(torch.load(begun / "line.pt"))

    @property
    def modules(self):
        return self.weight, self.frozen

    def prepare(self, number, _progress):
        self.prepared.append(number)

    def read(self, number):
        assert self.prepared[-1] == number
        return number

    def backward(self, number):
        assert self.prepared[-1] == number
        assert self.weight.training
        x = torch.arange(number * self.size, (number + 1) * self.size).float().reshape(-1, 1) % 8 / 8
        loss = (self.weight(x) - 3 * x).square().mean()
        loss.backward()
        self.seen += 1
        return float(loss.detach())

    def dev(self, _progress):
        return None

    def dev_loss(self, _progress):
        return None

    def save(self, folder):
        folder.mkdir()
        torch.save(self.weight.state_dict(), folder / "line.pt")

    def state(self):
        return {"seen": torch.tensor(self.seen)}

    def restore(self, state):
        self.restored = self.seen = int(state["seen"])


class Ours(OptimisationSettings):
    """As in the settings of a task, there is a default."""

    steps: int = 6


def settings(**changes):
    common = {"batch": 4, "learning_rate": 0.1, "weight_decay": 0.0, "max_gradient_norm": None}
    outside = {
        name: changes.pop(name)
        for name in ("dev", "checkpoint_every", "tensorboard", "precision")
        if name in changes
    }
    return Training(optimisation=Ours(**{**common, **changes}), log_every=1, **outside)


def trained(config, output, size=4, **more):
    made = []

    def make(begun, place, progress):
        made.append(Line(size, begun, place))
        return made[0]

    train(config, output, make, **more)
    return made[0]


def lines(output):
    return [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]


def test_batches_of_an_update_are_one_batch_in_parts(tmp_path):
    whole = trained(settings(batch=8), tmp_path / "whole", size=8)
    parts = trained(settings(batch=2, accumulation=4), tmp_path / "parts", size=2)
    assert parts.prepared == list(range(24))
    assert whole.prepared == list(range(6))
    torch.testing.assert_close(parts.weight.weight, whole.weight.weight)
    for one, other in zip(lines(tmp_path / "whole"), lines(tmp_path / "parts"), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-6)
    assert float(whole.weight.weight.detach()) > 0.2
    assert float(whole.frozen.weight) == 5.0


def test_float16_updates_a_process_without_a_loss_of_its_own(tmp_path):
    """Where a batch has fewer examples than there are processes, it has the others' gradients alone."""
    idle = trained(settings(precision="float16"), tmp_path)  # scales no loss
    assert float(idle.weight.weight.detach()) > 0.2


def test_free_memory_is_given_back_between_updates(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(FreeMemory, "give_back", lambda free: asked.append(id(free)))
    trained(settings(), tmp_path)
    assert asked == asked[:1] * 6  # one object, which counts the seconds


def test_a_task_goes_on_with_what_it_gave_to_the_checkpoint(tmp_path):
    trained(settings(checkpoint_every=4), tmp_path)
    (last,) = (tmp_path / "checkpoints").glob("*6")
    for file in last.iterdir():
        file.unlink()
    last.rmdir()
    assert checkpoint.list_checkpoints(tmp_path)[-1].name == "00000004"
    before = lines(tmp_path)
    again = trained(settings(checkpoint_every=4), tmp_path, resume=True)
    assert (again.restored, again.seen, again.prepared) == (4, 6, [4, 5])
    assert [one["loss"] for one in lines(tmp_path)] == [one["loss"] for one in before]


def test_epochs_are_counted_in_examples(tmp_path):
    assert trained(settings(epochs=3.0, warm_up=0.2), tmp_path / "out").seen == 6
    rates = [one["learning_rate"] for one in lines(tmp_path / "out")]
    assert rates == pytest.approx([0.0, 0.1, 0.08, 0.06, 0.04, 0.02])
    with pytest.raises(ModelError, match=r"warm_up \(6\) must be less than the 6 updates .* a share of them"):
        trained(settings(epochs=3.0, warm_up=6), tmp_path / "long")


class Level(Line):
    """Its dev measure never rises."""

    def dev(self, _progress):
        return 0.5


@pytest.mark.parametrize(
    ("every", "patience", "looks"),
    [("0.5 epochs", "2 epochs", [1, 2, 3, 4, 5]), ("1 epoch", 6, [2, 4, 6, 8]), (3, "2 epochs", [3, 6])],
)
def test_looks_and_patience_may_be_epochs_which_are_two_updates_here(tmp_path, every, patience, looks):
    config = settings(steps=20, dev=DevSettings(every=every, patience=patience))
    train(config, tmp_path, lambda *_: Level(4))
    assert [one["step"] for one in lines(tmp_path) if "dev" in one] == looks
    assert (tmp_path / "model").exists()


def test_patience_that_ends_before_the_first_look_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"patience \(2\) must not be less than every \(3\): training would"):
        DevSettings(every=3, patience=2)
    with pytest.raises(ValueError, match=r"patience \(1 epochs\) must not be less than every \(2 epochs\)"):
        DevSettings(every="2 epochs", patience="1 epoch")
    mixed = settings(dev=DevSettings(every=3, patience="1 epoch"))
    with pytest.raises(ModelError, match=r"dev: patience \(1 epochs\) must not be less than every \(3\)"):
        train(mixed, tmp_path, lambda *_: Level(4))


@pytest.mark.parametrize(
    "said", ["0.5", 0.5, 0, "-1 epochs", "nan epochs", "inf epochs", "3 weeks", "epochs", None]
)
def test_what_is_no_interval_says_what_one_is(said):
    with pytest.raises(ValueError, match="expected updates, as 100, or epochs"):
        DevSettings(every=said, patience=9)


def test_a_task_without_a_dev_set_is_not_asked_for_its_measure(tmp_path):
    with pytest.raises(ModelError, match="section dev, but the task has no dev set"):
        trained(settings(dev=DevSettings(every=2, patience=4)), tmp_path)


def test_the_better_weights_stay(tmp_path):
    """The measure falls from the second look on."""
    values = iter([0.1, 0.5, 0.4, 0.3])
    kept = []

    class Looked(Line):
        def dev(self, _progress):
            return next(values)

        def save(self, folder):
            kept.append((folder.parent.name, float(self.weight.weight.detach())))
            super().save(folder)

    config = settings(steps=20, dev=DevSettings(every=2, patience=4), checkpoint_every=100)
    train(config, tmp_path, lambda *_: Looked(4))
    assert [one["step"] for one in lines(tmp_path) if "dev" in one] == [2, 4, 6, 8]
    assert [place for place, _ in kept] == [tmp_path.name, tmp_path.name, "checkpoints"]
    best = torch.load(tmp_path / "model" / "line.pt")["weight"]
    assert float(best) == kept[1][1] != kept[2][1]


class Falling(Line):
    """Its dev loss is lowest at the second look; it has a dev measure that only rises."""

    def __init__(self, *words):
        super().__init__(*words)
        self.values = iter([0.5, 0.2, 0.3, 0.4, 0.1])

    def dev(self, _progress):
        return float(self.seen)

    def dev_loss(self, _progress):
        return next(self.values)


def test_every_training_with_dev_logs_its_loss_and_draws_it(tmp_path):
    config = settings(steps=9, dev=DevSettings(every=2, patience=9))
    train(config, tmp_path, lambda *_: Falling(4))
    logged = lines(tmp_path)
    looks = [(one["step"], one["dev"], one["dev_loss"]) for one in logged if "dev_loss" in one]
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
    trained(settings(), tmp_path / "without")
    assert not (tmp_path / "without" / "losses.svg").exists()


def test_tensorboard_has_the_curve_of_the_dev_loss(tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    config = settings(steps=4, tensorboard=True, dev=DevSettings(every=2, patience=4))
    train(config, tmp_path, lambda *_: Falling(4))
    read = events.EventAccumulator(str(tmp_path / "tensorboard"))
    read.Reload()
    curve = {one.step: one.value for one in read.Scalars("dev_loss")}
    assert curve == pytest.approx({2: 0.5, 4: 0.2})


def test_many_updates_stay_on_a_linear_axis():
    updates = list(range(1, 200))
    (axes,) = draw_losses(LossCurves(updates, [0.5] * 199, [0.6] * 199)).axes
    assert axes.get_xscale() == "linear"


def test_a_training_may_stop_by_its_dev_loss_and_keeps_the_weights_of_the_lowest(tmp_path):
    saved = []

    class Stopped(Falling):
        def dev(self, _progress):
            pytest.fail("the measure is not needed")

        def save(self, folder):
            saved.append((folder.parent.name, self.seen))
            super().save(folder)

    config = settings(steps=20, checkpoint_every=100, dev=DevSettings(measure="loss", every=2, patience=4))
    train(config, tmp_path, lambda *_: Stopped(4))
    assert [(one["step"], one.get("dev")) for one in lines(tmp_path) if "dev_loss" in one] == [
        (2, None),
        (4, None),
        (6, None),
        (8, None),
    ]
    assert saved == [(tmp_path.name, 2), (tmp_path.name, 4), ("checkpoints", 8)]


def test_what_has_no_dev_loss_cannot_stop_by_it(tmp_path):
    by_loss = settings(dev=DevSettings(measure="loss", every=2, patience=4))
    with pytest.raises(ModelError, match="section dev, but the task has no dev loss"):
        trained(by_loss, tmp_path / "none")

    class Lost(Line):
        def dev_loss(self, _progress):
            return math.nan

    with pytest.raises(ModelError, match="the dev loss of update 2 is nan: try a lower learning rate"):
        train(by_loss, tmp_path / "nan", lambda *_: Lost(4))


def test_a_log_that_is_cut_keeps_its_dev_losses(tmp_path):
    records = [Record(step, 0.5, 0.1, 1.0, 0.0, None, step / 10) for step in (1, 2, 3)]
    for record in records:
        append_record(tmp_path / "log.jsonl", record)
    cut_log(tmp_path / "log.jsonl", 2)
    assert read_log(tmp_path / "log.jsonl") == records[:2]


def weights():
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(3, 2)), torch.nn.Parameter(torch.randn(2))]


def stepped(made, some):
    for _ in range(3):
        loss = sum((one * torch.linspace(1, 2, one.numel()).view_as(one)).pow(2).sum() for one in some)
        made.zero_grad()
        loss.backward()
        made.step()
    return [one.detach() for one in some]


@pytest.mark.parametrize("kind", ["adamw", "adam"])
def test_the_optimiser_is_torchs_and_biases_do_not_decay(kind):
    wanted = {"learning_rate": 0.01, "eps": 1e-5, "betas": (0.8, 0.99), "weight_decay": 0.1}
    some, same = weights(), weights()
    given = OptimisationSettings(steps=9, batch=1, optimiser=kind, **wanted)
    theirs = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[kind]
    groups = [{"params": same[:1], "weight_decay": 0.1}, {"params": same[1:], "weight_decay": 0.0}]
    expected = stepped(theirs(groups, lr=0.01, eps=1e-5, betas=(0.8, 0.99)), same)
    for one, other in zip(stepped(build_optimiser(some, given), some), expected, strict=True):
        assert torch.equal(one, other)


def test_the_rate_stays_where_the_schedule_is_constant():
    wanted = OptimisationSettings(steps=10, batch=1, learning_rate=0.4, warm_up=2, schedule="constant")
    assert [compute_rate(update, 10, wanted) for update in range(5)] == [0.0, 0.2, 0.4, 0.4, 0.4]
    assert compute_rate(9, 10, wanted) == 0.4


def test_a_warm_up_may_be_a_share():
    wanted = OptimisationSettings(steps=10, batch=1, learning_rate=1, warm_up=0.1)
    assert [count_warm_up(steps, wanted) for steps in (5, 10, 350)] == [0, 1, 35]
    assert math.isclose(compute_rate(1, 10, wanted), 1.0)


def test_a_long_gradient_is_shortened_unless_it_may_be_long(tmp_path):
    """Adam forgets the length of all gradients, but not of one among others."""
    grown = []

    class Steep(Line):
        def backward(self, number):
            value = super().backward(number)
            if number == 0:
                self.weight.weight.grad *= 100
            grown.append(float(self.weight.weight.grad.abs().max()))
            return value

    ends = []
    for name, most in (("cut", 1.0), ("whole", None)):
        task = Steep(4)
        train(settings(max_gradient_norm=most, steps=3), tmp_path / name, lambda *_, task=task: task)
        ends.append(float(task.weight.weight.detach()))
    assert max(grown) > 30
    assert ends[0] != ends[1]


def test_settings_name_what_they_do_not_know():
    with pytest.raises(ValueError, match="optimiser"):
        OptimisationSettings(steps=1, batch=1, learning_rate=1, optimiser="sgd")
    with pytest.raises(ValueError, match="warm_up"):
        Training(optimisation=OptimisationSettings(steps=5, batch=1, learning_rate=1, warm_up=5))
