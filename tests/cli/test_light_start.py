"""A check with nothing to do, which is most commits, loads little: loading is nearly all of its time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.git_repo import Repository, write_policy

# Every module of ours that it may load.
OURS = {
    "onnx_ci",
    "onnx_ci.cli",
    "onnx_ci.cli.check",
    "onnx_ci.cli.main",
    "onnx_ci.cli.output",
    "onnx_ci.errors",
    "onnx_ci.gate",
    "onnx_ci.gate.project",
    "onnx_ci.methods",
    "onnx_ci.methods.catalogue",
    "onnx_ci.model",
    "onnx_ci.model.locations",
    "onnx_ci.policy",
    "onnx_ci.policy.fields",
    "onnx_ci.policy.glob",
    "onnx_ci.policy.load",
    "onnx_ci.policy.reader",
    "onnx_ci.repo",
    "onnx_ci.repo.changes",
    "onnx_ci.repo.git",
    "onnx_ci.repo.select",
    "onnx_ci.repo.tree",
    "onnx_ci.util",
    "onnx_ci.util.scalars",
    "onnx_ci.util.sizes",
    "onnx_ci.util.text",
    "onnx_ci.version",
}
# What it must not load, of the standard library and of others.
HEAVY = {"dataclasses", "inspect", "typing"} | {
    *("asyncio", "difflib", "hashlib", "json", "logging", "multiprocessing"),
    *("subprocess", "tempfile", "threading", "unittest"),
    *("google.protobuf", "ml_dtypes", "numpy", "onnx", "onnxruntime", "xxhash"),
}
CODE = """
import sys
from onnx_ci.cli.main import main
code = main(["check", *sys.argv[1:]])
loaded = sorted(sys.modules)
import json
print(json.dumps([code, loaded]))
"""


@pytest.mark.parametrize("arguments", [[], ["--staged"], ["--staged", "--hook", "--no-search"]], ids=" ".join)
def test_nothing_to_do_loads_next_to_nothing(arguments: list[str], tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    write_policy(tmp_path, "    budget: {size: 1 kB, growth: 5%}\n    methods: []\n")
    repository.commit_all("no model")
    command = [sys.executable, "-c", CODE, *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    code, loaded = json.loads(done.stdout.splitlines()[-1])
    assert code == 0
    assert HEAVY & set(loaded) == set()
    assert {name for name in loaded if name.split(".")[0] == "onnx_ci"} <= OURS
