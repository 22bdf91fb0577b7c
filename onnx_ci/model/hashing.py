"""The sha256 of files, also in the background: a large file takes as long to hash as to shrink."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Mapping
from pathlib import Path

# Large, since a thread that hashes has to ask for the interpreter's lock after every piece.
CHUNK = 1 << 24


def file_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        buffer = memoryview(bytearray(min(CHUNK, os.fstat(file.fileno()).st_size or 1)))
        while count := file.readinto(buffer):
            digest.update(buffer[:count])
    return digest.hexdigest()


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
    """Hashes a file on another core from the moment it is made; `result` waits for the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.state = file_state(path)  # shows later whether it was this content that was hashed
        self._outcome: str | OSError = ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._outcome = file_sha256(self._path)
        except OSError as error:
            self._outcome = error

    def result(self) -> str:
        self._thread.join()
        if isinstance(self._outcome, OSError):
            raise self._outcome
        return self._outcome
