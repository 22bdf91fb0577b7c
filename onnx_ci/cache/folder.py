"""The folder of entries: where it is, how an entry gets in whole, and which ones go when it is full."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from onnx_ci.errors import UsageError
from onnx_ci.places import cache_home
from onnx_ci.scratch import create, remove_dead
from onnx_ci.sizes import parse_size

LARGEST = "2 GB"
SUFFIX = ".outcome"
UNFINISHED = ".part"
LEAST = 1 << 16  # what an entry counts for at least, so that there are never too many of them


def folder() -> Path:
    return cache_home() / "outcomes"


def limit() -> int:
    """How many bytes all entries may take together; 0 turns the cache off."""
    text = os.environ.get("ONNX_CI_CACHE_SIZE") or LARGEST
    try:
        return parse_size(text)
    except ValueError as error:
        raise UsageError(
            f"ONNX_CI_CACHE_SIZE: {error}", hint="for example: ONNX_CI_CACHE_SIZE='4 GB'"
        ) from None


@contextlib.contextmanager
def opened(name: str) -> Iterator[IO[bytes] | None]:
    """An entry to read, as it was when it was opened, whoever replaces or removes it meanwhile."""
    try:
        path = folder() / f"{name}{SUFFIX}"
        file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 - Path.open takes no opener
    except (OSError, RuntimeError):
        yield None
        return
    with file:
        yield file if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None


def _without_waiting(path: str, flags: int) -> int:
    """Opening a FIFO would wait for somebody who writes to it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def used(name: str) -> None:
    """The entry was of use: it goes later than others."""
    with contextlib.suppress(OSError):
        os.utime(folder() / f"{name}{SUFFIX}")


def put(name: str, pieces: Iterable[bytes | Path], size: int) -> None:
    """Keep an entry made of bytes and of the contents of files; where that fails, it is not kept."""
    if size > limit():
        return
    with contextlib.suppress(OSError, RuntimeError):
        place = folder()
        place.mkdir(parents=True, exist_ok=True)
        _write(place / f"{name}{SUFFIX}", pieces)
        _trim(place, limit())


def _write(path: Path, pieces: Iterable[bytes | Path]) -> None:
    import shutil

    temporary = path.with_name(f"{os.urandom(8).hex()}{UNFINISHED}")
    try:
        with os.fdopen(create(temporary, 0o600), "wb") as file:
            for piece in pieces:
                if isinstance(piece, bytes):
                    file.write(piece)
                    continue
                with piece.open("rb") as source:
                    shutil.copyfileobj(source, file, 1 << 20)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _trim(place: Path, most: int) -> None:
    """Remove what was not used for longest. Another run may be doing the same: what is gone is gone."""
    entries = sorted(_entries(place), reverse=True)
    total = 0
    for _, size, path in entries:
        total += max(size, LEAST)
        if total > most:
            Path(path).unlink(missing_ok=True)


def _entries(place: Path) -> Iterator[tuple[float, int, str]]:
    """When each was last used, its size and its path. What a killed run left half written is removed."""
    for found in os.scandir(place):
        try:
            info = found.stat(follow_symlinks=False)
        except OSError:
            continue
        if found.name.endswith(SUFFIX):
            yield info.st_mtime, info.st_size, found.path
        elif found.name.endswith(UNFINISHED):
            remove_dead(Path(found.path))
