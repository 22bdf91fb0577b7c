"""Small projects that ship a model, built for real, and what is in the artifact they give."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.support.cli import onnx_ci
from tests.support.models import bloated, lean, save_outside
from tests.support.run_model import outputs

POLICY = 'version: 1\nmodels:\n  - path: "**/*.onnx"\n    methods: [dedupe, int8-weights]\n'
EXACT = 'version: 1\nmodels: [{path: "**/*.onnx"}]\n'
FEED: dict[str, Any] = {"x": np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)}


def write_project(folder: Path, pyproject: str, *, policy: str = POLICY, external: str = "") -> Path:
    """A package `pkg` with a bloated model, and the model's path."""
    package = folder / "pkg"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (folder / "pyproject.toml").write_text(pyproject)
    (folder / ".onnx-ci.yaml").write_text(policy)
    model = package / "model.onnx"
    onnx.save(bloated(), model, save_as_external_data=bool(external), location=external or None)
    return model


def needs(program: str) -> None:
    """For programs that no package index has: a test without one of them is skipped."""
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program} here")


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "GITHUB_", "CI_"))}
    found = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**kept, "PATH": found},
        capture_output=True,
        text=True,
        check=False,
    )


def build(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """`python -m build` with what is installed here, as in a prepared environment."""
    return run(sys.executable, "-m", "build", "--no-isolation", *(options or ["--wheel"]), cwd=folder)


def install_editable(folder: Path, site: Path) -> None:
    command = ["-m", "pip", "install", "--no-build-isolation", "--no-deps", "--no-index", "--target"]
    done = run(sys.executable, *command, site, "-e", ".", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def stopped(folder: Path) -> str:
    """What a build says that stops, shows no traceback, and leaves nothing behind."""
    done = build(folder)
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    assert not list((folder / "dist").iterdir())
    assert not list(folder.glob("build/**/*.onnx"))
    return done.stdout + done.stderr


def found_by_check(folder: Path, code: str) -> str:
    """The line that `check` prints for a finding."""
    (finding,) = (line for line in onnx_ci("check", "--all", cwd=folder).out.splitlines() if code in line)
    return finding


def built(folder: Path, *options: str) -> dict[str, bytes]:
    """The files of the artifact, each by its path in it (in an sdist, without the first folder)."""
    done = build(folder, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    (artifact,) = (folder / "dist").iterdir()
    return opened(artifact)


def opened(artifact: Path) -> dict[str, bytes]:
    if artifact.suffix == ".whl":
        with zipfile.ZipFile(artifact) as archive:
            assert len(set(archive.namelist())) == len(archive.namelist())
            return {name: archive.read(name) for name in archive.namelist()}
    with tarfile.open(artifact) as archive:
        files = {
            member.name.split("/", 1)[1]: archive.extractfile(member)
            for member in archive.getmembers()
            if member.isfile()
        }
        return {name: file.read() for name, file in files.items() if file}


def assert_runs_alike(
    files: dict[str, bytes], original: Path, scratch: Path, name: str = "pkg/model.onnx"
) -> None:
    """The model of an artifact, with the data beside it, gives what the one in the source tree gives."""
    for title, content in files.items():
        (scratch / title).parent.mkdir(parents=True, exist_ok=True)
        (scratch / title).write_bytes(content)
    ((given,),) = outputs(scratch / name, [FEED])
    ((expected,),) = outputs(original, [FEED])
    assert given.shape == expected.shape
    assert np.abs(given - expected).max() < 0.05
    assert np.abs(expected).max() > 0.1


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def leave_data_out(root: Path) -> Path:
    """A model that its rule leaves as it is, with its data in a file that no build is told of."""
    model = root / "pkg" / "model.onnx"
    model.unlink()
    save_outside(lean(), model)
    (root / ".onnx-ci.yaml").write_text(EXACT)
    return model


def under_a_nearer_policy(root: Path) -> None:
    """A second model, whose folder has a policy that it breaks."""
    near = root / "pkg" / "near"
    near.mkdir()
    onnx.save(bloated(seed=1), near / "model.onnx")
    (near / ".onnx-ci.yaml").write_text(f"{POLICY}    budget: {{size: 2 kB}}\n")
