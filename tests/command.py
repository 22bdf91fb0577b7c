"""Runs the command line as users do: as a process of its own, in a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Done:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def onnx_ci(*arguments: str | Path, cwd: Path, env: dict[str, str] | None = None) -> Done:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "GITHUB_", "CI_", "PRE_COMMIT"))}
    done = subprocess.run(
        [sys.executable, "-m", "onnx_ci", *map(str, arguments)],
        cwd=cwd,
        env={**kept, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Done(done.returncode, done.stdout, done.stderr)
