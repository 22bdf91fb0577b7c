"""Runs the command line as users do: as a process of its own, in a folder of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from onnx_ci.cli.main import main
from tests.support import warm
from tests.support.git_repo import FOREIGN


@dataclass(frozen=True)
class Done:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def plain_environment() -> dict[str, str]:
    """Ours, without what a CI job or a hook that runs these tests would tell the command."""
    return {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}


def call(*arguments: str | Path, cwd: Path, env: dict[str, str] | None = None) -> Done:
    """The same call in this process: for tests that call often, where starting Python is most of the time."""
    out, err = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
    before = Path.cwd()
    environment = mock.patch.dict(os.environ, {**plain_environment(), **(env or {})}, clear=True)
    with environment, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        os.chdir(cwd)
        try:
            code = main([str(argument) for argument in arguments])
        finally:
            os.chdir(before)
    texts = []
    for stream in (out, err):
        stream.seek(0)
        texts.append(stream.read())
    assert code != 4, texts
    return Done(code, *texts)


def onnx_ci(*arguments: str | Path, cwd: Path, env: dict[str, str] | None = None) -> Done:
    words = list(map(str, arguments))
    environment = {**plain_environment(), **(env or {})}
    if warm.templates is not None and warm.templates.fits(warm.COMMAND, environment):
        ended = Done(*warm.templates.run(words, cwd, environment))
    else:
        done = subprocess.run(
            [sys.executable, "-m", "onnx_ci", *words],
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        ended = Done(done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in ended.err, ended.err
    return ended


def as_from_a_terminal(ignores: int = 0) -> Callable[[], None]:
    """For `preexec_fn`: whoever runs the tests may ignore signals itself; a child that is to be stopped
    starts with all of them, but for one that it `ignores`."""

    def reset() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN if number == ignores else signal.SIG_DFL)

    return reset
