"""Where there is neither fork nor lock nor limit, as on Windows: what can be done is done all the same.

Real Windows and macOS are in the CI matrix (.github/workflows/ci.yml).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.support.cli import plain_environment
from tests.support.git_repo import write_policy
from tests.support.models import bloated

pytestmark = pytest.mark.real

CODE = """
import importlib, json, os, pkgutil, signal, subprocess, sys, tempfile
import multiprocessing.connection, concurrent.futures.thread  # they ask for the system as it is
import numpy, onnx
for name in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules[name] = None
for module, names in (
    (os, ("fork", "forkpty", "killpg", "setsid", "sysconf", "sched_getaffinity", "geteuid", "getuid")),
    (signal, ("SIGHUP", "SIGALRM", "pthread_sigmask", "setitimer")),
):
    for name in names:
        delattr(module, name)
sys.platform = "elsewhere"
import onnx_ci
for found in pkgutil.walk_packages(onnx_ci.__path__, "onnx_ci."):
    if found.name.rsplit(".")[-1] not in ("__main__", "hatch", "setuptools"):
        importlib.import_module(found.name)
from onnx_ci.cli.main import main
codes = [main([command, "--all", "--no-cache"]) for command in ("check", "fix", "check")]
print(json.dumps(codes))
"""


def test_models_are_checked_and_fixed(tmp_path: Path) -> None:
    write_policy(tmp_path, "    methods: [dedupe]\n")
    for number in range(2):
        onnx.save(bloated(seed=number), tmp_path / f"{number}.onnx")
    before = sum(file.stat().st_size for file in tmp_path.glob("*.onnx"))
    environment = {**plain_environment(), "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [1, 0, 0], done.stdout + done.stderr
    assert sum(file.stat().st_size for file in tmp_path.glob("*.onnx")) < before / 2
