"""Inputs derived from the graph: shapes that agree, values that are in range, and bounds on both."""

from __future__ import annotations

import time
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from onnx_ci.errors import ModelError
from onnx_ci.policy.schema import Limits
from onnx_ci.sandbox.exchange import numpy_dtype
from onnx_ci.sandbox.runner import RunFailed, Runner
from tests.support.inputs import attempts, first
from tests.support.text_models import model


def test_count_seed_and_batch() -> None:
    proto = model("g (float[batch,4] x) => (float[batch,4] y) { y = Relu(x) }")
    feeds = first(proto, count=3)
    assert [sample["x"].shape for sample in feeds] == [(1, 4), (2, 4), (1, 4)]
    again = first(proto, count=3)
    assert all((a["x"] == b["x"]).all() for a, b in zip(feeds, again, strict=True))
    assert not (first(proto, seed=1)[0]["x"] == feeds[0]["x"]).any()


def test_values_do_not_depend_on_the_other_inputs() -> None:
    alone = first(model("g (float[1,4] x) => (float[1,4] y) { y = Relu(x) }"))
    pair = first(model("g (float[1,4] a, float[1,4] x) => (float[1,4] y) { y = Add(a, x) }"))
    np.testing.assert_array_equal(alone[0]["x"], pair[0]["x"])


def test_symbols_are_shared_and_the_users_dims_win() -> None:
    proto = model(
        "g (int64[B,S] ids, int64[B,S] attention_mask, float[B,S,7] z) => (int64[B,S] y)"
        " { y = Add(ids, attention_mask) }"
    )
    for sample in first(proto, dims={"S": 5}):
        assert sample["ids"].shape == sample["attention_mask"].shape == sample["z"].shape[:2]
        assert sample["ids"].shape[1] == 5
        assert (sample["attention_mask"][0] == 1).all()  # later rows are padded, as shorter texts are


def test_initializers_that_are_inputs_too_are_not_fed() -> None:
    proto = model("g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }")
    assert set(first(proto)[0]) == {"x"}


@pytest.mark.parametrize(
    "body",
    [
        "y = Gather(table, ids)",
        "a = Cast<to=6>(ids) b = Identity(a) y = Gather(table, b)",
        "s = Constant<value_ints=[-1]>() a = Reshape(ids, s) y = Gather(table, a)",
        "z = Constant<value=int64[1,1] {0}>() a = Concat<axis=1>(ids, z) y = Gather(table, a)",
        "h = Cast<to=10>(table) f = Cast<to=1>(h) y = Gather(f, ids)",
        "q = Constant<value=float[1] {2}>() f = Mul(table, q) y = Gather(f, ids)",
        "t = Transpose<perm=[1,0]>(table) y = Gather<axis=1>(t, ids)",
        "s = Constant<value_ints=[11,-1]>() t = Reshape(table, s) y = Gather(t, ids)",
        "y = GatherElements(table, ids)",
        "d = Constant<value_int=11>() v = Constant<value_floats=[0.0, 1.0]>() y = OneHot(ids, d, v)",
    ],
)
def test_token_ids_stay_below_their_table(body: str) -> None:
    table = "float[11,2] table = {" + ",".join("0" * 22) + "}"
    feeds = first(model(f"g (int64[B,S] ids) => (float y) <{table}> {{ {body} }}"), dims={"S": 400})
    ids = np.concatenate([sample["ids"].reshape(-1) for sample in feeds])
    assert ids.min() == 0
    assert ids.max() == 10


def test_an_added_offset_shrinks_the_range() -> None:
    proto = model(
        "g (int64[B,S] ids) => (float y) <float[11,1] t = {0,0,0,0,0,0,0,0,0,0,0}, int64 two = {2}>"
        " { a = Add(ids, two) y = Gather(t, a) }"
    )
    assert max(sample["ids"].max() for sample in first(proto, dims={"S": 400})) == 8


def test_ids_are_traced_into_branches_loops_and_functions() -> None:
    table = "<float[5,1] t = {0,0,0,0,0}, int64 n = {1}, bool go = {1}>"
    branch = (
        "y = If(go) <then_branch = a () => (float u) { u = Gather(t, ids) }, else_branch = b () => (float v)"
    )
    branch += " { v = Gather(t, ids) } >"
    loop = "y, o1 = Loop(n, go, ids) <body = b (int64 i, bool c, int64[S] k)"
    loop += " => (bool d, int64[S] k2, float[S,1] o) { d = Identity(c) k2 = Identity(k) o = Gather(t, k) } >"
    call = '<ir_version: 8, opset_import: ["": 17, "f": 1]>'
    function = '<domain: "f", opset_import: ["": 17]> look (tab, idx) => (out) { out = Gather(tab, idx) }'
    for proto in (
        model(f"g (int64[B,S] ids) => (float y) {table} {{ {branch} }}"),
        model(f"g (int64[S] ids) => (int64[S] y) {table} {{ {loop} }}"),
    ):
        assert max(int(s["ids"].max()) for s in first(proto, dims={"S": 99})) == 4
    # a function's table is an argument, known at the place where it is called
    proto = model(f"g (int64[B,S] ids) => (float y) {table} {{ y = f.look(t, ids) }} {function}", call)
    assert first(proto, dims={"S": 99})[0]["ids"].max() == 4


def test_external_tables_need_only_their_dims() -> None:
    proto = model("g (int64[B,S] ids) => (float y) { y = Gather(t, ids) }")
    tensor = TensorProto(name="t", dims=[7, 2], data_type=TensorProto.FLOAT)
    tensor.data_location = TensorProto.EXTERNAL
    proto.graph.initializer.append(tensor)
    assert max(s["ids"].max() for s in first(proto, dims={"S": 99})) == 6


def test_meaning_by_name() -> None:
    proto = model(
        "g (int64[B,S] ids, int64[B] x_lens, int64 sr, int64[B,S] position_ids, bool[B,S] pad_mask,"
        " float[1] speed) => (int64[B,S] y) { y = Identity(ids) }"
    )
    sample = first(proto, dims={"S": 6})[0]
    assert sample["x_lens"].tolist() == [6]
    assert sample["sr"] == 16000
    assert sample["sr"].shape == ()
    assert sample["position_ids"].tolist() == [[0, 1, 2, 3, 4, 5]]
    assert not sample["pad_mask"].any()
    assert sample["speed"].tolist() == [1.0]


def test_ranges_win_and_include_both_ends() -> None:
    proto = model("g (int64[99] ids, float[99] x) => (int64[99] y) { y = Identity(ids) }")
    sample = first(proto, ranges={"ids": (3, 5), "x": (-2.0, -1.0)})[0]
    assert set(sample["ids"].tolist()) == {3, 4, 5}
    assert -2.0 <= sample["x"].min() <= sample["x"].max() <= -1.0


def test_scalar_booleans_go_both_ways() -> None:
    proto = model("g (bool flag) => (bool y) { y = Not(flag) }")
    assert [bool(sample["flag"]) for sample in first(proto)] == [True, False]
    single = [{bool(s["flag"]) for s in attempt} for attempt in attempts(proto)]
    assert {True} in single
    assert {False} in single


def test_an_integer_that_is_used_as_a_mask_is_ones() -> None:
    proto = model(
        "g (int64[B,S] m, float[B,S] x) => (float[B,S] y) <float z = {0}>"
        " { c = Cast<to=9>(m) y = Where(c, x, z) }"
    )
    assert (first(proto)[0]["m"] == 1).all()


def test_strings_are_distinct() -> None:
    sample = first(model("g (string[9] s) => (string[9] y) { y = Identity(s) }"))[0]
    assert len(set(sample["s"].tolist())) == 9


@pytest.mark.parametrize("code", [*range(1, 8), *range(9, 27)])
def test_every_element_type(code: int) -> None:
    if code >= TensorProto.BFLOAT16:
        pytest.importorskip("ml_dtypes")
    value = helper.make_tensor_value_info("x", code, [3, 2])
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [value], [])
    sample = first(helper.make_model(graph))[0]
    assert sample["x"].dtype == numpy_dtype(code)
    assert np.isfinite(sample["x"].astype(np.complex128)).all()


@pytest.mark.parametrize(
    ("text", "name", "shape"),
    [
        (
            "g (float[N,K] x) => (float y) <float[4,3] w = {0,0,0,0,0,0,0,0,0,0,0,0}> { y = MatMul(x, w) }",
            "x",
            (1, 4),
        ),
        (
            "g (float[N,K] x) => (float y) <float[3,2] w = {0,0,0,0,0,0}> { y = Gemm<transB=1>(x, w) }",
            "x",
            (1, 2),
        ),
        (
            "g (float[N,C,H,W] x) => (float y) <float[1,5,1,1] w = {0,0,0,0,0}> { y = Conv(x, w) }",
            "x",
            (1, 5, 224, 224),
        ),
        (
            "g (float[N,H,W,C] x) => (float y) <float[1,5,1,1] w = {0,0,0,0,0}>"
            " { t = Transpose<perm=[0,3,1,2]>(x) y = Conv(t, w) }",
            "x",
            (1, 224, 224, 5),
        ),
        ("g (float[N,M] x) => (float y) <float[6] b = {0,0,0,0,0,0}> { y = Add(x, b) }", "x", (1, 6)),
    ],
)
def test_weights_decide_open_sizes(text: str, name: str, shape: tuple[int, ...]) -> None:
    assert first(model(text))[0][name].shape == shape


def test_caches_are_empty_first_then_one_long() -> None:
    proto = model(
        "g (float[B,2,past_sequence_length,3] past, int64[B,'past_sequence_length + 1'] attention_mask)"
        " => (float y) { y = Identity(past) }".replace("'past_sequence_length + 1'", "total")
    )
    proto.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "past_sequence_length + 1"
    shapes = [(a[0]["past"].shape[2], a[0]["attention_mask"].shape[1]) for a in attempts(proto)]
    assert shapes[0] == (0, 1)
    assert (1, 2) in shapes


@pytest.mark.sampled(0)
def test_attempts_differ_and_end() -> None:
    proto = model("g (float[N,T] audio) => (float[N,T] y) { y = Relu(audio) }")
    shapes = [tuple(s["audio"].shape for s in attempt) for attempt in attempts(proto)]
    assert len(shapes) == len(set(shapes)) <= 40
    assert shapes[0][0] == (1, 16000)


def test_a_model_without_inputs_has_one_empty_sample_each() -> None:
    proto = model("g () => (float[1] y) { y = Constant<value=float[1] {1}>() }")
    assert list(attempts(proto)) == [[{}, {}]]


def test_types_that_can_not_be_fed_ask_for_samples() -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    sparse = helper.make_sparse_tensor_value_info("x", TensorProto.FLOAT, [2])
    proto.graph.input[0].type.CopyFrom(sparse.type)
    with pytest.raises(ModelError, match=r"'x' is sparse float\[2\]") as caught:
        first(proto)
    assert caught.value.code == "OCI005"
    assert "samples" in caught.value.hint


@pytest.mark.parametrize("dims", [[2**62], [2**40, 2**40], [70000, 70000], [2**62] * 30])
def test_hostile_sizes_are_refused_at_once(dims: list[int]) -> None:
    value = helper.make_tensor_value_info("huge", TensorProto.FLOAT, dims)
    proto = helper.make_model(helper.make_graph([], "g", [value], []))
    began = time.process_time()
    with pytest.raises(ModelError, match="'huge'") as caught:
        first(proto)
    assert time.process_time() - began < 1
    assert caught.value.code == "OCI005"
    assert "samples" in caught.value.hint  # its sizes are fixed: `dims` would not help


def test_too_many_axes_are_refused_at_once() -> None:
    value = helper.make_tensor_value_info("deep", TensorProto.FLOAT, ["a"] * 100_000)
    proto = helper.make_model(helper.make_graph([], "g", [value], []))
    with pytest.raises(ModelError, match="'deep' has 100000 axes"):
        first(proto)


def test_negative_and_missing_dims_are_open() -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [-1, 3, "?", None])
    proto = helper.make_model(helper.make_graph([], "g", [value], []))
    assert first(proto)[0]["x"].shape == (1, 3, 224, 224)


def test_unknown_rank_is_tried_in_several_ranks() -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, None)
    proto = helper.make_model(helper.make_graph([], "g", [value], []))
    assert len({s[0]["x"].ndim for s in attempts(proto, count=1)}) >= 4


@pytest.mark.sampled(0)
def test_a_graph_that_leads_in_circles_does_not_hang() -> None:
    nodes = [helper.make_node("Add", ["x", f"v{i - 1}" if i else "x"], [f"v{i}"]) for i in range(3000)]
    nodes.append(helper.make_node("Add", ["v2999", "one"], ["v0"]))
    value = helper.make_tensor_value_info("x", TensorProto.INT64, [2])
    one = helper.make_tensor("one", TensorProto.INT64, [], [1])
    began = time.process_time()
    first(helper.make_model(helper.make_graph(nodes, "g", [value], [], [one])))
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "text",
    [
        # an embedding with positions and a mask, all sizes open
        "g (int64[b,s] input_ids, int64[b,s] attention_mask) => (float[b,s,2] y) <float[50,2] t = {"
        + ",".join("0" * 100)
        + "}> { e = Gather(t, input_ids) m = Cast<to=1>(attention_mask)"
        " a = Constant<value_ints=[2]>() u = Unsqueeze(m, a) y = Mul(e, u) }",
        # a window of 400 samples: the 16 tokens of a text would be too short
        "g (float[batch,sequence] input) => (float y) <float[1,1,400] w = {" + ",".join("1" * 400) + "}>"
        " { a = Constant<value_ints=[1]>() u = Unsqueeze(input, a) y = Conv(u, w) }",
        # a picture that must be a multiple of 64 high, in open sizes
        "g (float[N,3,H,W] x) => (float y) { y = Identity(x) }",
    ],
)
def test_derived_inputs_run(text: str, tmp_path: Path) -> None:
    proto = model(text)
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    with Runner() as runner:
        for feeds in islice(attempts(proto), 12):
            try:
                assert runner.run(path, feeds, limits=Limits(seconds=30))
                return
            except RunFailed:
                continue
    pytest.fail("nothing ran")
