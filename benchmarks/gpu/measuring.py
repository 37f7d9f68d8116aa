"""Time, synchronisations, memory and kernels of one row; and what the device can do at most."""

from __future__ import annotations

import gc
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch

import telerank

STEP_TOKENS = 65_536  # of a step in scoring and encoding
SYNCHRONISES = "called a synchronizing CUDA operation"
SOURCE = str(Path(telerank.__file__).parent)
MOST = 25  # kernels and lines of a profile


@dataclass(frozen=True)
class Amount:
    """What a pass computed: ``count`` units, of which ``steps`` are what synchronisations are counted by.

    ``operations`` are floating-point operations counted from the model's shape, on tokens that are no
    padding; None if nobody counts them.
    """

    count: int
    tokens: float = 0.0
    operations: float | None = None
    steps: float = 1.0


@dataclass
class Probe:
    """Measures passes on a device. All values are those of the last pass of their kind."""

    device: torch.device
    with_profile: bool = False
    seconds: float = 0.0
    memory: float | None = None
    """GB at the peak, of what torch has given out."""
    synchronisations: int | None = None
    lines: Counter[str] = field(default_factory=Counter)
    """Synchronisations by line of source."""
    profile: str = ""

    @contextmanager
    def timing(self) -> Iterator[None]:
        on_gpu = self.device.type == "cuda"
        if on_gpu:
            torch.cuda.synchronize(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
        began = time.perf_counter()
        yield
        if on_gpu:
            torch.cuda.synchronize(self.device)
        self.seconds = time.perf_counter() - began
        if on_gpu:
            self.memory = torch.cuda.max_memory_allocated(self.device) / 1e9

    @contextmanager
    def counting(self) -> Iterator[None]:
        """torch warns of each call that waits for the GPU; what it does not know is not counted."""
        if self.device.type != "cuda":
            yield
            return
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                yield
            finally:
                torch.cuda.set_sync_debug_mode("default")
        waits = [each for each in caught if SYNCHRONISES in str(each.message)]
        self.synchronisations = len(waits)
        self.lines = Counter(f"{_short(each.filename)}:{each.lineno}" for each in waits)

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Where threads of Python are, every millisecond, by the innermost line of telerank."""
        seen: Counter[tuple[str, str]] = Counter()
        done = threading.Event()

        def sample() -> None:
            own = threading.get_ident()
            names = {thread.ident: thread.name for thread in threading.enumerate()}
            while not done.wait(0.001):
                for thread, frame in sys._current_frames().items():
                    if thread == own:
                        continue
                    if thread not in names:
                        names |= {each.ident: each.name for each in threading.enumerate()}
                    if line := _own_line(frame):
                        seen[names.get(thread, "?"), line] += 1

        thread = threading.Thread(target=sample, name="sampling", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
        self.profile += _lines_table(seen)

    @contextmanager
    def profiling(self) -> Iterator[None]:
        kinds = torch.profiler.ProfilerActivity
        activities = [kinds.CPU, *([kinds.CUDA] if self.device.type == "cuda" else [])]
        with torch.profiler.profile(activities=activities) as profiler:
            began = time.perf_counter()
            yield
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
            taken = time.perf_counter() - began
        self.profile += _kernels_table(profiler, self.device, taken)

    def measure(self, run: Callable[[int], Amount], warm: int, most: int, seconds: float) -> Amount:
        """Time as many units as take about ``seconds``, between ``warm`` and ``most``."""
        run(warm)  # loads, compiles
        began = time.perf_counter()
        run(warm)
        each = (time.perf_counter() - began) / warm
        with self.timing():
            amount = run(int(min(most, max(warm, seconds / each))))
        self.count_and_profile(lambda: run(warm))
        return amount

    def count_and_profile(self, run: Callable[[], Amount]) -> None:
        with self.counting():
            steps = run().steps
        if self.synchronisations is not None:
            self.synchronisations = self.synchronisations / steps
        if self.with_profile:
            with self.sampling():
                run()
            with self.profiling():
                run()


def release(device: torch.device) -> None:
    """Free what earlier rows hold."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _short(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(SOURCE)) if file.startswith(SOURCE) else "/".join(path.parts[-3:])


def _own_line(frame: object) -> str:
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(SOURCE):
            return f"{_short(code.co_filename)}:{frame.f_lineno} {code.co_name}"
        frame = frame.f_back
    return ""


def _lines_table(seen: Counter[tuple[str, str]]) -> str:
    threads = Counter()
    for (thread, _), count in seen.items():
        threads[thread] += count
    lines = ["Time of Python's threads by the innermost line of telerank (share of the thread's samples)"]
    for (thread, line), count in seen.most_common(MOST):
        lines.append(f"{count / threads[thread]:7.1%}  {thread:20}  {line}")
    return "\n".join(lines) + "\n\n"


def _kernels_table(profiler: torch.profiler.profile, device: torch.device, taken: float) -> str:
    times: dict[str, list[float]] = {}
    on_gpu = device.type == "cuda"
    for event in profiler.events():
        is_kernel = event.device_type == torch.autograd.DeviceType.CUDA
        if is_kernel != on_gpu or getattr(event, "is_user_annotation", False):
            continue
        spent = event.time_range.elapsed_us() if on_gpu else event.self_cpu_time_total
        times.setdefault(event.name, []).append(spent)
    total = sum(map(sum, times.values())) / 1e6
    count = sum(map(len, times.values()))
    share = f"{total / taken:.0%} of {taken:.3f} s under the profiler"
    lines = [f"{count:,} {'kernels and copies' if on_gpu else 'operations'}: {total:.3f} s, {share}"]
    for name, spent in sorted(times.items(), key=lambda item: -sum(item[1]))[:MOST]:
        whole = sum(spent) / 1e3
        lines.append(f"{whole:9.2f} ms {whole / 1e3 / total:6.1%} {len(spent):7,} × {name[:110]}")
    return "\n".join(lines) + "\n\n"


@dataclass(frozen=True)
class Limits:
    """What the device does at most: TFLOP/s of a large product by precision, GB/s of copies, µs a launch."""

    products: dict[str, float]
    copies: float
    launch: float

    @property
    def peak(self) -> float:
        """TFLOP/s of bfloat16; of a processor, the faster of its precisions."""
        return max(self.products.values()) if self.copies == 0 else self.products["bfloat16"]


def measure_limits(device: torch.device, *, small: bool) -> Limits:
    """Products of drawn matrices, a copy of a large tensor on the device, and many tiny kernels."""
    on_gpu = device.type == "cuda"
    side = 512 if small else 8192
    products = {
        "bfloat16": _product(device, side, torch.bfloat16),
        "float32": _product(device, side // 2, torch.float32),
    }
    if not on_gpu:
        return Limits(products, 0.0, 0.0)
    with _tf32():
        products["tf32"] = _product(device, side, torch.float32)
    few = torch.zeros(8, device=device)

    def launches() -> None:
        for _ in range(1000):
            few.add_(1)

    return Limits(products, _copies(device, 1 << 20 if small else 1 << 29), _best(launches, device, 1) * 1e3)


@contextmanager
def _tf32() -> Iterator[None]:
    setting = torch.backends.cuda.matmul
    # torch refuses to read either name of the setting after the other was set
    name, value = ("fp32_precision", "tf32") if hasattr(setting, "fp32_precision") else ("allow_tf32", True)
    before = getattr(setting, name)
    setattr(setting, name, value)
    try:
        yield
    finally:
        setattr(setting, name, before)


def _product(device: torch.device, side: int, dtype: torch.dtype) -> float:
    left, right = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    return 2 * side**3 / _best(lambda: left @ right, device, 10) / 1e12


def _copies(device: torch.device, numbers: int) -> float:
    source = torch.empty(numbers, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / _best(lambda: target.copy_(source), device, 5) / 1e9


def _best(work: Callable[[], object], device: torch.device, times: int) -> float:
    """Seconds of one call, the best of three rounds after a first one."""
    best = float("inf")
    for _ in range(4):
        began = time.perf_counter()
        for _ in range(times):
            work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = min(best, (time.perf_counter() - began) / times)
    return best
