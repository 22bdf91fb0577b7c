"""Contents of git, read through one process for all of them: starting git takes longer than answering."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path

from onnx_ci.targets.git import start_git, unreadable

TYPE_CHECKING = False  # `typing` takes longer to load than this package; checkers see it all the same
if TYPE_CHECKING:
    import subprocess
    from typing import IO

CHUNK = 1 << 20


class Objects:
    """The contents of one repository, by their names in git. Close it when done."""

    def __init__(self, repository: Path) -> None:
        self.repository = repository
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def size(self, blob: str) -> int:
        return self._number(self._ask("--batch-check=%(objectsize)", blob).readline(), blob)

    def copy(self, blob: str, target: IO[bytes]) -> None:
        """A content into a file, piece by piece: a model need not fit into memory."""
        answer = self._ask("--batch=%(objectsize)", blob)
        left = self._number(answer.readline(), blob)
        while left > 0:
            piece = answer.read(min(left, CHUNK))
            if not piece:
                raise unreadable(self.repository, blob)
            left -= target.write(piece)
        answer.read(1)  # each content ends with a line break

    def text(self, blob: str) -> str:
        """The content of a small file."""
        content = io.BytesIO()
        self.copy(blob, content)
        return os.fsdecode(content.getvalue())

    def close(self) -> None:
        for process in self._running.values():
            with contextlib.suppress(BrokenPipeError):  # one that died has not read all
                process.communicate()
        self._running.clear()

    def _ask(self, how: str, blob: str) -> IO[bytes]:
        if how not in self._running:
            self._running[how] = start_git(self.repository, "cat-file", how)
        process = self._running[how]
        if process.stdin is None or process.stdout is None:
            raise ValueError("git was started without pipes")
        try:
            process.stdin.write(f"{blob}\n".encode())
            process.stdin.flush()
        except OSError:
            raise unreadable(self.repository, blob) from None
        return process.stdout

    def _number(self, line: bytes, blob: str) -> int:
        """The size git names; of what it does not have it says `… missing`, or nothing."""
        if not line.strip().isdigit():
            raise unreadable(self.repository, blob)
        return int(line)
