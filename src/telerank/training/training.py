"""A training, whatever its task: from settings to a folder."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from telerank.errors import ModelError
from telerank.models.device import device_of
from telerank.models.precision import Precision, precision
from telerank.training import checkpoint, log
from telerank.training.log import Record, Report, unheard
from telerank.training.loop import Looking, Loop
from telerank.training.optimiser import warming
from telerank.training.parallel import joined, launched, local_rank, processes_here
from telerank.training.settings import Training
from telerank.training.task import Make, TrainingDevice
from telerank.types import Progress, silent

TENSORBOARD = "tensorboard"


def train(
    config: Training,
    output: str | Path,
    make: Make,
    *,
    resume: bool = False,
    report: Report = unheard,
    progress: Progress = silent,
) -> Path:
    """Train what ``make`` makes; the folder of the model, ``output/model``.

    A training that was killed goes on from its last checkpoint with ``resume``, to the same losses as if it
    had not been killed. Under ``torchrun`` the processes share each batch; the first alone reports.

    Raises
    ------
    MissingExtra
        where TensorBoard is asked for and not installed.
    ModelError
        where ``output`` holds a training and ``resume`` is not set, or one with other settings; where another
        training is at work there; where the loss is no number any more.
    """
    folder, where = Path(output), device(config.device)
    with joined(where) as processes:
        place = TrainingDevice(where, chosen_precision(config.precision, where), processes)
        if not processes.leads:
            report, progress = unheard, silent
        lock = FileLock(folder / ".lock", timeout=0)
        try:
            processes.first(lambda: _begin(folder, lock, config, resume=resume))
            with _kernels(config, place):
                loop = _loop(config, folder, make, place, progress)
                with _reporting(config, loop, report) as reported:
                    return loop.run(reported, progress)
        finally:
            lock.release()


def _kernels(config: Training, place: TrainingDevice) -> AbstractContextManager[Any]:
    """Gradients are computed outside of the task's contexts; autocast's are what their products were."""
    return place.precision() if config.precision == "float32-fast" else nullcontext()


@contextmanager
def _reporting(config: Training, loop: Loop, report: Report) -> Iterator[Report]:
    """``report``, and TensorBoard where it is asked for."""
    if not config.tensorboard or not loop.place.processes.leads:
        yield report
        return
    with log.tensorboard(loop.output / TENSORBOARD, loop.reached.step) as board:

        def both(record: Record) -> None:
            report(record)
            board(record)

        yield both


def _begin(folder: Path, lock: FileLock, config: Training, *, resume: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        lock.acquire()
    except Timeout as error:
        raise ModelError(f"{folder}: another training is at work there") from error
    checkpoint.sweep(folder)
    if config.tensorboard:
        log.tensorboard_writer()
    if (folder / checkpoint.CONFIG).exists():
        if not resume:
            raise ModelError(f"{folder} holds a training: resume it (--resume), or name another folder")
        checkpoint.check_same(config, folder)


def _loop(config: Training, folder: Path, make: Make, place: TrainingDevice, progress: Progress) -> Loop:
    begun = checkpoint.last_checkpoint(folder)
    torch.manual_seed(config.seed)
    task = make(begun, place, progress)
    steps = updates(config, lambda: task.examples)
    warming(steps, config.optimisation)
    loop = Loop(config, folder, steps, looking(config, lambda: task.examples), task, place)
    if begun is not None:
        loop.restore(checkpoint.read_state(begun))

    def write() -> None:
        checkpoint.write_record(config, folder)
        log.cut(folder / checkpoint.LOG, loop.reached.step)
        (folder / checkpoint.CHECKPOINTS).mkdir(exist_ok=True)

    place.processes.first(write)
    return loop


def updates(config: Training, examples: Callable[[], int | None]) -> int:
    """Updates of the weights, if nothing ends the training before; examples are counted for epochs alone.

    Raises
    ------
    ModelError
        where epochs are asked for, and nobody knows how many examples there are.
    """
    wanted = config.optimisation
    return wanted.steps if wanted.epochs is None else _of_epochs(wanted.epochs, config, examples)


def looking(config: Training, examples: Callable[[], int | None]) -> Looking | None:
    """When the dev measure is taken, where there is one; examples are counted for epochs alone.

    Raises
    ------
    ModelError
        as :func:`updates` does; where patience ends before the first look.
    """
    if config.dev is None:
        return None
    try:
        every, patience = config.dev.in_updates(lambda epochs: _of_epochs(epochs, config, examples))
    except ValueError as error:
        raise ModelError(f"dev: {error}") from error
    return Looking(int(every), int(patience))


def _of_epochs(epochs: float, config: Training, examples: Callable[[], int | None]) -> int:
    wanted, count = config.optimisation, examples()
    if count is None:
        raise ModelError("epochs: the number of examples is not known; give steps")
    return math.ceil(epochs * count / (wanted.batch * wanted.accumulation))


def device(name: str) -> torch.device:
    """The device of that name; of several processes on one machine each has a GPU of its own.

    Raises
    ------
    ModelError
        where there is none, or none to be used here.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if launched() and name == "cuda":
        name = f"cuda:{local_rank()}"
    elif processes_here() > 1 and name.startswith("cuda"):
        raise ModelError(f"device {name!r}: each process has a GPU of its own, so ask for 'cuda'")
    return device_of(name)


def chosen_precision(name: str, where: torch.device) -> Precision:
    """As it is called; ``auto`` is bfloat16 on a GPU that has it, else float32."""
    if name != "auto":
        return precision(name, where)
    has = where.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return precision("bfloat16" if has else "float32", where)
