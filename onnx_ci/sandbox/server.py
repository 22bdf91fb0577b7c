"""The child's side: limits on itself, requests from stdin, answers on a channel nobody else prints to."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import sys
import threading
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
Answer = Callable[[dict[str, Any]], dict[str, Any]]

QUANTIZERS = ("dynamic_int8", "static_int8")
# What bad models lead to. Anything else ends the process, which is an answer as well.
ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


def serve(memory: int, prepare: Callable[[], Answer]) -> None:
    """Answer requests until stdin ends, within `memory`, in bytes; `prepare` loads what answers them."""
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)  # native code may print there
    _limit(memory)
    waiting = read_ahead(map(json.loads, sys.stdin))
    answer = prepare()
    while True:
        answers.write(json.dumps(answer(waiting.get())) + "\n")
        answers.flush()


def read_ahead(items: Iterable[T]) -> queue.SimpleQueue[T]:
    """Items, read by a thread of its own: when our parent is gone they end, and even a busy child does."""
    waiting: queue.SimpleQueue[T] = queue.SimpleQueue()

    def read() -> None:
        try:
            for item in items:
                waiting.put(item)
        finally:
            os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return waiting


def _limit(memory: int) -> None:
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


def main(memory: int) -> None:
    """Run other libraries on models as requests ask."""
    warnings.simplefilter("ignore")
    serve(memory, lambda: answer)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return what came of one request, which names a tool, a model to read and a model to write; `note` is
    what the tool has to say about its result."""
    try:
        optimizers = importlib.import_module("onnx_ci.sandbox.optimizers")  # first: it turns telemetry off
        home = optimizers
        if request["tool"] in QUANTIZERS:
            home = importlib.import_module("onnx_ci.sandbox.quantizers")
        source, target = Path(request["source"]), Path(request["target"])
        note = getattr(home, request["tool"])(source, target, request["options"])
        optimizers.refuse_broken(source, target)
        return {"kind": "ok", "note": note}
    except ImportError as error:
        return {"kind": "missing", "message": error.name or str(error)}
    except MemoryError:
        return {"kind": "memory", "message": "needs more memory than the limit allows"}
    except runtime_errors(*ERRORS) as error:
        return {"kind": "error", "message": _words(error)[:4000]}


def _words(error: Exception) -> str:
    plain = isinstance(error, runtime_errors()) or type(error) is RuntimeError
    return str(error) if plain and str(error) else f"{type(error).__name__}: {error}"
