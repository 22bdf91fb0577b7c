"""Kills `onnx-ci fix` at random moments, then lets it run once: what was lost, and what was left?"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from environments import run
from foundation import FOREIGN, onnx_ci
from onnx import TensorProto, helper, numpy_helper

WIDTH, LAYERS = 512, 6  # 6 MB each, of which 1 MB is left once copies are stored once
# Where the weights of each model are: in the file itself, in a data file, in one in a folder below.
MODELS = {"inside.onnx": "", "beside.onnx": "beside.onnx.data", "below.onnx": "data/below.onnx.data"}
POLICY = 'version: 1\nmodels:\n  - path: "**/*.onnx"\n    methods: [dedupe]\n'
FEED = {"x": np.linspace(-1, 1, WIDTH, dtype=np.float32)[None]}
TELEMETRY = ".ses"  # onnxruntime's own, in every temporary folder


class Place:
    """A repository of models to fix, with a temporary folder and a cache of its own."""

    def __init__(self, top: Path) -> None:
        self.models, self.temporary, self.cache = top / "models", top / "temporary", top / "cache"
        for folder in (self.models / "data", self.temporary, self.cache):
            folder.mkdir(parents=True)
        (self.models / ".onnx-ci.yaml").write_text(POLICY)
        self.expected: dict[str, Any] = {}
        for name in MODELS:
            self.write(name)
            self.expected[name] = self.outputs(name)
        run(["git", "init", "--quiet", str(self.models)])

    def write(self, name: str) -> None:
        seed = list(MODELS).index(name)
        weight = np.random.default_rng(seed).standard_normal((WIDTH, WIDTH), np.float32) / WIDTH**0.5
        nodes = [helper.make_node("MatMul", [f"h{n}", f"w{n}"], [f"h{n + 1}"]) for n in range(LAYERS)]
        ends = [
            helper.make_tensor_value_info(end, TensorProto.FLOAT, ["n", WIDTH]) for end in ("x", f"h{LAYERS}")
        ]
        nodes[0].input[0] = "x"
        weights = [numpy_helper.from_array(weight, f"w{n}") for n in range(LAYERS)]
        graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        data = MODELS[name]
        if data:
            (self.models / data).unlink(missing_ok=True)  # onnx would append to it
        onnx.save(model, self.models / name, save_as_external_data=bool(data), location=data or None)

    def outputs(self, name: str) -> Any:
        session = onnxruntime.InferenceSession(self.models / name, providers=["CPUExecutionProvider"])
        return session.run(None, FEED)[0]

    def is_lost(self, name: str) -> bool:
        """Whether a model does not load, or does not give what it gave."""
        try:
            return not np.allclose(self.outputs(name), self.expected[name], rtol=1e-4, atol=1e-5)
        except Exception as error:  # noqa: BLE001 - onnxruntime's exceptions have no common base
            print(f"{name}: {error}", file=sys.stderr)
            return True

    def data_of(self, name: str) -> set[str]:
        model = onnx.load(self.models / name, load_external_data=False)
        pairs = (pair for tensor in model.graph.initializer for pair in tensor.external_data)
        return {pair.value for pair in pairs if pair.key == "location"}

    def is_unfinished(self, name: str) -> bool:
        return any(data.endswith(".onnx-ci-tmp") for data in self.data_of(name))

    def strays(self) -> list[str]:
        """Files beside models that are neither a model nor what one names."""
        ours = {".onnx-ci.yaml", *MODELS, *(data for name in MODELS for data in self.data_of(name))}
        found = (path for path in self.models.rglob("*") if path.is_file())
        names = (path.relative_to(self.models).as_posix() for path in found)
        return sorted(name for name in names if not name.startswith(".git/") and name not in ours)

    def folders(self) -> list[str]:
        found = [path.name for path in self.temporary.iterdir() if path.name != TELEMETRY]
        return sorted([*found, *(path.name for path in self.cache.rglob("*.part"))])

    def start(self) -> subprocess.Popen[bytes]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        places = {"TMPDIR": str(self.temporary), "ONNX_CI_CACHE": str(self.cache)}
        quiet = subprocess.DEVNULL
        command = [onnx_ci(), "fix", "--all"]
        return subprocess.Popen(command, cwd=self.models, env={**kept, **places}, stdout=quiet, stderr=quiet)

    def run(self) -> float:
        began = time.perf_counter()
        if self.start().wait():
            raise SystemExit("onnx-ci fix did not go well without being killed")
        return time.perf_counter() - began


def wait(place: Place, child: subprocess.Popen[bytes], longest: float, luck: random.Random) -> None:
    """Until any moment of a run; every other time until files are on their way to their names."""
    if luck.random() < 0.5:
        time.sleep(luck.uniform(0, longest))
        return
    before = set(place.models.rglob("*.onnx-ci-tmp"))
    while child.poll() is None and not set(place.models.rglob("*.onnx-ci-tmp")) - before:
        time.sleep(0.0005)
    time.sleep(luck.uniform(0, 0.06))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    luck = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as top:
        place = Place(Path(top))
        longest = place.run()
        kills = lost = unfinished = most_strays = most_folders = 0
        while kills < options.kills:
            for name in MODELS:
                if not place.is_unfinished(name):
                    place.write(name)
            child = place.start()
            wait(place, child, longest, luck)
            child.kill()
            kills += child.wait() < 0  # one that had ended already was not killed
            lost += sum(map(place.is_lost, MODELS))
            unfinished += sum(map(place.is_unfinished, MODELS))
            most_strays = max(most_strays, len(place.strays()))
            most_folders = max(most_folders, len(place.folders()))
        place.run()
        lost += sum(map(place.is_lost, MODELS))
        strays, folders = place.strays(), place.folders()
    print(f"kills                                   {kills}")
    print(f"models lost                             {lost}")
    print(f"replacements cut short, still loading   {unfinished}")
    print(f"stray files at most, between runs       {most_strays}")
    print(f"temporary folders at most, between runs {most_folders}")
    print(f"stray files after the next run          {len(strays)}  {' '.join(strays)}".rstrip())
    print(f"temporary folders after the next run    {len(folders)}  {' '.join(folders)}".rstrip())
    return int(bool(lost or strays or folders))


if __name__ == "__main__":
    sys.exit(main())
