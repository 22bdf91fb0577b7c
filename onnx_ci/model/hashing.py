"""The sha256 of files, also in the background: a large file takes as long to hash as to shrink."""

from __future__ import annotations

import hashlib
import os
import threading
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


class BackgroundHash:
    """Hashes a file on another core from the moment it is made; `result` waits for the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
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
