"""Where the bytes of large tensors live: files they are read from, and a scratch file for new ones.

Files are read in pieces and never mapped whole: mapped pages count as memory of the process, and a
file that is cut short while it is mapped kills the process that reads it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from onnx_ci.errors import ModelError
from onnx_ci.model.wire import Span
from onnx_ci.util.files import new_folder

CHUNK = 1 << 18  # bytes held at a time; what fits a core's own cache is read twice as fast


class StoreFile:
    """One open file, read at any offset from any thread."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.file = file
        self.name = name
        self.lock = threading.Lock()

    def readinto(self, offset: int, target: memoryview) -> None:
        with self.lock:
            self.file.seek(offset)
            done = 0
            while done < len(target):
                count = self.file.readinto(target[done:])  # type: ignore[attr-defined]
                if not count:
                    raise ModelError(f"{self.name}: became shorter while it was being read")
                done += count


class Store:
    """All files behind one model and its copies. Close it when the model is no longer needed."""

    def __init__(self) -> None:
        # Marks the tensors whose bytes are here. Random, so that no model can forge the mark.
        self.key = f"onnx_ci.span.{os.urandom(8).hex()}"
        self._sources: list[StoreFile] = []
        self._scratch: int | None = None
        self._scratch_end = 0
        self._folders: list[Path] = []

    def add_file(self, path: Path) -> int:
        self._sources.append(StoreFile(path.open("rb", buffering=0), path.name))
        return len(self._sources) - 1

    def folder(self) -> Path:
        """A new scratch folder for files that are to be added; it goes when the store is closed."""
        self._folders.append(new_folder())
        return self._folders[-1]

    def put(self, data: bytes | memoryview) -> Span:
        """Keep new bytes in the scratch file; memory is free again once they are written."""
        if self._scratch is None:
            self._sources.append(StoreFile(tempfile.TemporaryFile(buffering=0), "scratch file"))  # noqa: SIM115
            self._scratch = len(self._sources) - 1
        source = self._sources[self._scratch]
        span = Span(self._scratch, self._scratch_end, len(data))
        with source.lock:
            source.file.seek(span.offset)
            write_all(source.file, data)
        self._scratch_end += span.length
        return span

    def read(self, span: Span) -> bytearray:
        data = bytearray(span.length)
        self._sources[span.source].readinto(span.offset, memoryview(data))
        return data

    def chunks(self, span: Span) -> Iterator[memoryview]:
        """The bytes of a span piece by piece, in one buffer that is used again."""
        buffer = memoryview(bytearray(min(CHUNK, span.length)))
        for start in range(0, span.length, CHUNK):
            piece = buffer[: min(CHUNK, span.length - start)]
            self._sources[span.source].readinto(span.offset + start, piece)
            yield piece

    def copy(self, span: Span, file: IO[bytes]) -> None:
        """Write the bytes of a span to a file, inside the kernel where the system can do that."""
        offset, left = span.offset, span.length
        try:
            while left:
                source = self._sources[span.source].file.fileno()
                count = os.copy_file_range(source, file.fileno(), min(left, 1 << 30), offset)
                if not count:
                    break
                offset, left = offset + count, left - count
        except (AttributeError, OSError):
            pass  # not on this system, or not between these two file systems: copy by hand
        for chunk in self.chunks(Span(span.source, offset, left)) if left else ():
            write_all(file, chunk)

    def close(self) -> None:
        for source in self._sources:
            source.file.close()
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)


def write_all(file: IO[bytes], data: bytes | bytearray | memoryview) -> None:
    """An unbuffered file may take less than it is given; go on until all is written."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


# Large, since a thread that hashes has to ask for the interpreter's lock after every piece.
HASH_CHUNK = 1 << 24
AT_ONCE = 1 << 21  # bytes that are hashed faster than a thread starts


def file_chunks(path: Path, most: int = CHUNK) -> Iterator[memoryview]:
    """The bytes of a file piece by piece, in one buffer that is used again."""
    with path.open("rb", buffering=0) as file:
        buffer = memoryview(bytearray(min(most, os.fstat(file.fileno()).st_size or 1)))
        while count := file.readinto(buffer):
            yield buffer[:count]


def file_digest(path: Path, digest: hashlib._Hash) -> str:
    for chunk in file_chunks(path, HASH_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def file_sha256(path: Path) -> str:
    return file_digest(path, hashlib.sha256())


def file_state(path: Path) -> tuple[int, int, int]:
    """Enough to see that a file was replaced or written to; zeros where there is none."""
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def combined_sha256(digests: Mapping[str, str]) -> str:
    """One digest for a model: its file's own, or that of all names and digests where it has several files."""
    if len(digests) == 1:
        return next(iter(digests.values()))
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))
    return hashlib.sha256(lines.encode(errors="surrogateescape")).hexdigest()


class BackgroundHash:
    """Hashes a file on another core from the moment it is made; `result` waits for the end. A small one is
    hashed at once: to start a thread and wait for it takes longer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.state = file_state(path)  # shows later whether it was this content that was hashed
        self._outcome: str | OSError = ""
        self._thread: threading.Thread | None = None
        if 0 < self.state[1] <= AT_ONCE:  # a pipe has no size, and who opens it may wait forever
            self._run()
        else:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            self._outcome = file_sha256(self._path)
        except OSError as error:
            self._outcome = error

    def result(self) -> str:
        if self._thread:
            self._thread.join()
        if isinstance(self._outcome, OSError):
            raise self._outcome
        return self._outcome
