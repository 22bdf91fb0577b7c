"""`onnx-ci demo`: the main job from end to end, on a small bloated model in a scratch repository."""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from onnx_ci.errors import EnvironmentFault
from onnx_ci.report.style import Style
from onnx_ci.scratch import scratch_folder
from onnx_ci.targets.git import run_git

POLICY = """\
version: 1
models:
  - path: "models/*.onnx"
    budget: {size: 600 kB}
    methods: [dedupe, drop-unused, int8-weights]   # mildest first; no more loss than the budget needs
    tolerance: {cosine: 0.999}
"""
NEXT = """\
Next, in your own repository:
  onnx-ci init             write .onnx-ci.yaml from the models you have
  onnx-ci check --all      see where you stand
  onnx-ci fix --all        shrink what can be shrunk, each model verified
and in .pre-commit-config.yaml the hook onnx-ci-check (see the README), so that it stays that way.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", metavar="DIR", help="an empty folder to work in, kept afterwards")


def run(options: argparse.Namespace) -> int:
    style = Style.of(sys.stdout)
    with _folder(options.folder) as folder, _working_in(folder):
        _say(style, f"A scratch repository with one model, in {folder}")
        _make_repository(folder)
        _say(style, "The policy, .onnx-ci.yaml:")
        sys.stdout.write(POLICY)
        codes = [_step(style, command, "--all") for command in ("check", "fix", "check")]
    sys.stdout.write(f"\n{NEXT}")
    if codes != [1, 0, 0]:
        raise EnvironmentFault(f"the demo should have ended with exit codes 1, 0, 0 and gave {codes}")
    return 0


def _say(style: Style, text: str) -> None:
    sys.stdout.write(f"\n{style.paint(text, 'bold')}\n")
    sys.stdout.flush()


def _step(style: Style, *arguments: str) -> int:
    _say(style, f"$ onnx-ci {' '.join(arguments)}")
    code = subprocess.run([sys.executable, "-m", "onnx_ci", *arguments], check=False).returncode
    sys.stdout.write(f"exit code {code}\n")
    return code


@contextlib.contextmanager
def _folder(wanted: str | None) -> Iterator[Path]:
    if wanted is None:
        with scratch_folder() as folder:
            yield folder
        return
    path = Path(wanted)
    path.mkdir(parents=True, exist_ok=True)
    if any(path.iterdir()):
        raise EnvironmentFault(
            f"{wanted!r} is not empty", hint="name a new folder: onnx-ci demo --folder NEW"
        )
    yield path.resolve()


@contextlib.contextmanager
def _working_in(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _make_repository(folder: Path) -> None:
    from onnx_ci.entry.demo_model import write_demo_model

    (folder / ".onnx-ci.yaml").write_text(POLICY, encoding="utf-8")
    (folder / "models").mkdir()
    write_demo_model(folder / "models" / "encoder.onnx")
    author = (
        "-c",
        "user.name=onnx-ci demo",
        "-c",
        "user.email=demo@example.com",
        "-c",
        "commit.gpgsign=false",
    )
    for arguments in (
        ["init", "--quiet"],
        ["add", "."],
        [*author, "commit", "--quiet", "-m", "a bloated model"],
    ):
        run_git(folder, *arguments)
