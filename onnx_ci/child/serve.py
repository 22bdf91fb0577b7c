"""The child's own side: limits on itself, requests from stdin, answers on a channel nobody else prints to."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import sys
import threading
from typing import Any


def private_channel() -> int:
    """Keep stdout for the answers and point fd 1 at nothing: native code may print there."""
    channel = os.dup(1)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)
    return channel


def send(channel: int, message: dict[str, Any]) -> None:
    data = (json.dumps(message) + "\n").encode("ascii")
    while data:
        data = data[os.write(channel, data) :]


def requests() -> queue.SimpleQueue[dict[str, Any]]:
    """Requests, read by a thread of its own: when our parent is gone, even a busy child ends at once."""
    waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            waiting.put(json.loads(line))
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return waiting


def limit(memory: int) -> None:
    """Let this process have no more address space, and write no larger file, than that."""
    try:
        import resource
    except ImportError:  # Windows
        return
    for name, value in (("RLIMIT_AS", memory), ("RLIMIT_FSIZE", memory), ("RLIMIT_CORE", 0)):
        with contextlib.suppress(ValueError, OSError, AttributeError):  # macOS refuses some of them
            resource.setrlimit(getattr(resource, name), (value, value))


def runtime_errors(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """What onnxruntime raises, where it is loaded (its exceptions share no base), and others."""
    state = sys.modules.get("onnxruntime.capi.onnxruntime_pybind11_state")
    found = vars(state).values() if state else ()
    return (*(e for e in found if isinstance(e, type) and issubclass(e, Exception)), *others)
