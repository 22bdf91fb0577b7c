"""`onnx-ci demo`: the main job from end to end, on a small bloated model in a scratch repository."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnx_ci.cli.output import value
from onnx_ci.errors import EnvironmentFault
from onnx_ci.repo.git import run_git
from onnx_ci.util.text import Style, shell_word

ARGUMENTS = {"demo": (value("--folder DIR", "an empty folder to work in (default: a temporary one)"),)}
EXAMPLES = {"demo": "onnx-ci demo --folder try-it && cd try-it"}
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


def run_demo(options: argparse.Namespace) -> int:
    style = Style.of(sys.stdout)
    folder = _folder(options.folder)
    _say(style, f"A scratch repository with one model, in {folder}")
    _make_repository(folder)
    _say(style, "The policy, .onnx-ci.yaml:")
    sys.stdout.write(POLICY)
    codes = [_step(style, folder, command) for command in ("check", "fix", "check")]
    sys.stdout.write(f"\nThe repository is kept, to look around: cd {shell_word(str(folder))}\n\n{NEXT}")
    if codes != [1, 0, 0]:
        raise EnvironmentFault(f"the demo should have ended with exit codes 1, 0, 0 and gave {codes}")
    return 0


def _say(style: Style, text: str) -> None:
    sys.stdout.write(f"\n{style.paint(text, 'bold')}\n")
    sys.stdout.flush()


def _step(style: Style, folder: Path, command: str) -> int:
    _say(style, f"$ onnx-ci {command} --all")
    program = [sys.executable, "-m", "onnx_ci"]
    code = subprocess.run([*program, command, "--all"], cwd=folder, check=False).returncode
    sys.stdout.write(f"exit code {code}\n")
    return code


def _folder(wanted: str | None) -> Path:
    if wanted is None:
        return Path(tempfile.mkdtemp(prefix="onnx-ci-demo-")).resolve()
    path = Path(wanted)
    path.mkdir(parents=True, exist_ok=True)
    if any(path.iterdir()):
        message = f"{wanted!r} is not empty"
        raise EnvironmentFault(message, hint="name a new folder: onnx-ci demo --folder NEW")
    return path.resolve()


def _make_repository(folder: Path) -> None:
    (folder / ".onnx-ci.yaml").write_text(POLICY, encoding="utf-8")
    (folder / "models").mkdir()
    write_demo_model(folder / "models" / "encoder.onnx")
    run_git(folder, "init", "--quiet")
    for setting in ("user.name=onnx-ci demo", "user.email=demo@example.com", "commit.gpgsign=false"):
        run_git(folder, "config", *setting.split("=", 1))
    run_git(folder, "add", ".")
    run_git(folder, "commit", "--quiet", "-m", "a bloated model")


VOCABULARY, WIDTH, INNER, LAYERS = 2000, 64, 256, 12


def write_demo_model(path: Path) -> None:
    random = np.random.default_rng(0)
    weights = [numpy_helper.from_array(_matrix(random, VOCABULARY, WIDTH), "embedding")]
    shared = _matrix(random, WIDTH, INNER), _matrix(random, INNER, WIDTH)
    nodes = [helper.make_node("Gather", ["embedding", "tokens"], ["layer0"])]
    for layer in range(LAYERS):
        # One pair of matrices serves all layers; each layer has its own copy, as exporters do it.
        weights += [numpy_helper.from_array(matrix, f"w{layer}_{i}") for i, matrix in enumerate(shared)]
        inner, active, moved = f"inner{layer}", f"active{layer}", f"moved{layer}"
        nodes += [
            helper.make_node("MatMul", [f"layer{layer}", f"w{layer}_0"], [inner]),
            helper.make_node("Tanh", [inner], [active]),
            helper.make_node("MatMul", [active, f"w{layer}_1"], [moved]),
            helper.make_node("Add", [f"layer{layer}", moved], [f"layer{layer + 1}"]),
        ]
    graph = helper.make_graph(
        nodes,
        "encoder",
        [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", "sequence"])],
        [helper.make_tensor_value_info("encoded", TensorProto.FLOAT, ["batch", "sequence", WIDTH])],
        weights,
    )
    graph.node[-1].output[0] = "encoded"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)


Matrix = np.ndarray[tuple[int, int], np.dtype[np.float32]]


def _matrix(random: np.random.Generator, rows: int, columns: int) -> Matrix:
    values: Matrix = (random.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)
    return values
