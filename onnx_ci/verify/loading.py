"""What it takes to load a model, in seconds and in memory: measured in a process that did nothing else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path


def measured(load: Callable[[], object]) -> dict[str, float | int | None]:
    """`memory` is by how much loading raised the most this process ever had, in bytes."""
    before = _peak()
    began = time.perf_counter()
    load()
    seconds = time.perf_counter() - began
    after = _peak()
    return {"seconds": seconds, "memory": None if before is None or after is None else after - before}


def _peak() -> int | None:
    """The most memory this process had at any time. On Linux `getrusage` would tell that of the process
    that started this one, if it was larger."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return _peak_by_rusage()


def _peak_by_rusage() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
