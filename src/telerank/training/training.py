"""Train a task, from settings to a folder."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypedDict, TypeVar

import torch
from filelock import FileLock, Timeout

from telerank.errors import ModelError, UnlikelySetting
from telerank.models.on_processor import keeping_freed_memory, with_quick_dropout
from telerank.models.precision import computes_in_bfloat16
from telerank.training import checkpoint, log
from telerank.training.log import Report, silent_report
from telerank.training.loop import Loop
from telerank.training.optimisation import count_updates, count_warm_up, schedule_dev
from telerank.training.parallel import NO_PEER, join_processes
from telerank.training.settings import Training
from telerank.training.task import Task, TrainingDevice, choose_device, choose_precision
from telerank.training.trained import CHECKPOINTS, LOG
from telerank.types import Progress, silent

K = TypeVar("K", bound=Task)
_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
_NO_MEMORY = ("can't allocate memory", "not enough memory", "CUBLAS_STATUS_ALLOC_FAILED")


@contextmanager
def explaining(config: Training) -> Iterator[None]:
    """Raise ModelError where memory, a deterministic algorithm or another process is missing."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:  # torch.OutOfMemoryError is a RuntimeError
        text, lacks = str(error), (torch.OutOfMemoryError, MemoryError)
        if isinstance(error, lacks) or any(words in text for words in _NO_MEMORY):
            other = "" if config.recompute else ", or recompute to true"
            raise ModelError(f"out of memory: set {config.smaller_batch}{other}") from error
        if any(words in text for words in NO_PEER):
            raise ModelError("another process has ended: its message says why") from error
        if config.deterministic and _WORKSPACE in text:
            reason = f"the GPU was used before without {_WORKSPACE}: set it to :4096:8"
            raise ModelError(f"deterministic: {reason} for the whole program") from error
        if config.deterministic and "deterministic" in text:
            raise ModelError(f"deterministic: {text.splitlines()[0]}") from error
        raise


@contextmanager
def deterministic(device: torch.device) -> Iterator[None]:
    """Let torch use only algorithms that give the same numbers each time; for the whole process.

    On a GPU that takes a setting of cuBLAS, which it reads when it is first used.
    """
    if device.type == "cuda":
        os.environ.setdefault(_WORKSPACE, ":4096:8")
    before = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    searches = torch.backends.cudnn.benchmark
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warns)
        torch.backends.cudnn.benchmark = searches


class TrainingOptions(TypedDict, total=False):
    """The options of :func:`train` that a training of any kind of model has."""

    resume: bool
    report: Report
    progress: Progress


def train(
    config: Training,
    output: str | Path,
    make_task: Callable[[Path | None, TrainingDevice, Progress], K],
    *,
    resume: bool = False,
    report: Report = silent_report,
    progress: Progress = silent,
) -> tuple[Path, K]:
    """Train the task; return the folder of the model, ``output/model``, and the task.

    ``make_task`` makes the task, in every process: with a fresh model, or with the one in a folder that
    :meth:`~telerank.training.task.Task.save` wrote.

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
        elif config.precision == "bfloat16" and not computes_in_bfloat16(device):
            line = "this processor has no instructions for bfloat16: float32 is several times as fast"
            warnings.warn(line, UnlikelySetting, stacklevel=2)
        lock = FileLock(folder / ".lock", timeout=0)
        with ExitStack() as stack:
            stack.callback(lock.release)
            stack.callback(hardware.sums.drop)
            processes.first(lambda: _begin(folder, lock, config, resume=resume))
            if config.deterministic:
                stack.enter_context(deterministic(device))
            if config.precision in ("float32-fast", "tf32"):  # for gradients; autocast needs no context
                stack.enter_context(hardware.precision())
            begun = next(reversed(checkpoint.list_checkpoints(folder)), None)
            # checked before its model is read
            state = None if begun is None else checkpoint.read_state(begun)
            torch.manual_seed(config.seed)
            task = make_task(begun, hardware, progress)
            loop = _open_loop(config, folder, task, hardware, state)
            reports = [report]
            if config.tensorboard and processes.leads:
                board = log.open_tensorboard(folder / "tensorboard", loop.position.step)
                reports.append(stack.enter_context(board))
            if hardware.device.type == "cpu":
                stack.enter_context(keeping_freed_memory())
            return loop.run(reports, progress), task


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
    config: Training,
    folder: Path,
    task: Task,
    hardware: TrainingDevice,
    state: checkpoint.CheckpointState | None,
) -> Loop:
    """The loop of a new training, or of the ``state`` of a checkpoint."""
    steps = count_updates(config, lambda: task.examples)
    count_warm_up(steps, config.optimisation)
    loop = Loop(config, folder, steps, schedule_dev(config, lambda: task.examples), task, hardware)
    if state is not None:
        try:
            loop.restore(state)
        except ModelError:
            raise
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ModelError(f"{state.folder}: no checkpoint of this training ({error})") from error

    def write() -> None:
        checkpoint.write_record(config, folder)
        log.cut_log(folder / LOG, loop.position.step)
        (folder / CHECKPOINTS).mkdir(exist_ok=True)

    hardware.processes.first(write)
    return loop
