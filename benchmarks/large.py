"""Large models, many nodes and short starts, each against a command that does no more than it must."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from environments import SetupError, run
from foundation import FOREIGN, Comparison, compare, make_repository, onnx_ci, shrink
from harness import Contender, FailedRunError, Figures, environment

CHECK = "import onnx, sys; onnx.checker.check_model(onnx.load(sys.argv[1]))"
POLICY = 'version: 1\nmodels:\n  - {{path: "*.onnx", budget: {{size: 99 GB}}, load_check: {}}}\n'
MOST_ANONYMOUS = 1500.0  # MB


def make(kind: str, path: Path, size: float = 0) -> Path:
    """In a process of its own: numpy would swell the one that races."""
    maker = Path(__file__).with_name("large_models.py")
    run([sys.executable, str(maker), kind, str(path), str(size)])
    return path


def dedupe(scratch: Path) -> list[Contender]:
    source, copy, ours = make("copies", scratch / "albert.onnx"), scratch / "copy.onnx", scratch / "ours.onnx"
    words = f"cp '{source}' '{copy}' && '{sys.executable}' -c 'import onnx'"
    return [
        Contender(name="cp, import onnx", command=["sh", "-c", words], output=copy),
        Contender(
            name="onnx-ci shrink",
            command=shrink(source, ours, "--methods", "dedupe", "--no-verify"),
            output=ours,
            limits=Figures(wall=2.0, cpu=2.0, output=0.1),
        ),
    ]


def info(scratch: Path) -> list[Contender]:
    source = str(make("inside", scratch / "model.onnx", 4e9))
    ours = Contender(
        name="onnx-ci info", command=[onnx_ci(), "info", source], limits=Figures(wall=2.0, cpu=2.0)
    )
    return [Contender(name="cat", command=["sh", "-c", f"cat '{source}' > /dev/null"]), ours]


def nodes(scratch: Path) -> list[Contender]:
    make("nodes", scratch / "model.onnx", 1e5)
    (scratch / ".onnx-ci.yaml").write_text(POLICY.format("off"))
    peer = [sys.executable, "-c", CHECK, "model.onnx"]
    ours = [onnx_ci(), "check", "--no-cache", "model.onnx"]
    return [
        Contender(name="onnx.load, onnx.checker", command=peer, folder=scratch),
        Contender(name="onnx-ci check", command=ours, folder=scratch, limits=Figures(cpu=3.0)),
    ]


def starts(scratch: Path) -> list[Contender]:
    make_repository(scratch)
    commands = (["check"], ["--help"], ["check", "--help"])
    ours = [
        Contender(
            name=f"onnx-ci {' '.join(words)}",
            command=[onnx_ci(), *words],
            folder=scratch,
            limits=Figures(wall=1.5, cpu=1.5),
        )
        for words in commands
    ]
    return [
        Contender(name="import yaml", command=[sys.executable, "-c", "import yaml"], folder=scratch),
        *ours,
    ]


def warm(scratch: Path) -> list[Contender]:
    """The uncounted first run of the race fills the cache."""
    os.environ["ONNX_CI_CACHE"] = str(scratch / "cache")
    from git import MODEL

    run([sys.executable, "-c", MODEL, str(scratch), "50", "316", "0"])
    (scratch / ".onnx-ci.yaml").write_text(POLICY.format("on"))
    ours = [onnx_ci(), "check", "--all"]
    return [
        Contender(name="a second", command=["sleep", "1"]),
        Contender(name="onnx-ci check", command=ours, folder=scratch, limits=Figures(wall=1.0)),
    ]


COMPARISONS = {
    "dedupe": Comparison(
        title="dedupe of an ALBERT with copies", reference="cp, import onnx", contenders=dedupe, repeats=7
    ),
    "info": Comparison(title="info of 4 GB", reference="cat", contenders=info),
    "nodes": Comparison(
        title="check of 100,000 nodes", reference="onnx.load, onnx.checker", contenders=nodes, repeats=3
    ),
    "starts": Comparison(title="starts", reference="import yaml", contenders=starts, repeats=21),
    "warm": Comparison(title="50 models that are known", reference="a second", contenders=warm),
}


def anonymous(scratch: Path, kind: str, size: float) -> bool:
    """Print what commands take for one large model; whether none took too much memory of its own."""
    source = make(kind, scratch / "model.onnx", size)
    (scratch / ".onnx-ci.yaml").write_text(POLICY.format("on"))
    stored = sum(file.stat().st_size for file in scratch.glob("model.onnx*")) / 1e9
    print(f"### {stored:.1f} GB, {kind} the model file\n")
    print("| command | wall s | cpu s | cpu s a GB | anonymous MB |\n|---|---|---|---|---|")
    held = True
    commands = [[onnx_ci(), "info", str(source)], [onnx_ci(), "check", "--no-cache", str(source)]]
    methods = ("dedupe", "int8-weights", "fp16-weights")
    target = scratch / "out" / "model.onnx"
    commands += [shrink(source, target, "--methods", method, "--no-verify") for method in methods]
    for command in commands:
        (scratch / "out").mkdir()
        wall, cpu, peak = watched(command, scratch)
        shutil.rmtree(scratch / "out")
        name = " ".join(word for word in command[1:] if "/" not in word)
        cells = (f"{wall:.1f}", f"{cpu:.1f}", f"{cpu / stored:.2f}", f"{peak:.0f} (limit {MOST_ANONYMOUS:g})")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
        held = held and peak <= MOST_ANONYMOUS
    print()
    return held


def watched(command: Sequence[str], folder: Path) -> tuple[float, float, float]:
    """Seconds, seconds of processors, and the MB of memory that no file is behind, at the worst moment, of a
    command and all processes below it. Linux only."""
    began, peak = time.perf_counter(), 0.0
    child = subprocess.Popen(command, cwd=folder, env=environment(), stdout=subprocess.DEVNULL)
    usage = None
    while usage is None:
        time.sleep(0.05)
        peak = max(peak, sum(map(_anonymous_mb, _with_children(child.pid))))
        pid, status, found = os.wait4(child.pid, os.WNOHANG)
        usage = found if pid else None
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise FailedRunError(f"{' '.join(command)} ended with {child.returncode}")
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime, peak


def _with_children(pid: int) -> list[int]:
    pids = [pid]
    for each in pids:
        for file in Path(f"/proc/{each}/task").glob("*/children"):
            try:
                pids += map(int, file.read_text().split())
            except OSError:
                continue  # it has just ended
    return pids


def _anonymous_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("RssAnon"))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, help="runs of each contender")
    parser.add_argument("--only", choices=(*COMPARISONS, "memory"), help="one part instead of all")
    parser.add_argument("--gigabytes", type=float, nargs=2, default=(3, 12), metavar=("INSIDE", "OUTSIDE"))
    args = parser.parse_args(argv)
    for name in [name for name in os.environ if name.startswith(FOREIGN)]:
        del os.environ[name]
    chosen = [args.only] if args.only else [*COMPARISONS, "memory"]
    try:
        held = [compare(COMPARISONS[name], args.repeats) for name in chosen if name in COMPARISONS]
        for kind, size in zip(("inside", "outside"), args.gigabytes, strict=True):
            if "memory" in chosen:
                with tempfile.TemporaryDirectory(prefix="onnx-ci-bench-") as scratch:
                    held.append(anonymous(Path(scratch), kind, size * 1e9))
    except (SetupError, FailedRunError) as error:
        print(f"large: {error}", file=sys.stderr)
        return 3
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
