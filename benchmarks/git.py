"""How long a commit takes with the hook, against check-added-large-files, which only looks at sizes."""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from environments import SetupError, environment, run
from foundation import FOREIGN, onnx_ci

FLOOR = "check-added-large-files"
REQUIREMENTS = ("pre-commit-hooks==6.0.0", "pre-commit==4.3.0")
POLICY = """\
version: 1
models:
  - path: "**/*.onnx"
    budget: {size: 25 MB, growth: 5%}
    methods: [dedupe, drop-unused, fp16-weights, int8-weights]
"""
HOOK = """\
repos:
  - repo: local
    hooks:
      - {{id: hook, name: hook, entry: "{entry}", language: system, require_serial: true}}
"""
MODEL = """
import sys, numpy, onnx
from onnx import TensorProto, helper, numpy_helper
folder, count, width, seed = sys.argv[1], *map(int, sys.argv[2:])
for number in range(count):
    weight = numpy.random.default_rng(seed + number).standard_normal((width, width), numpy.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", width])],
        [numpy_helper.from_array(weight, "w")],
    )
    opset = helper.make_opsetid("", 17)
    made = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    onnx.save(made, f"{folder}/m{number}.onnx")
"""


@dataclass(frozen=True)
class Case:
    """What a commit holds: so many square models of a width, or none; whether it is to be refused, and the
    seconds it may take."""

    title: str
    count: int = 0
    width: int = 0
    refused: bool = False
    limit: float | None = None


CASES = (
    Case("no model"),
    Case("one model of 20 MB", 1, 2236),
    Case("50 models of 0.4 MB", 50, 316),
    Case("one model of 26 MB, over its budget", 1, 2550, refused=True, limit=2.0),
)


class Scratch:
    """A repository with one hook installed, in which the same commit is made again and again."""

    def __init__(self, folder: Path, case: Case, entry: str, python: Path) -> None:
        self.folder = folder
        self.refused = case.refused
        folder.mkdir()
        (folder / ".pre-commit-config.yaml").write_text(HOOK.format(entry=entry))
        (folder / ".onnx-ci.yaml").write_text(POLICY)
        (folder / "README").write_text("first\n")
        self.git("init", "--quiet")
        self._change(case, seed=0)
        self.git("add", ".")
        self.git("commit", "--quiet", "--no-verify", "--message", "first")
        self._install(python)
        self._change(case, seed=1000)
        self.git("add", ".")

    def _install(self, python: Path) -> None:
        command = [str(python), "-m", "pre_commit", "install"]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SetupError(f"pre-commit could not be installed: {done.stdout}{done.stderr}")

    def _change(self, case: Case, seed: int) -> None:
        (self.folder / "README").write_text(f"{seed}\n")
        if case.count:
            numbers = (str(number) for number in (case.count, case.width, seed))
            run([sys.executable, "-c", MODEL, str(self.folder), *numbers])

    def git(self, *arguments: str) -> None:
        identity = ("user.name=bench", "user.email=bench@example.invalid", "commit.gpgsign=false")
        settings = [word for setting in identity for word in ("-c", setting)]
        run(["git", "-C", str(self.folder), *settings, *arguments])

    def commit(self) -> float:
        """Seconds of one commit, hook included; afterwards everything is as it was before."""
        start = time.perf_counter()
        refused = False
        try:
            self.git("commit", "--quiet", "--message", "second")
        except SetupError:
            refused = True
        seconds = time.perf_counter() - start
        if refused != self.refused:
            raise SetupError(f"the commit was {'refused' if refused else 'not refused'}")
        if not refused:
            self.git("reset", "--quiet", "--soft", "HEAD~1")
        return seconds


def measure(case: Case, folder: Path, repeats: int, python: Path) -> dict[str, float]:
    """Median seconds of a commit by hook, all taken in turns."""
    most = 25_000 if case.refused else 999_999
    # With --enforce-all it looks at what is not new to git as well.
    large = Scratch(folder / "floor", case, f"{python.with_name(FLOOR)} --enforce-all --maxkb={most}", python)
    ours = Scratch(folder / "ours", case, f"{onnx_ci()} check --staged --hook --no-search --", python)
    searching = Scratch(
        folder / "searching", case, f"{onnx_ci()} check --staged --hook --no-cache --", python
    )
    cache = folder / "cache"
    os.environ["ONNX_CI_CACHE"] = str(cache)

    def cold() -> float:
        shutil.rmtree(cache, ignore_errors=True)
        return ours.commit()

    takes: dict[str, Callable[[], float]] = {
        FLOOR: large.commit,
        "onnx-ci-check, first time": cold,
        "onnx-ci-check, again": ours.commit,
    }
    if case.refused:
        takes["onnx-ci check, searching"] = searching.commit
    for take in takes.values():
        take()  # not counted
    rounds = [{name: take() for name, take in takes.items()} for _ in range(repeats)]
    return {name: statistics.median(times[name] for times in rounds) for name in takes}


def missed(case: Case, medians: dict[str, float]) -> bool:
    ours = (seconds for name, seconds in medians.items() if name.startswith("onnx-ci-check"))
    return case.limit is not None and max(ours) > case.limit


def table(case: Case, medians: dict[str, float]) -> str:
    limit = (
        f", at most {case.limit:g} s: {'MISSED' if missed(case, medians) else 'within'}" if case.limit else ""
    )
    rows = [f"### {case.title}{limit}\n", f"| hook | seconds of a commit | ÷ {FLOOR} |", "|---|---|---|"]
    rows += [f"| {name} | {value:.3f} | {value / medians[FLOOR]:.2f} |" for name, value in medians.items()]
    return "\n".join(rows)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7, help="commits of each kind (default 7)")
    args = parser.parse_args(argv)
    for name in [name for name in os.environ if name.startswith(FOREIGN)]:
        del os.environ[name]
    late = False
    try:
        python = environment("pre-commit-hooks", REQUIREMENTS)
        for case in CASES:
            with tempfile.TemporaryDirectory(prefix="onnx-ci-bench-") as scratch:
                medians = measure(case, Path(scratch), args.repeats, python)
            print(table(case, medians), "\n", flush=True)
            late = late or missed(case, medians)
    except (SetupError, subprocess.SubprocessError) as error:
        print(f"git: {error}", file=sys.stderr)
        return 3
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
