"""What surrounds an encoded weight in a file: nodes, names and shapes, which count for small weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.support.weight_models import Array, applied, rebuilt, sqnr, weights_model

RANDOM = np.random.default_rng(5)
NAMES = [f"encoder.layers.{number}.mixer.in_proj.weight_transposed" for number in range(8)]
WEIGHTS = {name: RANDOM.standard_normal((129, 65)).astype(np.float32) for name in NAMES}


def as_constants(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model with its weights in Constant nodes, as Paddle exports them."""
    nodes = [helper.make_node("Constant", [], [w.name], value=w) for w in model.graph.initializer]
    nodes += model.graph.node
    del model.graph.initializer[:], model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def stored(model: onnx.ModelProto) -> dict[str, Array]:
    """All that is stored in the main graph."""
    kept = [node.attribute[0].t for node in model.graph.node if node.op_type == "Constant"]
    return {one.name: numpy_helper.to_array(one) for one in [*model.graph.initializer, *kept]}


@pytest.mark.parametrize("constants", [False, True])
@pytest.mark.parametrize(
    ("name", "options", "most"),
    [
        ("int8-weights", {}, 550),
        ("int8-weights", {"granularity": "block"}, 750),
        ("int4-weights", {"bits": 5, "scales": "int8"}, 1150),
    ],
)
def test_little_surrounds_a_weight(
    constants: bool, name: str, options: dict[str, object], most: int, tmp_path: Path
) -> None:
    model = weights_model(WEIGHTS)
    path, _ = applied(as_constants(model) if constants else model, tmp_path, name, **options)
    made = onnx.load(path)
    bare = weights_model(WEIGHTS)
    del bare.graph.initializer[:]
    values = sum(array.nbytes for array in stored(made).values())
    assert (made.ByteSize() - values - bare.ByteSize()) / len(WEIGHTS) < most
    for wanted, found in zip(WEIGHTS.values(), rebuilt(path), strict=True):
        assert sqnr(wanted, found) > 25


def test_weights_share_what_says_their_shape(tmp_path: Path) -> None:
    other = {"other": RANDOM.standard_normal((128, 80)).astype(np.float32)}
    path, _ = applied(weights_model({**WEIGHTS, **other}), tmp_path, "int4-weights", bits=5)
    shapes = [array.tolist() for array in stored(onnx.load(path)).values() if array.dtype == np.int64]
    assert len(shapes) == len({tuple(shape) for shape in shapes}), "none of them is there twice"


def test_parts_of_a_constant_are_initializers_where_a_graph_may_have_them(tmp_path: Path) -> None:
    path, _ = applied(as_constants(weights_model(WEIGHTS)), tmp_path, "int8-weights")
    assert "Constant" not in [node.op_type for node in onnx.load(path).graph.node]
    old, _ = applied(as_constants(weights_model(WEIGHTS, ir=3)), tmp_path, "int8-weights")
    assert not onnx.load(old).graph.initializer, "before IR 4 they would be inputs as well"
