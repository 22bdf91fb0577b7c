"""The three races that onnx-ci must win: dedupe, a check with nothing to do, and 8-bit weights."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import models
import peers
from environments import SetupError, run
from harness import Contender, FailedRunError, Figures, any_missed, race, table

POLICY = """\
version: 1
models:
  - path: "*.onnx"
    budget: {size: 1 MB}
"""
# A run inside a CI job or a git hook would look for that job's base instead of the scratch repository's.
FOREIGN = ("CI", "GIT_", "GITHUB_", "GITLAB_", "PRE_COMMIT")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A question, the contender that the others are measured against, and who takes part."""

    title: str
    reference: str
    contenders: Callable[[Path], list[Contender]]
    repeats: int = 5


def onnx_ci() -> str:
    script = Path(sys.executable).with_name("onnx-ci")
    if not script.is_file():
        raise SetupError(f"onnx-ci is not installed beside {sys.executable}: run `pip install -e .` first")
    return str(script)


def shrink(source: Path, target: Path, *options: str) -> list[str]:
    return [onnx_ci(), "shrink", str(source), str(target), *options]


# The limits on the output are there because a command that only copies would win every race.


def dedupe(scratch: Path) -> list[Contender]:
    source = models.fetch("albert-copies")
    ours, proven, theirs = (scratch / f"{name}.onnx" for name in ("ours", "proven", "theirs"))
    options = ("--methods", "dedupe")
    return [
        Contender(name="scs4onnx", command=peers.command("scs4onnx", source, theirs), output=theirs),
        Contender(
            name="onnx-ci",
            command=shrink(source, ours, *options, "--no-verify"),
            output=ours,
            limits=Figures(wall=0.25, memory=0.4, output=1.05),
        ),
        Contender(
            name="onnx-ci, verified", command=shrink(source, proven, *options, "--no-cache"), output=proven
        ),
    ]


def nothing_to_do(scratch: Path) -> list[Contender]:
    make_repository(scratch)
    return [
        Contender(name="import yaml", command=[sys.executable, "-c", "import yaml"], folder=scratch),
        Contender(
            name="onnx-ci check", command=[onnx_ci(), "check"], folder=scratch, limits=Figures(wall=1.5)
        ),
    ]


def int8_weights(scratch: Path) -> list[Contender]:
    source = models.fetch("minilm-l3")
    ours, theirs = scratch / "ours.onnx", scratch / "theirs.onnx"
    peer = "onnx_shrink_ray"
    return [
        Contender(name=peer, command=peers.command(peer, source, theirs), output=theirs),
        Contender(
            name="onnx-ci",
            command=shrink(source, ours, "--methods", "int8-weights", "--no-verify"),
            output=ours,
            limits=Figures(wall=0.7, output=1.1),
        ),
    ]


COMPARISONS = {
    "a": Comparison(title="dedupe on albert-copies", reference="scs4onnx", contenders=dedupe),
    "b": Comparison(
        title="check where no model changed", reference="import yaml", contenders=nothing_to_do, repeats=21
    ),
    "c": Comparison(title="int8-weights on minilm-l3", reference="onnx_shrink_ray", contenders=int8_weights),
}


def make_repository(folder: Path) -> None:
    """A git repository with one small model and a policy, both committed."""
    # In a process of its own, so that onnx does not swell the one that races.
    maker = multiprocessing.get_context("spawn").Process(target=write_model, args=(folder / "tiny.onnx",))
    maker.start()
    maker.join()
    (folder / ".onnx-ci.yaml").write_text(POLICY)
    identity = ("user.name=bench", "user.email=bench@example.invalid", "commit.gpgsign=false")
    git = ["git", "-C", str(folder), *(word for setting in identity for word in ("-c", setting))]
    run([*git, "init", "--quiet"])
    run([*git, "add", "tiny.onnx", ".onnx-ci.yaml"])
    run([*git, "commit", "--quiet", "--no-verify", "--message", "A small model"])


def write_model(path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])
    weight = helper.make_tensor("w", TensorProto.FLOAT, [4], [1.0, 2.0, 3.0, 4.0])
    node = helper.make_node("Mul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "tiny", [value], [result], [weight])
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)


def compare(comparison: Comparison, repeats: int | None) -> bool:
    """Print one comparison; whether all its limits held."""
    with tempfile.TemporaryDirectory(prefix="onnx-ci-bench-") as scratch:
        results = race(comparison.contenders(Path(scratch)), repeats or comparison.repeats)
    print(f"### {comparison.title}\n\n{table(results, comparison.reference)}\n", flush=True)
    return not any_missed(results, comparison.reference)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, help="runs of each contender (default: 5, and 21 for b)")
    parser.add_argument("--only", choices=COMPARISONS, help="one comparison instead of all three")
    args = parser.parse_args(argv)
    for name in [name for name in os.environ if name.startswith(FOREIGN)]:
        del os.environ[name]
    chosen = [COMPARISONS[args.only]] if args.only else list(COMPARISONS.values())
    try:
        onnx_ci()
        held = [compare(comparison, args.repeats) for comparison in chosen]
    except (SetupError, FailedRunError) as error:
        print(f"foundation: {error}", file=sys.stderr)
        return 3
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
