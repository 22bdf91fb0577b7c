"""Sizes grow and shrink until the original runs, whatever a dimension is called."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_ci.gate.single import Made, make_samples
from onnx_ci.inputs.generate import Attempt, deriver_of
from onnx_ci.inputs.size_search import SizeSearch
from onnx_ci.policy.schema import InputSpec
from tests.support.text_models import model, save


def made_for(text: str, tmp_path: Path) -> Made:
    proto = model(f"g {text}", '<ir_version: 8, opset_import: ["": 17]>\n')
    for value in proto.graph.output:
        if not value.type.tensor_type.shape.dim:
            value.type.tensor_type.ClearField("shape")
    return make_samples(save(proto, tmp_path / "model.onnx"), InputSpec())


def conv(kernel: int) -> str:
    weights = ",".join("1" * kernel)
    return f"<float[1,1,{kernel}] k = {{{weights}}}> {{ y = Conv(x, k) }}"


def test_a_time_axis_with_the_name_of_a_batch_is_long_enough(tmp_path: Path) -> None:
    made = made_for(f"(float[1,1,batch_size] x) => (float y) {conv(2000)}", tmp_path)
    assert made.samples[0]["x"].shape[2] >= 2000


def test_an_axis_that_is_taken_for_a_batch_grows_until_there_is_an_output(tmp_path: Path) -> None:
    text = (
        "(float[batch_size] x) => (float y) <int64[1] start = {3000}, int64[1] end = {900000}>"
        " { y = Slice(x, start, end) }"
    )
    assert made_for(text, tmp_path).samples[0]["x"].shape[0] > 3000


@pytest.mark.sampled(0)
def test_a_size_that_an_error_names_is_tried(tmp_path: Path) -> None:
    text = (
        "(float[B,T] x) => (float y) <float[441] v = {" + ",".join("1" * 441) + "}>"
        " { s = Constant<value_ints=[0,-1,441]>() r = Reshape(x, s) y = Mul(r, v) }"
    )
    assert made_for(text, tmp_path).samples[0]["x"].shape[1] % 441 == 0


@pytest.mark.sampled(0)
def test_a_size_that_only_fits_with_another_part_is_found(tmp_path: Path) -> None:
    """A watermark that is joined with a picture's channels: the convolution behind says how long it is."""
    kernel = ",".join("1" * 35)
    text = (
        "(float[B,3,1] picture, float[B,bits] data) => (float y)"
        f" <int64[1] two = {{2}}, float[1,35,1] k = {{{kernel}}}>"
        " { d = Unsqueeze(data, two) c = Concat<axis=1>(picture, d) y = Conv(c, k) }"
    )
    assert made_for(text, tmp_path).samples[0]["data"].shape[1] == 32


def test_letters_that_come_as_floats_are_a_sentence(tmp_path: Path) -> None:
    text = (
        "(float[a,b] x) => (float y) <float[9,2] t = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9}>"
        " { i = Cast<to=6>(x) y = Gather(t, i) }"
    )
    made = made_for(text, tmp_path)
    assert made.samples[0]["x"].shape == (1, 16)
    assert set(np.unique(made.samples[0]["x"])) <= set(range(9))


def test_a_graph_has_edges_between_its_nodes(tmp_path: Path) -> None:
    """The last node has an edge too: models count nodes by the largest index."""
    text = (
        "(float[num_nodes,3] x, int64[2,num_edges] edge_index) => (float y)"
        " <int64 zero = {0}, int64 one = {1}, int64[1] flat = {-1}, int64[2] grid = {1,1}, float[1] o = {2}>"
        " { r = Gather(edge_index, zero) e = Gather(x, r) m = ReduceMax<keepdims=0>(edge_index)"
        " n = Add(m, one) s = Reshape(n, flat) ones = ConstantOfShape<value=float[1]{1}>(s)"
        " w = Unsqueeze(ones, flat) a = Mul(x, w) y = Add(a, e) }"
    )
    start, end = made_for(text, tmp_path).samples[0]["edge_index"]
    assert set(start) == set(range(start.max() + 1))
    assert (start != end).all()


def test_how_many_neighbours_is_a_small_number(tmp_path: Path) -> None:
    text = (
        "(float[num_nodes,4] x, int64[1] k) => (float y) <int64[1] zero = {0}, int64[1] one = {1}>"
        " { d = MatMul(x, t) s = Slice(d, zero, k, one) r = Concat<axis=0>(k, one) y = Tile(s, r) }"
    ).replace("d = MatMul(x, t)", "t = Transpose(x) d = MatMul(x, t)")
    assert made_for(text, tmp_path).samples[0]["k"].max() < 100


def test_words_are_those_of_the_sizes_that_ran(tmp_path: Path) -> None:
    text = "(float[B,T] x) => (float y) <float[1,7] w = {1,2,3,4,5,6,7}> { a = Relu(x) y = Add(a, w) }"
    assert made_for(text, tmp_path).reasons[0] == {"x": "noise"}


@pytest.fixture
def search() -> SizeSearch:
    proto = model("g (float[B,C,H,W] x) => (float[B,C,H,W] y) { y = Relu(x) }")
    return SizeSearch(deriver_of(proto, InputSpec()))


def shape(search: SizeSearch, attempt: Attempt) -> tuple[int, ...]:
    return search.deriver.shapes(attempt)[0]["x"]


def test_sizes_shrink_after_a_timeout_to_the_last(search: SizeSearch) -> None:
    shapes = []
    for attempt in search:
        shapes.append(shape(search, attempt))
        search.was_scarce(attempt)
    assert shapes[:4] == [(1, 3, 224, 224), (1, 3, 28, 224), (1, 3, 28, 28), (1, 3, 3, 28)]
    assert shapes[-1] == (1, 1, 1, 1)
    assert not search.can_shrink(attempt)


def test_the_search_ends_whatever_is_said(search: SizeSearch) -> None:
    shapes = []
    for attempt in search:
        shapes.append(shape(search, attempt))
        search.failed(attempt, f"no {'very ' * len(shapes)}good: got {len(shapes)}, expected 9000000000")
    assert len(shapes) < 200
    assert max(map(np.prod, shapes)) <= 1 << 23


def test_names_of_nodes_and_lines_of_source_are_no_sizes(search: SizeSearch) -> None:
    attempts = iter(search)
    first = next(attempts)
    search.failed(first, "running Conv node. Name:'Conv_777' conv.cc:778 at 0x779. Input 224, not 225 wide")
    heights = {shape(search, attempt)[2] for attempt in attempts}
    assert 225 in heights
    assert not heights & {777, 778, 779}


def test_columns_are_what_channels_leave_of_a_row(search: SizeSearch) -> None:
    """Of rows of 1060 from 10 channels, where 224 columns have become 186."""
    attempts = iter(search)
    first = next(attempts)
    search.failed(first, "can't be reshaped. Input shape:{6,10,186}, requested shape:{-1,1060}")
    widths = {shape(search, attempt)[3] for attempt in attempts}
    assert 224 - 186 + 1060 // 10 in widths


def test_what_is_always_empty_is_kept_as_it_was_first(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[N,4] x) => (float y)'
        " <int64[1] zero = {0}> { y = Slice(x, zero, zero) }"
    )
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(proto, tmp_path / "m.onnx")
    made = make_samples(tmp_path / "m.onnx", InputSpec())
    assert made.samples[0]["x"].shape == (1, 4)
