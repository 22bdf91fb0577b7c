"""int4-weights: four bits on disk, plain float32 once loaded."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support.cli import onnx_ci
from tests.support.models import lean
from tests.support.run_model import outputs
from tests.support.weight_models import applied, ops, ops_that_run, rebuilt, sqnr, weights_model

RANDOM = np.random.default_rng(3)
EVEN = RANDOM.standard_normal((128, 96)).astype(np.float32)
TURNED = (EVEN * np.geomspace(0.01, 10, 96)).astype(np.float32)  # what is alike lies along the first axis


@pytest.mark.parametrize("opset", [7, 9, 12, 17, 21])
def test_stored_in_four_bits_and_folded_in_every_opset(opset: int, tmp_path: Path) -> None:
    odd = EVEN.reshape(-1)[: 95 * 97].reshape(95, 97)
    weights = {"even": EVEN, "turned": TURNED, "odd": odd, "flat": EVEN.reshape(-1)[:5001]}
    path, chained = applied(
        weights_model(weights, opset=opset, ir=4 if opset < 21 else 10), tmp_path, "int4-weights"
    )
    assert chained.steps[0].tensors == 4
    elements = sum(weight.size for weight in weights.values())
    assert path.stat().st_size < elements * 4.5 / 8 + 8000
    assert set(ops_that_run(path)) == {"Add"}
    for wanted, found in zip(weights.values(), rebuilt(path), strict=True):
        assert sqnr(wanted, found) > 20.5


@pytest.mark.parametrize("opset", [7, 12, 21])
def test_other_numbers_of_bits_waste_none_and_are_folded_too(opset: int, tmp_path: Path) -> None:
    odd = EVEN.reshape(-1)[: 95 * 97].reshape(95, 97)
    weights = {"even": EVEN, "turned": TURNED, "odd": odd, "flat": EVEN.reshape(-1)[:5001]}
    made = weights_model(weights, opset=opset, ir=4 if opset < 21 else 10)
    elements = sum(weight.size for weight in weights.values())
    quality = []
    for bits in (2, 3, 5, 6, 7, 8, 9, 11, 12):
        path, chained = applied(made, tmp_path, "int4-weights", bits=bits)
        assert chained.steps[0].tensors == 4
        assert path.stat().st_size < elements * (bits + 0.5) / 8 + 9000
        assert set(ops_that_run(path)) == {"Add"}
        pairs = zip(weights.values(), rebuilt(path), strict=True)
        quality.append(min(sqnr(wanted, found) for wanted, found in pairs))
    assert all(more > less + 4 for less, more in pairwise(quality)), quality
    assert quality[-1] > 38


def test_bits_that_the_other_encoding_has_not_are_refused(tmp_path: Path) -> None:
    (tmp_path / ".onnx-ci.yaml").write_text(
        'version: 1\nmodels:\n  - path: "*.onnx"\n    methods: [{int4-weights: {bits: 6, encoding: dq}}]\n'
    )
    done = onnx_ci("check", "--all", cwd=tmp_path)
    assert done.code == 2
    assert ".onnx-ci.yaml:4" in done.err
    assert "needs encoding: fold" in done.err


def test_a_table_is_shared_and_seen_in_branches(tmp_path: Path) -> None:
    def branch(name: str) -> onnx.GraphProto:
        weight = numpy_helper.from_array(RANDOM.standard_normal((64, 64)).astype(np.float32), f"w_{name}")
        out = helper.make_tensor_value_info(f"y_{name}", TensorProto.FLOAT, ["n", 64])
        nodes = [
            helper.make_node("Constant", [], [f"c_{name}"], value=weight),
            helper.make_node("MatMul", ["x", f"c_{name}"], [f"y_{name}"]),
        ]
        return helper.make_graph(nodes, name, [], [out])

    graph = helper.make_graph(
        [helper.make_node("If", ["cond"], ["y"], then_branch=branch("then"), else_branch=branch("else"))],
        "branches",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64]),
            helper.make_tensor_value_info("cond", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 64])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path, _ = applied(model, tmp_path, "int4-weights")
    assert [t.name for t in onnx.load(path).graph.initializer] == ["onnx_ci.int4_pairs", "onnx_ci.at64x64"]
    loaded = tmp_path / "out.loaded.onnx"
    ops_that_run(path)
    inside = [
        n.op_type for a in onnx.load(loaded).graph.node[0].attribute if a.HasField("g") for n in a.g.node
    ]
    assert inside == ["MatMul", "MatMul"]
    for cond in (True, False):
        feeds = [{"x": RANDOM.standard_normal((3, 64)).astype(np.float32), "cond": np.array(cond)}]
        assert sqnr(outputs(tmp_path / "in.onnx", feeds)[0][0], outputs(path, feeds)[0][0]) > 19


@pytest.mark.parametrize(("outside", "inside"), [(17, 9), (9, 17)])
def test_in_a_function_the_opset_that_it_imports_counts(outside: int, inside: int, tmp_path: Path) -> None:
    """Where a weight has to be cut to its length: `Slice` takes inputs from opset 10 on."""
    weight = numpy_helper.from_array(EVEN.reshape(-1)[:5001], "w")
    body = [helper.make_node("Constant", [], ["w"], value=weight), helper.make_node("Add", ["a", "w"], ["b"])]
    function = helper.make_function("local", "Layer", ["a"], ["b"], body, [helper.make_opsetid("", inside)])
    graph = helper.make_graph(
        [helper.make_node("Layer", ["zero"], ["y"], domain="local")],
        "caller",
        [helper.make_tensor_value_info("zero", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5001])],
    )
    imports = [helper.make_opsetid("", outside), helper.make_opsetid("local", 1)]
    model = helper.make_model(graph, functions=[function], opset_imports=imports, ir_version=8)
    path, chained = applied(model, tmp_path, "int4-weights", bits=5)
    assert chained.steps[0].tensors == 1
    (cut,) = (node for node in onnx.load(path).functions[0].node if node.op_type == "Slice")
    assert (len(cut.input), len(cut.attribute)) == ((1, 2) if inside < 10 else (3, 0))


def test_zeros_stay_zeros(tmp_path: Path) -> None:
    sparse = np.where(RANDOM.random(EVEN.shape) < 0.6, np.float32(0), EVEN)
    sparse[:40] = 0
    path, _ = applied(weights_model({"w": sparse}), tmp_path, "int4-weights")
    assert not rebuilt(path)[0][sparse == 0].any()


def test_dq_is_four_bit_blocks(tmp_path: Path) -> None:
    model = lean(width=128)
    model.opset_import[0].version, model.ir_version = 21, 10
    path, _ = applied(model, tmp_path, "int4-weights", encoding="dq")
    made = onnx.load(path)
    onnx.checker.check_model(made, full_check=True)
    kinds = {t.name.split(".")[-1]: (t.data_type, tuple(t.dims)) for t in made.graph.initializer}
    assert kinds["q"] == (TensorProto.UINT4, (128, 128))
    assert kinds["zero"] == (TensorProto.UINT4, (4, 128))
    feeds = [{"x": RANDOM.standard_normal((3, 128)).astype(np.float32)}]
    assert sqnr(outputs(tmp_path / "in.onnx", feeds)[0][0], outputs(path, feeds)[0][0]) > 14


def test_dq_leaves_an_older_opset_alone_and_says_so(tmp_path: Path) -> None:
    path, chained = applied(lean(width=128), tmp_path, "int4-weights", encoding="dq")
    assert chained.steps[0].tensors == 0
    assert "needs opset 21 (this is 17)" in chained.steps[0].note
    assert "DequantizeLinear" not in ops(path)


@pytest.mark.parametrize("encoding", ["fold", "dq"])
@pytest.mark.parametrize("second", ["int4-weights", "int8-weights", "fp16-weights"])
def test_what_is_encoded_is_left_alone(encoding: str, second: str, tmp_path: Path) -> None:
    wide = RANDOM.standard_normal((1024, 256)).astype(np.float32)  # more scales than min_elements
    path, _ = applied(
        weights_model({"w": wide}, opset=21, ir=10), tmp_path, "int4-weights", encoding=encoding
    )
    (tmp_path / "second").mkdir()
    again, _ = applied(onnx.load(path), tmp_path / "second", second)
    assert onnx.load(again) == onnx.load(path)


def test_methods_can_be_mixed_by_tensor(tmp_path: Path) -> None:
    onnx.save(lean(layers=3), tmp_path / "in.onnx")
    methods = "int4-weights:only=w0:bits=4,int8-weights:only=w1,fp16-weights"
    arguments = ["--methods", methods, "--tolerance", "cosine=0.9", "--format", "json"]
    done = onnx_ci("shrink", "in.onnx", "out.onnx", *arguments, cwd=tmp_path)
    assert done.code == 0, done.out
    stored = {t.name: t.data_type for t in onnx.load(tmp_path / "out.onnx").graph.initializer}
    assert stored["w0.q"] == TensorProto.UINT8
    assert "onnx_ci.int4_pairs" in stored
    assert stored["w1.q"] in (TensorProto.INT8, TensorProto.UINT8)
    assert stored["w2.f16"] == TensorProto.FLOAT16


def test_the_opset_is_raised_where_that_is_allowed_and_safe(tmp_path: Path) -> None:
    onnx.save(lean(width=128), tmp_path / "in.onnx")
    methods = "int4-weights:encoding=dq:raise_opset=true"
    arguments = ["--methods", methods, "--tolerance", "cosine=0.9", "--format", "json"]
    done = onnx_ci("shrink", "in.onnx", "out.onnx", *arguments, cwd=tmp_path)
    assert done.code == 0, done.out
    made = onnx.load(tmp_path / "out.onnx")
    onnx.checker.check_model(made, full_check=True)
    assert (made.opset_import[0].version, made.ir_version) == (21, 10)
    assert "DequantizeLinear" in ops(tmp_path / "out.onnx")


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (helper.make_node("ReduceMean", ["w1"], ["unused"], axes=[0]), "ReduceMean changed since"),
        (helper.make_node("Split", ["w1"], ["unused", "too"]), "Split changed since"),
    ],
)
def test_the_opset_is_not_raised_where_an_operator_changed(
    node: onnx.NodeProto, why: str, tmp_path: Path
) -> None:
    model = lean(width=128)
    model.graph.node.append(node)
    path, chained = applied(model, tmp_path, "int4-weights", encoding="dq", raise_opset=True)
    assert onnx.load(path).opset_import[0].version == 17
    assert chained.steps[0].tensors == 0
    assert why in chained.steps[0].note
