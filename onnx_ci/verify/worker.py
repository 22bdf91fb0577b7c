"""The process that runs untrusted models: the only module that imports onnxruntime.

Requests come as JSON lines on stdin, answers go as JSON lines to what was stdout when we started."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from onnx_ci.sandbox.server import limit, private_channel, requests, runtime_errors, send
from onnx_ci.verify import loading, timing

_PROVIDERS = ["CPUExecutionProvider"]
_WEIGHTS = "weights"
_THREADS = 8  # more cost address space and gain little on one small sample
_ERRORS = (RuntimeError, ValueError, TypeError, OSError, KeyError, IndexError, ArithmeticError)  # bad values
_OUT_OF_MEMORY = ("bad_alloc", "bad allocation", "allocate memory", "out of memory")


def main(memory: int) -> None:
    """Answer requests until stdin ends. `memory` is in bytes."""
    channel = private_channel()
    limit(memory)
    waiting = requests()
    try:
        import onnxruntime as ort
    except ImportError as error:
        send(channel, {"kind": "environment", "message": f"onnxruntime can't be loaded: {error}"})
        return
    ort.set_default_logger_severity(4)
    ort.disable_telemetry_events()
    while True:
        send(channel, answer(ort, waiting.get()))


def answer(ort: Any, request: dict[str, Any]) -> dict[str, Any]:
    """What came of one request: the result, or why there is none."""
    stage = "library"
    try:
        _options(ort, request)
        stage = "load"
        if request["job"] in _LOADING:
            return {"kind": "ok", **_LOADING[request["job"]](ort, request)}
        sessions = _sessions(ort, request)
        stage = "run"
        return {"kind": "ok", **_JOBS[request["job"]](ort, sessions, request)}
    except MemoryError:
        return {"kind": "memory", "message": "not enough memory for an array", "stage": stage}
    except runtime_errors(*_ERRORS) as error:
        text = str(error) or type(error).__name__
        kind = "memory" if any(sign in text for sign in _OUT_OF_MEMORY) else "error"
        return {"kind": kind, "message": text[:4000], "stage": stage, "status": type(error).__name__}


def _load(ort: Any, request: dict[str, Any]) -> dict[str, Any]:
    return {**loading.measured(partial(_session, ort, request["models"][0], request))}


def _optimize(ort: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Write what onnxruntime makes of a model. Its tensors go nowhere, if the system has such a place."""
    target = Path(request["target"])
    with contextlib.suppress(OSError, NotImplementedError):
        target.with_name(_WEIGHTS).symlink_to(os.devnull)
    options = _options(ort, request)
    options.optimized_model_filepath = str(target)
    for name, value in (("file_name", _WEIGHTS), ("min_size_in_bytes", "1024")):
        options.add_session_config_entry(f"session.optimized_model_external_initializers_{name}", value)
    ort.InferenceSession(request["models"][0], options, providers=_PROVIDERS)
    return {}


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


def _run(ort: Any, sessions: list[Any], request: dict[str, Any]) -> dict[str, Any]:
    from onnx_ci.verify import exchange, ort_values

    samples = exchange.read_raw_samples(Path(request["feeds"]))
    outputs = [ort_values.run(ort, sessions[0], sample, request["spare"]) for sample in samples]
    exchange.write_samples(Path(request["outputs"]), outputs)
    return {}


def _time(ort: Any, sessions: list[Any], request: dict[str, Any]) -> dict[str, Any]:
    """Times of runs taken in turns, so that a busy machine slows both alike."""
    from onnx_ci.verify import exchange, ort_values

    sample = exchange.read_raw_samples(Path(request["feeds"]))[0]
    runs = [partial(ort_values.run, ort, session, sample, request["spare"]) for session in sessions]
    return {"times": timing.take_turns(runs, request["limit"])}


def _try(ort: Any, sessions: list[Any], request: dict[str, Any]) -> dict[str, Any]:
    """A run with other weights than the model's own, which come as files, by the names of inputs."""
    import numpy as np

    from onnx_ci.verify import exchange, ort_values

    weights = {
        name: np.load(file, mmap_mode="r", allow_pickle=False).view(np.ndarray)
        for name, file in request["weights"].items()
    }
    samples = exchange.read_raw_samples(Path(request["feeds"]))
    outputs = [ort_values.run(ort, sessions[0], {**s, **weights}, request["spare"]) for s in samples]
    exchange.write_samples(Path(request["outputs"]), outputs)
    return {}


def _draw(ort: Any, sessions: list[Any], request: dict[str, Any]) -> dict[str, Any]:
    """Many runs of each sample, of which only means and some draws are handed back."""
    from onnx_ci.verify import draws, exchange, ort_values

    samples = exchange.read_raw_samples(Path(request["feeds"]))
    runs = [partial(ort_values.run, ort, sessions[0], sample, request["spare"]) for sample in samples]
    tallies = [draws.tallied(run, request["runs"]) for run in runs]
    exchange.write_samples(Path(request["outputs"]), [tally.result() for tally in tallies])
    return {"left_out": {name: why for tally in tallies for name, why in tally.left_out.items()}}


_JOBS: dict[str, Callable[[Any, list[Any], dict[str, Any]], dict[str, Any]]] = {
    "run": _run,
    "time": _time,
    "try": _try,
    "draw": _draw,
}


def _sessions(ort: Any, request: dict[str, Any]) -> list[Any]:
    """New ones each time, but for trials, which use one session as long as they go on."""
    paths = request["models"]
    if request["job"] == "try" and list(_kept) == paths and not request.get("fresh"):
        return list(_kept.values())
    _kept.clear()
    ort.set_seed(request.get("seed", 0))  # what random nodes without a seed of their own begin with
    made = [_session(ort, path, request) for path in paths]
    if request["job"] == "try":
        _kept.update(zip(paths, made, strict=True))
    return made


_kept: dict[str, Any] = {}


def _session(ort: Any, path: str, request: dict[str, Any]) -> Any:
    return ort.InferenceSession(path, _options(ort, request), providers=_PROVIDERS)


def _options(ort: Any, request: dict[str, Any]) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = _other_threads() if request.get("other_threads") else _threads()
    options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if not request["optimize"]:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    for library in request["libraries"]:
        options.register_custom_ops_library(library)
    return options


def _threads() -> int:
    return min(_THREADS, _processors())


def _other_threads() -> int:
    return 1 if _threads() > 1 else 2


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


if __name__ == "__main__":
    main(int(sys.argv[1]))
