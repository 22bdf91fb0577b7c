"""A progress line on standard error, while a person watches."""

from __future__ import annotations

import sys
import threading
import time

from onnx_ci.util.text import one_line

WIDTH = 20
QUIET_SECONDS = 0.5  # short work needs no bar


class ProgressLine:
    """Draws over itself on standard error; `clear` leaves no trace."""

    def __init__(self) -> None:
        self.enabled = sys.stderr.isatty()
        self.began = time.monotonic()
        self.lock = threading.Lock()
        self.drawn = False

    def __call__(self, done: int, total: int, name: str, doing: str) -> None:
        if not self.enabled or time.monotonic() - self.began < QUIET_SECONDS:
            return
        filled = WIDTH * done // max(total, 1)
        bar = "#" * filled + "-" * (WIDTH - filled)
        with self.lock:
            sys.stderr.write(f"\r\x1b[K[{bar}] {done}/{total} {one_line(name)}: {one_line(doing)}"[:200])
            sys.stderr.flush()
            self.drawn = True

    def clear(self) -> None:
        if self.drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
