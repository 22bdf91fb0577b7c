"""Puts a model on disk so that at every moment, whatever happens, a whole model stands at its path.

New files are written beside their targets under temporary names, flushed, read back and compared,
and only then renamed. External data that keeps its name takes a detour: the model is first pointed
at the new data under a temporary name, then a second copy of the data takes the old name, then the
model is pointed there. Each of the three states loads. (A hard link would spare the copy, but onnx
refuses external data that has two names.)
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from onnx_ci.errors import ModelError
from onnx_ci.model.graph import tensors
from onnx_ci.model.load import may_have_data, open_model, opened_files
from onnx_ci.model.model import LARGE, Model, clear_values, display_path, location, store_outside
from onnx_ci.model.npy import header, recorded, set_record
from onnx_ci.model.proto import PROTOBUF_LIMIT, ModelProto, TensorProto
from onnx_ci.model.receipt import model_digest
from onnx_ci.model.store import Store, file_sha256, write_all
from onnx_ci.model.wire import Piece, Span, length_of, splice
from onnx_ci.util.files import LOCKS, create, temporary_name
from onnx_ci.util.text import TEMPORARY_SUFFIX

ALIGNMENT = 64  # external tensors start where every kernel can read them in place
NOT_AS_WRITTEN = "what was read back is not what was written"


def refusal(path: Path, what: str, hint: str) -> ModelError:
    """A file that is not written, or not replaced, and why."""
    return ModelError(f"{display_path(path)}: {what}", hint=hint, code="OCI017")


@dataclass(frozen=True)
class Layout:
    """The pieces of every file, external data by its location."""

    model: list[Piece]
    data: dict[str, list[Piece]]

    @property
    def size(self) -> int:
        return length_of(self.model) + sum(map(length_of, self.data.values()))


def lay_out(model: Model, *, names: Mapping[str, str] | None = None, all_to: str = "") -> Layout:
    """Lay the model out. `names` renames data files; `all_to` moves every large tensor to one data file."""
    skeleton = model.proto.SerializeToString(deterministic=True)
    if not (all_to or model.beside or may_have_data(skeleton)):
        return Layout(splice(skeleton, key=model.store.key), {})
    proto = ModelProto()
    proto.CopyFrom(model.proto)
    data: dict[str, list[Piece]] = defaultdict(list)
    ends: Counter[str] = Counter()
    offsets: dict[tuple[str, Span], int] = {}
    for tensor in tensors(proto):
        span = model.span(tensor)
        home = location(tensor) or all_to
        if span is None or not home:
            continue
        home = (names or {}).get(home, home)
        if (home, span) not in offsets:  # bytes that are already there are not stored again
            padding = -ends[home] % ALIGNMENT
            data[home] += [bytes(padding), span]
            offsets[home, span] = ends[home] + padding
            ends[home] += padding + span.length
        place = {"location": home, "offset": str(offsets[home, span]), "length": str(span.length)}
        store_outside(tensor, place)
    data.update(_beside(model, proto, names or {}))
    skeleton = proto.SerializeToString(deterministic=True)
    return Layout(splice(skeleton, key=model.store.key), dict(data))


def _beside(model: Model, proto: ModelProto, names: Mapping[str, str]) -> dict[str, list[Piece]]:
    """The .npy files, and the record of them in the model."""
    record = recorded(proto)
    files: dict[str, list[Piece]] = {}
    for tensor in model.beside:
        span, home = model.span(tensor), location(tensor)
        record[tensor.name] = names.get(home, home)
        files[record[tensor.name]] = [header(tensor), *([span] if span else [])]
    if files:
        set_record(proto, record)
    return files


STOPPING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def write_model(model: Model, path: Path, *, all_to: str = "") -> None:
    """Write a model and its data into a folder where nothing of value is: a scratch copy."""
    layout = lay_out(model, all_to=all_to)
    for name, pieces in (*layout.data.items(), (path.name, layout.model)):
        target = path.parent / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb", buffering=0) as file:
            _write_pieces(pieces, model.store, file)


def write_runnable(model: Model, path: Path) -> None:
    """Write a scratch copy that onnxruntime can read: past protobuf's limit with its weights outside."""
    large = lay_out(model).size > PROTOBUF_LIMIT
    write_model(model, path, all_to=f"{path.name}.data" if large else "")


def publish(
    model: Model,
    target: Path,
    *,
    digest: str,
    names: Mapping[str, str] | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Replace the model at `target`, and the external data beside it, by this one. Closes the model.

    `digest` is the model's own, which what is read back must have; `names` gives other names to data
    files; `ready` is asked first and again at the last moment, and may refuse by raising.
    """
    ready()
    # Data files by their present name. A temporary name left by a killed run gets its real one back.
    finals = {name: (names or {}).get(name, without_temporary(name)) for name in opened_files(model)}
    layout = lay_out(model, names=finals)
    data = {name: temporary_name(target.parent / name) for name in layout.data}
    copies = {name: temporary_name(target.parent / name) for name in layout.data}
    bridge_names = {
        old: data[new].relative_to(target.parent).as_posix() for old, new in finals.items() if new in data
    }
    final, bridge = temporary_name(target), temporary_name(target)
    files = [*data.values(), *copies.values(), bridge, final]
    with _writing(target, files) as locks:
        for name, pieces in layout.data.items():
            data[name].parent.mkdir(parents=True, exist_ok=True)
            for file in (data[name], copies[name]):
                _write_aside(file, partial(_write_pieces, pieces, model.store), target.parent / name, locks)
        _write_aside(final, partial(_write_pieces, layout.model, model.store), target, locks)
        if data:
            layout = lay_out(model, names=bridge_names)
            _write_aside(bridge, partial(_write_pieces, layout.model, model.store), target, locks)
        # A full disk or a bad one must not go unseen.
        with open_model(bridge if data else final) as written:
            if model_digest(written) != digest:
                raise refusal(written.path, f"{NOT_AS_WRITTEN}; the model is unchanged", "check the disk")
        model.close()
        # All bytes are on disk: what follows are renames only, and they are not interrupted.
        with _uninterrupted():
            ready()
            if data:
                # From here to the end the model needs the temporary data: a failure must not remove it.
                files[:] = [final, bridge, *copies.values()]
                bridge.replace(target)
                _flush(target.parent)
                for name, copy in copies.items():
                    copy.replace(target.parent / name)
                    _flush((target.parent / name).parent)
            final.replace(target)
            _flush(target.parent)
            files[:] = data.values()


def put_in_place(files: Mapping[Path, Path]) -> None:
    """Put copies of files under the names they are given with: all are on disk and compared before the
    first gets its name, and the last of them should be the model that needs the others."""
    ready = {final: temporary_name(final) for final in files}
    with _writing(list(files)[-1], list(ready.values())) as locks:
        for final, source in files.items():
            final.parent.mkdir(parents=True, exist_ok=True)
            with source.open("rb") as content:
                _write_aside(ready[final], partial(shutil.copyfileobj, content), final, locks)
            if file_sha256(ready[final]) != file_sha256(source):
                raise refusal(final, f"{NOT_AS_WRITTEN}; it is unchanged", "check the disk")
        with _uninterrupted():
            for final, temporary in ready.items():
                temporary.replace(final)
                _flush(final.parent)


def _write_aside(
    path: Path, fill: Callable[[IO[bytes]], None], final: Path, locks: contextlib.ExitStack
) -> None:
    """A file on its way to its name: flushed, with the mode of what is there, and held until all is done."""
    handle = create(path)
    if LOCKS:
        locks.callback(os.close, handle)
    with os.fdopen(handle, "wb", buffering=0, closefd=not LOCKS) as file:
        fill(file)
        if final.exists():
            path.chmod(stat.S_IMODE(final.stat().st_mode))
        os.fsync(handle)


def _write_pieces(pieces: list[Piece], store: Store, file: IO[bytes]) -> None:
    small = bytearray()
    for piece in pieces:
        if not isinstance(piece, Span):
            small += piece
            continue
        write_all(file, small)
        small.clear()
        store.copy(piece, file)
    write_all(file, small)


def without_temporary(name: str) -> str:
    """The name a data file was about to get when the run that wrote it was killed; else the name itself."""
    folder, _, base = name.rpartition("/")
    if base.endswith(TEMPORARY_SUFFIX):
        base = base[1:].removesuffix(TEMPORARY_SUFFIX).rpartition(".")[0]
    return f"{folder}/{base}" if folder else base


def _flush(path: Path) -> None:
    """Make a file, or a rename in a folder, survive a power cut, where the system lets it be flushed."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold back Ctrl-C and its like until a few renames are done. Only the main thread may, and need."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for number in came[:1]:
        signal.raise_signal(number)


@contextlib.contextmanager
def _writing(target: Path, files: list[Path]) -> Iterator[contextlib.ExitStack]:
    """Hold the locks of files on their way to their names. Whatever is still in the list when the work
    ends, well or not, is removed."""
    with contextlib.ExitStack() as locks:
        try:
            yield locks
        except OSError as error:
            kept = "; the model there still loads" if target.exists() else ""
            raise refusal(
                target,
                f"could not be written: {error.strerror}{kept}",
                "free some disk space or check the folder's permissions, then run it again",
            ) from error
        finally:
            for file in files:
                file.unlink(missing_ok=True)


def embedded_size(model: Model) -> int:
    """About what the model takes as one file."""
    spans = (model.span(tensor) for tensor in tensors(model.proto))
    return int(model.proto.ByteSize()) + sum(span.length for span in spans if span)


def embed(model: Model) -> int:
    """Take all external tensors into the model; how many there were."""
    outside = [tensor for tensor in tensors(model.proto) if location(tensor)]
    for tensor in outside:
        span = model.span(tensor)
        if span is not None:
            take_in(model, tensor, span)
    return len(outside)


def take_in(model: Model, tensor: TensorProto, span: Span) -> None:
    """Store the bytes of a span where a model that was just opened would have them."""
    clear_values(tensor)
    if span.length < LARGE:
        tensor.raw_data = bytes(model.store.read(span))
    else:
        model.set_span(tensor, span)
