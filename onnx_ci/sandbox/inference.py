"""What the worker does with models it has loaded: run, run often, time, try other weights, and sum up what
their values are like."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import product
from math import ceil
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from onnx_ci.sandbox.exchange import (
    EXOTIC,
    Array,
    Raw,
    is_float,
    is_text,
    read_samples,
    thinned,
    write_samples,
)
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
    digests: list[int] = []
    if (whole_axes := request.get("whole_axes")) is not None:
        digests = [_digest(sample) for sample in outputs]
        outputs = [_thinned(sample, whole_axes) for sample in outputs]
    write_samples(Path(request["outputs"]), outputs)
    return {"runs": len(samples), "digests": digests}


def _digest(outputs: Mapping[str, Array | Raw]) -> int:
    """A number that changes, all but surely, when any bit of any output does."""
    digest = 0
    for value in outputs.values():
        bits = value.bits if isinstance(value, Raw) else value
        held = str(bits.tolist()).encode() if is_text(bits.dtype) else np.ascontiguousarray(bits).data
        digest = crc32(held, crc32(str(bits.shape).encode(), digest))
    return digest


def _thinned(outputs: dict[str, Any], whole_axes: Mapping[str, list[int]]) -> dict[str, Any]:
    plain = {name: value for name, value in outputs.items() if isinstance(value, np.ndarray)}
    return {**outputs, **{name: thinned(value, whole_axes.get(name, ())) for name, value in plain.items()}}


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
    moments = MomentSums(request["weights"])
    for number, sample in enumerate(samples):
        values = run(ort, sessions[0], sample, request["spare"])
        moments.add(values, held_out=number % _JUDGING == _JUDGING - 1)
    numbers = moments.write(Path(request["outputs"]))
    return {"numbers": numbers, "products": moments.products / len(samples), "runs": len(samples)}


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


_ROWS = 256  # of a value, in one run, at the most
_FEW_ROWS, _MANY_GROUPS = 64, 16  # of a convolution with so many groups
_CHUNK = 512  # columns that are looked at together
_LEVELS = 127


class MomentSums:
    """Sums over all runs, by the number of a weight: from most runs to fit, from the others to judge."""

    def __init__(self, weights: list[dict[str, Any]]) -> None:
        self.weights = weights
        self.sums: dict[int, Array] = {}
        self.products = 0  # numbers that were multiplied

    def add(self, values: dict[str, Any], *, held_out: bool) -> None:
        for one in self.weights:
            value = values.get(one["value"])
            if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size:
                self.products += one["elements"] * _places(value, one)
                rows = _rows(value, one)
                if rows is not None and np.isfinite(rows).all():
                    self._count(one["number"], rows, held_out=held_out)

    def _count(self, number: int, rows: Array, *, held_out: bool) -> None:
        moment = _moment(rows)
        sums = self.sums.setdefault(number, np.zeros((2, *moment.shape), np.float32))
        sums[int(held_out)] += moment

    def write(self, folder: Path) -> list[int]:
        """Save what both kinds of runs had, by number; the numbers."""
        whole = {number: sums for number, sums in self.sums.items() if sums.any(axis=(1, 2, 3, 4)).all()}
        folder.mkdir()
        for number, sums in whole.items():
            np.save(folder / f"{number}.npy", sums, allow_pickle=False)
        return sorted(whole)


def _places(value: Array, one: dict[str, Any]) -> int:
    """How often a weight is multiplied with a part of a value, as a whole."""
    geometry = one["geometry"]
    if geometry is None:
        return int(value.size // (one["groups"] * one["columns"]))
    strides = geometry.get("strides", [1])
    return int(value.size // (value.shape[1] * np.prod(strides))) if value.ndim > 1 else 0


def _rows(value: Array, one: dict[str, Any]) -> Array | None:
    """Some of what a weight is multiplied with, as (rows, groups, columns); None where it does not fit."""
    groups, columns = one["groups"], one["columns"]
    if one["geometry"] is not None:
        rows = _patches(value, groups, one["geometry"])
    else:
        if value.ndim < -min(one["axes"]):
            return None
        rows = np.moveaxis(value, one["axes"], range(-len(one["axes"]), 0))
        rows = rows.reshape(-1, groups * columns) if rows.size % (groups * columns) == 0 else None
        rows = None if rows is None else rows[_spread(len(rows))].reshape(-1, groups, columns)
    return rows if rows is not None and rows.shape[1:] == (groups, columns) else None


def _spread(count: int, groups: int = 1) -> Array:
    """The numbers of rows to look at: fewer where many groups have a few columns each."""
    wanted = _ROWS if groups < _MANY_GROUPS else _FEW_ROWS
    return np.unique(np.linspace(0, count - 1, wanted).astype(np.int64))


def _patches(value: Array, groups: int, geometry: dict[str, Any]) -> Array | None:
    """What a convolution's kernel covers at places that are spread evenly over its output."""
    kernel, rank = geometry["kernel_shape"], len(geometry["kernel_shape"])
    if value.ndim < rank + 2 or value.shape[-rank - 1] % groups:
        return None
    value = value.reshape(-1, *value.shape[-rank - 1 :])  # the rounds of a loop count as members of a batch
    strides = geometry.get("strides", [1] * rank)
    dilations = geometry.get("dilations", [1] * rank)
    before, counts = _covered(value.shape[2:], kernel, strides, dilations, geometry)
    if min(counts) < 1:
        return None
    total = value.shape[0] * int(np.prod(counts))
    batch, *places = np.unravel_index(_spread(total, groups), (value.shape[0], *counts))
    cut = np.zeros((len(batch), int(np.prod(kernel)), value.shape[1]), np.float32)
    for number, offset in enumerate(product(*map(range, kernel))):
        at = [place * stride - pad for place, stride, pad in zip(places, strides, before, strict=True)]
        at = [start + step * gap for start, step, gap in zip(at, offset, dilations, strict=True)]
        within = [(one >= 0) & (one < size) for one, size in zip(at, value.shape[2:], strict=True)]
        inside = np.all(within, axis=0)
        index = (batch[inside], slice(None), *(one[inside] for one in at))
        cut[inside, number] = value[index]
    found: Array = cut.swapaxes(1, 2).reshape(len(batch), groups, -1)
    return found


def _covered(
    sizes: tuple[int, ...],
    kernel: list[int],
    strides: list[int],
    dilations: list[int],
    geometry: dict[str, Any],
) -> tuple[list[int], list[int]]:
    """The padding before each axis, and how often the kernel fits."""
    spans = [dilation * (size - 1) + 1 for dilation, size in zip(dilations, kernel, strict=True)]
    rank, auto = len(kernel), geometry.get("auto_pad", "NOTSET")
    if auto.startswith("SAME"):
        counts = [ceil(size / stride) for size, stride in zip(sizes, strides, strict=True)]
        needed = [
            max(0, (count - 1) * stride + span - size)
            for count, stride, span, size in zip(counts, strides, spans, sizes, strict=True)
        ]
        return [(pad + (auto == "SAME_LOWER")) // 2 for pad in needed], counts
    pads = geometry.get("pads", [0] * 2 * rank) if auto == "NOTSET" else [0] * 2 * rank
    lengths = [size + pads[axis] + pads[axis + rank] for axis, size in enumerate(sizes)]
    counts = [
        (length - span) // stride + 1 for length, span, stride in zip(lengths, spans, strides, strict=True)
    ]
    return pads[:rank], counts


def _moment(rows: Array) -> Array:
    """XᵀX of each group in chunks of columns, as (groups, chunks, width, width)."""
    count, groups, columns = rows.shape
    chunks = ceil(columns / _CHUNK)
    width = ceil(columns / chunks)
    filled = np.zeros((count, groups, chunks * width), np.float32)
    filled[:, :, :columns] = rows
    parts = filled.reshape(count, groups * chunks, width).swapaxes(0, 1)
    largest = np.abs(parts).max(axis=1)
    step = np.exp2(np.ceil(np.log2(np.where(largest > 0, largest, 1.0) / _LEVELS))).astype(np.float32)
    whole = np.rint(parts / step[:, None, :])
    moments: Array = (whole.swapaxes(1, 2) @ whole) * step[:, :, None] * step[:, None, :]
    return moments.reshape(groups, chunks, width, width)
