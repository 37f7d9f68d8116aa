"""The machine, which times depend on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from telerank.sparse.build import count_cores


def machine() -> str:
    """The machine in a line: processor, cores that this process may use, memory, system."""
    cores = count_cores()
    parts = [_processor(), f"{cores} cores" if cores > 1 else "1 core"]
    if memory := _memory():
        parts.append(f"{memory / 2**30:.0f} GiB")
    return ", ".join((*parts, platform.system()))


def load() -> float | None:
    """How many processes wanted a core in the last minute: above the cores, times are too long."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8", errors="replace").splitlines() if info.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(named), "") or platform.processor() or platform.machine()


def _memory() -> int:
    if hasattr(os, "sysconf") and {"SC_PAGE_SIZE", "SC_PHYS_PAGES"} <= os.sysconf_names.keys():
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return 0
