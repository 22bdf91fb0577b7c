"""Keeps what onnxruntime's sessions are fed, inside the program that feeds them.

`onnx-ci record` puts a copy of this file first on PYTHONPATH as sitecustomize.py, so that every Python which
the command starts loads it. That may be any Python: it needs the standard library alone, and numpy once
onnxruntime brought it. What goes wrong here never reaches the program: it is written down for later.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.machinery
import importlib.util
import json
import math
import os
import sys
import threading
import weakref

TYPE_CHECKING = False  # typing costs every Python that starts
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    Print = tuple[
        tuple[str, ...], Any
    ]  # names of arrays, and numbers that are far apart where samples differ

SETTINGS = "settings.json"  # beside the copy of this file
STARTED, TROUBLE, ABOUT, RUNS, LARGEST = "started", "trouble.txt", "model.json", "runs", "largest"
_CLASSES = "onnxruntime.capi.onnxruntime_inference_collection"  # the module that has them
_RECEIPT = "onnx_ci.receipt"
_LOOKED_AT = 1 << 16  # elements of an array, evenly spaced
_PARTS = 32  # of an array whose means are compared
_OTHER_NAMES = 1e3  # distance of samples that hold other inputs
_BETTER = 1.1  # times as far from all others as the two most alike: less is not worth writing
_BETWEEN_LOOKS = 16  # samples written until the whole spool is measured again
# Element types by their number in ONNX, as `bind_input` may be given them.
_TYPES = {1: "f4", 2: "u1", 3: "i1", 4: "u2", 5: "i2", 6: "i4", 7: "i8", 9: "?", 10: "f2", 11: "f8"}
_TYPES.update({12: "u4", 13: "u8"})


def fingerprint(arrays: Mapping[str, Any]) -> Print:
    """Return numbers that tell samples apart: sizes, range and rough content of each array."""
    import numpy as np

    names = tuple(sorted(arrays))
    return names, np.concatenate([_numbers(arrays[name]) for name in names] or [np.zeros(1)])


def _numbers(array: Any) -> Any:
    from zlib import crc32

    import numpy as np

    sizes = np.zeros(8)
    sizes[0] = array.ndim
    sizes[1 : 1 + min(array.ndim, 7)] = np.log2(1.0 + np.array(array.shape[:7]))
    flat = array.reshape(-1)
    flat = flat[:: max(1, flat.size // _LOOKED_AT)]
    if flat.dtype.kind in "OUS":
        values = np.array([crc32(str(text).encode("utf-8", "replace")) / 2**32 for text in flat])
    else:
        values = (np.abs(flat) if flat.dtype.kind == "c" else flat).astype(np.float64)
    values = np.nan_to_num(values, nan=0.0, posinf=1e30, neginf=-1e30)
    if not values.size:
        values = np.zeros(1)
    mean, deviation = values.mean(), values.std()
    moments = np.arcsinh([mean, deviation, values.min(), values.max()])
    values = (values - mean) / (deviation or 1.0)
    if values.size < _PARTS:
        values = np.pad(values, (0, _PARTS - values.size))
    edges = np.arange(_PARTS) * values.size // _PARTS
    means = np.add.reduceat(values, edges) / np.diff(np.append(edges, values.size))
    return np.concatenate([sizes, moments, means / math.sqrt(_PARTS), values[edges] / math.sqrt(_PARTS)])


def distance(first: Print, second: Print) -> float:
    """Return how much two samples differ."""
    if first[0] != second[0]:
        return _OTHER_NAMES
    apart = first[1] - second[1]
    return math.sqrt(float(apart @ apart) / max(1, len(first[0])))


def flatten(feed: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is fed as arrays: items of a sequence as NAME[0], …, a map as NAME{keys}, NAME{values}."""
    arrays: dict[str, Any] = {}
    for name, value in feed.items():
        arrays.update(_arrays(str(name), value))
    return arrays


def _arrays(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    import numpy as np

    if callable(value):  # what was bound: looked at when it is used
        value = value()
    if value is None:
        return
    if not isinstance(value, np.ndarray) and hasattr(value, "numpy"):
        value = value.numpy()  # OrtValue
    if isinstance(value, dict):
        yield f"{name}{{keys}}", np.array(list(value))
        yield f"{name}{{values}}", np.array(list(value.values()))
    elif isinstance(value, (list, tuple)) and value and hasattr(value[0], "shape"):
        for index, item in enumerate(value):
            yield from _arrays(f"{name}[{index}]", item)
    elif isinstance(value, (np.ndarray, np.generic, list, tuple, int, float, str)):
        array = np.asarray(value)
        yield name, array.astype(str) if array.dtype.kind in "OS" else array
    else:
        raise TypeError(f"input {name!r} is a {type(value).__name__}, which can't be kept")


@functools.lru_cache(maxsize=256)
def _sha256_of(path: str, _size: int, _changed: int) -> str:
    """Return the digest of a file as it is now, once: a program may open it many times."""
    from hashlib import sha256

    digest = sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


class SamplePool:
    """Samples of one model in one process: of all that were seen, some that differ from each other.

    They are in files at once, so that a process may end in any way; memory holds their fingerprints.
    """

    def __init__(self, folder: str, about: Mapping[str, object], most: int, limit: int) -> None:
        self.folder, self.most, self.limit = folder, most, limit
        self.prints: list[Print] = []
        self.sizes: list[int] = []
        self.files: list[str] = []
        self.nearest: tuple[float, int] | None = None  # how alike the two most alike are, and the later one
        self.written = self.largest = 0
        os.makedirs(folder)
        self._write(ABOUT, json.dumps(about))

    def _write(self, name: str, text: str, mode: str = "w") -> None:
        with open(os.path.join(self.folder, name), mode, encoding="utf-8") as file:
            file.write(text)

    def count(self) -> None:
        self._write(RUNS, ".", "a")

    def place(self, print_: Print, size: int) -> int | None:
        """Return where a sample would go: the end, or the place of one that is more like another; or None."""
        if size > self.limit:
            if size > self.largest:
                self.largest = size
                self._write(LARGEST, str(size))
            return None
        apart = [distance(print_, other) for other in self.prints]
        if apart and min(apart) == 0.0:
            return None
        if len(apart) < self.most and sum(self.sizes) + size <= 4 * self.limit:
            return len(apart)
        nearest, index = self.nearest or (math.inf, 0)
        fits = sum(self.sizes) - self.sizes[index] + size <= 4 * self.limit
        return index if fits and min(apart) > _BETTER * nearest else None

    def _nearest(self) -> tuple[float, int] | None:
        pairs = (
            (distance(first, second), -index)
            for index, second in enumerate(self.prints)
            for first in self.prints[:index]
        )
        least = min(pairs, default=None)
        return None if least is None else (least[0], -least[1])

    def put(self, print_: Print, arrays: Mapping[str, Any]) -> None:
        size = sum(array.nbytes for array in arrays.values())
        place = self.place(print_, size)
        if place is None:
            return
        self.written += 1
        file = os.path.join(self.folder, f"{self.written:06}.npz")
        write_arrays(f"{file}.part", arrays)
        os.replace(f"{file}.part", file)
        if place < len(self.files):
            os.unlink(self.files[place])
        self.prints[place : place + 1] = [print_]
        self.sizes[place : place + 1] = [size]
        self.files[place : place + 1] = [file]
        full = len(self.files) == self.most or sum(self.sizes) + min(self.sizes) > 4 * self.limit
        self.nearest = self._nearest() if full else None


def write_arrays(path: str, arrays: Mapping[str, Any]) -> None:
    """Write an .npz file; unlike numpy's own function, whatever inputs are called."""
    import zipfile

    import numpy as np

    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


class Recorder:
    """Watches the sessions of this process."""

    def __init__(self, spool: str, settings: Mapping[str, int]) -> None:
        self.spool, self.settings = spool, settings
        self.models: weakref.WeakKeyDictionary[Any, dict[str, object]] = weakref.WeakKeyDictionary()
        self.bound: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
        self.originals: list[tuple[type, str, Any]] = []
        self.stopped = False
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """A process of its own, as a fork is one, has a folder of its own; other threads are not in it."""
        self.lock = threading.RLock()
        self.pools: dict[str, SamplePool] = {}
        self.folder = os.path.join(self.spool, f"{os.getpid()}-{os.urandom(4).hex()}")
        self.troubled = False
        self.taken, self.until_look = 0, 0

    # Getting in.

    def install(self) -> None:
        module = sys.modules.get(_CLASSES)
        if module is not None:
            self._patch(module)
        else:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        self.stopped = True
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for owner, name, original in reversed(self.originals):
            setattr(owner, name, original)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find the module as it would be found without us, and look at it once it was loaded."""
        if name != _CLASSES or self.stopped:
            return None
        finders = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in finders)), None)
        if spec is not None:
            self._quietly(self._follow, spec.loader)
        return spec

    def _follow(self, loader: Any) -> None:
        load = loader.exec_module

        def exec_module(module: Any) -> None:
            load(module)
            if module.__name__ == _CLASSES and not self.originals:
                self._quietly(self._patch, module)

        loader.exec_module = exec_module

    def _patch(self, module: Any) -> None:
        session, binding = module.Session, module.IOBinding
        self._around(module.InferenceSession, "__init__", after=self._opened)
        self._around(session, "run", before=lambda *call, **named: self._fed(1, "input_feed", call, named))
        self._around(
            session,
            "run_with_ort_values",
            before=lambda *call, **named: self._fed(1, "input_dict_ort_values", call, named),
        )
        self._around(session, "run_with_iobinding", before=self._fed_by_binding)
        self._around(binding, "bind_cpu_input", after=self._bound_array)
        self._around(binding, "bind_ortvalue_input", after=self._bound_value)
        self._around(binding, "bind_input", after=self._bound_memory)
        self._around(binding, "clear_binding_inputs", after=lambda binding: self.bound.pop(binding, None))
        self._around_async(session)

    def _around(self, owner: type, name: str, *, before: Any = None, after: Any = None) -> None:
        """Call `before`, the method itself, and what `before` returned; or the method and `after`."""
        original = getattr(owner, name, None)
        if original is None:  # an older onnxruntime
            return
        recorder = self

        @functools.wraps(original)
        def method(self: Any, *call: Any, **named: Any) -> Any:
            keep = recorder._quietly(before, self, *call, **named) if before else None
            result = original(self, *call, **named)
            if keep is not None:
                recorder._quietly(keep)
            if after is not None:
                recorder._quietly(after, self, *call, **named)
            return result

        self._replace(owner, name, original, method)

    def _around_async(self, owner: type) -> None:
        """The inputs count once the callback hears of no error."""
        original = getattr(owner, "run_async", None)
        if original is None:
            return
        recorder = self

        @functools.wraps(original)
        def run_async(
            self: Any,
            output_names: Any,
            input_feed: Any,
            callback: Any,
            user_data: Any,
            *more: Any,
            **named: Any,
        ) -> Any:
            keep = recorder._quietly(recorder._look, self, input_feed)

            def heard(results: Any, data: Any, error: Any) -> Any:
                if keep is not None and not error:
                    recorder._quietly(keep)
                return callback(results, data, error)

            return original(self, output_names, input_feed, heard, user_data, *more, **named)

        self._replace(owner, "run_async", original, run_async)

    def _replace(self, owner: type, name: str, original: Any, method: Any) -> None:
        setattr(owner, name, method)
        self.originals.append((owner, name, original))

    def _quietly(self, work: Any, *call: Any, **named: Any) -> Any:
        """Do something of ours: the program goes on whatever becomes of it."""
        if self.stopped:
            return None
        try:
            return work(*call, **named)
        except Exception as error:  # noqa: BLE001 - the program must not notice
            self._note(error)
            return None

    def _note(self, error: Exception) -> None:
        if self.troubled:
            return
        self.troubled = True
        with contextlib.suppress(Exception):
            os.makedirs(self.folder, exist_ok=True)
            path = os.path.join(self.folder, TROUBLE)
            with open(path, "w", encoding="utf-8", errors="replace") as file:
                file.write(f"{type(error).__name__}: {error}")

    # What the methods of onnxruntime tell.

    def _opened(self, session: Any, *call: Any, **named: Any) -> None:
        model = call[0] if call else named.get("path_or_bytes")
        self.models[session] = _about(session, model)

    def _fed(self, index: int, name: str, call: tuple[Any, ...], named: dict[str, Any]) -> Any:
        session = call[0]
        return self._look(session, named[name] if name in named else call[1 + index])

    def _fed_by_binding(self, session: Any, iobinding: Any, *_: Any, **__: Any) -> Any:
        return self._look(session, self.bound.get(iobinding, {}))

    def _bound_array(self, binding: Any, name: str, arr_on_cpu: Any) -> None:
        self.bound.setdefault(binding, {})[name] = arr_on_cpu

    def _bound_value(self, binding: Any, name: str, ortvalue: Any) -> None:
        self.bound.setdefault(binding, {})[name] = ortvalue

    def _bound_memory(
        self,
        binding: Any,
        name: str,
        device_type: str,
        device_id: int,  # noqa: ARG002 - named as onnxruntime does
        element_type: Any,
        shape: Any,
        buffer_ptr: int,
    ) -> None:
        import ctypes

        import numpy as np

        def read() -> Any:
            if str(device_type).lower() != "cpu":
                raise TypeError(f"input {name!r} is bound in the memory of {device_type}, which is not read")
            dtype = np.dtype(_TYPES[element_type] if isinstance(element_type, int) else element_type)
            count = int(np.prod(shape, dtype=np.int64))
            if not count:
                return np.empty(shape, dtype)
            memory = (ctypes.c_byte * (count * dtype.itemsize)).from_address(buffer_ptr)
            return np.frombuffer(memoryview(memory), dtype).reshape(shape)

        self.bound.setdefault(binding, {})[name] = read

    # What is kept.

    def _look(self, session: Any, feed: Mapping[str, Any]) -> Callable[[], None]:
        """Copy inputs that are worth it, since a run may write to them; what is returned keeps the copy."""
        import numpy as np

        pool = self._pool(session)
        arrays: dict[str, Any] | None = None
        print_: Print | None = None
        try:
            flat = flatten(feed)
            print_ = fingerprint(flat)
            with self.lock:
                wanted = pool.place(print_, sum(array.nbytes for array in flat.values())) is not None
            if wanted:
                arrays = {name: np.array(array, order="C") for name, array in flat.items()}
        except Exception as error:  # noqa: BLE001 - the run counts all the same
            self._note(error)

        def keep() -> None:
            with self.lock:
                pool.count()
                if arrays is not None and print_ is not None and self._has_room(arrays):
                    pool.put(print_, arrays)

        return keep

    def _pool(self, session: Any) -> SamplePool:
        with self.lock:
            about = self.models.get(session)
            if about is None:  # opened before we were here
                model = getattr(session, "_model_path", None) or getattr(session, "_model_bytes", None)
                about = self.models[session] = _about(session, model)
            key = json.dumps(about)
            if key not in self.pools:
                folder = os.path.join(self.folder, str(len(self.pools)))
                self.pools[key] = SamplePool(folder, about, self.settings["most"], self.settings["limit"])
            return self.pools[key]

    def _has_room(self, arrays: Mapping[str, Any]) -> bool:
        """Tell whether all processes together leave room for a sample; measured now and then."""
        if self.until_look == 0:
            self.until_look = _BETWEEN_LOOKS
            self.taken = 0
            for folder, _, files in os.walk(self.spool):
                for name in files:
                    with contextlib.suppress(OSError):
                        self.taken += os.stat(os.path.join(folder, name)).st_size
        self.until_look -= 1
        self.taken += sum(array.nbytes for array in arrays.values())
        if self.taken > self.settings["spool"]:
            raise OSError("there was more to keep than may be written")
        return True


def _about(session: Any, model: Any) -> dict[str, object]:
    """Return what tells which model a session runs: where it is, its content, and what it was made from."""
    from hashlib import sha256

    about: dict[str, object] = {"path": "", "sha256": "", "size": 0, "source": ""}
    if isinstance(model, (bytes, bytearray, memoryview)):
        about.update(sha256=sha256(model).hexdigest(), size=len(model))
    elif model is not None:
        path = os.path.realpath(os.fsdecode(model))
        about["path"] = path
        with contextlib.suppress(OSError):
            info = os.stat(path)
            about.update(size=info.st_size, sha256=_sha256_of(path, info.st_size, info.st_mtime_ns))
    with contextlib.suppress(Exception):  # a receipt is a note that anybody may have written
        receipt = session.get_modelmeta().custom_metadata_map.get(_RECEIPT)
        about["source"] = str(json.loads(receipt)["source_sha256"])[:64] if receipt else ""
    return about


def _start() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    with contextlib.suppress(Exception):
        with open(os.path.join(here, SETTINGS), encoding="utf-8") as file:
            settings = json.load(file)
        open(os.path.join(settings["folder"], STARTED), "a").close()
        Recorder(settings["folder"], settings).install()
    sys.path[:] = [path for path in sys.path if path != here]
    # The user's own, which ours hides: whatever it raises is for `site` to tell.
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    _start()
