"""fuse-transformer: what is fused, where the heads are read from, and where nothing is done."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_ci.methods.catalogue import method
from onnx_ci.methods.chain import Run, run_chain
from onnx_ci.model.load import open_model
from onnx_ci.model.save import write_model
from onnx_ci.results import Step
from tests.support.cli import onnx_ci
from tests.support.run_model import outputs
from tests.traps.attention import HEADS, WIDTH, layer, padded, stacked, with_constants, with_hidden_shapes
from tests.traps.base import model, weight, write

pytestmark = pytest.mark.sampled(12)

FUSED = {"Attention": 1, "SkipLayerNormalization": 2, "BiasGelu": 1}


def fused(made: onnx.ModelProto, folder: Path, **options: object) -> tuple[onnx.ModelProto, Step]:
    path = write(lambda: made, folder)
    with open_model(path) as opened:
        chained = run_chain(opened, [Run(method("fuse-transformer"), options)], size=path.stat().st_size)
        write_model(chained.model, folder / "made.onnx")
    result = onnx.load(folder / "made.onnx")
    assert {node.domain for node in result.graph.node} <= {entry.domain for entry in result.opset_import}
    return result, chained.steps[0]


def runtime_ops(made: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in made.graph.node if node.domain == "com.microsoft")


def heads_of(made: onnx.ModelProto) -> list[int]:
    return [a.i for node in made.graph.node for a in node.attribute if a.name == "num_heads"]


def assert_same_outputs(folder: Path) -> None:
    before, after = (outputs(folder / file, padded()) for file in ("model.onnx", "made.onnx"))
    np.testing.assert_allclose(after, before, atol=1e-4)


@pytest.mark.parametrize("place", ["initializers", "constants"])
@pytest.mark.parametrize("computed", [False, True], ids=["stored shape", "computed shape"])
def test_a_layer_is_fused_and_computes_the_same(place: str, computed: bool, tmp_path: Path) -> None:
    given = layer(computed=computed)
    made, step = fused(with_constants(given) if place == "constants" else given, tmp_path)
    assert runtime_ops(made) == FUSED
    assert heads_of(made) == [HEADS]
    assert step.size_after < step.size_before
    assert step.note.startswith("4 heads of 8; 1 Attention, 1 BiasGelu, 2 SkipLayerNormalization; runs in")
    assert_same_outputs(tmp_path)


@pytest.mark.parametrize("split", [(-1, 8), (4, -1)])
def test_what_a_shape_leaves_open_is_told_by_the_projection(split: tuple[int, int], tmp_path: Path) -> None:
    made, step = fused(layer(split=split, computed=True), tmp_path)
    assert step.note.startswith("4 heads of 8; ")
    assert set(heads_of(made)) <= {HEADS}
    assert_same_outputs(tmp_path)


def test_interface_and_imports(tmp_path: Path) -> None:
    before = layer()
    made, _ = fused(before, tmp_path)
    assert (made.graph.input, made.graph.output) == (before.graph.input, before.graph.output)
    assert [(entry.domain, entry.version) for entry in made.opset_import] == [("", 17), ("com.microsoft", 1)]
    assert made.producer_name == before.producer_name
    again, step = fused(made, tmp_path)
    assert again == made
    assert step.note == "nothing done because it has no attention"


def test_heads_that_a_shape_does_not_tell_are_not_guessed(tmp_path: Path) -> None:
    before = with_hidden_shapes(layer())
    made, step = fused(before, tmp_path)
    assert made == before
    assert "does not tell how many heads" in step.note
    assert "give num_heads and hidden_size" in step.note
    made, step = fused(before, tmp_path, num_heads=HEADS, hidden_size=WIDTH)
    assert step.note.startswith("4 heads of 8; 1 Attention")
    assert heads_of(made) == [HEADS]
    assert_same_outputs(tmp_path)


def test_wrong_heads_that_only_a_run_can_tell_the_gate_refuses(tmp_path: Path) -> None:
    write(lambda: with_hidden_shapes(layer()), tmp_path)
    methods = "fuse-transformer:num_heads=8:hidden_size=32"
    done = onnx_ci("shrink", "model.onnx", "out.onnx", "--methods", methods, "--format", "json", cwd=tmp_path)
    assert done.code == 1
    assert done.json["verdict"] == "outputs_changed"
    assert not (tmp_path / "out.onnx").exists()


def test_queries_and_keys_that_disagree(tmp_path: Path) -> None:
    before = layer(split_k=(8, 4))
    made, step = fused(before, tmp_path)
    assert made == before
    assert step.note.startswith("nothing done because the graph does not tell")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_heads": 8}, "num_heads is given as 8, and the graph has 4"),
        ({"hidden_size": 64}, "hidden_size is given as 64, and the graph has 32"),
        ({"num_heads": 5, "hidden_size": 32}, "hidden_size 32 is no multiple of num_heads 5"),
    ],
)
def test_numbers_that_the_graph_contradicts(options: dict[str, int], words: str, tmp_path: Path) -> None:
    before = layer()
    made, step = fused(before, tmp_path, **options)
    assert made == before
    assert step.note == f"nothing done because {words}"


def test_a_classifier_s_softmax_is_no_attention(tmp_path: Path) -> None:
    text = """g (float[2,64] x) => (float[2,64] y) { a = MatMul(x, W) b = Relu(a) c = MatMul(b, V)
        y = Softmax(c) }"""
    before = model(text, {"W": weight(64, 64), "V": weight(64, 64, seed=2)})
    made, step = fused(before, tmp_path)
    assert made == before
    assert step.note == "nothing done because it has no attention"


def test_branches_are_left_alone(tmp_path: Path) -> None:
    """The tool writes a graph that lacks the weights of branches."""
    before = layer()
    text = """g (bool c, float[1] z) => (float[1] w) { w = If (c) <then_branch = t () => (float[1] a)
        { a = Neg(z) }, else_branch = e () => (float[1] b) { b = Abs(z) }> }"""
    inner = model(text).graph
    before.graph.node.extend(inner.node)
    before.graph.input.extend(inner.input)
    before.graph.output.extend(inner.output)
    made, step = fused(before, tmp_path)
    assert made == before
    assert step.note.startswith("left alone: it has branches or loops")


def test_weights_that_layers_share_stay_shared(tmp_path: Path) -> None:
    """The tool packs the weights of q, k and v for each layer, so that shared ones are there twice."""
    made, step = fused(stacked(layer()), tmp_path)
    assert runtime_ops(made)["Attention"] == 2
    assert len([t for t in made.graph.initializer if list(t.dims) == [WIDTH, 3 * WIDTH]]) == 1
    assert step.size_after < step.size_before
    assert_same_outputs(tmp_path)


def test_layers_with_other_heads(tmp_path: Path) -> None:
    before = stacked(layer(), layer(heads=8))
    made, step = fused(before, tmp_path)
    assert made == before
    assert step.note.endswith("its attention has heads of different kinds: 4 of 8, 8 of 4")


def test_a_graph_that_leads_back_to_itself_is_not_followed_for_ever(tmp_path: Path) -> None:
    before = layer()
    for node in before.graph.node:
        if node.output[0] in ("qa", "qm"):
            node.CopyFrom(
                onnx.helper.make_node("Add", [{"qa": "qm", "qm": "qa"}[node.output[0]]], node.output)
            )
    made, step = fused(before, tmp_path)
    assert made == before
    assert step.size_after == step.size_before


def test_a_product_of_nothing_is_no_crash(tmp_path: Path) -> None:
    before = layer()
    next(node for node in before.graph.node if node.output[0] == "raw").ClearField("input")
    made, step = fused(before, tmp_path)
    assert made == before
    assert step.note.startswith("nothing done because the graph does not tell")


def test_external_data_stays_external(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(layer(), path, save_as_external_data=True, location="data.bin")
    done = onnx_ci(
        "shrink", path, "out.onnx", "--methods", "fuse-transformer", "--format", "json", cwd=tmp_path
    )
    assert done.code == 0, done.err
    assert done.json["verdict"] == "shrunk"
    made = onnx.load(tmp_path / "out.onnx", load_external_data=False)
    assert any(t.external_data for t in made.graph.initializer)


def test_on_the_command_line(tmp_path: Path) -> None:
    write(layer, tmp_path)
    arguments = ("shrink", "model.onnx", "out.onnx", "--format", "json", "--methods")
    done = onnx_ci(*arguments, "fuse-transformer", cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.json["verdict"] == "shrunk"
    assert done.json["verification"]["status"] == "passed"
    assert runtime_ops(onnx.load(tmp_path / "out.onnx")) == FUSED
    wrong = onnx_ci(*arguments, "fuse-transformer:model_type=brt", cwd=tmp_path)
    assert wrong.code == 2
    assert "expected one of auto, bert" in wrong.err


def test_a_scale_that_the_tool_takes_for_the_usual_one_is_caught(tmp_path: Path) -> None:
    """onnxruntime's tool does not look at what scores are divided by; the gate sees the outputs."""
    path = write(lambda: layer(scale=0.25), tmp_path)
    _, step = fused(onnx.load(path), tmp_path)
    assert step.size_after < step.size_before, "the tool has become careful, so this shows nothing"
    methods = ("--methods", "fuse-transformer")
    done = onnx_ci("shrink", "model.onnx", "out.onnx", *methods, "--format", "json", cwd=tmp_path)
    assert done.code == 1
    assert done.json["verdict"] == "outputs_changed"
    assert not (tmp_path / "out.onnx").exists()


def test_a_missing_package_is_named_with_its_extra(tmp_path: Path) -> None:
    blocked = tmp_path / "path"
    blocked.mkdir()
    (blocked / "sympy.py").write_text("raise ModuleNotFoundError(\"No module\", name='sympy')")
    write(layer, tmp_path)
    env = {"PYTHONPATH": os.pathsep.join([str(blocked), os.environ.get("PYTHONPATH", "")])}
    done = onnx_ci("shrink", "model.onnx", "o.onnx", "--methods", "fuse-transformer", cwd=tmp_path, env=env)
    assert done.code == 3
    assert "fuse-transformer needs the package sympy" in done.err
    assert "pip install 'onnx-ci[fuse]'" in done.err
