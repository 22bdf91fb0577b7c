"""What the worker does with models it has loaded: run, run often, time, try other weights."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from onnx_ci.sandbox.exchange import EXOTIC, Array, Raw, is_float, is_text, read_samples, write_samples
from onnx_ci.sandbox.moments import Moments
from onnx_ci.sandbox.server import runtime_errors
from onnx_ci.sandbox.timing import take_turns

Handler = Callable[[Any, list[Any], dict[str, Any]], dict[str, Any]]
_JUDGING = 4
TRACKED = 256  # elements of an output whose every draw is kept


def _run_once(ort: Any, sessions: list[Any], request: dict[str, Any]) -> dict[str, Any]:
    """Run every sample; other weights than the model's own may come as files, by the names of inputs. Of the
    samples at the end, so many may fail as the request says: they give no outputs then."""
    weights = {}
    for name, file in request.get("weights", {}).items():
        weights[name] = np.load(file, mmap_mode="r", allow_pickle=False).view(np.ndarray)
    samples = read_samples(Path(request["feeds"]), raw=True)
    firm = len(samples) - request.get("may_fail", 0)
    outputs = [run(ort, sessions[0], {**sample, **weights}, request["spare"]) for sample in samples[:firm]]
    for sample in samples[firm:]:
        with suppress(*runtime_errors(RuntimeError, ValueError, MemoryError)):
            outputs.append(run(ort, sessions[0], sample, request["spare"]))
    write_samples(Path(request["outputs"]), outputs)
    return {"runs": len(samples)}


def _time(ort: Any, sessions: list[Any], request: dict[str, Any]) -> dict[str, Any]:
    """Time runs taken in turns, so that a busy machine slows both alike."""
    sample = read_samples(Path(request["feeds"]), raw=True)[0]
    runs = [partial(run, ort, session, sample, request["spare"]) for session in sessions]
    times = take_turns(runs, request["limit"])
    return {"times": times, "runs": sum(map(len, times))}


def _draw(ort: Any, sessions: list[Any], request: dict[str, Any]) -> dict[str, Any]:
    """Run each sample many times, and hand back only means and some draws: not every run has to travel."""
    results, left_out = [], {}
    for sample in read_samples(Path(request["feeds"]), raw=True):
        tally = Tally()
        for _ in range(request["runs"]):
            tally.add(run(ort, sessions[0], sample, request["spare"]))
        results.append(tally.result())
        left_out.update(tally.left_out)
    write_samples(Path(request["outputs"]), results)
    return {"left_out": left_out, "runs": len(results) * request["runs"]}


def _moments(ort: Any, sessions: list[Any], request: dict[str, Any]) -> dict[str, Any]:
    """Run each sample and keep nothing but second moments of its outputs; every fourth sample is for judging
    what is made of the others."""
    samples = read_samples(Path(request["feeds"]), raw=True)
    moments = Moments(request["weights"])
    for number, sample in enumerate(samples):
        values = run(ort, sessions[0], sample, request["spare"])
        moments.add(values, held_out=number % _JUDGING == _JUDGING - 1)
    return {"numbers": moments.write(Path(request["outputs"])), "runs": len(samples)}


JOBS: dict[str, Handler] = {"run": _run_once, "time": _time, "draw": _draw, "moments": _moments}


def run(
    ort: Any, session: Any, feeds: Mapping[str, Any], spare: Collection[str] = ()
) -> dict[str, Array | Raw]:
    """One inference; `ort` is handed in because only the worker may import onnxruntime.

    Of two models that are fed alike, one may lack `spare` inputs: constants that were taken out of the other.
    """
    known = {value.name for value in session.get_inputs()}
    feeds = {name: value for name, value in feeds.items() if name in known or name not in spare}
    names = [output.name for output in session.get_outputs()]
    if _is_plain(session):
        values = session.run(None, feeds)
        return dict(item for name, value in zip(names, values, strict=True) for item in flat(name, value))
    fed = {name: _to_ort(ort, value) for name, value in feeds.items()}
    results = session.run_with_ort_values(None, fed)
    return {name: _from_ort(value) for name, value in zip(names, results, strict=True)}


def flat(name: str, value: Any) -> Iterator[tuple[str, Array]]:
    """A sequence becomes name[0], name[1]…, a map its keys and its values, nothing no entry at all."""
    if isinstance(value, np.ndarray):
        yield name, value
    elif isinstance(value, list):
        yield f"{name}.length", np.array(len(value))
        if value and all(isinstance(item, dict) and item.keys() == value[0].keys() for item in value):
            # ZipMap gives one map a row, all with the same keys: one array of each is easier to compare.
            yield f"{name}.keys", np.array(list(value[0]))
            yield f"{name}.values", np.array([list(row.values()) for row in value])
        else:
            for index, item in enumerate(value):
                yield from flat(f"{name}[{index}]", item)
    elif isinstance(value, dict):
        yield f"{name}.keys", np.array(list(value))
        yield f"{name}.values", np.array(list(value.values()))
    elif value is not None:
        yield name, np.asarray(value)


def _is_plain(session: Any) -> bool:
    types = [value.type for value in [*session.get_inputs(), *session.get_outputs()]]
    return not any(_exotic(kind) for kind in types)


def _exotic(kind: str) -> str | None:
    name = kind.removeprefix("tensor(").removesuffix(")")
    return name if name in EXOTIC else None


def _to_ort(ort: Any, value: Array | Raw) -> Any:
    if not isinstance(value, Raw):
        return ort.OrtValue.ortvalue_from_numpy(np.array(value, order="C"))
    result = ort.OrtValue.ortvalue_from_shape_and_type(list(value.bits.shape), EXOTIC[value.name].code)
    packed = _pack(value.bits, EXOTIC[value.name].bits).tobytes()
    ctypes.memmove(result.data_ptr(), packed, len(packed))
    return result


def _from_ort(value: Any) -> Array | Raw:
    name = _exotic(value.data_type())
    if name is None:
        return np.asarray(value.numpy())
    shape, bits = tuple(value.shape()), EXOTIC[name].bits
    count = int(np.prod(shape, dtype=np.int64))
    data = np.frombuffer(ctypes.string_at(value.data_ptr(), (count * bits + 7) // 8), np.uint8)
    return Raw(_unpack(data, bits, count).reshape(shape), name)


def _pack(bits: Array, width: int) -> Array:
    """Elements of less than a byte share bytes, the first in the lowest bits."""
    if width >= 8:
        return bits
    planes = np.unpackbits(bits.reshape(-1, 1), axis=1, count=width, bitorder="little")
    return np.packbits(planes, bitorder="little")


def _unpack(data: Array, width: int, count: int) -> Array:
    if width >= 8:
        return data.view(np.uint16 if width == 16 else np.uint8)
    planes = np.unpackbits(data, count=count * width, bitorder="little").reshape(count, width)
    return np.packbits(planes, axis=1, bitorder="little").reshape(-1)


class Tally:
    """Means in float64 over all runs. What has another shape in another run is left out, and named."""

    def __init__(self) -> None:
        self.sums: dict[str, Array] = {}
        self.steady: dict[str, Array] = {}  # integers and the like that never changed: they must not
        self.draws: dict[str, list[Array]] = {}
        self.left_out: dict[str, str] = {}
        self.runs = 0

    def add(self, outputs: Mapping[str, Any]) -> None:
        for name in {*outputs, *self.sums}:
            why = self._unfit(name, outputs.get(name))
            if why:
                self.left_out.setdefault(name, why)
        for name, value in outputs.items():
            if name not in self.left_out:
                self._count(name, value)
        self.runs += 1

    def _unfit(self, name: str, value: Any) -> str:
        if value is None or (self.runs and name not in self.sums):
            return "is not there in every run"
        if not isinstance(value, np.ndarray) or is_text(value.dtype) or value.dtype.kind == "c":
            return "has no mean"
        known = self.sums.get(name)
        return "has another shape each run" if known is not None and known.shape != value.shape else ""

    def _count(self, name: str, value: Array) -> None:
        if not self.runs and not is_float(value.dtype):
            self.steady[name] = value
        elif name in self.steady and not np.array_equal(self.steady[name], value):
            del self.steady[name]
        value = value.astype(np.float64)
        self.sums[name] = value if name not in self.sums else self.sums[name] + value
        flat = value.reshape(-1)
        places = np.linspace(0, flat.size - 1, min(flat.size, TRACKED)).astype(np.int64)
        self.draws.setdefault(name, []).append(flat[places])

    def result(self) -> dict[str, Array]:
        """`mean` and `draws` (a row each run) of every output, by its name."""
        kept = [name for name in self.sums if name not in self.left_out]
        means = {
            f"mean {name}": self.steady.get(name, np.asarray(self.sums[name] / self.runs)) for name in kept
        }
        return {**means, **{f"draws {name}": np.stack(self.draws[name]) for name in kept}}
