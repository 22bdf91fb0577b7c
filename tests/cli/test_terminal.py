"""What a person at a terminal sees, and what nobody else does."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import onnx
import pytest

from tests.support.cli import onnx_ci
from tests.support.models import bloated

pty = pytest.importorskip("pty")


def at_a_terminal(folder: Path, *arguments: str, **env: str) -> str:
    """The command under a pseudo terminal: its two streams as one text."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.environ.update({"TERM": "xterm", **env})
        os.environ.pop("NO_COLOR", None) if "NO_COLOR" not in env else None
        os.execv(sys.executable, [sys.executable, "-m", "onnx_ci", *arguments])  # noqa: S606
    seen = b""
    try:
        while part := os.read(terminal, 1 << 16):
            seen += part
    except OSError:  # Linux says EIO when the other side has gone
        pass
    os.waitpid(process, 0)
    os.close(terminal)
    return seen.decode()


def models(folder: Path) -> None:
    for number in range(12):
        onnx.save(bloated(seed=number, layers=12, width=256), folder / f"m{number}.onnx")


@pytest.mark.sampled(0)
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_progress_and_colour_at_a_terminal_only(tmp_path: Path) -> None:
    models(tmp_path)
    seen = at_a_terminal(tmp_path, "check")
    assert re.search(r"\] \d+/12 \d:\d\d, about \d:\d\d left  m\d+.onnx: ", seen)
    assert "\x1b[31merror OCI003\x1b[0m" in seen
    piped = onnx_ci("check", cwd=tmp_path)
    assert "\x1b" not in piped.out + piped.err
    assert all(line.startswith("onnx-ci: m") for line in piped.err.splitlines()), "on a busy machine"
    assert "\x1b[31m" not in at_a_terminal(tmp_path, "check", NO_COLOR="1")


def test_names_can_not_draw_on_the_terminal(tmp_path: Path) -> None:
    model = bloated()
    model.graph.output[0].name = "y\x1b[2Jz"
    model.graph.node[-1].output[0] = "y\x1b[2Jz"
    onnx.save(model, tmp_path / "in\x1b[2J.onnx")
    for arguments in (["check"], ["info", "in\x1b[2J.onnx"], ["compare", "in\x1b[2J.onnx", "in\x1b[2J.onnx"]):
        done = onnx_ci(*arguments, cwd=tmp_path)
        assert "\x1b" not in done.out + done.err, arguments
