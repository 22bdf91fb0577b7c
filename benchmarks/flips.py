"""Byte flips and truncations of small models: every one gets a verdict, none ends the run or hangs it."""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

POLICY = """version: 1
defaults: {limits: {seconds: 20}}
models:
  - path: "**/*.onnx"
    methods: [dedupe, drop-unused, fold-constants, compact, downcast, fp16-weights, int8-weights]
"""
PATIENCE = 1200  # seconds for one folder of damaged models


def _model(nodes: list[onnx.NodeProto], stored: dict[str, np.ndarray], **more: object) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", None])],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
        doc_string="made for flips",
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="flips", **more)
    helper.set_model_props(model, {"author": "nobody", "labels": '["a", "b"]'})
    return model


def _weights(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def perceptron() -> onnx.ModelProto:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], name="first", doc_string="a node"),
        helper.make_node("Add", ["m", "b"], ["s"]),
        helper.make_node("Relu", ["s"], ["r"]),
        helper.make_node("MatMul", ["r", "w2"], ["y"]),
    ]
    stored = {"w": _weights(8, 64), "b": _weights(64), "w2": _weights(64, 8), "unused": _weights(8, 64)}
    return _model(nodes, stored)


def convolution() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["i"]),
        helper.make_node("Conv", ["i", "k"], ["c"], kernel_shape=[3], pads=[1, 1]),
        helper.make_node("LeakyRelu", ["c"], ["l"], alpha=0.1),
        helper.make_node("Flatten", ["l"], ["y"], axis=1),
    ]
    stored = {"shape": np.array([-1, 1, 8]), "k": _weights(4, 1, 3)}
    return _model(nodes, stored)


def branches() -> onnx.ModelProto:
    """An If with weights on both sides, a loop, and constants in attributes."""
    out = [helper.make_tensor_value_info("o", TensorProto.FLOAT, None)]
    sides = {}
    for seed, side in enumerate(("then_branch", "else_branch")):
        weight = numpy_helper.from_array(_weights(8, 8, seed=seed), f"w_{side}")
        node = helper.make_node("MatMul", ["x", weight.name], ["o"])
        sides[side] = helper.make_graph([node], side, [], out, [weight])
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go_on"], ["go_on_out"]),
            helper.make_node("Mul", ["carried", "half"], ["carried_out"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("carried", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("go_on_out", TensorProto.BOOL, []),
            helper.make_tensor_value_info("carried_out", TensorProto.FLOAT, None),
        ],
    )
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Constant", [], ["zero"], value=numpy_helper.from_array(np.float32(0))),
        helper.make_node("Greater", ["total", "zero"], ["positive"]),
        helper.make_node("If", ["positive"], ["chosen"], **sides),
        helper.make_node("Loop", ["times", "", "chosen"], ["y"], body=body),
    ]
    return _model(nodes, {"half": np.float32(0.5).reshape(()), "times": np.array(3)})


def function() -> onnx.ModelProto:
    body = [
        helper.make_node("Constant", [], ["two"], value=numpy_helper.from_array(np.array([2.0], np.float32))),
        helper.make_node("Mul", ["a", "two"], ["b"]),
    ]
    opset = [helper.make_opsetid("", 17)]
    double = helper.make_function("local", "Double", ["a"], ["b"], body, opset)
    nodes = [
        helper.make_node("Double", ["x"], ["d"], domain="local"),
        helper.make_node("Gemm", ["d", "w"], ["y"], transB=1, alpha=0.5),
    ]
    return _model(nodes, {"w": _weights(16, 8)}, functions=[double])


def quantized() -> onnx.ModelProto:
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["w"], axis=1),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    codes = np.random.default_rng(0).integers(-127, 127, (8, 32)).astype(np.int8)
    return _model(nodes, {"q": codes, "scale": np.float32(0.02), "zero": np.int8(0)})


def typed() -> onnx.ModelProto:
    """Values stored number by number, strings, and a sparse tensor."""
    typed_weight = helper.make_tensor("w", TensorProto.FLOAT, [8, 16], _weights(128).tolist())
    values = helper.make_tensor("s", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0])
    indices = helper.make_tensor("s_at", TensorProto.INT64, [3], [1, 5, 7])
    model = _model(
        [
            helper.make_node("Add", ["x", "s"], ["a"]),
            helper.make_node("MatMul", ["a", "w"], ["y"]),
            helper.make_node("Identity", ["words"], ["spoken"]),
        ],
        {},
    )
    words = helper.make_tensor("words", TensorProto.STRING, [2], np.array([b"one", "zwölf".encode()]))
    model.graph.initializer.extend([typed_weight, words])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [8]))
    model.graph.output.append(helper.make_tensor_value_info("spoken", TensorProto.STRING, [2]))
    return model


KINDS: tuple[Callable[[], onnx.ModelProto], ...] = (
    perceptron,
    convolution,
    branches,
    function,
    quantized,
    typed,
)
OUTSIDE = (perceptron, quantized)  # stored with external data as well


def sources(folder: Path) -> list[list[Path]]:
    """The models to damage, each with its data files."""
    found = []
    for make in KINDS:
        path = folder / f"{make.__name__}.onnx"
        onnx.save(make(), path)
        found.append([path])
    for make in OUTSIDE:
        path = folder / f"{make.__name__}-outside.onnx"
        location = f"{path.name}.data"
        onnx.save(make(), path, save_as_external_data=True, location=location, size_threshold=0)
        found.append([path, folder / location])
    return found


def damaged(content: bytes, chance: random.Random) -> bytes:
    """One byte flipped in one bit or in all, or the file cut short."""
    if chance.random() < 0.15:
        return content[: chance.randrange(len(content))]
    at = chance.randrange(len(content))
    mask = chance.choice([0xFF, 1 << chance.randrange(8)])
    return content[:at] + bytes([content[at] ^ mask]) + content[at + 1 :]


def write_damaged(models: list[list[Path]], target: Path, chance: random.Random) -> None:
    """One model of those, damaged in the model file or, at times, in its data, into a folder of its own."""
    files = chance.choice(models)
    victim = files[0]
    if len(files) > 1 and chance.random() < 0.2:
        victim = files[1]
    target.mkdir()
    for file in files:
        content = file.read_bytes()
        if file == victim:
            content = damaged(content, chance)
        (target / file.name).write_bytes(content)


def folders(models: list[list[Path]], home: Path, count: int, batch: int, seed: int) -> Iterator[Path]:
    """Folders of damaged models, each with a policy."""
    chance = random.Random(seed)
    for first in range(0, count, batch):
        folder = home / f"batch-{first}"
        folder.mkdir()
        (folder / ".onnx-ci.yaml").write_text(POLICY)
        for number in range(first, min(first + batch, count)):
            write_damaged(models, folder / f"{number:05}", chance)
        yield folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=Path, help="real models to damage as well")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=50, help="damaged models in one run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a folder for the damaged models; kept")
    options = parser.parse_args()
    codes: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    longest = 0.0
    with tempfile.TemporaryDirectory() as temporary:
        home = options.keep or Path(temporary) / "damaged"
        originals = Path(temporary) / "originals"
        originals.mkdir()
        home.mkdir(parents=True, exist_ok=True)
        models = [*sources(originals), *([path] for path in options.models)]
        for folder in folders(models, home, options.count, options.batch, options.seed):
            command = [sys.executable, "-m", "onnx_ci", "check", "--all", "--no-cache", "--format", "json"]
            began = time.perf_counter()
            try:
                done = subprocess.run(
                    command, cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE
                )
            except subprocess.TimeoutExpired:
                codes["hang"] += 1
                continue
            longest = max(longest, time.perf_counter() - began)
            codes[str(done.returncode)] += 1
            if "Traceback" in done.stderr or not done.stdout:
                codes["no report"] += 1
                sys.stdout.write(f"{folder.name}: {done.stderr[-2000:]}\n")
                continue
            for model in json.loads(done.stdout)["models"]:
                verdicts[model["verdict"]] += 1
                for finding in model["findings"]:
                    if finding["code"] == "OCI052":
                        sys.stdout.write(f"{finding['message']}\n  {finding['hint']}\n")
    told = {"exit codes": dict(codes), "verdicts": dict(verdicts)}
    sys.stdout.write(f"{options.count} damaged models, {options.batch} in a run: {told}\n")
    sys.stdout.write(f"longest run: {longest:.1f} s\n")
    return int(any(code not in ("0", "1") for code in codes))


if __name__ == "__main__":
    sys.exit(main())
