"""Train a task, from settings to a folder."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TypedDict

import torch
from filelock import FileLock, Timeout

from telerank.errors import ModelError
from telerank.models.on_processor import with_quick_dropout
from telerank.models.precision import Precision, device_of
from telerank.models.precision import precision as open_precision
from telerank.training import checkpoint, log
from telerank.training.faults import deterministic, explaining
from telerank.training.log import Report, silent_report
from telerank.training.loop import DevSchedule, Loop, count_warm_up
from telerank.training.parallel import is_launched, join_processes
from telerank.training.settings import Training
from telerank.training.task import MakeTask, TrainingDevice
from telerank.training.trained import CHECKPOINTS, LOG
from telerank.types import Progress, silent


class TrainingOptions(TypedDict, total=False):
    """The options of :func:`train` that a training of any kind of model has."""

    resume: bool
    report: Report
    progress: Progress


def train(
    config: Training,
    output: str | Path,
    make_task: MakeTask,
    *,
    resume: bool = False,
    report: Report = silent_report,
    progress: Progress = silent,
) -> Path:
    """Train the task, and return the folder of the model, ``output/model``.

    With ``resume``, a training that was killed continues from its last checkpoint, to the same losses as if
    it had not been killed. Under ``torchrun`` the processes share each batch; only the first reports.

    Raises
    ------
    MissingExtra
        If the settings need TensorBoard, and it is not installed.
    ModelError
        If ``output`` holds a training and ``resume`` is not set, or a training with other settings; if
        another process trains there; if the loss becomes NaN or infinite; if memory does not suffice.
    """
    folder, device = Path(output), choose_device(config.device)
    with explaining(config), join_processes(device) as processes:
        precision = choose_precision(config.precision, device)
        if device.type == "cpu":
            precision = with_quick_dropout(precision)
        scaler = torch.amp.GradScaler(device.type) if config.precision == "float16" else None
        hardware = TrainingDevice(device, precision, processes, scaler)
        if not processes.leads:
            report, progress = silent_report, silent
        lock = FileLock(folder / ".lock", timeout=0)
        with ExitStack() as stack:
            stack.callback(lock.release)
            stack.callback(hardware.sums.drop)
            processes.first(lambda: _begin(folder, lock, config, resume=resume))
            if config.deterministic:
                stack.enter_context(deterministic(device))
            if config.precision in ("float32-fast", "tf32"):  # for gradients; autocast needs no context
                stack.enter_context(hardware.precision())
            loop = _open_loop(config, folder, make_task, hardware, progress)
            reports = [report]
            if config.tensorboard and processes.leads:
                board = log.open_tensorboard(folder / "tensorboard", loop.position.step)
                reports.append(stack.enter_context(board))
            return loop.run(reports, progress)


def _begin(folder: Path, lock: FileLock, config: Training, *, resume: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        lock.acquire()
    except Timeout as error:
        raise ModelError(f"{folder}: another process is training there") from error
    checkpoint.sweep_output(folder)
    checkpoint.drop_old(folder, config.keep)  # a killed training may have left one more
    if config.tensorboard:
        log.load_tensorboard()
    checkpoint.check_output(config, folder, resume=resume)


def _open_loop(
    config: Training, folder: Path, make_task: MakeTask, hardware: TrainingDevice, progress: Progress
) -> Loop:
    """The loop of a new training, or of its last checkpoint."""
    begun = next(reversed(checkpoint.list_checkpoints(folder)), None)
    state = None if begun is None else checkpoint.read_state(begun)  # checked before its model is read
    torch.manual_seed(config.seed)
    task = make_task(begun, hardware, progress)
    steps = count_updates(config, lambda: task.examples)
    count_warm_up(steps, config.optimisation)
    loop = Loop(config, folder, steps, schedule_dev(config, lambda: task.examples), task, hardware)
    if state is not None:
        try:
            loop.restore(state)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ModelError(f"{begun}: no checkpoint of this training ({error})") from error

    def write() -> None:
        checkpoint.write_record(config, folder)
        log.cut_log(folder / LOG, loop.position.step)
        (folder / CHECKPOINTS).mkdir(exist_ok=True)

    hardware.processes.first(write)
    return loop


def count_updates(config: Training, examples: Callable[[], int]) -> int:
    """The most updates of the weights; ``examples`` is called only if the length is set in epochs."""
    settings = config.optimisation
    return settings.steps if settings.epochs is None else _of_epochs(settings.epochs, config, examples)


def schedule_dev(config: Training, examples: Callable[[], int]) -> DevSchedule | None:
    """When dev is computed, if at all; ``examples`` is called only for epochs.

    Raises ModelError if patience ends before the first dev measure.
    """
    if config.dev is None:
        return None
    try:
        every, patience = config.dev.intervals(lambda epochs: _of_epochs(epochs, config, examples))
    except ValueError as error:
        raise ModelError(f"dev: {error}") from error
    return DevSchedule(int(every), int(patience), config.dev.by_loss)


def _of_epochs(epochs: float, config: Training, examples: Callable[[], int]) -> int:
    settings = config.optimisation
    return math.ceil(epochs * examples() / (settings.batch * settings.accumulation))


def choose_device(name: str) -> torch.device:
    """The device of that name; processes on the same machine get a GPU each.

    Raises
    ------
    ModelError
        If there is no such device, or it cannot be used.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if is_launched() and name == "cuda":
        name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    elif int(os.environ.get("LOCAL_WORLD_SIZE", "1")) > 1 and name.startswith("cuda"):
        raise ModelError(f"device {name!r}: each process has a GPU of its own, so name it 'cuda'")
    return device_of(name)


def choose_precision(name: str, device: torch.device) -> Precision:
    """The precision of that name; ``auto`` is bfloat16 on a GPU that supports it, else float32.

    ``float16`` is for trainings alone, whose gradients are scaled (:class:`TrainingDevice`).
    """
    if name == "float16":
        return lambda: torch.autocast(device.type, dtype=torch.float16)
    if name != "auto":
        return open_precision(name, device)
    supported = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return open_precision("bfloat16" if supported else "float32", device)
