"""The smallest task: a weight that fits a line."""

from __future__ import annotations

import torch

from telerank.training.settings import OptimisationSettings, Training
from telerank.training.training import train


class Line:
    """``y = 3 x``, eight examples to an epoch; a frozen weight of 5 beside it that nobody may touch.

    At ``broken`` its loss, or at ``steep`` its gradient, is not a number. ``measures`` and ``dev_losses`` are
    its values on dev, look by look. ``events`` are its calls; of what was saved there is the folder's name.
    """

    examples = 8

    def __init__(self, *, size=4, begun=None, broken=None, steep=None, measures=None, dev_losses=None):
        self.size, self.broken, self.steep, self.events = size, broken, steep, []
        self.measures, self.dev_losses = iter(measures or ()), iter(dev_losses or ())
        self.weight = torch.nn.Linear(1, 1, bias=False)
        self.frozen = torch.nn.Linear(1, 1, bias=False).requires_grad_(False)
        with torch.no_grad():
            self.weight.weight.fill_(0.0)
            self.frozen.weight.fill_(5.0)
        self.seen, self.restored = 0, None
        if begun is not None:
            self.weight.load_state_dict(torch.load(begun / "line.pt"))

    @property
    def models(self):
        return ((self.weight, self.frozen),)

    def numbers(self, call):
        return [number for name, number in self.events if name == call]

    def prepare(self, number, _progress):
        self.events.append(("prepare", number))

    def read(self, number):
        assert self.numbers("prepare")[-1] == number
        self.events.append(("read", number))
        return number

    def backward(self, number):
        assert self.numbers("read")[-1] >= number
        assert self.weight.training
        self.events.append(("learn", number))
        x = torch.arange(number * self.size, (number + 1) * self.size).float().reshape(-1, 1) % 8 / 8
        x = x.to(self.weight.weight.device)
        loss = (self.weight(x) - 3 * x).square().mean()
        loss.backward()
        if number == self.steep:
            self.weight.weight.grad.fill_(float("nan"))
        self.seen += 1
        return loss.detach() * (float("nan") if number == self.broken else 1)

    def dev(self, _progress):
        self.events.append(("dev", self.seen))
        return next(self.measures, None)

    def dev_facts(self):
        return {}

    def dev_loss(self, _progress):
        return next(self.dev_losses, None)

    def save(self, folder):
        folder.mkdir()
        self.events.append(("save", (folder.parent.name, self.seen)))
        torch.save({"weight": self.weight.weight.detach().cpu()}, folder / "line.pt")

    def state(self):
        return {"seen": torch.tensor(self.seen)}

    def restore(self, state):
        self.restored = self.seen = int(state["seen"])


class LineOptimisation(OptimisationSettings):
    """As in the settings of a task, there is a default."""

    steps: int = 6


OUTSIDE = Training.model_fields.keys() - {"optimisation"}


def line_training(**changes) -> Training:
    """Settings of the loop, or of its optimisation."""
    outside = {"log_every": 1} | {name: changes[name] for name in OUTSIDE & changes.keys()}
    plain = {"batch": 4, "learning_rate": 0.1, "weight_decay": 0.0, "max_gradient_norm": None}
    inside = {name: value for name, value in changes.items() if name not in OUTSIDE}
    return Training(optimisation=LineOptimisation(**plain | inside), **outside)


def train_line(config, output, *, resume=False, **line) -> Line:
    """The task, trained."""
    tasks = []

    def make(begun, _hardware, _progress):
        tasks.append(Line(begun=begun, **line))
        return tasks[0]

    train(config, output, make, resume=resume)
    return tasks[0]
