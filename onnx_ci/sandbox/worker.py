"""The process that runs untrusted models: it alone loads onnxruntime to run them.

Requests come as JSON lines on stdin, answers go as JSON lines to what was stdout when we started."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from onnx_ci.sandbox.server import Answer, runtime_errors, serve

_PROVIDERS = ["CPUExecutionProvider"]
_WEIGHTS = "weights"
_THREADS = 8  # more cost address space and gain little on one small sample
_ERRORS = (RuntimeError, ValueError, TypeError, OSError, KeyError, IndexError, ArithmeticError)  # bad values
_kept: dict[tuple[object, ...], tuple[int, Any]] = {}  # bytes and session, by model and settings
_ROOM = 1 << 28  # bytes of models whose sessions are kept; one is, however large
_OUT_OF_MEMORY = ("bad_alloc", "bad allocation", "allocate memory", "out of memory")


def main(memory: int) -> None:
    serve(memory, prepare)


def prepare() -> Answer:
    """Load onnxruntime; without it, that is the answer to everything."""
    try:
        import onnxruntime as ort
    except ImportError as error:
        fault = {"kind": "environment", "message": f"onnxruntime can't be loaded: {error}"}
        return lambda _: fault
    ort.set_default_logger_severity(4)
    ort.disable_telemetry_events()
    return partial(answer, ort)


def answer(ort: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Return the result of one request, or why there is none."""
    stage = "library"
    try:
        _options(ort, request)
        stage, began = "load", time.perf_counter()
        if request["job"] in _LOADING:
            found = _LOADING[request["job"]](ort, request)
            loads = len(request["models"])
            return {"kind": "ok", "loads": loads, "loading": time.perf_counter() - began, **found}
        from onnx_ci.sandbox.inference import JOBS  # late: it needs the numpy that onnxruntime brought

        loads, sessions = _sessions(ort, request)
        stage, loaded = "run", time.perf_counter()
        found = JOBS[request["job"]](ort, sessions, request)
        seconds = {"loading": loaded - began, "running": time.perf_counter() - loaded}
        return {"kind": "ok", "loads": loads, **seconds, **found}
    except MemoryError:
        return {"kind": "memory", "message": "not enough memory for an array", "stage": stage}
    except runtime_errors(*_ERRORS) as error:
        text = str(error) or type(error).__name__
        kind = "memory" if any(sign in text for sign in _OUT_OF_MEMORY) else "error"
        return {"kind": kind, "message": text[:4000], "stage": stage, "status": type(error).__name__}


def _load(ort: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Measure the seconds it takes to load a model, and by how many bytes that raises the most memory this
    process ever had: it did nothing else before."""
    before = _peak()
    began = time.perf_counter()
    _session(ort, request["models"][0], request)
    seconds = time.perf_counter() - began
    after = _peak()
    return {"seconds": seconds, "memory": None if before is None or after is None else after - before}


def _optimize(ort: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Write what onnxruntime makes of a model."""
    ort.InferenceSession(request["models"][0], _writing(ort, request), providers=_PROVIDERS)
    return {}


def _writing(ort: Any, request: dict[str, Any]) -> Any:
    """Options that let a session write its graph. Tensors go nowhere, if the system has such a place."""
    graph = Path(request["graph"])
    with contextlib.suppress(OSError, NotImplementedError):
        graph.with_name(_WEIGHTS).symlink_to(os.devnull)
    options = _options(ort, request)
    options.optimized_model_filepath = str(graph)
    for name, value in (("file_name", _WEIGHTS), ("min_size_in_bytes", "1024")):
        options.add_session_config_entry(f"session.optimized_model_external_initializers_{name}", value)
    return options


def _operators(ort: Any, _: dict[str, Any]) -> dict[str, Any]:
    """All operators that this onnxruntime has heard of; not every build of it can tell."""
    listed = getattr(ort.capi.onnxruntime_pybind11_state, "get_all_operator_schema", None)
    if listed is None:
        raise ValueError("this build can't list its operators")
    return {"operators": sorted({(schema.domain, schema.name) for schema in listed()})}


_LOADING: dict[str, Callable[[Any, dict[str, Any]], dict[str, Any]]] = {
    "load": _load,
    "optimize": _optimize,
    "operators": _operators,
}


def _sessions(ort: Any, request: dict[str, Any]) -> tuple[int, list[Any]]:
    """Load models, or take a session that was kept. Return how many were loaded, too."""
    paths, size = request["models"], request["bytes"]
    key = (paths[0], _version(paths[0]), request["optimize"], request.get("other_threads", False))
    if request.get("keep") and key in _kept:
        _kept[key] = _kept.pop(key)  # the last that was used goes last
        return 0, [_kept[key][1]]
    while _kept and size + sum(kept for kept, _ in _kept.values()) > _ROOM:
        del _kept[next(iter(_kept))]
    ort.set_seed(request.get("seed", 0))  # what random nodes without a seed of their own begin with
    sessions = [_session(ort, path, request) for path in paths]
    if request.get("keep"):
        _kept[key] = size, sessions[0]
    return len(paths), sessions


def _version(path: str) -> tuple[int, ...]:
    """What changes when another model is written to a path."""
    found = Path(path).stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _session(ort: Any, path: str, request: dict[str, Any]) -> Any:
    """Load a model, and write its graph if that is asked for and can be done."""
    if request.get("graph"):
        with contextlib.suppress(*runtime_errors(*_ERRORS)):
            return ort.InferenceSession(path, _writing(ort, request), providers=_PROVIDERS)
    return ort.InferenceSession(path, _options(ort, request), providers=_PROVIDERS)


def _options(ort: Any, request: dict[str, Any]) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = _threads(request)
    options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if not request["optimize"]:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    for library in request["libraries"]:
        options.register_custom_ops_library(library)
    return options


def _threads(request: dict[str, Any]) -> int:
    """As many as are asked for; or another number, to see whether that shows."""
    usual: int = min(_THREADS, request["threads"])
    if request.get("other_threads"):
        return 1 if usual > 1 else 2
    return usual


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
