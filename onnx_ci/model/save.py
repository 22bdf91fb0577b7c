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
import signal
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from onnx_ci.errors import ModelError
from onnx_ci.model.container import Model, display_path
from onnx_ci.model.digest import model_digest
from onnx_ci.model.embed import PROTOBUF_LIMIT
from onnx_ci.model.external import opened_files
from onnx_ci.model.layout import lay_out
from onnx_ci.model.load import open_model
from onnx_ci.model.locations import SUFFIX
from onnx_ci.model.store import Store, write_all
from onnx_ci.model.wire import Piece, Span


def write_model(model: Model, path: Path, *, all_to: str = "") -> None:
    """Write a model and its data into a folder where nothing of value is: a scratch copy."""
    layout = lay_out(model, all_to=all_to)
    for name, pieces in layout.data.items():
        (path.parent / name).parent.mkdir(parents=True, exist_ok=True)
        _write(path.parent / name, pieces, model.store)
    _write(path, layout.model, model.store)


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
    finals = _final_names(model, names or {})
    layout = lay_out(model, names=finals)
    data = {name: _temporary(target.parent / name) for name in layout.data}
    copies = {name: _temporary(target.parent / name) for name in layout.data}
    bridge_names = {old: _relative(data[new], target) for old, new in finals.items() if new in data}
    final, bridge = _temporary(target), _temporary(target)
    with _cleaned_up([*data.values(), *copies.values(), bridge, final]) as temporary, _disk_errors(target):
        for name, pieces in layout.data.items():
            data[name].parent.mkdir(parents=True, exist_ok=True)
            for file in (data[name], copies[name]):
                _write(file, pieces, model.store, mode_of=target.parent / name)
        _write(final, layout.model, model.store, mode_of=target)
        if data:
            _write(bridge, lay_out(model, names=bridge_names).model, model.store, mode_of=target)
        _compare(bridge if data else final, digest)
        model.close()
        # All bytes are on disk: what follows are renames only, and they are not interrupted.
        with _uninterrupted():
            ready()
            if data:
                # From here to the end the model needs the temporary data: a failure must not remove it.
                temporary[:] = [final, bridge, *copies.values()]
                bridge.replace(target)
                _flush(target.parent)
                for name, copy in copies.items():
                    copy.replace(target.parent / name)
                    _flush((target.parent / name).parent)
            final.replace(target)
            _flush(target.parent)
            temporary[:] = data.values()


def _final_names(model: Model, names: Mapping[str, str]) -> dict[str, str]:
    """Data files by their present name. A temporary name left by a killed run gets its real one back."""
    return {name: names.get(name, without_temporary(name)) for name in opened_files(model)}


def _compare(path: Path, digest: str) -> None:
    """Read back what was written: a full disk or a bad one must not go unseen."""
    with open_model(path) as written:
        if model_digest(written) != digest:
            raise ModelError(
                f"{display_path(path)}: what was read back is not what was written; the model is unchanged",
                hint="check the disk",
                code="OCI017",
            )


def _write(path: Path, pieces: list[Piece], store: Store, *, mode_of: Path | None = None) -> None:
    with path.open("wb", buffering=0) as file:
        small = bytearray()
        for piece in pieces:
            if not isinstance(piece, Span):
                small += piece
                continue
            write_all(file, small)
            small.clear()
            store.copy(piece, file)
        write_all(file, small)
        if mode_of is not None:
            if mode_of.exists():
                path.chmod(stat.S_IMODE(mode_of.stat().st_mode))
            os.fsync(file.fileno())


def _temporary(final: Path) -> Path:
    return final.with_name(f".{final.name}.{os.urandom(4).hex()}{SUFFIX}")


def without_temporary(name: str) -> str:
    """The name a data file was about to get when the run that wrote it was killed; else the name itself."""
    folder, _, base = name.rpartition("/")
    if base.endswith(SUFFIX):
        base = base[1:].removesuffix(SUFFIX).rpartition(".")[0]
    return f"{folder}/{base}" if folder else base


def _relative(path: Path, target: Path) -> str:
    return path.relative_to(target.parent).as_posix()


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
    """Hold back Ctrl-C until a few renames are done. Only the main thread may, and need."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _cleaned_up(files: list[Path]) -> Iterator[list[Path]]:
    """Whatever is still in the list when the work ends, well or not, is removed."""
    try:
        yield files
    finally:
        for file in files:
            file.unlink(missing_ok=True)


@contextlib.contextmanager
def _disk_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ModelError(
            f"{display_path(target)}: could not be written: {error.strerror}; the model there still loads",
            hint="free some disk space or check the folder's permissions, then run it again",
            code="OCI017",
        ) from error
