"""The log of a training: a line of JSON every few updates, TensorBoard's files, the plot of both losses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pydantic import TypeAdapter, ValidationError

from telerank.drafts import replace_file
from telerank.errors import FormatError, MissingExtra
from telerank.show.plots import line_plot, save_plot
from telerank.training.trained import LOG

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Record:
    """``loss`` is the mean since the last record, None before the first update.

    ``dev`` and ``dev_loss`` are None unless they were due; ``facts`` are what else dev says of the model.
    """

    step: int
    loss: float | None
    learning_rate: float
    seconds: float
    remaining: float
    dev: float | None = None
    dev_loss: float | None = None
    facts: Mapping[str, float] | None = None

    @property
    def is_of_dev(self) -> bool:
        """Whether the dev measure or the dev loss was computed."""
        return self.dev is not None or self.dev_loss is not None


Report: TypeAlias = Callable[[Record], None]
"""Called with each record of the log."""


def silent_report(record: Record) -> None:
    """A :data:`Report` that shows nothing."""


def append_record(path: Path, record: Record) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(_write_line(record))


def _write_line(record: Record) -> str:
    shown = {name: value for name, value in asdict(record).items() if value is not None or name == "loss"}
    return f"{json.dumps(shown)}\n"


def read_log(path: Path) -> list[Record]:
    """The records of a log; an unfinished last line of a killed training is left out.

    Raises FormatError if another line is no record.
    """
    records = []
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            break
        try:
            records.append(TypeAdapter(Record).validate_json(line))
        except ValidationError as error:
            raise FormatError(path, number, "a record with step and loss", repr(line)) from error
    return records


def cut_log(path: Path, step: int) -> None:
    """Drop the records after ``step``, all of them if it is 0. Raises FormatError as :func:`read_log`."""
    if path.exists():
        kept = [_write_line(record) for record in read_log(path) if step and record.step <= step]
        replace_file(path, "".join(kept).encode())


def load_tensorboard() -> Any:
    """Import the class that writes TensorBoard's files. Raises MissingExtra if it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ModuleNotFoundError as error:
        raise MissingExtra("tensorboard", "tensorboard") from error
    return SummaryWriter


@contextmanager
def open_tensorboard(folder: Path, step: int) -> Iterator[Report]:
    """A report that writes to ``folder`` for TensorBoard; what the folder has after ``step`` is hidden."""
    writer = load_tensorboard()(str(folder), purge_step=step + 1)

    def write(record: Record) -> None:
        for name in ("loss", "learning_rate", "dev", "dev_loss"):
            value = getattr(record, name)
            if value is not None:
                writer.add_scalar(name, value, record.step)
        for name, value in (record.facts or {}).items():
            writer.add_scalar(name.replace(" ", "_"), value, record.step)
        writer.flush()

    try:
        yield write
    finally:
        writer.close()


LOSSES = "losses.svg", "losses.png"
"""The files of the plot beside the log of a training that has a dev loss."""


class LossCurves(NamedTuple):
    """The update of each dev loss, the mean training loss since the one before, and the dev loss."""

    updates: list[int]
    training: list[float]
    dev: list[float]


def read_losses(log: Path) -> LossCurves:
    """The losses of a ``log.jsonl``, empty if it has no dev loss. Raises FormatError if it is damaged."""
    curves = LossCurves([], [], [])
    total, last, begin = 0.0, 0, 0
    for record in read_log(log):
        if record.loss is None:  # before the first update
            continue
        total, last = total + record.loss * (record.step - last), record.step
        if record.dev_loss is not None:
            curves.updates.append(last)
            curves.training.append(total / (last - begin))
            curves.dev.append(record.dev_loss)
            total, begin = 0.0, last
    return curves


def draw_losses(curves: LossCurves) -> Figure:
    """Both losses by update. The training loss is computed with dropout, the dev loss without."""
    lines = {"training": curves.training, "dev": curves.dev}
    return line_plot({"loss": lines}, curves.updates, x_label="update", logarithmic=False)


def write_losses(output: Path) -> None:
    """Write the plot beside the log of a training, if it has a dev loss."""
    curves = read_losses(output / LOG)
    if curves.updates:
        figure = draw_losses(curves)
        for name in LOSSES:
            save_plot(figure, output / name)
