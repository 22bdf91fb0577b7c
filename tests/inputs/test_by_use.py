"""Inputs by how operators use them: each model runs, and says something, on what is made up for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_ci.inputs.operators import OPERATORS
from onnx_ci.policy.schema import InputSpec, Limits
from onnx_ci.sandbox.runner import Runner
from onnx_ci.verify.reference import Reference
from tests.support.inputs import first
from tests.support.text_models import model, save

HEAD = '<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 3, "f": 1]>\n'
TABLE = "float[11,2] t = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4}"
WEIGHT = "float[9] w = {1,2,3,4,5,6,7,8,9}"
LOOK = '<domain: "f", opset_import: ["": 17]> look (tab, idx) => (out) { out = Gather(tab, idx) }'
SUM = (
    "y = Loop(n, go, z) <body = b (int64 i, bool c, float[2] acc) => (bool d, float[2] acc2)"
    " { d = Identity(c) id = Gather(ids, i) e = Gather(t, id) acc2 = Add(acc, e) }>"
)


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner() as made:
        yield made


@pytest.mark.parametrize(
    ("constants", "body", "low", "high"),
    [
        ("int64 c = {5}", "a = Sub(ids, c) y = Gather(t, a)", 5, 15),
        ("int64 c = {10}", "a = Sub(c, ids) y = Gather(t, a)", 0, 10),
        ("int64 c = {3}", "a = Mul(ids, c) y = Gather(t, a)", 0, 3),
        ("int64 c = {2}", "a = Div(ids, c) y = Gather(t, a)", 0, 20),
        ("int64 lo = {2}, int64 hi = {10}", "a = Clip(ids, lo, hi) y = Gather(t, a)", 2, 10),
        ("int64[3] o = {0,4,8}", "a = Add(ids, o) y = Gather(t, a)", 0, 2),
        ("float[4,2] u = {1,2,3,4,5,6,7,8}", "a = Gather(t, ids) b = Gather(u, ids) y = Add(a, b)", 0, 3),
        ("float[4,2] u = {1,2,3,4,5,6,7,8}", "c = Concat<axis=0>(t, u) y = Gather(c, ids)", 0, 14),
        ("int64 z = {0}", "m = Equal(ids, z) a = Where(m, z, ids) y = Gather(t, a)", 0, 10),
        ("float[4,2] u = {1,2,3,4,5,6,7,8}", "a = f.look(t, ids) b = f.look(u, ids) y = Add(a, b)", 0, 3),
    ],
)
def test_ids_stay_in_their_table(constants: str, body: str, low: int, high: int) -> None:
    text = f"g (int64[300,3] ids) => (float y) <{TABLE}, {constants}> {{ {body} }} {LOOK}"
    feeds = first(model(text, HEAD), count=1)
    assert (feeds[0]["ids"].min(), feeds[0]["ids"].max()) == (low, high)


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    "text",
    [
        f"(float[2,9] x, int64[1] k) => (float y) <{WEIGHT}> {{ a = Mul(x,w) y, i = TopK(a, k) }}",
        f"(float[2,9] x, int64[1] axes) => (float y) <{WEIGHT}> {{ a = Mul(x,w) y = ReduceSum(a,axes) }}",
        f"(float[2,9] x, int64[1] axes) => (float[2,1,9] y) <{WEIGHT}>"
        " { a = Mul(x,w) y = Unsqueeze(a,axes) }",
        f"(float[2,9] x, int64[4] pads) => (float y) <{WEIGHT}> {{ a = Mul(x,w) y = Pad(a,pads) }}",
        f"(float[2,9] x, int64[2] parts) => (float y, float z) <{WEIGHT}>"
        " { a = Mul(x,w) y, z = Split<axis=1>(a,parts) }",
        "(float[2,9] x, int64[1] starts, int64[1] ends, int64[1] axes, int64[1] steps) => (float y)"
        f" <{WEIGHT}> {{ a = Mul(x,w) y = Slice(a,starts,ends,axes,steps) }}",
        f"(float[2,9] x, int64[3] shape) => (float y) <{WEIGHT}> {{ a = Mul(x,w) y = Reshape(a, shape) }}",
        f"(float[1,9] x, int64[2] repeats) => (float y) <{WEIGHT}> {{ a = Mul(x,w) y = Tile(a, repeats) }}",
        f"(float[B,9] x) => (float y) <{WEIGHT}> {{ a = Log(x) b = Sqrt(a) y = Mul(a,w) }}",
        "(float[1,N,4] boxes, float[1,3,N] scores, int64[1] most, float[1] iou, float[1] least)"
        " => (int64[M,3] y) { y = NonMaxSuppression(boxes, scores, most, iou, least) }",
        "(int64 n) => (float y) <float[20,1] t = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2}>"
        " { z = Constant<value_int=0>() o = Constant<value_int=1>() r = Range(z, n, o) y = Gather(t, r) }",
        f"(int64[B,S] ids, int64[B,1] last) => (float y) <{TABLE}> {{ e = Gather(t,ids)"
        " ax = Constant<value_ints=[2]>() l = Unsqueeze(last, ax) y = GatherElements<axis=1>(e, l) }",
        f"(int64[S] ids) => (float[2] y) <{TABLE}, int64 n = {{3}}, bool go = {{1}}, float[2] z = {{0,0}}>"
        f" {{ {SUM} }}",
        "(float[1,3,H,W] x, int64[4] sizes) => (float[1,3,A,B] y) <float[3,3,1,1] k = {1,2,3,4,5,6,7,8,9}>"
        ' { a = Conv(x, k) y = Resize<mode="linear">(a, , , sizes) }',
        "(float[N,K] a, float[K2,M] b) => (float y) { y = MatMul(a, b) }",
        "(float[B,2,P,4] past, float[B2,2,S,4] now) => (float y) { y = Concat<axis=2>(past, now) }",
        "(float[B,1,H,W] x) => (float[B,1] y) <float[784,1] v = {" + ",".join("1" * 784) + "}>"
        " { f = Flatten(x) y = MatMul(f, v) }",
        "(float[B,T] x) => (float y) <float[480] v = {" + ",".join("1" * 480) + "}>"
        " { s = Constant<value_ints=[0,-1,480]>() r = Reshape(x, s) y = Mul(r, v) }",
        '(string[B,1] s) => (float y) { y = ai.onnx.ml.LabelEncoder<keys_strings=["cat","dog"],'
        "values_floats=[1.0,2.0]>(s) }",
        "(optional(float[2]) x) => (float[2] y) { y = OptionalGetElement(x) }",
        "(seq(float[2]) x) => (float[N] y) { y = ConcatFromSequence<axis=0>(x) }",
        "(float[3,5] x, int64[3] label) => (float y)"
        " { s = LogSoftmax(x) y = NegativeLogLikelihoodLoss(s, label) }",
        f"(float[8,9] x, int64[4,1] places, float[4,9] new) => (float y) <{WEIGHT}>"
        " { s = ScatterND(x, places, new) y = Mul(s, w) }",
    ],
)
def test_what_is_made_up_runs(runner: Runner, tmp_path: Path, text: str) -> None:
    proto = model(f"g {text}", HEAD)
    for value in proto.graph.output:
        if not value.type.tensor_type.shape.dim:
            value.type.tensor_type.ClearField("shape")
    path = save(proto, tmp_path / "model.onnx")
    made = Reference(runner, path, proto, spec=InputSpec(), limits=Limits(seconds=60), root=tmp_path)
    outputs = made.usable_outputs()
    assert all(array.size for sample in outputs for array in sample.values())


def test_names_that_say_what_values_have_to_be() -> None:
    proto = model(
        "g (float[4,6] onehot_class, int64[7] perm, float[9] sorted_scores, float[50] probs,"
        " float[8] variance) => (float[50] y) { y = Identity(probs) }"
    )
    sample = first(proto, count=1)[0]
    assert (sample["onehot_class"].sum(axis=1) == 1).all()
    assert sorted(sample["perm"].tolist()) == list(range(7))
    assert (np.diff(sample["sorted_scores"]) >= 0).all()
    assert 0 < sample["probs"].min() <= sample["probs"].max() < 1
    assert (sample["variance"] > 0).all()


def test_sizes_the_user_gave_hold_for_those_that_have_to_be_equal() -> None:
    proto = model("g (float[N,K] a, float[L,M] b) => (float y) { y = MatMul(a, b) }")
    sample = first(proto, dims={"L": 6})[0]
    assert sample["a"].shape[1] == sample["b"].shape[0] == 6


def test_functions_that_call_each_other_without_end_do_not_hang() -> None:
    function = (
        '<domain: "f", opset_import: ["": 17, "f": 1]> again (x) => (y) { a = f.again(x) y = f.again(a) }'
    )
    proto = model(f"g (float[2] x) => (float[2] y) {{ y = f.again(x) }} {function}", HEAD)
    assert first(proto)[0]["x"].shape == (2,)


def test_a_map_gets_the_keys_that_the_model_knows() -> None:
    proto = model(
        'g (float x) => (float y) { y = ai.onnx.ml.DictVectorizer<string_vocabulary=["a","b"]>(x) }', HEAD
    )
    proto.graph.input[0].type.Clear()
    mapped = proto.graph.input[0].type.map_type
    mapped.key_type = onnx.TensorProto.STRING
    mapped.value_type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    assert list(first(proto)[0]["x"]) == ["a", "b"]


def test_the_table_names_operators_and_operands_that_exist() -> None:
    operands: dict[str, int] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        operands[schema.name] = max(operands.get(schema.name, 0), schema.max_input)
    unknown = OPERATORS.keys() - operands
    assert unknown == {"GatherBlockQuantized", "MatMulNBits", "SimplifiedLayerNormalization"}  # onnxruntime's
    for name in OPERATORS.keys() - unknown:
        row = OPERATORS[name]
        named = {*row.means, *row.wants, *row.passes[:1]}
        assert all(operand < operands[name] for operand in named), name
